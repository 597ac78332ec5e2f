"""Weights of few bits, a 32-bit word at a time: unpacked, and multiplied with the numbers of a row."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.codegen import arithmetic_kernel as arithmetic


@triton.jit
def four(x):
    """The four of the last dimension of two, one tile each."""
    even, odd = tl.split(tl.reshape(x, (x.shape[0], 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def masked(bits, MASK: tl.constexpr, ONES: tl.constexpr):
    """Some bits, and others set: one instruction, of which the compiler makes two."""
    return tl.inline_asm_elementwise(
        "lop3.b32 $0, $1, $2, $3, 0xEA;", "=r,r,r,r", [bits, MASK, ONES], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def plainly_masked(bits, MASK: tl.constexpr, ONES: tl.constexpr):
    return (bits & MASK) | ONES


if triton.knobs.runtime.interpret:  # which has no assembly
    masked = plainly_masked


@triton.jit
def number(bits, zero, PLACE: tl.constexpr, WIDTH: tl.constexpr):
    """The number of so many bits at a place, less a zero point, in FLOAT32.

    A float of 2^(23 - PLACE) has its ones at that place: what it is more than that is the number.
    """
    whole = masked(bits, ((1 << WIDTH) - 1) << PLACE, (150 - PLACE) << 23).to(tl.float32, bitcast=True)
    return whole - (zero + 2.0 ** (23 - PLACE))


@triton.jit
def multiplied(total, weight, x):
    return arithmetic.fma(weight, tl.broadcast_to(x[:, None], total.shape), total)


@triton.jit
def add_nibbles(total, word, zero, a, b, c, d, e, f, g, h):
    """The products of the eight weights of a word, the low bits first, with as many numbers."""
    high = word >> 12
    total = multiplied(total, number(word, zero, 0, 4), a)
    total = multiplied(total, number(word, zero, 4, 4), b)
    total = multiplied(total, number(word, zero, 8, 4), c)
    total = multiplied(total, number(word, zero, 12, 4), d)
    total = multiplied(total, number(word, zero, 16, 4), e)
    total = multiplied(total, number(high, zero, 8, 4), f)
    total = multiplied(total, number(high, zero, 12, 4), g)
    return multiplied(total, number(high, zero, 16, 4), h)


@triton.jit
def add_bytes(total, word, zero, a, b, c, d):
    """The products of the four weights of a word."""
    high = word >> 16
    total = multiplied(total, number(word, zero, 0, 8), a)
    total = multiplied(total, number(word, zero, 8, 8), b)
    total = multiplied(total, number(high, zero, 0, 8), c)
    return multiplied(total, number(high, zero, 8, 8), d)
