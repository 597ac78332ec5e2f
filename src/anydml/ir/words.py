"""Numbers of 64 bits in words of 32, as trees: integers, double-floats, and FLOAT64 by its bits.

A double-float is the unevaluated sum of two FLOAT32 (48 bits, FLOAT32's range). Conversions of a FLOAT64 by its bits
are exact, or rounded once, and so are its sums and products: the bits of any machine that has the type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.core.enums import DataType
from anydml.ir.expressions import Expr, absolute, ceil, const, floor, rint, sqrt, where
from anydml.ir.numerics.parts import Pair, any_sum_of, power_of_two, product_of, select, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.expressions import Number

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32


class Words(NamedTuple):
    """A 64-bit integer: two of UINT32."""

    low: Expr
    high: Expr


def typed(x: Expr) -> DataType:
    """The type of a number."""
    assert x.type is not None  # noqa: S101 - for type checkers: a number
    return x.type


# 64-bit integers


def words(value: Number) -> Words:
    """A constant."""
    number = int(value) % 2**64
    return Words(const(number % 2**32, U32), const(number >> 32, U32))


def one_if(test: Expr) -> Expr:
    """1 where a test holds, UINT32."""
    return where(test, const(1, U32), 0)


def add(a: Words, b: Words) -> Words:
    """a + b, wrapping."""
    low = a.low + b.low
    return Words(low, a.high + b.high + one_if(low < a.low))


def subtract(a: Words, b: Words) -> Words:
    """a - b, wrapping."""
    return Words(a.low - b.low, a.high - b.high - one_if(a.low < b.low))


def negate(a: Words) -> Words:
    """-a, wrapping."""
    return subtract(words(0), a)


def product_of_words(a: Expr, b: Expr) -> Words:
    """a·b of two UINT32, whole: by halves, of which none overflows."""
    (al, ah), (bl, bh) = ((x & 0xFFFF, x >> 16) for x in (a, b))
    cross, other = al * bh, ah * bl
    middle = ((al * bl) >> 16) + (cross & 0xFFFF) + (other & 0xFFFF)
    return Words(a * b, ah * bh + (cross >> 16) + (other >> 16) + (middle >> 16))


def multiply(a: Words, b: Words) -> Words:
    """a·b, wrapping."""
    low, carried = product_of_words(a.low, b.low)
    return Words(low, carried + a.low * b.high + a.high * b.low)


def shift_left(a: Words, by: Expr) -> Words:
    """a·2^by for an UINT32 below 64; nothing is shifted by a whole word, which languages leave open."""
    part = by & 31
    shifted = a.low << part
    near = Words(shifted, (a.high << part) | ((a.low >> 1) >> (part ^ 31)))
    return choose(by < 32, near, Words(const(0, U32), shifted))


def shift_right(a: Words, by: Expr, *, is_signed: bool) -> Words:
    """a·2^-by, rounded down, for an UINT32 below 64."""
    part = by & 31
    sign = (a.high.bits(I32) >> 31).bits(U32) if is_signed else const(0, U32)
    shifted = (a.high.bits(I32) >> part.bits(I32)).bits(U32) if is_signed else a.high >> part
    near = Words((a.low >> part) | ((a.high << 1) << (part ^ 31)), shifted)
    return choose(by < 32, near, Words(shifted, sign))


def less(a: Words, b: Words, *, is_signed: bool) -> Expr:
    """Whether a < b."""
    first, second = (x.high.bits(I32) if is_signed else x.high for x in (a, b))
    return (first < second) | (a.high.equals(b.high) & (a.low < b.low))


def equal(a: Words, b: Words) -> Expr:
    """Whether they are."""
    return a.low.equals(b.low) & a.high.equals(b.high)


def choose(test: Expr, yes: Words, no: Words) -> Words:
    """One of two."""
    return Words(where(test, yes.low, no.low), where(test, yes.high, no.high))


def magnitude(a: Words) -> Words:
    """|a| of a signed one, which is unsigned."""
    return choose(a.high.bits(I32) < 0, negate(a), a)


def divide(a: Words, b: Words) -> tuple[Words, Words]:
    """The quotient and the remainder of unsigned ones: long division, a bit at a time."""
    if a.high.op == b.high.op == "const" and not a.high.value and not b.high.value:
        zero = const(0, U32)
        return Words(a.low / b.low, zero), Words(a.low % b.low, zero)
    quotient, rest = [const(0, U32)] * 2, words(0)
    for place in reversed(range(64)):
        number, bit = divmod(place, 32)
        over = rest.high >> 31  # the bit that the remainder has no room for: then it is not less
        rest = Words((rest.low << 1) | ((a[number] >> bit) & 1), (rest.high << 1) | (rest.low >> 31))
        fits = over.equals(1) | ~less(rest, b, is_signed=False)
        rest = choose(fits, subtract(rest, b), rest)
        quotient[number] = quotient[number] | (one_if(fits) << bit)
    return Words(*quotient), rest


def words_to_float(a: Words, *, is_signed: bool) -> Expr:
    """The nearest FLOAT32: of 32 bits from the first one on, the last of which stands for all below."""
    size = magnitude(a) if is_signed else a
    shifted, by = size, const(0, I32)
    for step in (16, 8, 4, 2, 1):
        has_room = shifted.high < 1 << 32 - step
        shifted = choose(has_room, shift_left(shifted, const(step, U32)), shifted)
        by = by + where(has_room, const(step, I32), 0)
    first = shifted.high | one_if(~shifted.low.equals(0))
    number = where(size.high.equals(0), size.low.to(F32), first.to(F32) * power_of_two(32 - by))
    return where(a.high.bits(I32) < 0, -number, number) if is_signed else number


def float_to_words(x: Expr, *, is_signed: bool) -> Words:
    """A float without its fraction; the nearest end of the range for one outside, and 0 for NaN."""
    size = absolute(x)
    high = (size * 2.0**-32).to(U32)  # which cuts off
    low = (floor(size) - high.to(typed(x)) * 2.0**32).to(U32)  # exact: a float has fewer bits than both
    found = Words(low, high)
    if is_signed:
        ends = choose(x < 0, words(-(2**63)), words(2**63 - 1))
        found = choose(size >= 2.0**63, ends, choose(x < 0, negate(found), found))
    else:
        found = choose(x >= 2.0**64, words(2**64 - 1), choose(x < 0, words(0), found))
    return choose(x.is_nan, words(0), found)


# Double-floats


def double(value: Number) -> Pair:
    """A constant as the two FLOAT32 nearest to it."""
    high = float(np.float32(value))
    return Pair(const(high, F32), const(float(value) - high if np.isfinite(high) else 0.0, F32))


def _guarded(first: Expr, found: Pair, *others: Expr) -> Pair:
    """A result, unless its first part is infinite or NaN, or a test fails: then nothing is missing of that part."""
    fine = (first.bits(U32) & 0x7F800000) < 0x7F800000
    for test in others:
        fine = fine & test
    return select(fine, found, Pair(first, const(0.0, F32)))


def double_sum(a: Pair, b: Pair) -> Pair:
    """a + b: the relative error is below 2^-44, whatever the signs."""
    total, rest = any_sum_of(a.high, b.high), any_sum_of(a.low, b.low)
    found = sum_of(total.high, total.low + rest.high)
    return _guarded(total.high, sum_of(found.high, found.low + rest.low))


def double_product(a: Pair, b: Pair) -> Pair:
    """a·b."""
    product = product_of(a.high, b.high)
    return _guarded(product.high, sum_of(product.high, product.low + (a.high * b.low + a.low * b.high)))


def negated(a: Pair) -> Pair:
    """-a."""
    return Pair(-a.high, -a.low)


def double_quotient(a: Pair, b: Pair) -> Pair:
    """a/b: a quotient of the first parts, corrected by what is left."""
    first = a.high / b.high
    rest = double_sum(a, negated(double_product(b, Pair(first, const(0.0, F32)))))
    return _guarded(first, sum_of(first, rest.high / b.high), ~first.equals(0))


def double_root(a: Pair) -> Pair:
    """√a: one step of Newton's."""
    first = sqrt(a.high)
    rest = double_sum(a, negated(product_of(first, first)))
    return _guarded(first, sum_of(first, rest.high / (first + first)), ~first.equals(0))


