"""Dot4: four int8 products to each 32-bit sum, by VNNI or SDOT, or by what an x86 without them has.

Factors are vectors of 32 bits, four bytes in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import vector_of

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Function, Value


_PAIRS = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}
"""An x86's instructions that add up two products of 16 bits, by sums."""
_BYTES = {16: "avx512.pmaddubs.w.512", 8: "avx2.pmadd.ub.sw", 4: "ssse3.pmadd.ub.sw.128"}
"""Those that add up two products of an unsigned byte and a signed one, to 16 bits."""
SIGNED_PAIR, UNSIGNED_PAIR = 128, 256
"""The most that two bytes of one sign may add up to, of a factor that is signed or is not, whatever the other one is:
255 · 128 and -128 · 256 fit 16 bits."""


def _as_bytes(f: Function, value: Value) -> Value:
    return f.bitcast(value, vector_of(4 * value.lanes, "i8"))


def _as_words(f: Function, value: Value) -> Value:
    return f.bitcast(value, vector_of(2 * value.lanes, "i16"))


def write_dot(f: Function, is_arm: bool, left: Value, right: Value, total: Value) -> Value:
    """Add the products of four bytes to each sum; an x86's left factor is unsigned."""
    if is_arm:
        return f.intrinsic("aarch64.neon.sdot.v4i32.v16i8", total, _as_bytes(f, right), _as_bytes(f, left))
    return f.intrinsic(f"x86.avx512.vpdpbusd.{32 * total.lanes}", total, left, right)


def write_pairs(f: Function, left: tuple[Value, Value], right: Value, total: Value, *, is_swapped: bool) -> Value:
    """The same for an x86 that adds up products of 16 bits by twos: of the first and third bytes, then the others.

    The left factor is 16 bits of both already; with `is_swapped` the right one is unsigned.
    """
    for one, other in zip(left, widened(f, right, is_signed=not is_swapped), strict=True):
        total += write_word_pairs(f, _as_words(f, one), _as_words(f, other))
    return total


def widened(f: Function, value: Value, *, is_signed: bool) -> tuple[Value, Value]:
    """The first and third bytes of each 32 bits as 16 bits, and the others."""
    found = _as_words(f, value)
    low = f.binary("ashr", found << 8, 8) if is_signed else found & 255
    high = f.binary("ashr" if is_signed else "lshr", found, 8)
    return f.bitcast(low, value.type), f.bitcast(high, value.type)


def write_small(f: Function, left: Value, right: Value, total: Value) -> Value:
    """The same for bytes of which no two neighbours' products add up to more than 16 bits; the left one is unsigned."""
    return total + write_word_pairs(f, write_byte_pairs(f, left, right), 1)


def write_byte_pairs(f: Function, left: Value, right: Value) -> Value:
    """The sums of two products of bytes each, in 16 bits; the left factor is unsigned."""
    octets, words = (_as_bytes(f, x) for x in (left, right)), vector_of(2 * left.lanes, "i16")
    return f.intrinsic(f"x86.{_BYTES[left.lanes]}", *octets, result=words)


def write_word_pairs(f: Function, left: Value, right: Value | int) -> Value:
    """The sums of two products of 16 bits each, in 32 bits."""
    lanes = left.lanes // 2
    return f.intrinsic(f"x86.{_PAIRS[lanes]}", left, f.value(right, left.type), result=vector_of(lanes, "i32"))
