"""The error function, and the gelu that is made of it."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, where
from anydml.ir.numerics.exponential import exponential
from anydml.ir.numerics.parts import (
    F,
    Pair,
    clamp,
    coefficients,
    exactly,
    polynomial,
    power_of_two,
    product_of,
    scaled,
    select,
    signed,
    sum_of,
)


def erf(x: Expr) -> Pair:
    """2/√π ∫₀ˣ e^(-t²) dt; beyond 1 it is 1 - e^Q(x)."""
    t = absolute(x)
    factor = polynomial(x * x, coefficients("erf"))
    total = fma(factor, t, t)
    near = Pair(total, fma(factor, t, t - total))
    bounded = where(t > 4.0, const(4.0, F), t)
    e = exponential(polynomial(bounded, coefficients("erfc")) * bounded)
    power = power_of_two(e.n)
    far = sum_of(const(1.0, F) - power, -power * e.rest.high)
    return signed(select(t < 1.0, near, far), x)


def gelu(x: Expr) -> Pair:
    """x·Φ(x) = max(x, 0) - t·Φ(-t) for t = |x|, and t·Φ(-t) = e^(-t²/2)·v·G(u), v = t/(t + 3), u = 2.375·v - 1."""
    t = clamp(absolute(x), 0.0, 14.5)
    is_near = t < 3.0
    below = sum_of(where(is_near, const(3.0, F), t), where(is_near, t, 3.0))
    inverse = const(1.0, F) / below.high
    v = t * inverse
    v_low = fma(-v, below.low, fma(-v, below.high, t)) * inverse
    u = fma(v_low, 2.375, fma(v, 2.375, -1.0))
    first, second, *others = coefficients("gelu")
    linear = product_of(u, polynomial(u, others))
    g = sum_of(const(first, F), linear.high)
    tail = product_of(v, g.high)
    tail_low = tail.low + fma(v, g.low + (linear.low + second), v_low * g.high)
    e = exponential(*product_of(t, t * -0.5))
    more = product_of(tail.high, e.rest.high)
    total = sum_of(tail.high, more.high)
    low = total.low + (more.low + fma(tail_low, e.rest.high, fma(tail.high, e.rest.low, tail_low)))
    product = scaled(sum_of(total.high, low), e.n)
    right = sum_of(t, -product.high)
    right = sum_of(right.high, right.low - product.low)
    found = select(x > 0.0, right, Pair(-product.high, -product.low))
    found = select(x > 14.5, exactly(x), found)
    square = t * t
    near = signed(sum_of(t * 0.5, x * t * polynomial(square, coefficients("gelu_near"))), x)
    return select(t < 0.5, near, found)