def rounded(a: Pair, way: Callable[[Expr], Expr]) -> Pair:
    """A double-float rounded in a way that floats are."""
    first = way(a.high)
    return sum_of(first, where(first.equals(a.high), way(a.low), 0.0))


def toward_zero(a: Pair) -> Pair:
    """Without its fraction."""
    return select(a.high < 0, rounded(a, ceil), rounded(a, floor))


def absolute_of(a: Pair) -> Pair:
    """|a|."""
    return select(a.high < 0, negated(a), Pair(absolute(a.high), a.low))


def double_less(a: Pair, b: Pair) -> Expr:
    """Whether a < b."""
    return (a.high < b.high) | (a.high.equals(b.high) & (a.low < b.low))


def words_to_double(a: Words, *, is_signed: bool) -> Pair:
    """The nearest double-float, by pieces of 16 bits, each of which is a FLOAT32."""
    first = a.high.bits(I32) >> 16 if is_signed else a.high >> 16
    pieces = [first, a.high & 0xFFFF, a.low >> 16, a.low & 0xFFFF]
    p, q, r, s = (piece.to(F32) * 2.0**power for piece, power in zip(pieces, (48, 32, 16, 0), strict=True))
    return double_sum(sum_of(p, q), sum_of(r, s))


def double_to_words(x: Pair, *, is_signed: bool) -> Words:
    """A double-float without its fraction; the nearest end of the range for one outside, and 0 for NaN."""
    size, is_negative = absolute_of(toward_zero(x)), x.high < 0
    found = add(float_to_words(size.high, is_signed=False), float_to_words(size.low, is_signed=True))
    is_over = ~double_less(size, double(2.0**63 if is_signed else 2.0**64))
    if is_signed:
        ends = choose(is_negative, words(-(2**63)), words(2**63 - 1))
        found = choose(is_over, ends, choose(is_negative, negate(found), found))
    else:
        found = choose(is_negative, words(0), choose(is_over, words(2**64 - 1), found))
    return choose(x.high.is_nan, words(0), found)


