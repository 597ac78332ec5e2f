"""sin, cos and tan of any argument: the reduction keeps two floats."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.enums import DataType
from anydml.ir.expressions import Expr, absolute, const, fma, where
from anydml.ir.numerics.parts import (
    INF,
    MAGIC,
    F,
    I,
    Pair,
    U,
    any_sum_of,
    coefficients,
    polynomial,
    product_of,
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
    """The multiple of π/2 nearest to |x|, and what is left; anything for infinities and NaN."""
    t = absolute(x)
    near, far = _near(t), _far(t)
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
    return Angle(shifted.bits(I), Pair(rest.high, fma(n, -third, rest.low - product.low)))


def _far(t: Expr) -> Angle:
    """In integers: the 24 digits of t times 96 of those of 2/π, those left out that make multiples of 4."""
    bits = t.bits(I)
    start = (bits >> 23) - (127 + 16)
    found: list[Expr] = [const(word, U) for word in words()]
    for size in (2, 1):
        is_beyond = ~(start & 32 * size).equals(0)
        found = [where(is_beyond, b, a) for a, b in zip(found, found[size:], strict=False)]
    shift = (start & 31).bits(U)
    back = const(31, U) - shift
    window = [(a << shift) | ((b >> 1) >> back) for a, b in zip(found, found[1:], strict=False)]
    digits = ((bits & 0x7FFFFF) | 0x800000).bits(U)
    wide = digits.to(DataType.UINT64)
    total = ((digits * window[0]).to(DataType.UINT64) << 32) + wide * window[1].to(DataType.UINT64)
    total = total + ((wide * window[2].to(DataType.UINT64)) >> 32)  # in units of 2^-62
    n = (total + (1 << 61)) >> 62
    fraction = (total - (n << 62)).bits(DataType.INT64)
    high = (fraction >> 38).to(I).to(F) * 2.0**-24  # 24 bits: exact
    low = (fraction >> 6).to(U).to(F) * 2.0**-56
    first, second, _ = split("pi/2")
    product = product_of(high, first)
    rest = sum_of(product.high, fma(low, first, fma(high, second, product.low)))
    return Angle(n.to(I), rest)


def _sine(rest: Pair, cosine: Expr) -> Expr:
    square = rest.high * rest.high
    return rest.high + fma(polynomial(square, coefficients("sin")) * square, rest.high, rest.low * cosine)


def _cosine(rest: Pair) -> Expr:
    square = rest.high * rest.high
    small = fma(polynomial(square, coefficients("cos")), square, -0.5)
    return fma(small, square, fma(-rest.high, rest.low, 1.0))


def _with_sign_bit(x: Expr, sign: Expr, finite: Expr) -> Expr:
    return where(finite, (x.bits(U) ^ (sign & 0x80000000)).bits(F), const(float("nan"), F))


def sin(x: Expr) -> Expr:
    """The sine."""
    n, rest = reduce(x)
    cosine = _cosine(rest)
    found = where((n & 1).equals(0), _sine(rest, cosine), cosine)
    return _with_sign_bit(found, x.bits(U) ^ (n.bits(U) << 30), absolute(x) < INF)


def cos(x: Expr) -> Expr:
    """The cosine."""
    n, rest = reduce(x)
    cosine = _cosine(rest)
    found = where((n & 1).equals(0), cosine, _sine(rest, cosine))
    return _with_sign_bit(found, (n + 1).bits(U) << 30, absolute(x) < INF)


def tan(x: Expr) -> Expr:
    """The tangent: -1/tan of what is left where n is odd, with the quotient's error put right."""
    n, rest = reduce(x)
    square = rest.high * rest.high
    small = polynomial(square, coefficients("tan")) * square
    tangent = sum_of(rest.high, fma(small, rest.high, fma(rest.low, square, rest.low)))
    inverse = const(-1.0, F) / tangent.high
    error = fma(inverse, tangent.low, fma(inverse, tangent.high, 1.0))
    found = where((n & 1).equals(0), tangent.high, fma(inverse, error, inverse))
    return _with_sign_bit(found, x.bits(U), absolute(x) < INF)
