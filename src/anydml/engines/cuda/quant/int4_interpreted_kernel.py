"""What `int4_mma_kernel` has in PTX, without it: for Triton's interpreter."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _number(bits, KIND: tl.constexpr):
    """The FLOAT16 or bfloat16 of the low 16 bits, as FLOAT32."""
    if KIND == tl.float16:
        return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        return (bits << 16).to(tl.float32, bitcast=True)


@triton.jit
def _pair(low, high, zero, WIDE: tl.constexpr):
    """Two small whole numbers less a zero point as a pair of FLOAT16, or of bfloat16."""
    below = (low & 15).to(tl.float32) - zero
    above = (high & 15).to(tl.float32) - zero
    if WIDE:
        return ((below.to(tl.int32, bitcast=True) >> 16) & 0xFFFF) | (above.to(tl.int32, bitcast=True) & -65536)
    else:
        first = below.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return first | (above.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def _pairs(word, less, WIDE: tl.constexpr):
    return (
        _pair(word, word >> 16, less, WIDE),
        _pair(word >> 4, word >> 20, less, WIDE),
        _pair(word >> 8, word >> 24, less, WIDE),
        _pair(word >> 12, word >> 28, less, WIDE),
    )


@triton.jit
def halves(word, zero, zero_below):
    return _pairs(word, -_number(zero_below + tl.zeros_like(word), tl.float16) - 64, False)


@triton.jit
def below(zero):
    less = 960.0 - _number(zero, tl.float16)
    bits = less.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return bits | (bits << 16)


@triton.jit
def wide_halves(word, zero):
    return _pairs(word, _number(zero + tl.zeros_like(word), tl.bfloat16) - 128, True)


@triton.jit
def _sums(a, b, KIND: tl.constexpr):
    """By warp, column and row, the sums over four neighbours of products of pairs."""
    WARPS: tl.constexpr = a.shape[0] // 32
    left = tl.reshape(a, (WARPS, 8, 1, 4))
    right = tl.reshape(b, (WARPS, 1, 8, 4))
    low = tl.sum(_number(left, KIND) * _number(right, KIND), 3)
    return low + tl.sum(_number(left >> 16, KIND) * _number(right >> 16, KIND), 3)


@triton.jit
def product(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1, KIND: tl.constexpr):
    WARPS: tl.constexpr = a0.shape[0] // 32
    above = tl.reshape(_sums(a0, b0, KIND) + _sums(a2, b1, KIND), (WARPS, 8, 4, 2))
    below = tl.reshape(_sums(a1, b0, KIND) + _sums(a3, b1, KIND), (WARPS, 8, 4, 2))
    first, second = tl.split(above)
    third, fourth = tl.split(below)
    return (
        c0 + tl.reshape(first, c0.shape),
        c1 + tl.reshape(second, c0.shape),
        c2 + tl.reshape(third, c0.shape),
        c3 + tl.reshape(fourth, c0.shape),
    )


@triton.jit
def four(place):
    words = place.to(tl.pointer_type(tl.int32))
    return tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3)


@triton.jit
def two(place):
    words = place.to(tl.pointer_type(tl.int32))
    return tl.load(words), tl.load(words + 1)


@triton.jit
def turned(a, b, c, d, within):
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (a.shape[0] // 4, 4, 4))
    even, odd = tl.split(tl.reshape(tl.permute(words, (0, 2, 1)), (a.shape[0], 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def paired(word, other, SELECTOR: tl.constexpr):
    if SELECTOR == 0x5410:
        return (word & 0xFFFF) | (other << 16)
    else:
        return ((word >> 16) & 0xFFFF) | (other & -65536)
