"""Natural logarithms and what is made of them: log1p, softplus, asinh, acosh, atanh."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, sqrt, where
from anydml.ir.numerics.exponential import exponential
from anydml.ir.numerics.parts import (
    FLOAT,
    INF,
    INT,
    Pair,
    clamp,
    coefficients,
    exactly,
    is_tiny,
    polynomial,
    product_of,
    scaled,
    select,
    signed,
    split,
    sum_of,
)

ROOT_HALF = 0x3F3504F3
"""The bits of √½: what is above it, and below √2, has an exponent of 0 here."""


def exponent(x: Expr) -> Expr:
    """The k, INT32, for which x·2^-k is between √½ and √2; x is no denormal."""
    return (x.bits(INT) - ROOT_HALF) >> 23


def parted(x: Expr) -> tuple[Expr, Expr]:
    """That k, and the f for which x = 2^k·(1 + f)."""
    k = exponent(x)
    return k, (x.bits(INT) - (k << 23)).bits(FLOAT) - 1.0


def logarithm(f: Expr, low: Expr | None, k: Expr) -> Pair:
    """k·ln 2 + ln(1 + f + low), for f of √½ - 1 to √2 - 1 and a low that is at most its last digit; k is FLOAT32."""
    square = product_of(f, f)
    rest = fma(polynomial(f, coefficients("log")), f * square.high, square.low * -0.5)
    if low is not None:
        rest = rest + low * fma(f, f, 1.0 - f)
    high, least, _ = split("ln2")
    multiple = product_of(k, high)
    total = sum_of(multiple.high, f)  # |f| < ln 2
    half = sum_of(total.high, square.high * -0.5)
    return sum_of(half.high, half.low + (total.low + (multiple.low + fma(k, least, rest))))


def log(x: Expr) -> Pair:
    """The logarithm to base e."""
    is_denormal = x < 2.0**-126
    y = where(is_denormal, x * 2.0**23, x)
    k, f = parted(y)
    multiple = k.to(FLOAT) + where(is_denormal, const(-23.0, FLOAT), 0.0)
    high, low, _ = split("ln2")
    square = f * f
    rest = fma(polynomial(f, coefficients("log")), f * square, multiple * low)
    single = fma(multiple, high, f + fma(square, -0.5, rest))
    found = where(x < INF, single, x)
    return exactly(where(x > 0.0, found, where(x.equals(0.0), const(-INF, FLOAT), float("nan"))))


def _log_of_one_and(x: Expr, low: Expr | None) -> Pair:
    """ln(1 + x + low) for an x above -1, and not so near 0 that its quarter would be denormal."""
    k = exponent(x + 1.0)
    four = ((129 - k) << 23).bits(FLOAT)  # 4·2^-k: k is up to 128
    quarter, one = x * 0.25, fma(four, 0.25, -1.0)
    f = fma(quarter, four, one)
    f_low = fma(quarter, four, one - f)
    return logarithm(f, f_low if low is None else fma(low * 0.25, four, f_low), k.to(FLOAT))


def log1p(x: Expr) -> Pair:
    """ln(1 + x), of which all digits count near 0."""
    found = _log_of_one_and(x, None)
    found = select(is_tiny(x) | ~(x < INF), exactly(x), found)
    return select(x > -1.0, found, exactly(where(x.equals(-1.0), const(-INF, FLOAT), float("nan"))))


def softplus(x: Expr) -> Pair:
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)."""
    e = exponential(-clamp(absolute(x), 0.0, 104.5))
    whole = sum_of(const(1.0, FLOAT), e.rest.high)
    small = scaled(Pair(whole.high, whole.low + e.rest.low), e.n)
    near = select(small.high < 2.0**-26, small, _log_of_one_and(*small))
    is_more = x > near.high
    total = sum_of(where(is_more, x, near.high), where(is_more, near.high, x))
    found = select(x > 0.0, sum_of(total.high, total.low + near.low), near)
    return select(x > 104.5, exactly(x), found)


def asinh(x: Expr) -> Pair:
    """ln(x + √(x² + 1))."""
    t = absolute(x)
    square = x * x
    near = sum_of(t, polynomial(square, coefficients("asinh")) * (square * t))
    is_large = t > 2.0**14  # the root is x + 1/2x: nothing
    y = where(is_large, const(1.0, FLOAT), t)
    squared = product_of(y, y)
    is_more = y > 1.0
    below = sum_of(where(is_more, squared.high, 1.0), where(is_more, const(1.0, FLOAT), squared.high))
    root = _root(below.high, below.low + squared.low)
    total = sum_of(root.high, y)
    far = _log_of_pair(
        where(is_large, t, total.high), where(is_large, const(0.0, FLOAT), total.low + root.low), is_large
    )
    far = select(t < INF, far, exactly(t))
    return signed(select(t < 0.5, near, far), x)


def acosh(x: Expr) -> Pair:
    """ln(x + √(x² - 1)) = ln(1 + t + √(t² + 2t)), t = x - 1."""
    is_large = x > 2.0**14
    t = where(is_large, const(1.0, FLOAT), x - 1.0)
    root = _root(*_square_and_double(t))
    total = sum_of(root.high, t)
    near = _log_of_one_and(total.high, total.low + root.low)
    far = _log_of_pair(x, const(0.0, FLOAT), is_large)
    found = select(is_large, select(x < INF, far, exactly(x)), near)
    found = select(x.equals(1.0), exactly(0.0), found)
    return select(x >= 1.0, found, exactly(float("nan")))


def _square_and_double(t: Expr) -> Pair:
    """t² + 2t."""
    square, is_more = product_of(t, t), t > 2.0
    double = t + t
    total = sum_of(where(is_more, square.high, double), where(is_more, double, square.high))
    return Pair(total.high, total.low + square.low)


def atanh(x: Expr) -> Pair:
    """½·ln((1 + x)/(1 - x))."""
    t = absolute(x)
    square = x * x
    near = sum_of(t, polynomial(square, coefficients("atanh")) * (square * t))
    above = sum_of(const(1.0, FLOAT), t)
    below = const(1.0, FLOAT) - t  # exact from ½ on
    inverse = const(1.0, FLOAT) / below
    quotient = above.high * inverse
    low = (fma(-quotient, below, above.high) + above.low) * inverse
    double = _log_of_pair(quotient, low, None)
    far = Pair(double.high * 0.5, double.low * 0.5)
    far = select(t < 1.0, far, exactly(where(t.equals(1.0), const(INF, FLOAT), float("nan"))))
    return signed(select(t < 0.5, near, far), x)


def _root(x: Expr, low: Expr) -> Pair:
    """√(x + low)."""
    root = sqrt(x)
    return Pair(root, where(x > 0.0, (fma(-root, root, x) + low) / (root + root), 0.0))


def _log_of_pair(x: Expr, low: Expr, doubled: Expr | None) -> Pair:
    """ln(x + low), or ln(2x) where that is asked for; x is ½ to 2^127."""
    k, f = parted(x)
    k_float = k.to(FLOAT)
    if doubled is not None:
        k_float = where(doubled, k_float + 1.0, k_float)
    return logarithm(f, low * 0.25 * ((129 - k) << 23).bits(FLOAT), k_float)