# FLOAT64 by its bits: conversions are exact, or rounded once


def float_to_bits(x: Expr) -> Words:
    """The FLOAT64 of a FLOAT32."""
    bits = x.bits(U32)
    size, sign = bits & 0x7FFFFFFF, bits & 0x80000000
    least = size.to(F32).bits(U32)  # of a denormal its multiple of 2^-149, which is a normal number
    shown = where(size < 1 << 23, least, size)
    high = (shown >> 3) + where(size < 1 << 23, const((896 - 149) << 20, U32), 896 << 20)
    high = where(size >= 0x7F800000, (size >> 3) + (1792 << 20), high)
    is_zero = size.equals(0)
    return Words(where(is_zero, const(0, U32), shown << 29), where(is_zero, const(0, U32), high) | sign)


def bits_to_float(a: Words) -> Expr:
    """The nearest FLOAT32 of a FLOAT64, ties to even."""
    sign, power = a.high & 0x80000000, (a.high >> 20) & 0x7FF
    first, rest = ((a.high & 0xFFFFF) << 3) | (a.low >> 29), a.low << 3
    half = const(1 << 31, U32)
    up = (half < rest) | (rest.equals(half) & (first & 1).equals(1))
    normal = (((power - 896) << 23) | first) + one_if(up)
    # Below 2^-126: what is shifted out is seen by its first bits, the last of which stands for all below.
    short = ((first | 1 << 23) << 6) | (rest >> 26) | one_if(~(rest & 0x3FFFFFF).equals(0))
    by = where(897 - power < 25, 897 - power, 25) + 6
    cut = short & ((const(1, U32) << by) - 1)
    kept, middle = short >> by, const(1, U32) << (by - 1)
    small = kept + one_if((middle < cut) | (cut.equals(middle) & (kept & 1).equals(1)))
    small = where(897 - power.bits(I32) > 25, const(0, U32), small)
    found = where(power < 897, small, where(power > 1150, const(0x7F800000, U32), normal))
    is_nan = power.equals(0x7FF) & ~((a.high & 0xFFFFF) | a.low).equals(0)
    return (where(is_nan, first | 0x7FC00000, found) | sign).bits(F32)


