"""e^x and its kin: expm1, sinh, cosh, tanh, sigmoid."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.ir.expressions import Expr, absolute, const, fma, where
from anydml.ir.numerics.parts import (
    MAGIC,
    MAGIC_BITS,
    F,
    I,
    clamp,
    coefficients,
    is_tiny,
    polynomial,
    power_of_two,
    scale,
    split,
    sum_of,
    with_sign,
)


class Exponential(NamedTuple):
    """e^x = 2^n·(1 + rest), with rest from -0.3 to 0.42."""

    n: Expr
    """INT32"""
    reduced: Expr
    """x - n·ln 2"""
    rest: Expr


def exponential(x: Expr, x_low: Expr | None = None) -> Exponential:
    """For an x of -10^5 to 10^5, and what it lacks; n is any number where x is NaN."""
    shifted = fma(x, 1 / math.log(2), MAGIC)
    n = shifted - MAGIC
    high, low, _ = split("ln2")
    r = fma(n, -high, x)
    r = fma(n, -low, r) if x_low is None else r + fma(n, -low, x_low)
    rest = fma(polynomial(r, coefficients("exp")), r * r, r)
    return Exponential(shifted.bits(I) - MAGIC_BITS, r, rest)


def exp(x: Expr) -> Expr:
    """e^x."""
    e = exponential(clamp(x, -104.5, 89.5))
    return scale(e.rest + 1.0, e.n)


def expm1(x: Expr) -> Expr:
    """e^x - 1, of which all digits count near 0."""
    e = exponential(clamp(x, -18.0, 88.8))
    half = power_of_two(e.n - 1)  # 2^128 is no float
    total = fma(e.rest, half, half - 0.5)
    return where(is_tiny(x), x, total + total)


def _hyperbolic(x: Expr, *, minus: bool) -> Expr:
    """(e^t ± e^-t)/2 for t = |x|: one polynomial gives both, as e^r - 1 - r = r²·(E(r²) + r·O(r²))."""
    t = clamp(absolute(x), 0.0, 89.5)
    e = exponential(t)
    square = e.reduced * e.reduced
    numbers = coefficients("exp")
    even, odd = polynomial(square, numbers[::2]), polynomial(square, numbers[1::2])
    rest = fma(fma(odd, e.reduced, even), square, e.reduced)
    inverse = fma(fma(-odd, e.reduced, even), square, -e.reduced) + 1.0
    quarter = power_of_two(e.n - 2)  # halves of 2^n overflow before the result does
    small = where(t < 20.0, power_of_two(-2 - e.n), 0.0)
    total = quarter + fma(quarter, rest, (-small if minus else small) * inverse)
    return total + total


def sinh(x: Expr) -> Expr:
    """(e^x - e^-x)/2."""
    t = absolute(x)
    square = x * x
    near = fma(polynomial(square, coefficients("sinh")) * square, t, t)
    return with_sign(where(t < 1.0, near, _hyperbolic(x, minus=True)), x)


def cosh(x: Expr) -> Expr:
    """(e^x + e^-x)/2."""
    return _hyperbolic(x, minus=False)


def tanh(x: Expr) -> Expr:
    """1 - 2/(e^2x + 1)."""
    t = absolute(x)
    square = x * x
    near = fma(polynomial(square, coefficients("tanh")) * square, t, t)
    bounded = where(t > 10.0, const(10.0, F), t)
    e = exponential(bounded + bounded)
    power = power_of_two(e.n)
    far = const(1.0, F) - const(2.0, F) / fma(power, e.rest, power + 1.0)
    return with_sign(where(t < 1.0, near, far), x)


def sigmoid(x: Expr) -> Expr:
    """1/(1 + e^-x), or e^x/(1 + e^x) for a negative x, with the quotient's error put right."""
    e = exponential(-clamp(absolute(x), 0.0, 104.5))
    power = scale(const(1.0, F), e.n)
    whole = sum_of(const(1.0, F), power)
    below = sum_of(whole.high, power * e.rest)
    quotient = const(1.0, F) / below.high
    missing = fma(-quotient, below.high, 1.0) - quotient * (below.low + whole.low)
    low = quotient * missing
    left = scale(quotient + fma(e.rest, quotient, low), e.n)
    return where(x < 0.0, left, quotient + low)
