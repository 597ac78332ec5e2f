"""Statistics of a weight's numbers: their range, mean, spread, zeros, and how they are spread over the range."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

BINS = 32
_PIECE = 2**20
"""Elements that are looked at together: what is computed of them takes 8 bytes each."""


def statistics_of(numbers: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The figures of an array, found piece by piece; what is infinite or no number is counted apart."""
    flat = numbers.reshape(-1)
    if flat.dtype.kind not in "biuf":
        return {"count": int(flat.size)}
    pieces = [flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE)]
    count = zeros = not_numbers = infinite = 0
    least, most, mean, squares = np.inf, -np.inf, 0.0, 0.0
    with np.errstate(all="ignore"):
        for piece in pieces:
            wide = piece.astype(np.float64)
            finite = wide[np.isfinite(wide)]
            zeros += int(np.count_nonzero(piece == 0))
            not_numbers += int(np.count_nonzero(np.isnan(wide)))
            infinite += int(np.count_nonzero(np.isinf(wide)))
            if finite.size:
                least, most = min(least, float(finite.min())), max(most, float(finite.max()))
                own = float(finite.mean())
                moved = own - mean
                both = count + finite.size
                squares += float(((finite - own) ** 2).sum()) + moved * moved * count * finite.size / both
                mean += moved * finite.size / both
                count = both
        found: dict[str, Any] = {"count": int(flat.size), "zeros": zeros, "nan": not_numbers, "infinite": infinite}
        if not count:
            return found
        found |= {"min": least, "max": most, "mean": mean, "std": float(np.sqrt(squares / count))}
        bins = np.zeros(BINS, np.int64)
        if np.isfinite(most - least) and most > least:
            for piece in pieces:
                bins += np.histogram(piece.astype(np.float64), BINS, (least, most))[0]
        else:
            bins[BINS // 2] = count
    return {key: _finite(value) for key, value in found.items()} | {"bins": bins.tolist()}


def digest_of(numbers: np.ndarray[Any, Any]) -> str:
    """What tells an array from others."""
    flat = np.ascontiguousarray(numbers.reshape(-1))
    held = repr(flat.tolist()).encode() if flat.dtype.hasobject else flat.tobytes()
    return hashlib.blake2b(held, digest_size=16).hexdigest()


def _finite(value: Any) -> Any:
    """A number that JSON has; what is past a double's range is told in words."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


def word_milliseconds(value: float) -> str:
    """A time with three digits, and no power of ten."""
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms" if value >= 0.1 else f"{value * 1000:.3g} µs"
