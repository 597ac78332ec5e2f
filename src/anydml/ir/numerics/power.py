"""x^y: 2^(y·log2 x) in sums of two floats."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, trunc, where
from anydml.ir.numerics.logarithm import exponent
from anydml.ir.numerics.parts import (
    FLOAT,
    INF,
    INT,
    MAGIC,
    MAGIC_BITS,
    Pair,
    any_sum_of,
    clamp,
    coefficients,
    exactly,
    polynomial,
    product_of,
    scaled,
    select,
    signed,
    split,
    sum_of,
)


def _log2(x: Expr) -> Pair:
    """For a positive x, to about 36 bits: log2 m = 2/ln 2·(f + f³/3 + f⁵·P), f = (m - 1)/(m + 1)."""
    is_denormal = x < 2.0**-126
    y = where(is_denormal, x * 2.0**23, x)
    k = exponent(y)
    m = (y.bits(INT) - (k << 23)).bits(FLOAT)
    above, below = m - 1.0, m + 1.0
    below_low = m - (below - 1.0)
    inverse = const(1.0, FLOAT) / below
    f = above * inverse
    f_low = fma(-f, below_low, fma(-f, below, above)) * inverse
    square = product_of(f, f)
    square_low = fma(f + f, f_low, square.low)
    linear, cubic = split("2/ln2"), split("2/(3ln2)")
    inner = sum_of(const(cubic[0], FLOAT), polynomial(square.high, coefficients("log2")) * square.high)
    term = product_of(square.high, inner.high)
    term_low = fma(square_low, inner.high, fma(square.high, inner.low + cubic[1], term.low))
    outer = sum_of(const(linear[0], FLOAT), term.high)
    fraction = product_of(f, outer.high)
    fraction_low = fma(f_low, outer.high, fma(f, outer.low + (term_low + linear[1]), fraction.low))
    total = sum_of(k.to(FLOAT) + where(is_denormal, const(-23.0, FLOAT), 0.0), fraction.high)
    return Pair(total.high, total.low + fraction_low)


def _exp2(high: Expr, low: Expr) -> Pair:
    """2^(high + low), for a high of -200 to 200."""
    shifted = high + MAGIC
    fraction, low = any_sum_of(high - (shifted - MAGIC), low)
    first, second, _ = split("ln2")
    product = product_of(fraction, first)
    r = product.high
    r_low = fma(low, first, fma(fraction, second, product.low))
    rest = fma(polynomial(r, coefficients("exp")), r * r, fma(r, r_low, r_low))
    total = sum_of(const(1.0, FLOAT), r)
    return scaled(sum_of(total.high, total.low + rest), shifted.bits(INT) - MAGIC_BITS)


def power(x: Expr, y: Expr) -> Pair:
    """x^y, with the special cases of IEEE 754."""
    t = absolute(x)
    log2 = _log2(t)
    product = product_of(y, log2.high)
    is_inside = absolute(product.high) < 200.0
    found = _exp2(clamp(product.high, -200.0, 200.0), where(is_inside, fma(y, log2.low, product.low), 0.0))
    found = select(t.equals(1.0), exactly(1.0), found)
    is_zero = t.equals(0.0)
    edge = where(is_zero ^ (y < 0.0), const(0.0, FLOAT), INF)
    found = select(is_zero | t.equals(INF), exactly(edge), found)
    half = y * 0.5
    is_whole = trunc(y).equals(y)
    is_odd = is_whole & ~trunc(half).equals(half)
    found = signed(found, where(is_odd, x, 0.0))
    found = select((x < 0.0) & ~is_whole & (t < INF), exactly(float("nan")), found)
    found = select(x.is_nan | y.is_nan, exactly(x + y), found)
    return select(y.equals(0.0) | x.equals(1.0), exactly(1.0), found)
