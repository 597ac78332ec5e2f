"""Legalisation: maps and reduces for an engine that lacks types, in the types that every engine has.

It stands between lowering and an engine's emission. What it gives computes with FLOAT32, INT32, UINT32 and truths:

- a 64-bit integer is a pair of words, UINT32 low and high, and lies in memory as two views of words;
- a FLOAT64 lies in memory as its two words, and is moved and converted exactly by them; one that is computed with is a
  double-float, the unevaluated sum of two FLOAT32 (48 bits, FLOAT32's range);
- integers of 8 and 16 bits are computed with in 32 and wrapped, FLOAT16 in FLOAT32; in memory they are parts of words,
  cut out where they are read, and put together where they are written: by whole words where a row of the target has
  them, and else inserted into a word that other elements share (`Insertion`).

Integers and memory have the original's bits. The tree is the only description: an engine that has an instruction for a
part of it (a packed conversion, say) matches that part. Indices of elements are 32 bits wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from anydml.core.enums import DataType
from anydml.ir.expressions import (
    FOLDS,
    Expr,
    absolute,
    ceil,
    const,
    coordinate,
    floor,
    load,
    number_of,
    rint,
    sqrt,
    where,
)
from anydml.ir.numerics import expand
from anydml.ir.numerics.parts import Pair, any_sum_of, power_of_two, product_of, select, sum_of, to_half
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.ir.expressions import Number

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
F16, F64, I64, U64 = DataType.FLOAT16, DataType.FLOAT64, DataType.INT64, DataType.UINT64
WORD = 4
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Types:
    """The types that an engine has beside FLOAT32, INT32, UINT32 and truths."""

    int64: bool = False
    """INT64 and UINT64, in memory and to compute with."""
    float64: bool = False
    narrow: bool = False
    """Integers of 8 and 16 bits, and FLOAT16."""

    def has(self, type: DataType | None) -> bool:
        """Whether numbers of a type are left as they are."""
        if type in (None, F32, I32, U32):
            return True
        return self.int64 if type in (I64, U64) else self.float64 if type is F64 else self.narrow


class Words(NamedTuple):
    """A 64-bit integer: two of UINT32."""

    low: Expr
    high: Expr


class Double(NamedTuple):
    """A FLOAT64 by its bits, as it lies in memory and is moved; to be computed with it becomes a double-float."""

    words: Words
    known: Pair | None = None
    """The double-float, where that is at hand."""

    @property
    def pair(self) -> Pair:
        """The double-float."""
        return self.known or double_of_bits(self.words)


Value: TypeAlias = "Expr | Words | Pair | Double"
"""A number of the original in types that the engine has: a narrow one in 32 bits, FLOAT16 by its bits."""


# 64-bit integers


def words(value: Number) -> Words:
    """A constant."""
    number = int(value) % 2**64
    return Words(const(number % 2**32, U32), const(number >> 32, U32))


def _one(test: Expr) -> Expr:
    return where(test, const(1, U32), 0)


def add(a: Words, b: Words) -> Words:
    """a + b, wrapping."""
    low = a.low + b.low
    return Words(low, a.high + b.high + _one(low < a.low))


def subtract(a: Words, b: Words) -> Words:
    """a - b, wrapping."""
    return Words(a.low - b.low, a.high - b.high - _one(a.low < b.low))


def negate(a: Words) -> Words:
    """-a, wrapping."""
    return subtract(words(0), a)


def multiply(a: Words, b: Words) -> Words:
    """a·b, wrapping: the product of the low words by halves, of which none overflows."""
    (al, ah), (bl, bh) = (((x.low & 0xFFFF), x.low >> 16) for x in (a, b))
    cross, other = al * bh, ah * bl
    middle = ((al * bl) >> 16) + (cross & 0xFFFF) + (other & 0xFFFF)
    carried = ah * bh + (cross >> 16) + (other >> 16) + (middle >> 16)
    return Words(a.low * b.low, carried + a.low * b.high + a.high * b.low)


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
        quotient[number] = quotient[number] | (_one(fits) << bit)
    return Words(*quotient), rest


def words_to_float(a: Words, *, is_signed: bool) -> Expr:
    """The nearest FLOAT32: of 32 bits from the first one on, the last of which stands for all below."""
    size = magnitude(a) if is_signed else a
    shifted, by = size, const(0, I32)
    for step in (16, 8, 4, 2, 1):
        has_room = shifted.high < 1 << 32 - step
        shifted = choose(has_room, shift_left(shifted, const(step, U32)), shifted)
        by = by + where(has_room, const(step, I32), 0)
    first = shifted.high | _one(~shifted.low.equals(0))
    number = where(size.high.equals(0), size.low.to(F32), first.to(F32) * power_of_two(32 - by))
    return where(a.high.bits(I32) < 0, -number, number) if is_signed else number


def float_to_words(x: Expr, *, is_signed: bool) -> Words:
    """A float without its fraction; the nearest end of the range for one outside, and 0 for NaN."""
    size = absolute(x)
    high = (size * 2.0**-32).to(U32)  # which cuts off
    low = (floor(size) - high.to(_typed(x)) * 2.0**32).to(U32)  # exact: a float has fewer bits than both
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


def _negated(a: Pair) -> Pair:
    return Pair(-a.high, -a.low)


def double_quotient(a: Pair, b: Pair) -> Pair:
    """a/b: a quotient of the first parts, corrected by what is left."""
    first = a.high / b.high
    rest = double_sum(a, _negated(double_product(b, Pair(first, const(0.0, F32)))))
    return _guarded(first, sum_of(first, rest.high / b.high), ~first.equals(0))


def double_root(a: Pair) -> Pair:
    """√a: one step of Newton's."""
    first = sqrt(a.high)
    rest = double_sum(a, _negated(product_of(first, first)))
    return _guarded(first, sum_of(first, rest.high / (first + first)), ~first.equals(0))


