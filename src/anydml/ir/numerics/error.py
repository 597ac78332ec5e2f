"""The error function, and the gelu that is made of it."""

from __future__ import annotations

import math

from anydml.ir.expressions import Expr, absolute, const, fma, minimum, number_of, where
from anydml.ir.numerics.parts import (
    FLOAT,
    MAGIC,
    UINT,
    Pair,
    coefficients,
    exactly,
    polynomial,
    shifted_by,
    split,
    two_chains,
    with_sign,
)

CURVE, SLOPE = 0.640625, 0.9375
"""a and b of few digits for which Φ(-t) ~ ½·2^-(a·t² + b·t), up to 5: the exponent is 0.08 off at most."""


def erf(x: Expr) -> Pair:
    """2/√π ∫₀ˣ e^(-t²) dt; beyond 0.9 it is 1 - 2^Q(x)."""
    t = absolute(x)
    near = fma(polynomial(x * x, coefficients("erf")), t, t)
    bounded = minimum(t, 4.0)
    power = two_chains(bounded, coefficients("log2_erfc")) * bounded
    n, whole = shifted_by(power, 1.0, 0)
    far = fma(two_chains(power - n, [1.0, *coefficients("exp2")]), -whole, 1.0)
    single = where(t < 0.9, near, far)
    return exactly(with_sign(single, x))


def gelu(x: Expr) -> Pair:
    """x·Φ(x) = max(x, 0) - t·Φ(-t) for t = |x|, and Φ(-t) = ½·2^-(a·t² + b·t + t·S(t)), where t·S(t) is 0.08 and less.

    For an x below -5 t·Φ(-t) = e^(-t²/2)·Q(t). What FLOAT32 cannot hold of a·t + b, and of a, goes into S(t), which is
    u·P(u) for the distance u from its root.
    """
    is_far = x < -5.0
    t = absolute(minimum(x, 5.75))
    t = where(is_far, minimum(t, 14.5), t)
    curve, slope = (where(is_far, const(a, FLOAT), b) for a, b in ((0.5 / math.log(2), CURVE), (0.0, SLOPE)))
    line = fma(t, curve, slope)
    lost = fma(t, curve, slope - line)
    root, *_ = split("gelu")
    missing = t * (0.5 / math.log(2) - number_of(const(0.5 / math.log(2), FLOAT)).item())
    magic = MAGIC + (127 + 64)
    shifted = fma(line, -t, magic)
    near = fma(polynomial(t - root, coefficients("gelu_near")), t - root, lost)
    r = fma(where(is_far, missing + lost, near), t, fma(line, t, shifted - magic))
    power = two_chains(r, coefficients("gelu_power")) * r
    first, *others = coefficients("gelu_far")
    far = polynomial(t - 9.0, [number / first for number in others]) * (t - 9.0)
    scaled_t = where(is_far, const(first, FLOAT), t) * (shifted.bits(UINT) << 23).bits(FLOAT)
    tail = fma(scaled_t, where(is_far, fma(far, power, far) + power, power), scaled_t)
    return exactly(fma(tail, const(-(2.0**-65), FLOAT), where(x < 0.0, const(-0.0, FLOAT), x)))
