"""Natural logarithms and what is made of them: log1p, softplus, asinh, acosh, atanh."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, sqrt, where
from anydml.ir.numerics.exponential import exponential
from anydml.ir.numerics.parts import (
    INF,
    F,
    I,
    Pair,
    any_sum_of,
    clamp,
    coefficients,
    is_tiny,
    polynomial,
    product_of,
    scale,
    split,
    sum_of,
    with_sign,
)

ROOT_HALF = 0x3F3504F3
"""The bits of √½: what is above it, and below √2, has an exponent of 0 here."""


def exponent(x: Expr) -> Expr:
    """The k, INT32, for which x·2^-k is between √½ and √2; x is no denormal."""
    return (x.bits(I) - ROOT_HALF) >> 23


def logarithm(f: Expr, low: Expr | None, k: Expr) -> Expr:
    """k·ln 2 + ln(1 + f + low), for f of √½ - 1 to √2 - 1 and a low that is at most its last digit; k is FLOAT32."""
    square = f * f
    rest = polynomial(f, coefficients("log")) * (f * square)
    if low is not None:
        rest = rest + fma(-low, f, low)
    high, least, _ = split("ln2")
    rest = fma(k, least, fma(square, -0.5, rest))
    head = product_of(k, high)
    total = any_sum_of(head.high, f)
    return total.high + (total.low + (head.low + rest))


def log(x: Expr) -> Expr:
    """The logarithm to base e."""
    is_denormal = x < 2.0**-126
    y = where(is_denormal, x * 2.0**23, x)
    k = exponent(y)
    f = (y.bits(I) - (k << 23)).bits(F) - 1.0
    found = logarithm(f, None, k.to(F) + where(is_denormal, const(-23.0, F), 0.0))
    found = where(x < INF, found, x)
    return where(x > 0.0, found, where(x.equals(0.0), const(-INF, F), float("nan")))


def _log_of_one_and(x: Expr, low: Expr | None) -> Expr:
    """ln(1 + x + low) for an x above -1, and not so near 0 that its quarter would be denormal."""
    k = exponent(x + 1.0)
    four = ((129 - k) << 23).bits(F)  # 4·2^-k: k is up to 128
    f = fma(x * 0.25, four, four * 0.25 - 1.0)
    return logarithm(f, None if low is None else low * 0.25 * four, k.to(F))


def log1p(x: Expr) -> Expr:
    """ln(1 + x), of which all digits count near 0."""
    found = _log_of_one_and(x, None)
    found = where(is_tiny(x), x, where(x < INF, found, x))
    return where(x > -1.0, found, where(x.equals(-1.0), const(-INF, F), float("nan")))


def softplus(x: Expr) -> Expr:
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)."""
    e = exponential(-clamp(absolute(x), 0.0, 104.5))
    whole = sum_of(const(1.0, F), e.rest)
    small, low = scale(whole.high, e.n), scale(whole.low, e.n)
    near = where(small < 2.0**-26, small, _log_of_one_and(small, low))
    return where(x > 0.0, x + near, near)


def asinh(x: Expr) -> Expr:
    """ln(x + √(x² + 1))."""
    t = absolute(x)
    square = x * x
    near = fma(polynomial(square, coefficients("asinh")) * square, t, t)
    is_large = t > 2.0**14  # the root is x + 1/2x: nothing
    y = where(is_large, const(1.0, F), t)
    squared = product_of(y, y)
    below = any_sum_of(squared.high, const(1.0, F))
    root, low = _root(below.high, below.low + squared.low)
    total = any_sum_of(y, root)
    found = _log_of_pair(where(is_large, t, total.high), where(is_large, const(0.0, F), total.low + low), is_large)
    return with_sign(where(t < 0.5, near, where(t < INF, found, t)), x)


def acosh(x: Expr) -> Expr:
    """ln(x + √(x² - 1)) = ln(1 + t + √(t² + 2t)), t = x - 1."""
    is_large = x > 2.0**14
    t = where(is_large, const(1.0, F), x - 1.0)
    wide = product_of(t, t)
    squared = any_sum_of(t + t, wide.high)
    root, low = _root(squared.high, squared.low + wide.low)
    total = any_sum_of(root, t)
    near = _log_of_one_and(total.high, total.low + low)
    far = _log_of_pair(x, const(0.0, F), is_large)
    found = where(is_large, where(x < INF, far, x), where(x.equals(1.0), const(0.0, F), near))
    return where(x >= 1.0, found, const(float("nan"), F))


def atanh(x: Expr) -> Expr:
    """½·ln((1 + x)/(1 - x))."""
    t = absolute(x)
    square = x * x
    near = fma(polynomial(square, coefficients("atanh")) * square, t, t)
    above = sum_of(const(1.0, F), t)
    below = const(1.0, F) - t  # exact from ½ on
    inverse = const(1.0, F) / below
    quotient = above.high * inverse
    low = (fma(-quotient, below, above.high) + above.low) * inverse
    far = _log_of_pair(quotient, low, None) * 0.5
    far = where(t < 1.0, far, where(t.equals(1.0), const(INF, F), float("nan")))
    return with_sign(where(t < 0.5, near, far), x)


def _root(x: Expr, low: Expr) -> Pair:
    """√(x + low)."""
    root = sqrt(x)
    return Pair(root, where(x > 0.0, (fma(-root, root, x) + low) / (root + root), 0.0))


def _log_of_pair(x: Expr, low: Expr, doubled: Expr | None) -> Expr:
    """ln(x + low), or ln(2x) where that is asked for; x is ½ to 2^127."""
    k = exponent(x)
    f = (x.bits(I) - (k << 23)).bits(F) - 1.0
    k_float = k.to(F)
    if doubled is not None:
        k_float = where(doubled, k_float + 1.0, k_float)
    return logarithm(f, low * 0.25 * ((129 - k) << 23).bits(F), k_float)