def _rounded(a: Pair, way: Callable[[Expr], Expr]) -> Pair:
    first = way(a.high)
    return sum_of(first, where(first.equals(a.high), way(a.low), 0.0))


def _toward_zero(a: Pair) -> Pair:
    return select(a.high < 0, _rounded(a, ceil), _rounded(a, floor))


def _absolute(a: Pair) -> Pair:
    return select(a.high < 0, _negated(a), Pair(absolute(a.high), a.low))


def _double_less(a: Pair, b: Pair) -> Expr:
    return (a.high < b.high) | (a.high.equals(b.high) & (a.low < b.low))


def words_to_double(a: Words, *, is_signed: bool) -> Pair:
    """The nearest double-float, by pieces of 16 bits, each of which is a FLOAT32."""
    first = a.high.bits(I32) >> 16 if is_signed else a.high >> 16
    pieces = [first, a.high & 0xFFFF, a.low >> 16, a.low & 0xFFFF]
    p, q, r, s = (piece.to(F32) * 2.0**power for piece, power in zip(pieces, (48, 32, 16, 0), strict=True))
    return double_sum(sum_of(p, q), sum_of(r, s))


def double_to_words(x: Pair, *, is_signed: bool) -> Words:
    """A double-float without its fraction; the nearest end of the range for one outside, and 0 for NaN."""
    size, is_negative = _absolute(_toward_zero(x)), x.high < 0
    found = add(float_to_words(size.high, is_signed=False), float_to_words(size.low, is_signed=True))
    is_over = ~_double_less(size, double(2.0**63 if is_signed else 2.0**64))
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
    normal = (((power - 896) << 23) | first) + _one(up)
    # Below 2^-126: what is shifted out is seen by its first bits, the last of which stands for all below.
    short = ((first | 1 << 23) << 6) | (rest >> 26) | _one(~(rest & 0x3FFFFFF).equals(0))
    by = where(897 - power < 25, 897 - power, 25) + 6
    cut = short & ((const(1, U32) << by) - 1)
    kept, middle = short >> by, const(1, U32) << (by - 1)
    small = kept + _one((middle < cut) | (cut.equals(middle) & (kept & 1).equals(1)))
    small = where(897 - power.bits(I32) > 25, const(0, U32), small)
    found = where(power < 897, small, where(power > 1150, const(0x7F800000, U32), normal))
    is_nan = power.equals(0x7FF) & ~((a.high & 0xFFFFF) | a.low).equals(0)
    return (where(is_nan, first | 0x7FC00000, found) | sign).bits(F32)


