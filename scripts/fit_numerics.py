"""Derive the polynomials of `anydml.ir.numerics`: `python scripts/fit_numerics.py` writes its coefficients.json.

Minimax fits by Remez exchange, in decimal arithmetic of 50 digits, with the coefficients rounded to FLOAT32 one by one,
the lowest first, and the rest fitted again after each. What is minimised is the error of the function's result,
relative to the result. Takes seconds; needs Python and NumPy alone.
"""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal as D  # noqa: N817 - every other word of this file
from decimal import getcontext, localcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.ir.numerics.error import CURVE, SLOPE

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Path(__file__).parents[1] / "src/anydml/ir/numerics/coefficients.json"
DIGITS = 50
getcontext().prec = DIGITS


# Functions that Decimal lacks


def series(first: D, ratio: Callable[[int], D]) -> D:
    """first·(1 + ratio(1)·(1 + ratio(2)·…)), until terms vanish."""
    total = term = first
    k = 0
    while abs(term) > abs(total) * D(10) ** -(getcontext().prec + 2):
        k += 1
        term *= ratio(k)
        total += term
    return total


def sin(x: D) -> D:
    """Taylor."""
    return series(x, lambda k: -x * x / (2 * k * (2 * k + 1)))


def cos(x: D) -> D:
    """Taylor."""
    return series(D(1), lambda k: -x * x / (2 * k * (2 * k - 1)))


def sinh(x: D) -> D:
    """Taylor, which does not cancel."""
    return series(x, lambda k: x * x / (2 * k * (2 * k + 1)))


def atan(x: D) -> D:
    """Euler's series, of an eighth of the angle."""
    for _ in range(3):
        x = x / (1 + (1 + x * x).sqrt())
    y = x * x / (1 + x * x)
    return 8 * series(x / (1 + x * x), lambda k: y * (2 * k) / (2 * k + 1))


def erf(x: D) -> D:
    """Kummer's series, whose terms have one sign."""
    return 2 / PI.sqrt() * (-x * x).exp() * series(x, lambda k: 2 * x * x / (2 * k + 1))


def erfc(x: D) -> D:
    """1 - erf x, with digits to spare for what cancels."""
    with localcontext(prec=2 * DIGITS + 10):
        found = 1 - erf(x)
    return +found


def atanh(x: D) -> D:
    """By a logarithm."""
    return ((1 + x) / (1 - x)).ln() / 2


with localcontext(prec=2 * DIGITS + 20):
    PI = 2 * series(D(1), lambda k: D(k) / (2 * k + 1))
LN2 = D(2).ln()


# The fit