def words_to_bits(a: Words, *, is_signed: bool) -> Words:
    """The FLOAT64 nearest to a 64-bit integer, ties to even."""
    size = magnitude(a) if is_signed else a
    return _packed(a.high & 0x80000000 if is_signed else const(0, U32), size, const(0, I32))


def _packed(sign: Expr, size: Words, power: Expr) -> Words:
    """The FLOAT64 nearest to ±size·2^power, ties to even; the last bit of a size past 2^62 may stand for all below."""
    shifted, by = _normalised(size)
    exponent = power - by.bits(I32) + (63 + 1023)
    # A denormal is cut where its last bit is; past 63 places nothing is left but that there was something.
    cut = where(exponent < 1, where(exponent > -62, 1 - exponent, 63), const(0, I32)).bits(U32)
    shifted = _shifted_out(shifted, cut)
    kept, rest = shift_right(shifted, const(11, U32), is_signed=False), shifted.low & 0x7FF
    up = (const(0x400, U32) < rest) | (rest.equals(0x400) & (kept.low & 1).equals(1))
    whole = add(kept, Words(one_if(up), where(exponent < 1, const(0, I32), exponent - 1).bits(U32) << 20))
    found = choose(exponent > 2046, Words(const(0, U32), const(0x7FF00000, U32)), whole)
    found = choose((size.low | size.high).equals(0), words(0), found)
    return Words(found.low, found.high | sign)


def _normalised(a: Words) -> tuple[Words, Expr]:
    """Shifted to the left until the first bit is set, and by how much."""
    by = const(0, U32)
    for step in (32, 16, 8, 4, 2, 1):
        first = a.high if step == 32 else a.high >> 32 - step
        a = choose(first.equals(0), shift_left(a, const(step, U32)), a)
        by = by + where(first.equals(0), const(step, U32), 0)
    return a, by


def _shifted_out(a: Words, by: Expr) -> Words:
    """a·2^-by for an UINT32 below 64, the last bit standing for all that is cut off."""
    found = shift_right(a, by, is_signed=False)
    back = shift_left(found, by)
    return Words(found.low | one_if(~equal(back, a)), found.high)


def _taken_apart(a: Words) -> tuple[Words, Expr]:
    """The size of a FLOAT64 that is finite, a number below 2^53, and the power of two that it has, INT32."""
    power = ((a.high >> 20) & 0x7FF).bits(I32)
    size = Words(a.low, (a.high & 0xFFFFF) | where(power.equals(0), const(0, U32), 1 << 20))
    return size, where(power.equals(0), const(1, I32), power) - 1075


_QUIET = 0x7FF80000


def bits_product(a: Words, b: Words) -> Words:
    """a·b of FLOAT64 by their bits, rounded once."""
    sign = (a.high ^ b.high) & 0x80000000
    ends, sizes, powers = list[Expr](), list[Words](), const(0, I32)
    for x in (a, b):
        size, power = _taken_apart(x)
        size, by = _normalised(size)
        powers = powers + power - by.bits(I32)
        sizes.append(size)
        ends.append(x.high & 0x7FFFFFFF)
    (m, n), zero = sizes, const(0, U32)
    low, high = product_of_words(m.low, n.low), product_of_words(m.high, n.high)
    middle, other = product_of_words(m.low, n.high), product_of_words(m.high, n.low)
    first = add(add(Words(middle.low, zero), Words(other.low, zero)), Words(low.high, zero))
    whole = add(add(high, Words(first.high, zero)), add(Words(middle.high, zero), Words(other.high, zero)))
    whole = Words(whole.low | one_if(~(first.low | low.low).equals(0)), whole.high)
    found = _packed(sign, whole, powers + 64)
    is_end = [(end >= 0x7FF00000) for end in ends]
    has_zero = (m.low | m.high).equals(0) | (n.low | n.high).equals(0)
    is_nan = bits_are_nan(a) | bits_are_nan(b) | ((is_end[0] | is_end[1]) & has_zero)
    found = choose(is_end[0] | is_end[1], Words(zero, sign | 0x7FF00000), found)
    return choose(is_nan, Words(zero, const(_QUIET, U32)), found)


def bits_are_nan(a: Words) -> Expr:
    """Whether a FLOAT64 is none."""
    return less(Words(const(0, U32), const(0x7FF00000, U32)), Words(a.low, a.high & 0x7FFFFFFF), is_signed=False)