def words_to_bits(a: Words, *, is_signed: bool) -> Words:
    """The FLOAT64 nearest to a 64-bit integer, ties to even."""
    size = magnitude(a) if is_signed else a
    shifted, by = size, const(0, U32)
    for step in (32, 16, 8, 4, 2, 1):
        has_room = shift_right(shifted, const(64 - step, U32), is_signed=False)
        is_free = (has_room.low | has_room.high).equals(0)
        shifted = choose(is_free, shift_left(shifted, const(step, U32)), shifted)
        by = by + where(is_free, const(step, U32), 0)
    kept, cut = shift_right(shifted, const(11, U32), is_signed=False), shifted.low & 0x7FF
    up = (const(0x400, U32) < cut) | (cut.equals(0x400) & (kept.low & 1).equals(1))
    whole = add(Words(kept.low, kept.high + ((1085 - by) << 20)), Words(_one(up), const(0, U32)))
    sign = a.high & 0x80000000 if is_signed else const(0, U32)
    is_zero = (size.low | size.high).equals(0)
    return Words(where(is_zero, const(0, U32), whole.low), where(is_zero, const(0, U32), whole.high) | sign)


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
    rest = ((((a.low >> 5) & 0xFFFFFF) | _one(~(a.low & 31).equals(0))) << 5).to(F32) * unit
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


# Folds of pairs: an engine's loop carries both, and the tree has a fold of two arguments for each part.