def solve(rows: list[list[D]]) -> list[D]:
    """Linear equations, each with its right side last, by elimination with pivots."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    found = [D(0)] * n
    for i in reversed(range(n)):
        found[i] = (rows[i][n] - sum(rows[i][k] * found[k] for k in range(i + 1, n))) / rows[i][i]
    return found


def remez(points: list[D], values: list[D], weights: list[D], n: int) -> list[D]:
    """The n coefficients that make the largest weighted error on the points smallest.

    Exchanges all points at once, then, which is slower and surer, one at a time; the best that was met counts.
    """
    last = len(points) - 1
    best = (D("Infinity"), [D(0)])
    for exchange, rounds in ((exchange_all, 15), (exchange_one, 60)):
        chosen = [round(last * k / n) for k in range(n + 1)]
        for _ in range(rounds):
            rows = [
                [*(points[k] ** p for p in range(n)), (-1) ** i / weights[k], values[k]] for i, k in enumerate(chosen)
            ]
            *found, level = solve(rows)
            errors = [
                w * (v - sum(c * x**p for p, c in enumerate(found)))
                for x, v, w in zip(points, values, weights, strict=True)
            ]
            worst = max(map(abs, errors))
            best = min(best, (worst, found))
            if worst <= abs(level) * D("1.001"):
                return found
            chosen = exchange(chosen, errors)
    return best[1]


def exchange_all(chosen: list[int], errors: list[D]) -> list[int]:
    """The points of largest error of each sign, in turn; those there were where there are too few."""
    peaks: list[int] = []
    for k, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            peaks[-1] = max(peaks[-1], k, key=lambda j: abs(errors[j]))
        else:
            peaks.append(k)
    while len(peaks) > len(chosen):
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks if len(peaks) == len(chosen) else exchange_one(chosen, errors)


def exchange_one(chosen: list[int], errors: list[D]) -> list[int]:
    """The point of largest error takes the place of a neighbour whose error has its sign: signs alternate still."""
    worst = max(range(len(errors)), key=lambda k: abs(errors[k]))
    place = sum(k < worst for k in chosen)
    for i in (place - 1, place):
        if 0 <= i < len(chosen) and (errors[chosen[i]] > 0) == (errors[worst] > 0):
            return [*chosen[:i], worst, *chosen[i + 1 :]]
    return [worst, *chosen[:-1]] if place == 0 else [*chosen[1:], worst]


class Fit(NamedTuple):
    """target(x) as a polynomial of so many terms on low .. high; its error counts times weight(x)."""

    target: Callable[[D], D]
    terms: int
    low: D
    high: D
    weight: Callable[[D], D]


def floats(number: D, count: int) -> list[float]:
    """A number as a sum of FLOAT32, each the nearest to what the ones before it leave."""
    parts: list[float] = []
    for _ in range(count):
        parts.append(float(np.float32(float(number - sum(map(D, parts))))))
    return parts


def fit(job: Fit) -> tuple[list[float], float]:
    """The coefficients, lowest power first, as FLOAT32; and the largest error."""
    size = 24 * job.terms
    middle, half = (job.low + job.high) / 2, (job.high - job.low) / 2
    points = [middle - half * cos(PI * (2 * k + 1) / (2 * size)) for k in range(size)]
    values, weights = [job.target(x) for x in points], [abs(job.weight(x)) for x in points]
    rounded: list[float] = []
    for left in range(job.terms, 0, -1):
        lowest = remez(points, values, weights, left)[0]
        rounded += floats(lowest, 1)
        # What is left is divided by x: the higher powers alone could not alternate at will around 0.
        values = [(v - D(rounded[-1])) / x for x, v in zip(points, values, strict=True)]
        weights = [w * abs(x) for x, w in zip(points, weights, strict=True)]
    return rounded, float(max(abs(v) * w for v, w in zip(values, weights, strict=True)))


def odd(function: Callable[[D], D], terms: int, high: D | str) -> Fit:
    """f(x) = x + x³·P(x²), up to a highest x."""

    def target(s: D) -> D:
        x = s.sqrt()
        return (function(x) / x - 1) / s

    return Fit(target, terms, D(0), D(high) ** 2, lambda s: s * s.sqrt() / function(s.sqrt()))


def fall(low: D, high: D) -> Fit:
    """1 - e^-r = r + r²·P(r)."""
    return Fit(lambda r: (1 - (-r).exp() - r) / r**2, 5, low, high, lambda r: r**2 * r.exp())


def gelu_rest(t: D) -> D:
    """S(t) for Φ(-t) = ½·2^-(a·t² + b·t + t·S(t))."""
    return -tail(t).ln() / LN2 / t - D(CURVE) * t - D(SLOPE)


def gelu_root() -> D:
    """Where S is 0, between 2 and 3."""
    low, high = D(2), D(3)
    for _ in range(3 * DIGITS):
        middle = (low + high) / 2
        low, high = (middle, high) if gelu_rest(middle) > 0 else (low, middle)
    return low


def gelu_near(terms: int, last: D) -> Fit:
    """S(t)/u, by u = t - the root of S; from the last on Φ(-t) counts beside 1."""
    root = D(floats(gelu_root(), 1)[0])

    def weight(u: D) -> D:
        t = u + root
        return u * t * LN2 * min(D(1), tail(t) / tail(last))

    return Fit(lambda u: gelu_rest(u + root) / u, terms, D("1e-6") - root, D("5.75") - root, weight)


def gelu_far(terms: int, first: D) -> Fit:
    """Twice t·e^(t²/2)·Φ(-t), by t - 9."""

    def target(u: D) -> D:
        t = u + 9
        return t * (t * t / 2).exp() * tail(t)

    return Fit(target, terms, first - 9, D("5.5"), lambda u: 1 / target(u))


def tail(t: D) -> D:
    """2·Φ(-t)."""
    return erfc(t / D(2).sqrt())


JOBS: dict[str, Fit] = {
    "exp": Fit(lambda r: (r.exp() - 1 - r) / r**2, 6, -LN2 * D("0.5003"), LN2 * D("0.5003"), lambda r: r**2 / r.exp()),
    "log": Fit(
        lambda f: ((1 + f).ln() - f + f**2 / 2) / f**3,
        9,
        D("0.5").sqrt() - 1,
        D(2).sqrt() - 1,
        lambda f: f**3 / (1 + f).ln(),
    ),
    "sin": odd(sin, 4, "0.7865"),
    "cos": Fit(lambda s: (cos(s.sqrt()) - 1 + s / 2) / s**2, 4, D(0), D("0.7865") ** 2, lambda s: s**2),
    "tan": odd(lambda x: sin(x) / cos(x), 8, "0.7865"),
    "asin": odd(lambda x: atan(x / (1 - x * x).sqrt()), 6, "0.5"),
    "atan": odd(atan, 11, "1"),
    "sinh": odd(sinh, 4, "1"),
    "asinh": odd(lambda x: (x + (x * x + 1).sqrt()).ln(), 7, "0.5"),
    "atanh": odd(atanh, 7, "0.5"),
    # the same in fewer terms, of FLOAT32 alone, and to base 2
    "erf": Fit(lambda s: erf(s.sqrt()) / s.sqrt() - 1, 6, D(0), D("0.81"), lambda s: s.sqrt() / erf(s.sqrt())),
    "log2_erfc": Fit(lambda x: erfc(x).ln() / LN2 / x, 6, D("0.89"), D("4"), lambda x: x * LN2 * erfc(x) / erf(x)),
    "exp2": Fit(lambda f: ((f * LN2).exp() - 1) / f, 6, D("-0.5003"), D("0.5003"), lambda f: f / (f * LN2).exp()),
    "fall": fall(-LN2 * D("0.5003"), LN2 * D("0.5003")),
    "gelu_near": gelu_near(10, D(5)),
    "gelu_far": gelu_far(12, D(5)),
    # 2^-r = 1 + r·P(r)
    "gelu_power": Fit(lambda r: ((-r * LN2).exp() - 1) / r, 6, D("-0.59"), D("0.59"), lambda r: r * (r * LN2).exp()),
    # log2((1 + f)/(1 - f)) = 2f/ln 2 + 2f³/(3 ln 2) + f⁵·P(f²)
    "log2": Fit(
        lambda s: (atanh(s.sqrt()) / s.sqrt() - 1 - s / 3) * 2 / LN2 / s**2,
        3,
        D(0),
        D("0.1717") ** 2,
        lambda s: s**2 * s.sqrt() / atanh(s.sqrt()),
    ),
}


def constants() -> dict[str, list[float]]:
    """Numbers as sums of three."""
    numbers = {"pi": PI, "pi/2": PI / 2, "ln2": LN2, "2/ln2": 2 / LN2, "2/(3ln2)": 2 / (3 * LN2), "gelu": gelu_root()}
    return {name: floats(number, 3) for name, number in numbers.items()}


def words(count: int, zeros: int) -> list[int]:
    """2/π in words of 32 bits, after so many zeros."""
    with localcontext(prec=2 * DIGITS + 10):
        scaled = int(2 / PI * D(2) ** (32 * count - zeros))
    return [scaled >> 32 * k & 0xFFFFFFFF for k in reversed(range(count))]


def main(names: list[str]) -> None:
    """Write the file, with those polynomials derived anew that are named, or all."""
    found = json.loads(TARGET.read_text()) if names else {}
    for name in names or JOBS:
        found[name], error = fit(JOBS[name])
        print(f"{name}: {len(found[name])} terms, {math.log2(error):.1f} bits")
    found["constants"] = constants()
    found["2/pi"] = words(7, zeros=9)
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
