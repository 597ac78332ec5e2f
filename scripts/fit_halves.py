"""Find the numbers of `anydml.ir.numerics.halves`: `python -m scripts.fit_halves [names ...]` writes its halves.json.

Polynomials are fitted as `fit_numerics` does it. Then numbers beside them are tried, until the results for all 65,536
arguments of FLOAT16 are the nearest: the last digits of the terms, and a factor between 1 and 2, taken from a power of
two and given to the terms, which rounds them all in another way. Where there is no tree for FLOAT16, the arguments are
listed for which FLOAT32's rounds to another, with a factor that puts it right. Takes seconds.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal as D  # noqa: N817 - as in fit_numerics
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.reference.evaluate import evaluate
from anydml.ir.expressions import FUNCTIONS, call, load
from anydml.ir.numerics import expand
from anydml.ir.numerics.halves import ERF_MIDDLE, GELU_CURVE, GELU_SLOPE, HALVES
from scripts.fit_numerics import LN2, PI, Fit, erf, fit, tail
from scripts.measure_numerics import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.ir.expressions import Expr

Array = np.ndarray[Any, Any]
TARGET = Path(__file__).parents[1] / "src/anydml/ir/numerics/halves.json"
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
X = load(0, DataType.FLOAT16).to(DataType.FLOAT32)
MOST_TRIES = 100_000


class Search(NamedTuple):
    """Numbers to begin with: terms that take the factor, which comes before them, and others."""

    scaled: list[float]
    others: list[float]

    def numbers(self, attempt: int) -> list[float]:
        """Those of an attempt, the first as they are."""
        random = np.random.default_rng(attempt)
        factor = np.float32(2 - random.random()) if attempt and self.scaled else np.float32(1)
        terms = [*(term / float(factor) for term in self.scaled), *self.others]
        bits = np.array(terms, np.float32).view(np.int32) + random.integers(-2, 3, len(terms)) * (attempt % 2)
        tried: list[float] = bits.astype(np.int32).view(np.float32).tolist()
        return [float(factor)] * bool(self.scaled) + tried


def exponent(sign: int) -> list[float]:
    """e^±r = 1 ± r + r²·P(r)."""
    terms = 4 if sign > 0 else 5  # the sum with 1 of a sigmoid loses digits as it is
    job = Fit(
        lambda r: ((sign * r).exp() - 1 - sign * r) / r**2,
        terms,
        -LN2 * D("0.5003"),
        LN2 * D("0.5003"),
        lambda r: r**2 / (sign * r).exp(),
    )
    return [1.0, float(sign), *fit(job)[0]]


def poles() -> tuple[list[D], Fit]:
    """Of tanh, (1 + s/p)(1 + s/q) for s = x² and the two nearest poles; and what it is times that, divided by x."""
    near, far = ((PI * k / 2) ** 2 for k in (1, 3))

    def target(s: D) -> D:
        x = s.sqrt()
        return (1 - 2 / ((2 * x).exp() + 1)) / x * (1 + s / near) * (1 + s / far)

    return [D(1), 1 / near + 1 / far, 1 / near / far], Fit(
        target, 6, D("1e-9"), D("4.53125") ** 2, lambda s: 1 / target(s)
    )


def error_function() -> Fit:
    """erf(x)/x, by x² - the middle."""
    middle = D(ERF_MIDDLE)

    def target(u: D) -> D:
        x = (u + middle).sqrt()
        return erf(x) / x

    return Fit(target, 11, D("1e-9") - middle, D("2.625") ** 2 - middle, lambda u: 1 / target(u))


def gelu_slope(last: D) -> Fit:
    """S(t) for Φ(-t) = ½·2^-(a·t² + b·t + t·S(t)); from the last on results are denormal."""

    def weight(t: D) -> D:
        return t * LN2 * min(D(1), t * tail(t) / (last * tail(last)))

    return Fit(lambda t: -tail(t).ln() / LN2 / t - D(GELU_CURVE) * t - D(GELU_SLOPE), 9, D("1e-6"), D("5.75"), weight)


def gelu_power() -> Fit:
    """½·2^-r: t·S(t) adds 0 to 0.18 to a half."""
    return Fit(lambda r: (-r * LN2).exp() / 2, 6, D("-0.49"), D("0.68"), lambda r: 2 * (r * LN2).exp())


def logarithm() -> Fit:
    """ln(1 + f) = f + f²·P(f)."""
    return Fit(
        lambda f: ((1 + f).ln() - f) / f**2,
        7,
        D("0.5").sqrt() - 1,
        D(2).sqrt() - 1,
        lambda f: f**2 / (1 + f).ln(),
    )


def _tanh() -> Search:
    below, above = poles()
    return Search([], [*map(float, below), *fit(above)[0]])


SEARCHES: dict[str, Callable[[], Search]] = {
    "exp": lambda: Search(exponent(1), []),
    "sigmoid": lambda: Search(exponent(-1), []),
    "tanh": _tanh,
    "erf": lambda: Search([], fit(error_function())[0]),
    "gelu": lambda: Search(fit(gelu_power())[0], fit(gelu_slope(D("4.2")))[0]),
    "log": lambda: Search([float(LN2), 1.0, *fit(logarithm())[0]], []),
}


def halved(tree: Expr, x: Array) -> Array:
    """The results of a tree for FLOAT16, rounded to it."""
    with np.errstate(all="ignore"):
        return evaluate(tree, [x], x.shape).astype(np.float16)


def wrong(tree: Expr, wanted: Array, x: Array = EVERY) -> Array:
    """Where a tree does not give what is wanted, NaN for NaN and zeros of the same sign."""
    found = halved(tree, x)
    is_same = (found.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(found) & np.isnan(wanted))
    return np.flatnonzero(~is_same)


def search(name: str) -> tuple[list[float], int]:
    """Numbers that are right for all arguments, and how many were tried."""
    start, make = SEARCHES[name](), HALVES[name]
    with np.errstate(all="ignore"):
        wide = exact(name, EVERY)
        wanted = wide.astype(np.float16)
        sides = [(wide * (1 + side)).astype(np.float16) for side in (-(2.0**-19), 2.0**-19)]
    hard = np.flatnonzero(sides[0] != sides[1])  # a 300th: the others are right if these are, or far off
    for attempt in range(MOST_TRIES):
        numbers = start.numbers(attempt)
        tree = make(X, numbers)
        if not wrong(tree, wanted[hard], EVERY[hard]).size and not wrong(tree, wanted).size:
            return numbers, attempt + 1
    raise RuntimeError(f"{name}: {MOST_TRIES} attempts")


def ties(name: str) -> list[tuple[float, float]]:
    """The sizes of arguments whose result in FLOAT32 rounds to another FLOAT16, and factors that put that right."""
    with np.errstate(all="ignore"):
        wide = exact(name, EVERY)
        wanted = wide.astype(np.float16)
        tree = expand(call(name, X))
        found = evaluate(tree, [EVERY], EVERY.shape).astype(np.float64)
    made = {}
    for k in wrong(tree, wanted):
        # 3 units of FLOAT32 at most: from the middle of two FLOAT16, or beside it, past it
        made[abs(float(EVERY[k]))] = 1.0 + (2.0**-22 if abs(wide[k]) > abs(found[k]) else -(2.0**-22))
    return sorted(made.items())


def main(names: Sequence[str]) -> None:
    """Write the file, with those functions derived anew that are named, or all."""
    single = [name for name, count in FUNCTIONS.items() if count == 1]
    found = json.loads(TARGET.read_text()) if names else {}
    for name in names or single:
        if name in SEARCHES:
            found[name], tries = search(name)
            print(f"{name}: {len(found[name])} numbers, {tries} tries")
        else:
            found[name] = ties(name)
            print(f"{name}: {len(found[name])} arguments")
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
