"""e^x and its kin: expm1, sinh, cosh, tanh, sigmoid."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.ir.expressions import Expr, absolute, const, fma, maximum, minimum, where
from anydml.ir.numerics.parts import (
    FLOAT,
    INT,
    MAGIC,
    MAGIC_BITS,
    Pair,
    clamp,
    coefficients,
    doubled,
    exactly,
    is_tiny,
    polynomial,
    power_of_two,
    scaled,
    select,
    shifted_by,
    signed,
    split,
    sum_of,
    with_sign,
)


class Exponential(NamedTuple):
    """e^x = 2^n·(1 + rest), with rest from -0.3 to 0.42."""

    n: Expr
    """INT32"""
    reduced: Pair
    """x - n·ln 2"""
    rest: Pair


def exponential(x: Expr, x_low: Expr | None = None) -> Exponential:
    """For an x of -10^5 to 10^5, and what it lacks; n is any number where x is NaN."""
    shifted = fma(x, 1 / math.log(2), MAGIC)
    reduced = _reduced(x, x_low, shifted - MAGIC)
    return Exponential(shifted.bits(INT) - MAGIC_BITS, reduced, _rest(reduced))


def _reduced(x: Expr, x_low: Expr | None, n: Expr) -> Pair:
    """x - n·ln 2"""
    high, low, _ = split("ln2")
    first = fma(n, -high, x)  # exact: a multiple of 2^-24 below 1
    if x_low is not None:
        return sum_of(first, fma(n, -low, x_low))
    r = fma(n, -low, first)
    return Pair(r, fma(n, -low, first - r))


def _rest(r: Pair, factor: Expr | None = None) -> Pair:
    """e^r - 1 = r + r²·factor."""
    factor = polynomial(r.high, coefficients("exp")) if factor is None else factor
    square = r.high * r.high
    rest = fma(factor, square, r.high)
    return Pair(rest, fma(factor, square, r.high - rest) + fma(r.high, r.low, r.low))


def exp(x: Expr) -> Pair:
    """e^x."""
    if is_not_above_zero(x):
        return Pair(*(part * 2.0**-64 for part in raised(x)))
    e = exponential(clamp(x, -104.5, 89.5))
    return scaled(_plus_one(e.rest), e.n)


def _plus_one(rest: Pair) -> Pair:
    total = rest.high + 1.0
    return Pair(total, (rest.high - (total - 1.0)) + rest.low)


def is_not_above_zero(x: Expr) -> bool:
    """Whether it is a - fold_max(a), as softmax has it."""
    return x.op == "sub" and x.args[1].op == "fold_max" and x.args[1].args[0] is x.args[0]


def raised(x: Expr) -> Pair:
    """2^64·e^x for an x that is not above 0: e^x in 21 operations of 27, as the other factor of its scale is known."""
    x = maximum(x, -104.5)
    n, power = shifted_by(x, 1 / math.log(2), 64)
    total = _plus_one(_rest(_reduced(x, None, n)))
    return Pair(*(part * power for part in total))


def expm1(x: Expr) -> Pair:
    """e^x - 1, of which all digits count near 0."""
    e = exponential(clamp(x, -18.0, 88.8))
    half = power_of_two(e.n - 1)  # 2^128 is no float
    less = half - 0.5
    total = sum_of(less, e.rest.high * half)
    low = total.low - ((less - half) + 0.5)  # 2^24 - ½ is no float
    found = doubled(sum_of(total.high, fma(e.rest.low, half, low)))
    return select(is_tiny(x), exactly(x), found)


def _hyperbolic(t: Expr, *, minus: bool) -> Pair:
    """(e^t ± e^-t)/2 for t >= 0: one polynomial gives both, as e^r - 1 - r = r²·(E(r²) + r·O(r²))."""
    t = where(t > 89.5, const(89.5, FLOAT), t)
    e = exponential(t)
    r = e.reduced
    square = r.high * r.high
    numbers = coefficients("exp")
    even, odd = polynomial(square, numbers[::2]), polynomial(square, numbers[1::2])
    rest = _rest(r, fma(odd, r.high, even))
    down = _rest(Pair(-r.high, -r.low), fma(-odd, r.high, even))
    inverse = sum_of(const(1.0, FLOAT), down.high)
    quarter = power_of_two(e.n - 2)  # halves of 2^n overflow before the result does
    small = where(t < 20.0, power_of_two(-2 - e.n), 0.0)
    if minus:
        small = -small
    total = sum_of(quarter, quarter * rest.high)
    both = sum_of(total.high, small * inverse.high)
    low = fma(quarter, rest.low, fma(small, inverse.low + down.low, total.low))
    return doubled(sum_of(both.high, both.low + low))


def sinh(x: Expr) -> Pair:
    """(e^x - e^-x)/2."""
    t = absolute(x)
    square = x * x
    near = sum_of(t, polynomial(square, coefficients("sinh")) * (square * t))
    return signed(select(t < 1.0, near, _hyperbolic(t, minus=True)), x)


def cosh(x: Expr) -> Pair:
    """(e^x + e^-x)/2."""
    return _hyperbolic(absolute(x), minus=False)


def tanh(x: Expr) -> Pair:
    """e/(1 - e) for e = (1 - e^-2t)/2 and t = |x|; as e·(1 + that), for which no more than half of its error counts."""
    t = minimum(absolute(x), 10.0)
    n, power = shifted_by(t, -2 / math.log(2), 0)
    r = fma(n, math.log(2) / 2, t)
    fall = fma(polynomial(r, [c * 2 ** (k + 1) for k, c in enumerate(coefficients("fall"))]), r * r, r)
    e = fma(power, fall, fma(power, -0.5, 0.5))
    return exactly(with_sign(fma(e, e / (const(1.0, FLOAT) - e), e), x))


def sigmoid(x: Expr) -> Pair:
    """1/(1 + e^-x), by way of 2^64 times that: e^-x overflows where the result is no 0 yet."""
    bounded = clamp(x, -104.5, 20.0)
    n, power = shifted_by(bounded, -1 / math.log(2), -64)
    high, low, _ = split("ln2")
    r = fma(n, low, fma(n, high, bounded))
    fall = fma(polynomial(r, coefficients("fall")), r * r, r)
    one = const(2.0**-64, FLOAT)
    whole = power + one
    return exactly(one / (whole + fma(-power, fall, one - (whole - power))))
