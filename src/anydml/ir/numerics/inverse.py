"""Arc sine, cosine and tangent."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, sqrt, where
from anydml.ir.numerics.parts import F, I, coefficients, negate_if, polynomial, split, sum_of, with_sign


def _halved(x: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Whether |x| > ½; a, a³·P and a's error, for an a of asin a = a + a³·P that is |x|, or √((1 - |x|)/2)."""
    t = absolute(x)
    is_far = t > 0.5
    square = where(is_far, fma(t, -0.5, 0.5), t * t)
    root = sqrt(square)
    low = fma(-root, root, square) / fma(root, 2.0, 2.0**-100)
    near = where(is_far, root, t)
    return is_far, near, polynomial(square, coefficients("asin")) * (near * square), where(is_far, low, 0.0)


def asin(x: Expr) -> Expr:
    """The arc sine: π/2 - 2·asin √((1 - x)/2) beyond ½."""
    is_far, near, cubic, low = _halved(x)
    high, least, _ = split("pi/2")
    total = sum_of(const(high, F), near * -2.0)
    far = total.high + (total.low + fma(cubic + low, -2.0, least))
    return with_sign(where(is_far, far, near + cubic), x)


def acos(x: Expr) -> Expr:
    """The arc cosine: 2·asin √((1 - x)/2) beyond ½."""
    is_far, near, cubic, low = _halved(x)
    is_negative = x < 0.0
    none, half, whole = [0.0, 0.0], split("pi/2"), split("pi")
    high, least = (
        where(is_far, where(is_negative, const(c, F), a), b) for a, b, c in zip(none, half, whole, strict=False)
    )
    angle, rest = where(is_far, near + near, near), cubic + low
    rest = where(is_far, rest + rest, rest)
    is_less = ~(is_far ^ is_negative)
    total = sum_of(high, negate_if(is_less, angle))
    return total.high + (total.low + (least + negate_if(is_less, rest)))


def _arc(quotient: Expr) -> Expr:
    """atan q - q for a q of 0 to 1."""
    square = quotient * quotient
    return polynomial(square, coefficients("atan")) * (square * quotient)


def atan(x: Expr) -> Expr:
    """The arc tangent: π/2 - atan 1/x beyond 1."""
    t = absolute(x)
    is_far = t > 1.0
    quotient = where(is_far, const(1.0, F) / t, t)
    rest = _arc(quotient)
    high, least, _ = split("pi/2")
    total = sum_of(const(high, F), -quotient)
    return with_sign(where(is_far, total.high + (total.low + (least - rest)), quotient + rest), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y)."""
    up, along = absolute(y), absolute(x)
    is_steep = up > along
    above, below = where(is_steep, along, up), where(is_steep, up, along)
    equal = where(below.equals(0.0), const(0.0, F), 1.0)  # neither 0/0 nor inf/inf is a number
    quotient = where(above.equals(below), equal, above / below)
    rest = _arc(quotient)
    is_left = x.bits(I) < 0
    none, half, whole = [0.0, 0.0], split("pi/2"), split("pi")
    high, least = (
        where(is_steep, const(b, F), where(is_left, const(c, F), a)) for a, b, c in zip(none, half, whole, strict=False)
    )
    is_less = is_steep ^ is_left
    total = sum_of(high, negate_if(is_less, quotient))
    return with_sign(total.high + (total.low + (least + negate_if(is_less, rest))), y)