def combine(fold: Expr, a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """Two partial results of a fold as one, in the order of its arguments."""
    if fold.args[0].type is F32:
        x, y = Pair(*a), Pair(*b)
        if fold.op in ("fold_sum", "fold_product"):
            return (double_sum if fold.op == "fold_sum" else double_product)(x, y)
        test = _double_less(y, x) if fold.op == "fold_max" else _double_less(x, y)
        return select(test | x.high.is_nan, x, y)
    is_signed = fold.args[1].type is I32
    m, n = (Words(low, high.bits(U32)) for low, high in (a, b))
    if fold.op in ("fold_sum", "fold_product"):
        found = (add if fold.op == "fold_sum" else multiply)(m, n)
    else:
        test = less(n, m, is_signed=is_signed) if fold.op == "fold_max" else less(m, n, is_signed=is_signed)
        found = choose(test, m, n)
    return found.low, found.high.bits(I32 if is_signed else U32)


# Narrow types


def _wrapped(x: Expr, type: DataType) -> Expr:
    """A number in 32 bits as one of a narrow type, in 32 bits still."""
    rest = 32 - 8 * type.size_in_bytes
    if type.is_signed:
        return (x.bits(U32) << rest).bits(I32) >> rest
    return x.bits(U32) & (1 << 8 * type.size_in_bytes) - 1


def half_to_float(x: Expr) -> Expr:
    """The FLOAT32 of a FLOAT16's bits: its exponent is moved, and denormals are what is above a power of two."""
    size = (x & 0x7FFF) << 13
    normal = (size + where((x & 0x7FFF) < 0x7C00, const(112 << 23, U32), 224 << 23)).bits(F32)
    least = (size + (113 << 23)).bits(F32) - 2.0**-14
    number = where((x & 0x7C00).equals(0), least, normal)
    return (number.bits(U32) | ((x & 0x8000) << 16)).bits(F32)


def float_to_half(x: Expr) -> Expr:
    """The bits of the nearest FLOAT16, ties to even, in an UINT32."""
    bits = x.bits(U32)
    size = bits & 0x7FFFFFFF
    # Below 2^-14 an addition of 0.5 rounds to multiples of 2^-24; else half a unit is added to what is cut off.
    least = (size.bits(F32) + 0.5).bits(U32) - 0x3F000000
    normal = (size + 0xFFF + ((size >> 13) & 1) - (112 << 23)) >> 13
    number = where(size < 113 << 23, least, normal)
    number = where(size >= 0x477FF000, const(0x7C00, U32), number)
    number = where(size > 0x7F800000, ((size >> 13) & 0x3FF) | 0x7E00, number)
    return number | ((bits >> 16) & 0x8000)


# Trees


class _Tree:
    """Trees of a verb, rewritten; what they load is asked of `read`."""

    def __init__(self, types: Types, read: _Reader) -> None:
        self.types, self._read, self._made = types, read, dict[Expr, Value]()

    def of(self, root: Expr) -> Value:
        for node in walk(root):
            if node not in self._made:
                self._made[node] = self._change(node, [self._made[arg] for arg in node.args])
        return self._made[root]

    def _change(self, node: Expr, args: list[Value]) -> Value:
        if node.op in ("load", "fetch"):
            return self._read.element(node, [_index(arg) for arg in args])
        if node.op == "coordinate":
            place = self._read.place(int(node.value))
            return place.to(I64) if self.types.int64 else Words(place.bits(U32), const(0, U32))
        kind = node.args[0].type if node.args else node.type
        if node.op == "where":
            return self._where(args)
        if node.op == "cast":
            return self._cast(args[0], kind, node.type)
        if node.op == "bits" and not (self.types.has(kind) and self.types.has(node.type)):
            return self._bits(args[0], node, kind)
        if self.types.has(kind) and self.types.has(node.type):
            return Expr(node.op, node.type, tuple(arg for arg in args if isinstance(arg, Expr)), node.value)
        if node.op in ("const", "given"):
            return self._constant(node)
        if kind in (I64, U64):
            return self._of_words(node, [arg for arg in args if isinstance(arg, Words)], is_signed=kind is I64)
        if kind is F64:
            return self._of_doubles(node, [_pair(arg) for arg in args])
        plain = [arg for arg in args if isinstance(arg, Expr)]
        if kind is F16:
            return self._of_halves(node, plain)
        assert kind is not None  # noqa: S101 - for type checkers: truths are there
        return self._narrow(node, plain, kind)

    def _constant(self, node: Expr) -> Value:
        assert node.type is not None  # noqa: S101 - for type checkers: truths are there
        if node.type is F64:
            bits = words(int(np.array(node.value, np.float64).view(np.uint64)))
            own = Words(*(Expr(node.op, U32, (), part.value) for part in bits))
            return Double(own, double(node.value) if node.op == "const" else None)
        if node.type in (I64, U64):
            return Words(*(Expr(node.op, U32, (), part.value) for part in words(node.value)))
        number = number_of(node)
        if node.type is F16:
            return Expr(node.op, U32, (), int(number.view(np.uint16)))
        return Expr(node.op, _wide(node.type), (), int(number))

    def _where(self, args: list[Value]) -> Value:
        test, yes, no = args
        assert isinstance(test, Expr)  # noqa: S101 - for type checkers: a truth
        if isinstance(yes, Words) and isinstance(no, Words):
            return choose(test, yes, no)
        if isinstance(yes, Double) and isinstance(no, Double):
            return Double(choose(test, yes.words, no.words))
        if isinstance(yes, (Pair, Double)):
            return select(test, yes if isinstance(yes, Pair) else yes.pair, _pair(no))
        assert isinstance(yes, Expr) and isinstance(no, Expr)  # noqa: S101, PT018 - for type checkers: they are alike
        return where(test, yes, no)

    def _cast(self, x: Value, of: DataType | None, to: DataType | None) -> Value:
        assert of is not None and to is not None  # noqa: S101, PT018 - for type checkers: truths are chosen by
        if of is F16:
            x, of = _plain(x).to(F32) if self.types.narrow else half_to_float(_plain(x)), F32
        if isinstance(x, Pair):
            return self._of_double(x, to)
        if isinstance(x, Double):
            return self._of_bits(x, to)
        if isinstance(x, Words):
            return self._of_word_pair(x, to, is_signed=of is I64)
        if to in (I64, U64) and not self.types.int64:
            return float_to_words(x, is_signed=to is I64) if of.is_float else _split(x)
        if to is F64 and not self.types.float64:
            if of.is_float:
                return Double(float_to_bits(x), Pair(x, const(0.0, F32)))
            whole = _split(x)
            return Double(words_to_bits(whole, is_signed=of.is_signed), words_to_double(whole, is_signed=of.is_signed))
        if self.types.has(to):
            return x.to(to)
        if to is F16:
            if of is F64:
                high = x.to(F32)
                return float_to_half(to_half(Pair(high, (x - high.to(F64)).to(F32))))
            return float_to_half(x.to(F32))  # an integer past 2^24 is infinite
        if of.is_float:
            low, high_end = (float(end) for end in _ends(to))
            return where(x < low, const(low, of), where(x > high_end, const(high_end, of), x)).to(_wide(to))
        return _wrapped(x.to(U32), to)

    def _of_word_pair(self, x: Words, to: DataType, *, is_signed: bool) -> Value:
        if to in (I64, U64):
            return x
        if to is F64:
            if not self.types.float64:
                return Double(words_to_bits(x, is_signed=is_signed), words_to_double(x, is_signed=is_signed))
            return (x.high.bits(I32) if is_signed else x.high).to(F64) * 2.0**32 + x.low.to(F64)
        if to.is_float:
            return self._cast(words_to_float(x, is_signed=is_signed), F32, to)
        return self._cast(x.low, U32, to)

    def _of_double(self, x: Pair, to: DataType) -> Value:
        if to.is_float:
            return x if to is F64 else self._cast(to_half(x) if to is F16 else x.high, F32, to)
        if to in (I64, U64):
            found = double_to_words(x, is_signed=to is I64)
            return _joined(found, to) if self.types.int64 else found
        (low, high), whole = _ends(to), double_to_words(x, is_signed=True).low
        cut = where(_double_less(double(high), x), const(high, U32), whole)
        return self._cast(where(_double_less(x, double(low)), const(low % 2**32, U32), cut), U32, to)

    def _of_bits(self, x: Double, to: DataType) -> Value:
        if to is F64:
            return x
        if to is F16:
            return self._of_double(x.pair, to)
        if to.is_float:
            return bits_to_float(x.words)
        if to in (I64, U64):
            found = bits_to_words(x.words, is_signed=to is I64)
            return _joined(found, to) if self.types.int64 else found
        (low, high), whole = _ends(to), bits_to_words(x.words, is_signed=True)
        found = choose(less(words(high), whole, is_signed=True), words(high), whole)
        return self._cast(choose(less(whole, words(low), is_signed=True), words(low), found).low, U32, to)

    def _bits(self, x: Value, node: Expr, of: DataType | None) -> Value:
        to = node.type
        if isinstance(x, Double) and to in (I64, U64) and not self.types.int64:
            return x.words
        if isinstance(x, Words) and to is F64:
            return Double(x)
        if isinstance(x, Words) and to in (I64, U64):
            return x
        if isinstance(x, Expr) and of is not None and to is not None and to is not F64 and of is not F64:
            return x.bits(U32) & 0xFFFF if to is F16 else _wrapped(x, to)
        raise TypeError(f"the bits of a {of} as {to}, of an engine that lacks one of them")

    def _of_words(self, node: Expr, args: list[Words], *, is_signed: bool) -> Value:
        op, (a, *others) = node.op, args
        b = others[0] if others else a
        if op in _BY_WORD:
            return Words(*(Expr(op, U32, parts) for parts in zip(*args, strict=True)))
        if op in FOLDS:
            parts = a.low, a.high.bits(I32 if is_signed else U32)
            low, high = (Expr(op, part.type, parts, number) for number, part in enumerate(parts))
            return Words(low, high.bits(U32))
        if op in ("div", "rem"):
            quotient, rest = divide(*(map(magnitude, args) if is_signed else args))
            found, sign = (quotient, a.high ^ b.high) if op == "div" else (rest, a.high)
            return choose(sign.bits(I32) < 0, negate(found), found) if is_signed else found
        made: dict[str, Callable[[], Value]] = {
            "add": lambda: add(a, b),
            "sub": lambda: subtract(a, b),
            "mul": lambda: multiply(a, b),
            "neg": lambda: negate(a),
            "abs": lambda: magnitude(a) if is_signed else a,
            "shl": lambda: shift_left(a, b.low),
            "shr": lambda: shift_right(a, b.low, is_signed=is_signed),
            "lt": lambda: less(a, b, is_signed=is_signed),
            "le": lambda: ~less(b, a, is_signed=is_signed),
            "eq": lambda: equal(a, b),
        }
        return _made(made, node)

    def _of_doubles(self, node: Expr, args: list[Pair]) -> Value:
        op, a = node.op, args[0]
        b = args[1] if len(args) > 1 else a
        if op in FOLDS:
            return Pair(*(Expr(op, F32, tuple(a), number) for number in range(2)))
        made: dict[str, Callable[[], Value]] = {
            "add": lambda: double_sum(a, b),
            "sub": lambda: double_sum(a, _negated(b)),
            "mul": lambda: double_product(a, b),
            "div": lambda: double_quotient(a, b),
            "fma": lambda: double_sum(double_product(a, b), args[2]),
            "sqrt": lambda: double_root(a),
            "neg": lambda: _negated(a),
            "abs": lambda: _absolute(a),
            "floor": lambda: _rounded(a, floor),
            "ceil": lambda: _rounded(a, ceil),
            "trunc": lambda: _toward_zero(a),
            "lt": lambda: _double_less(a, b),
            "le": lambda: _double_less(a, b) | (a.high.equals(b.high) & a.low.equals(b.low)),
            "eq": lambda: a.high.equals(b.high) & a.low.equals(b.low),
        }
        return _made(made, node)

    def _of_halves(self, node: Expr, args: list[Expr]) -> Value:
        numbers = [half_to_float(arg) for arg in args]
        if node.op in FOLDS:
            return float_to_half(Expr(node.op, F32, (numbers[0],)))
        found = Expr(node.op, None if node.type is None else F32, tuple(numbers))
        return found if node.type is None else float_to_half(found)

    def _narrow(self, node: Expr, args: list[Expr], kind: DataType) -> Value:
        if node.type is None:
            return Expr(node.op, None, tuple(args))
        return _wrapped(Expr(node.op, _wide(kind), tuple(args)), kind)


def _made(made: dict[str, Callable[[], Value]], node: Expr) -> Value:
    if node.op not in made:
        raise TypeError(f"{node.op} of a type that the engine lacks: {node.type}")
    return made[node.op]()


_BY_WORD = ("and", "or", "xor", "not")


def _typed(x: Expr) -> DataType:
    assert x.type is not None  # noqa: S101 - for type checkers: a number
    return x.type


def _pair(x: Value) -> Pair:
    """A FLOAT64 as it is computed with."""
    if isinstance(x, Double):
        return x.pair
    assert isinstance(x, Pair)  # noqa: S101 - for type checkers: a number of the type
    return x


def _plain(x: Value) -> Expr:
    assert isinstance(x, Expr)  # noqa: S101 - for type checkers: a type that takes no pair
    return x


def _wide(type: DataType) -> DataType:
    """The type of 32 bits that a narrow integer is computed in."""
    return I32 if type.is_signed else U32


def _ends(type: DataType) -> tuple[int, int]:
    bits = 8 * type.size_in_bytes
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if type.is_signed else (0, 2**bits - 1)


def _split(x: Expr) -> Words:
    """An integer that the engine has, as words."""
    if _typed(x).size_in_bytes > WORD:
        return Words(x.to(U32), (x >> 32).to(U32))
    x = x.to(_wide(_typed(x)))
    return Words(x.bits(U32), (x >> 31).bits(U32) if x.type is I32 else const(0, U32))


def _joined(x: Words, type: DataType) -> Expr:
    return ((x.high.to(U64) << 32) | x.low.to(U64)).bits(type)


def _index(x: Value) -> Expr:
    """An index that is computed, in 32 bits where it is a pair."""
    return x.low.bits(I32) if isinstance(x, Words) else _plain(x)


# Verbs


class Insertion(NamedTuple):
    """A part of a word that is written where other elements have the rest: at once, or not at all (atomically)."""

    target: View
    """All words of the tensor, one after the other."""
    word: Expr
    """Its number, INT32."""
    mask: Expr
    """Its bits that are written, UINT32."""
    value: Expr
    """What they become; the others are 0."""


@dataclass(frozen=True, slots=True)
class Legal:
    """A verb in types that an engine has."""

    sources: tuple[View, ...]
    sizes: tuple[int, ...]
    """Of the walk."""
    writes: tuple[Write, ...]
    insertions: tuple[Insertion, ...]

    def verb(self, of: Map | Reduce) -> Map | Reduce:
        """The original, changed: of one that inserts nothing."""
        if self.insertions:
            raise TypeError("elements that share words are no view's")
        first, *also = self.writes
        return replace(of, sources=self.sources, target=first.target, value=first.value, also=tuple(also))


def legalise(verb: Map | Reduce, types: Types, *, by_words: bool = True) -> Legal:
    """A map or a reduce in the types that an engine has.

    A map whose target has whole words of narrow elements in each row walks along words, and computes all elements of
    one; without `by_words` it walks as it did. Narrow sources are fetched from words, unless they lie as such a target
    does. Folds of pairs have two arguments, and `combine` says how an engine's loop goes on with them.
    """
    pairs = list(zip(verb.targets, verb.values, strict=True))
    parts = 1
    if isinstance(verb, Map) and by_words:
        parts = next((_count(target, types) for target, _ in pairs if _has_words(target, types)), 1)
        parts = parts if all(target.sizes == verb.sizes for target, _ in pairs) else 1
    reader = _Reader(verb, types)
    writes: list[Write] = []
    insertions: list[Insertion] = []
    packed: dict[int, Expr] = {}
    for part in range(parts):
        reader.part, reader.parts = part, parts
        tree = _Tree(types, reader)
        for number, (target, value) in enumerate(pairs):
            found = tree.of(expand(value))
            per = _count(target, types)
            if per > 1 and per == parts and _has_words(target, types):
                piece = _bits_of(found, target.data_type) << 8 * target.data_type.size_in_bytes * part
                packed[number] = packed[number] | piece if number in packed else piece
                if part == parts - 1:
                    writes.append(Write(_by_words(target, per), packed[number]))
            elif per > 1:
                insertions.append(_insertion(reader, target, found, per))
            elif isinstance(found, (Words, Double, Pair)):
                writes += map(Write, _word_views(reader.portion(target)), _in_memory(found))
            else:
                writes.append(Write(reader.portion(target), _plain(found)))
    sizes = verb.sizes if parts == 1 else (*verb.sizes[:-1], verb.sizes[-1] // parts)
    return Legal(tuple(reader.views), sizes, tuple(writes), tuple(insertions))


def _in_memory(x: Words | Double | Pair) -> Words:
    """The words of what is 64 bits wide."""
    return x if isinstance(x, Words) else x.words if isinstance(x, Double) else bits_of_double(x)


def _count(view: View, types: Types) -> int:
    """The elements of a word: 1 for types that are whole ones."""
    return 1 if types.has(view.data_type) else max(WORD // view.data_type.size_in_bytes, 1)


def _has_words(view: View, types: Types) -> bool:
    """Whether each row is whole words of narrow elements."""
    per = _count(view, types)
    if per == 1 or not view.sizes or view.strides[-1] != 1:
        return False
    return not any(number % per for number in (view.sizes[-1], view.offset, *view.strides[:-1]))


def _by_words(view: View, per: int) -> View:
    sizes, strides = (*view.sizes[:-1], view.sizes[-1] // per), (*(s // per for s in view.strides[:-1]), 1)
    return View(view.tensor, U32, sizes, strides, view.offset // per)


def _word_views(view: View) -> tuple[View, View]:
    """The low words and the high ones of 64-bit elements."""
    strides = tuple(2 * stride for stride in view.strides)
    low, high = (View(view.tensor, U32, view.sizes, strides, 2 * view.offset + k) for k in range(2))
    return low, high


def _flat(view: View, per: int) -> View:
    """All words up to a view's last element."""
    last = view.offset + sum(max(stride, 0) * (size - 1) for size, stride in zip(view.sizes, view.strides, strict=True))
    return View(view.tensor, U32, (last // per + 1,), (1,))


def _bits_of(x: Value, type: DataType) -> Expr:
    """A narrow element's bits, the lowest of a word."""
    return _plain(x).bits(U32) & (1 << 8 * type.size_in_bytes) - 1


def _insertion(reader: _Reader, target: View, found: Value, per: int) -> Insertion:
    bits = 8 * target.data_type.size_in_bytes
    index = reader.index(target)
    by = (index.bits(U32) & per - 1) * bits
    mask = const(2**bits - 1, U32) << by
    word = index.bits(U32) >> per.bit_length() - 1
    return Insertion(_flat(target, per), word.bits(I32), mask, _bits_of(found, target.data_type) << by)


class _Reader:
    """What trees load and fetch, as views of words: the sources of the new verb."""

    def __init__(self, verb: Map | Reduce, types: Types) -> None:
        self.sources, self.types, self.views = verb.sources, types, list[View]()
        self.last = len(verb.sizes) - 1
        self.part, self.parts = 0, 1
        """Of a walk along words, the element of each that is read."""

    def _slot(self, view: View) -> int:
        if view not in self.views:
            self.views.append(view)
        return self.views.index(view)

    def place(self, dimension: int) -> Expr:
        """The index in a dimension of the original walk, INT32."""
        found = coordinate(dimension).to(I32)
        return found * self.parts + self.part if self.parts > 1 and dimension == self.last else found

    def portion(self, view: View) -> View:
        """The elements that this part of a word is computed of, or is written to."""
        if self.parts == 1:
            return view
        rank = len(view.sizes)
        first, steps = (*(0,) * (rank - 1), self.part), (*(1,) * (rank - 1), self.parts)
        return view.window(first, steps, (*view.sizes[:-1], view.sizes[-1] // self.parts))

    def index(self, view: View, at: Sequence[Expr] | None = None) -> Expr:
        """The number of an element among its tensor's, INT32."""
        total = const(view.offset, I32)
        for k, stride in enumerate(view.strides):
            if stride:
                total = total + (self.place(k) if at is None else at[k].to(I32)) * stride
        return total

    def element(self, node: Expr, indices: list[Expr]) -> Value:
        """What a load or a fetch gives."""
        view = self.sources[int(node.value)]
        if view.data_type is not node.type:  # bits that are moved
            view = replace(view, data_type=_typed(node))
        per = _count(view, self.types)
        if per > 1:
            return self._cut_out(view, per, indices if node.op == "fetch" else None)
        whole = view if node.op == "fetch" else self.portion(view)
        views = (whole,) if self.types.has(view.data_type) else _word_views(whole)
        found = [Expr(node.op, one.data_type, tuple(indices), self._slot(one)) for one in views]
        if len(found) == 1:
            return found[0]
        return Double(Words(*found)) if view.data_type is F64 else Words(*found)

    def _cut_out(self, view: View, per: int, at: list[Expr] | None) -> Expr:
        bits = 8 * view.data_type.size_in_bytes
        if at is None and per == self.parts and _has_words(view, self.types):
            word = load(self._slot(_by_words(view, per)), U32) >> bits * self.part
        else:
            index = self.index(view, at).bits(U32)
            place = (index >> per.bit_length() - 1).bits(I32)
            word = Expr("fetch", U32, (place,), self._slot(_flat(view, per))) >> (index & per - 1) * bits
        return word & (1 << bits) - 1 if view.data_type is F16 else _wrapped(word, view.data_type)