def bits_sum(a: Words, b: Words) -> Words:
    """a + b of FLOAT64 by their bits, rounded once."""
    sizes = [Words(x.low, x.high & 0x7FFFFFFF) for x in (a, b)]
    is_swapped = less(sizes[0], sizes[1], is_signed=False)
    x, y = choose(is_swapped, b, a), choose(is_swapped, a, b)
    (m, power), (n, lower) = _taken_apart(x), _taken_apart(y)
    m, n = shift_left(m, const(10, U32)), shift_left(n, const(10, U32))
    n = _shifted_out(n, where(power - lower < 63, power - lower, 63).bits(U32))
    has_one_sign = ((x.high ^ y.high) >> 31).equals(0)
    total = choose(has_one_sign, add(m, n), subtract(m, n))
    sign = where(has_one_sign | ~(total.low | total.high).equals(0), x.high & 0x80000000, const(0, U32))
    found = choose((x.high & 0x7FFFFFFF) >= 0x7FF00000, x, _packed(sign, total, power - 10))
    is_apart = equal(*sizes) & sizes[0].high.equals(0x7FF00000) & ~has_one_sign
    is_nan = bits_are_nan(a) | bits_are_nan(b) | is_apart
    return choose(is_nan, Words(const(0, U32), const(_QUIET, U32)), found)


def bits_to_words(a: Words, *, is_signed: bool) -> Words:
    """A FLOAT64 without its fraction; the nearest end of the range for one outside, and 0 for NaN."""
    power, is_negative = (a.high >> 20) & 0x7FF, a.high.bits(I32) < 0
    whole = Words(a.low, (a.high & 0xFFFFF) | 1 << 20)
    up = where(power < 1086, where(power < 1075, const(0, U32), power - 1075), 11)
    down = where(power < 1023, const(63, U32), where(power < 1075, 1075 - power, 0))
    found = choose(power < 1075, shift_right(whole, down, is_signed=False), shift_left(whole, up))
    if is_signed:
        ends = choose(is_negative, words(-(2**63)), words(2**63 - 1))
        found = choose(power >= 1023 + 63, ends, choose(is_negative, negate(found), found))
    else:
        found = choose(power >= 1023 + 64, words(2**64 - 1), found)
        found = choose(is_negative, words(0), found)
    is_nan = power.equals(0x7FF) & ~((a.high & 0xFFFFF) | a.low).equals(0)
    return choose(is_nan, words(0), found)


def double_of_bits(a: Words) -> Pair:
    """The double-float of a FLOAT64: of one outside of FLOAT32's range, that range's."""
    nearest = bits_to_float(a)
    power, sign = (a.high >> 20) & 0x7FF, a.high & 0x80000000
    first = (sign | ((power - 896) << 23) | ((a.high & 0xFFFFF) << 3) | (a.low >> 29)).bits(F32)
    unit = (where(power < 897 + 52, const(0, U32), power - 896 - 52) << 23).bits(F32)
    # 29 bits, of which a FLOAT32 has 24, the last one for all below: a tie stays one that is none.
    rest = ((((a.low >> 5) & 0xFFFFFF) | one_if(~(a.low & 31).equals(0))) << 5).to(F32) * unit
    found = sum_of(first, where(sign.equals(0), rest, -rest))
    return select((power > 896) & (power < 1151), found, Pair(nearest, const(0.0, F32)))


def bits_of_double(a: Pair) -> Words:
    """The FLOAT64 of a double-float."""
    first = float_to_bits(a.high)
    power = ((first.high >> 20) & 0x7FF).bits(I32)
    # Units of the last place of the first part's FLOAT64: up to 2^29 of them.
    units = absolute(a.low) * power_of_two((1075 - power) / 2) * power_of_two(1075 - power - (1075 - power) / 2)
    by = Words(rint(units).to(U32), const(0, U32))
    is_less = ((a.high.bits(U32) ^ a.low.bits(U32)) >> 31).equals(1)
    found = choose(is_less, subtract(first, by), add(first, by))
    is_whole = a.low.equals(0) | ((a.high.bits(U32) & 0x7FFFFFFF) >= 0x7F800000)
    return choose(is_whole, first, found)
