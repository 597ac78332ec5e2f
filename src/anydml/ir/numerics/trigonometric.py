"""sin, cos and tan of any argument: the reduction keeps two floats."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from anydml.core.enums import DataType
from anydml.ir.expressions import Expr, absolute, const, fma, where
from anydml.ir.numerics.parts import (
    FLOAT,
    INF,
    INT,
    MAGIC,
    UINT,
    Pair,
    any_sum_of,
    coefficients,
    exactly,
    polynomial,
    product_of,
    select,
    signed,
    split,
    sum_of,
    words,
)

FAR = 2.0**16
"""From here on the multiple of π/2 is found in integers: n·(π/2 in three floats) would lose digits."""


class Angle(NamedTuple):
    """n·π/2 + rest = |x|, with rest from -π/4 to π/4."""

    n: Expr
    """INT32: the last two bits"""
    rest: Pair


def reduce(x: Expr) -> Angle:
    """The multiple of π/2 nearest to |x|, and what is left: NaN for infinities and NaN."""
    t = absolute(x)
    near, far = _near(t), _far(t)
    if x.op == "cast" and x.args[0].type is DataType.FLOAT16:
        return near  # 65504 is the largest
    is_far = t >= FAR
    high, low = (where(is_far, b, a) for a, b in zip(near.rest, far.rest, strict=True))
    return Angle(where(is_far, far.n, near.n), Pair(high, low))


def _near(t: Expr) -> Angle:
    """In floats: t - n·c1 is exact, n·c2 a pair."""
    shifted = fma(t, 2 / math.pi, MAGIC)
    n = shifted - MAGIC
    first, second, third = split("pi/2")
    product = product_of(n, second)
    rest = any_sum_of(fma(n, -first, t), -product.high)
    return Angle(shifted.bits(INT), Pair(rest.high, fma(n, -third, rest.low - product.low)))


def _far(t: Expr) -> Angle:
    """In integers: the 24 digits of t times 96 of those of 2/π, those left out that make multiples of 4."""
    bits = t.bits(INT)
    start = (bits >> 23) - (127 + 16)
    found: list[Expr] = [const(word, UINT) for word in words()]
    for size in (2, 1):
        is_beyond = ~(start & 32 * size).equals(0)
        found = [where(is_beyond, b, a) for a, b in zip(found, found[size:], strict=False)]
    shift = (start & 31).bits(UINT)
    back = const(31, UINT) - shift
    window = [(a << shift) | ((b >> 1) >> back) for a, b in pairwise(found)]
    digits = ((bits & 0x7FFFFF) | 0x800000).bits(UINT)
    wide = digits.to(DataType.UINT64)
    total = ((digits * window[0]).to(DataType.UINT64) << 32) + wide * window[1].to(DataType.UINT64)
    total = total + ((wide * window[2].to(DataType.UINT64)) >> 32)  # in units of 2^-62
    n = (total + (1 << 61)) >> 62
    fraction = (total - (n << 62)).bits(DataType.INT64)
    high = (fraction >> 38).to(INT).to(FLOAT) * 2.0**-24  # 24 bits: exact
    low = (fraction >> 6).to(UINT).to(FLOAT) * 2.0**-56
    first, second, _ = split("pi/2")
    product = product_of(high, first)
    rest = sum_of(product.high, fma(low, first, fma(high, second, product.low)))
    return Angle(n.to(INT), select(t < INF, rest, exactly(float("nan"))))


def _sine(rest: Pair, cosine: Expr) -> Pair:
    square = rest.high * rest.high
    cubic = polynomial(square, coefficients("sin")) * (square * rest.high)
    return sum_of(rest.high, fma(rest.low, cosine, cubic))


def _cosine(rest: Pair) -> Pair:
    square = product_of(rest.high, rest.high)
    total = sum_of(const(1.0, FLOAT), square.high * -0.5)
    low = fma(rest.high, -rest.low, fma(square.low, -0.5, total.low))
    return sum_of(total.high, fma(polynomial(square.high, coefficients("cos")), square.high * square.high, low))


def sin(x: Expr) -> Pair:
    """The sine."""
    n, rest = reduce(x)
    cosine = _cosine(rest)
    found = select((n & 1).equals(0), _sine(rest, cosine.high), cosine)
    return signed(found, x.bits(UINT) ^ (n.bits(UINT) << 30))


def cos(x: Expr) -> Pair:
    """The cosine."""
    n, rest = reduce(x)
    cosine = _cosine(rest)
    found = select((n & 1).equals(0), cosine, _sine(rest, cosine.high))
    return signed(found, (n + 1).bits(UINT) << 30)


def tan(x: Expr) -> Pair:
    """The tangent: -1/tan of what is left where n is odd, with the quotient's error put right."""
    n, rest = reduce(x)
    square = product_of(rest.high, rest.high)
    factor = polynomial(square.high, coefficients("tan"))
    cubic = square.high * rest.high
    # tan' is 1 + s + …, and about the same is what the square's error does to s·P
    lost = fma(square.low, factor * rest.high, rest.low) * (square.high + 1.0)
    lost = fma(fma(square.high, rest.high, -cubic), factor, lost)
    tangent = sum_of(rest.high, fma(factor, cubic, lost))
    inverse = const(-1.0, FLOAT) / tangent.high
    error = fma(inverse, tangent.low, fma(inverse, tangent.high, 1.0))
    found = select((n & 1).equals(0), tangent, sum_of(inverse, inverse * error))
    return signed(found, x)
