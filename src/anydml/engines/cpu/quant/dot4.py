"""Dot4: four int8 products to each 32-bit sum, by VNNI or SDOT, or by what an x86 without them has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Function


FOUR = 4
"""Steps of a dot instruction."""
_PAIRS = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}
"""An x86's instructions that add up two products of 16 bits, by sums."""
_BYTES = {16: "avx512.pmaddubs.w.512", 8: "avx2.pmadd.ub.sw", 4: "ssse3.pmadd.ub.sw.128"}
"""Those that add up two products of an unsigned byte and a signed one, to 16 bits."""
SIGNED_PAIR, UNSIGNED_PAIR = 128, 256
"""The most that two bytes of one sign may add up to, of a factor that is signed or is not, whatever the other one is:
255 · 128 and -128 · 256 fit 16 bits."""


def write_dot(text: Function, lanes: int, is_arm: bool, left: str, right: str, total: str) -> str:
    """Add the products of four bytes to each sum; the factors are vectors of 32 bits, an x86's left one unsigned."""
    vector, octets = f"<{lanes} x i32>", f"<{FOUR * lanes} x i8>"
    if is_arm:
        name = "@llvm.aarch64.neon.sdot.v4i32.v16i8"
        text.declared[f"declare {vector} {name}({vector}, {octets}, {octets})"] = None
        a, b = (text.new(f"bitcast {vector} {x} to {octets}") for x in (right, left))
        return text.new(f"call {vector} {name}({vector} {total}, {octets} {a}, {octets} {b})")
    name = f"@llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    text.declared[f"declare {vector} {name}({vector}, {vector}, {vector})"] = None
    return text.new(f"call {vector} {name}({vector} {total}, {vector} {left}, {vector} {right})")


def write_pairs(text: Function, lanes: int, left: tuple[str, str], right: str, total: str, *, is_turned: bool) -> str:
    """The same for an x86 that adds up products of 16 bits by twos: of the first and third bytes, then the others.

    The left factor is 16 bits of both already; with `is_turned` the right one is unsigned.
    """
    vector, words = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    name = f"@llvm.x86.{_PAIRS[lanes]}"
    text.declared[f"declare {vector} {name}({words}, {words})"] = None
    for one, other in zip(left, widened(text, lanes, right, is_signed=not is_turned), strict=True):
        factors = (text.new(f"bitcast {vector} {x} to {words}") for x in (one, other))
        given = ", ".join(f"{words} {x}" for x in factors)
        total = text.new(f"add {vector} {total}, {text.new(f'call {vector} {name}({given})')}")
    return total


def widened(text: Function, lanes: int, value: str, *, is_signed: bool) -> tuple[str, str]:
    """The first and third bytes of each 32 bits as 16 bits, and the others."""
    vector, words, eight = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", "splat (i16 8)"
    found = text.new(f"bitcast {vector} {value} to {words}")
    if is_signed:
        low = text.new(f"ashr {words} {text.new(f'shl {words} {found}, {eight}')}, {eight}")
    else:
        low = text.new(f"and {words} {found}, splat (i16 255)")
    high = text.new(f"{'ashr' if is_signed else 'lshr'} {words} {found}, {eight}")
    first, second = (text.new(f"bitcast {words} {x} to {vector}") for x in (low, high))
    return first, second


def write_small(text: Function, lanes: int, left: str, right: str, total: str) -> str:
    """The same for bytes of which no two neighbours' products add up to more than 16 bits; the left one is unsigned."""
    vector = f"<{lanes} x i32>"
    four = write_word_pairs(text, lanes, write_byte_pairs(text, lanes, left, right), "splat (i16 1)")
    return text.new(f"add {vector} {total}, {four}")


def write_byte_pairs(text: Function, lanes: int, left: str, right: str) -> str:
    """The sums of two products of bytes each, in 16 bits; the factors are vectors of 32 bits, the left one unsigned."""
    vector, words, octets = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", f"<{FOUR * lanes} x i8>"
    name = f"@llvm.x86.{_BYTES[lanes]}"
    text.declared[f"declare {words} {name}({octets}, {octets})"] = None
    a, b = (text.new(f"bitcast {vector} {x} to {octets}") for x in (left, right))
    return text.new(f"call {words} {name}({octets} {a}, {octets} {b})")


def write_word_pairs(text: Function, lanes: int, left: str, right: str) -> str:
    """The sums of two products of 16 bits each, in 32 bits."""
    vector, words = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    pairs = f"@llvm.x86.{_PAIRS[lanes]}"
    text.declared[f"declare {vector} {pairs}({words}, {words})"] = None
    return text.new(f"call {vector} {pairs}({words} {left}, {words} {right})")
