"""One tensor as two sides have it: how far apart they are, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import printable, show

Array = np.ndarray[Any, Any]
MOST_SAMPLES = 6


class Sample(NamedTuple):
    """An element on both sides, in words."""

    where: tuple[int, ...]
    here: str
    there: str


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Difference:
    """One tensor on both sides."""

    name: str
    count: int
    """Elements that it has."""
    differing: int
    """Elements whose bits differ; two NaNs are the same."""
    agrees: bool
    """Whether all of them are close enough; whole numbers must be equal."""
    where: tuple[int, ...] | None = None
    """The first element that is too far off, or else the first that differs."""
    here: Any = None
    there: Any = None
    largest: float | None = 0.0
    """The largest difference, an infinity's included; None where none is a number."""
    relative: float | None = 0.0
    """The largest difference as a share of what is there; None for whole numbers, and where no share is a number."""
    ulps: int | None = 0
    """The largest difference in units of the last place, of numbers that are finite; None for whole numbers."""
    nans: tuple[int, int] = (0, 0)
    """NaNs, here and there."""
    infinities: tuple[int, int] = (0, 0)
    """Infinities, here and there."""
    type: str = ""
    """The type and the shape: `float32[2,3]`."""
    samples: tuple[Sample, ...] = ()
    """The first elements."""
    problem: str = ""
    """Why elements could not be compared: another shape or type, or what one side said instead."""

    def as_row(self) -> tuple[str, str, str, int, int, str]:
        """The figures of a table's row."""
        largest = self.problem or ("" if self.largest is None else f"{self.largest:.3g}")
        return self.name, self.type, "yes" if self.agrees else "no", self.count, self.differing, largest

    def __str__(self) -> str:
        if self.problem:
            return f"'{printable(self.name)}': {self.problem}"
        if not self.differing:
            return f"'{printable(self.name)}': all {self.count} elements are the same"
        most = "" if self.largest is None else f" by {self.largest:.3g} at most,"
        verdict = "within the tolerance" if self.agrees else "too far off"
        return (
            f"'{printable(self.name)}': {self.differing} of {self.count} elements differ,"
            f"{most} {verdict};"
            f" the first at {list(self.where or ())}: {self.here} here, {self.there} there"
        )


def refused(name: str, problem: str) -> Difference:
    """A tensor that could not be compared."""
    return Difference(name, 0, 0, False, largest=None, relative=None, ulps=None, problem=problem)


def differ(name: str, here: Any, there: Any, rtol: float, atol: float) -> Difference:
    """Compare what two sides have: arrays, lists of arrays, or nothing."""
    if isinstance(here, (list, tuple)) and isinstance(there, (list, tuple)):
        return _differ_lists(name, here, there, rtol, atol)
    if here is None or there is None:
        return Difference(name, 0, 0, True) if here is there else refused(name, "nothing on one side")
    here, there = np.asarray(here), np.asarray(there)
    for what, a, b in (("type", here.dtype, there.dtype), ("shape", here.shape, there.shape)):
        if a != b:
            return replace(refused(name, f"{what} {a} here, {b} there"), count=here.size, differing=here.size)
    is_float, is_text = here.dtype.kind == "f", here.dtype.kind in "OUS"
    found = Difference(
        name,
        here.size,
        0,
        True,
        relative=0.0 if is_float else None,
        ulps=0 if is_float else None,
        type=f"{here.dtype.name}[{','.join(map(str, here.shape))}]",
        samples=tuple(_sample(here, there, k) for k in range(min(here.size, MOST_SAMPLES))),
    )
    if is_text:
        return _tell(found, here, there, here == there)
    if not is_float:
        same = (_bits(here) == _bits(there)).reshape(here.shape)
        return _tell(replace(found, largest=_largest(here[~same], there[~same])), here, there, same)
    nans, infinities = ([test(side) for side in (here, there)] for test in (np.isnan, np.isinf))
    counts = [(int(np.sum(a)), int(np.sum(b))) for a, b in (nans, infinities)]
    found = replace(found, nans=counts[0], infinities=counts[1])
    same = (_bits(here) == _bits(there)).reshape(here.shape) | (nans[0] & nans[1])
    if same.all():
        return found
    apart = [side[~same] for side in (here, there)]
    with np.errstate(all="ignore"):
        close = same | np.isclose(here, there, rtol, atol)
        found = replace(found, largest=_largest(*apart), relative=_relative(*apart), ulps=_ulps(*apart))
    return _tell(found, here, there, same, close)


def _tell(found: Difference, here: Array, there: Array, same: Array, close: Array | None = None) -> Difference:
    """The same with where it first differs; what is not close is told before what is only not the same."""
    close = same if close is None else close
    if same.all():
        return found
    first = _sample(here, there, int(np.argmax(~close if not close.all() else ~same)))
    count, agrees = int(np.sum(~same)), bool(close.all())
    return replace(found, differing=count, agrees=agrees, where=first.where, here=first.here, there=first.there)


def _sample(here: Array, there: Array, number: int) -> Sample:
    """An element by its number."""
    where = tuple(int(i) for i in np.unravel_index(number, here.shape))
    return Sample(
        where, *(show(side[where].item() if side.dtype.kind != "O" else side[where]) for side in (here, there))
    )


def _differ_lists(name: str, here: Any, there: Any, rtol: float, atol: float) -> Difference:
    """Sequences: the first of their tensors that does not agree, or the first that differs, or the first."""
    if len(here) != len(there):
        return refused(name, f"{len(here)} tensors here, {len(there)} there")
    parts = [differ(f"{name}[{i}]", a, b, rtol, atol) for i, (a, b) in enumerate(zip(here, there, strict=True))]
    return min(parts, key=lambda one: (one.agrees, not one.differing), default=Difference(name, 0, 0, True))


def _largest(here: Array, there: Array) -> float | None:
    """The largest difference; whole numbers are subtracted as such, which no float could tell apart."""
    if not here.size:
        return 0.0
    if here.dtype.kind != "f":
        low, high = (side.astype(np.uint64) for side in (np.minimum(here, there), np.maximum(here, there)))
        return float(np.max(high - low))
    apart = np.abs(here.astype(np.float64) - there.astype(np.float64))
    return None if np.isnan(apart).all() else float(np.nanmax(apart))


def _relative(here: Array, there: Array) -> float | None:
    wide = [side.astype(np.float64) for side in (here, there)]
    shares = np.abs(wide[0] - wide[1]) / np.abs(wide[1])
    return None if np.isnan(shares).all() else float(np.nanmax(shares))


def _ulps(here: Array, there: Array) -> int | None:
    """The numbers of the type that lie between two, and one more; zeros are one number."""
    finite = np.isfinite(here) & np.isfinite(there)
    if not finite.any():
        return None
    half = np.uint64(2 ** (8 * here.itemsize - 1))
    ranks = []
    for side in (here[finite], there[finite]):
        bits = _bits(side).astype(np.uint64)
        ranks.append(np.where(bits >= half, half - (bits - half), half + bits))
    return int(np.max(np.maximum(*ranks) - np.minimum(*ranks)))


def _bits(array: Array) -> Array:
    """The elements as whole numbers, in which 0.0 and -0.0 differ."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
