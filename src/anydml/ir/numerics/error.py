"""The error function, and the gelu that is made of it."""

from __future__ import annotations

import math

from anydml.ir.expressions import Expr, absolute, const, fma, minimum, where
from anydml.ir.numerics.parts import (
    FLOAT,
    MAGIC,
    UINT,
    Pair,
    coefficients,
    exactly,
    polynomial,
    product_of,
    shifted_by,
    split,
    two_chains,
    with_sign,
)


def erf(x: Expr) -> Pair:
    """2/√π ∫₀ˣ e^(-t²) dt; beyond 0.9 it is 1 - 2^Q(x)."""
    t = absolute(x)
    near = fma(polynomial(x * x, coefficients("lean_erf")), t, t)
    bounded = minimum(t, 4.0)
    power = two_chains(bounded, coefficients("log2_erfc")) * bounded
    n, whole = shifted_by(power, 1.0, 0)
    far = fma(two_chains(power - n, [1.0, *coefficients("exp2")]), -whole, 1.0)
    single = where(t < 0.9, near, far)
    return exactly(with_sign(single, x))


def gelu(x: Expr) -> Pair:
    """x·Φ(x) = max(x, 0) - t·Φ(-t) for t = |x|, in fewer operations where x > -5."""
    return exactly(where(x < -5.0, _gelu_below(x), _gelu_above(x)))


def _gelu_above(x: Expr) -> Expr:
    """By t·Φ(-t) = ½·t·e^-(t²/2 + t·S(t)); S - ½ is 0.3 and less.

    n comes of 0.5774·t - 0.0423·t² for t·S(t), which is 0.12 below it at most, where no rounding shows: t²/2 + n·ln 2
    is below 1 where t²/2 is, and exact.
    """
    t = minimum(absolute(x), 5.6)
    half = t * 0.5
    square = product_of(t, half)
    magic = MAGIC + (127 + 64)
    shifted = fma(t, fma(t, -0.4577 / math.log(2), -0.5774 / math.log(2)), magic)
    n, power = shifted - magic, (shifted.bits(UINT) << 23).bits(FLOAT)
    high = math.floor(math.log(2) * 2**14) / 2**14
    slope = polynomial(t - 2.0, coefficients("gelu_slope"))
    r = fma(t, slope, fma(n, high, square.high) + half) + fma(n, math.log(2) - high, square.low)
    fall = fma(polynomial(r, coefficients("gelu_fall")), r * r, r)
    scaled_t = t * power
    return fma(fma(-scaled_t, fall, scaled_t), -(2.0**-65), where(x < 0.0, const(-0.0, FLOAT), x))


def _gelu_below(x: Expr) -> Expr:
    """By t·Φ(-t) = e^(-t²/2)·v·G(u), v = t/(t + 1.5), u ~ v.

    G is nearly constant, so that little of u's error shows in it.
    """
    t = minimum(absolute(x), 14.5)
    below = t + 1.5
    below_low = t - (below - 1.5)
    inverse = const(1.0, FLOAT) / below
    v = t * inverse
    v_low = fma(-v, below_low, fma(-v, below, t)) * inverse
    u = fma(v_low, 2.21484375, fma(v, 2.21484375, -1.0))
    first, *others = coefficients("lean_gelu")
    slope = polynomial(u, others)
    g = fma(u, slope, first)
    less = fma(v_low, g, v * fma(u, slope, first - g))
    tail = fma(v, g, less)
    tail_low = less - fma(-v, g, tail)
    square = product_of(t, t * -0.5)
    n, power = shifted_by(square.high, 1 / math.log(2), 64)
    high, low, _ = split("ln2")
    r = fma(n, -high, square.high) + fma(n, -low, square.low)
    rest = fma(polynomial(r, coefficients("exp")), r * r, r)
    product = (tail + fma(tail, rest, tail_low)) * power
    return product * -(2.0**-64)
