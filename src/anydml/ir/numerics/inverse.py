"""Arc sine, cosine and tangent."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, sqrt, where
from anydml.ir.numerics.parts import (
    FLOAT,
    INF,
    INT,
    Pair,
    coefficients,
    exactly,
    negate_if,
    polynomial,
    product_of,
    select,
    signed,
    split,
    sum_of,
)


def _halved(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Whether |x| > ½; a and what asin a is more, for an a that is |x|, or √((1 - |x|)/2)."""
    t = absolute(x)
    is_far = t > 0.5
    square = where(is_far, fma(t, -0.5, 0.5), t * t)
    root = sqrt(square)
    low = fma(-root, root, square) / fma(root, 2.0, 2.0**-100)  # 0/0 is no number
    near = where(is_far, root, t)
    return is_far, near, fma(polynomial(square, coefficients("asin")), near * square, where(is_far, low, 0.0))


def asin(x: Expr) -> Pair:
    """The arc sine: π/2 - 2·asin √((1 - x)/2) beyond ½."""
    is_far, near, rest = _halved(x)
    high, least, _ = split("pi/2")
    total = sum_of(const(high, FLOAT), near * -2.0)
    far = sum_of(total.high, total.low + fma(rest, -2.0, least))
    return signed(select(is_far, far, sum_of(near, rest)), x)


def acos(x: Expr) -> Pair:
    """The arc cosine: 2·asin √((1 - x)/2) beyond ½."""
    is_far, near, rest = _halved(x)
    is_negative = x < 0.0
    base = select(is_far, select(is_negative, _number("pi"), exactly(0.0)), _number("pi/2"))
    angle, rest = where(is_far, near + near, near), where(is_far, rest + rest, rest)
    is_less = ~(is_far ^ is_negative)
    return _sum(base, negate_if(is_less, angle), negate_if(is_less, rest))


def _number(name: str) -> Pair:
    high, low, _ = split(name)
    return Pair(const(high, FLOAT), const(low, FLOAT))


def _sum(base: Pair, angle: Expr, rest: Expr) -> Pair:
    """base + angle + rest, the base being the largest, or 0."""
    total = sum_of(base.high, angle)
    return sum_of(total.high, total.low + (base.low + rest))


def _arc(quotient: Expr, low: Expr) -> Expr:
    """atan (q + low) - q for a q of 0 to 1."""
    square = product_of(quotient, quotient)
    cubic = square.high * quotient
    # The derivative is 1/(1 + q²); the square's error counts where q is near 1, a quarter of it.
    rest = fma(square.low * -0.25, cubic, low * fma(square.high, -0.5, 1.0))
    return fma(polynomial(square.high, coefficients("atan")), cubic, rest)


def atan(x: Expr) -> Pair:
    """The arc tangent: π/2 - atan 1/x beyond 1."""
    t = absolute(x)
    is_far = t > 1.0
    inverse = const(1.0, FLOAT) / t
    quotient = where(is_far, inverse, t)
    low = where(is_far & (t < 2.0**100), fma(-inverse, t, 1.0) * inverse, 0.0)
    rest = _arc(quotient, low)
    far = _sum(_number("pi/2"), -quotient, -rest)
    return signed(select(is_far, far, sum_of(quotient, rest)), x)


def atan2(y: Expr, x: Expr) -> Pair:
    """The angle of the point (x, y)."""
    up, along = absolute(y), absolute(x)
    is_steep = up > along
    is_small = where(is_steep, up, along) < 2.0**-60  # the quotient's error would be denormal
    factor = where(is_small, const(2.0**60, FLOAT), 1.0)
    up, along = up * factor, along * factor
    above, below = where(is_steep, along, up), where(is_steep, up, along)
    equal = where(below.equals(0.0), const(0.0, FLOAT), 1.0)  # neither 0/0 nor inf/inf is a number
    ratio = above / below
    is_equal = above.equals(below)
    quotient = where(is_equal, equal, ratio)
    is_safe = (above > 2.0**-100) & (below < INF) & ~is_equal
    low = where(is_safe, fma(-ratio, below, above) / below, 0.0)
    rest = _arc(quotient, low)
    is_left = x.bits(INT) < 0
    base = select(is_steep, _number("pi/2"), select(is_left, _number("pi"), exactly(0.0)))
    is_less = is_steep ^ is_left
    return signed(_sum(base, negate_if(is_less, quotient), negate_if(is_less, rest)), y)
