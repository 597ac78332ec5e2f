"""The error function, and the gelu that is made of it."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, where
from anydml.ir.numerics.exponential import exponential
from anydml.ir.numerics.parts import (
    F,
    clamp,
    coefficients,
    polynomial,
    power_of_two,
    product_of,
    scale,
    sum_of,
    with_sign,
)


def erf(x: Expr) -> Expr:
    """2/√π ∫₀ˣ e^(-t²) dt; beyond 1 it is 1 - e^Q(x)."""
    near = fma(polynomial(x * x, coefficients("erf")), x, x)
    t = clamp(absolute(x), 0.0, 4.0)
    e = exponential(polynomial(t, coefficients("erfc")) * t)
    power = power_of_two(e.n)
    far = fma(-power, e.rest, const(1.0, F) - power)
    return where(absolute(x) < 1.0, near, with_sign(far, x))


def gelu(x: Expr) -> Expr:
    """x·Φ(x) = max(x, 0) - t·Φ(-t) for t = |x|, and t·Φ(-t) = e^(-t²/2)·v·G(u), v = t/(t + 3), u = 2.4·v - 1."""
    t = clamp(absolute(x), 0.0, 14.5)
    is_near = t < 3.0
    below = sum_of(where(is_near, const(3.0, F), t), where(is_near, t, 3.0))
    inverse = const(1.0, F) / below.high
    v = t * inverse
    v_low = fma(-v, below.low, fma(-v, below.high, t)) * inverse
    u = fma(v_low, 2.4, fma(v, 2.4, -1.0))
    first, *others = coefficients("gelu")
    g = sum_of(const(first, F), polynomial(u, others) * u)
    tail = product_of(v, g.high)
    tail_low = tail.low + fma(v, g.low, v_low * g.high)
    square = product_of(t, t * -0.5)
    e = exponential(square.high, square.low)
    product = scale(tail.high + fma(tail.high, e.rest, tail_low), e.n)
    return where(x >= 0.0, x - product, -product)
