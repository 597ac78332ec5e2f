"""Int4 `mma`: a warp multiplies 16 columns of weights by 16 terms with 16 terms by 8 rows, in inline PTX."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def halves(word, zero, zero_below):
    """The weights of a word less a zero point, exactly: four pairs of FLOAT16.

    1024 has its ones in the last bit of a FLOAT16, so that bits set there are the number; those 4 places above are 16
    times as much. `zero` is 1024 more than the zero point, twice, and `zero_below` 64 more than it, negated.
    """
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 high, a, b, c, d, part;
        mov.b32 part, 0x2C002C00;
        shr.u32 high, $4, 8;
        lop3.b32 a, $4, 0x000F000F, 0x64006400, 0xEA;
        lop3.b32 b, $4, 0x00F000F0, 0x64006400, 0xEA;
        lop3.b32 c, high, 0x000F000F, 0x64006400, 0xEA;
        lop3.b32 d, high, 0x00F000F0, 0x64006400, 0xEA;
        sub.rn.f16x2 $0, a, $5;
        fma.rn.f16x2 $1, b, part, $6;
        sub.rn.f16x2 $2, c, $5;
        fma.rn.f16x2 $3, d, part, $6;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r",
        [word, zero, zero_below],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def below(zero):
    """64 more than a zero point, negated, of 1024 more than it: a pair of FLOAT16."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 all; mov.b32 all, 0x63806380; sub.rn.f16x2 $0, all, $1; }",
        "=r,r",
        [zero],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def wide_halves(word, zero):
    """The same of bfloat16, which has FLOAT32's exponents: `zero` is 128 more than the zero point, twice."""
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 one, two, three, a, b, c, d;
        shr.u32 one, $4, 4;
        shr.u32 two, $4, 8;
        shr.u32 three, $4, 12;
        lop3.b32 a, $4, 0x000F000F, 0x43004300, 0xEA;
        lop3.b32 b, one, 0x000F000F, 0x43004300, 0xEA;
        lop3.b32 c, two, 0x000F000F, 0x43004300, 0xEA;
        lop3.b32 d, three, 0x000F000F, 0x43004300, 0xEA;
        sub.rn.bf16x2 $0, a, $5;
        sub.rn.bf16x2 $1, b, $5;
        sub.rn.bf16x2 $2, c, $5;
        sub.rn.bf16x2 $3, d, $5;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r",
        [word, zero],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def product(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1, KIND: tl.constexpr):
    """Sums of products of a warp, added to others: of columns g and g + 8, with the rows 2t and 2t + 1."""
    if KIND == tl.float16:
        return tl.inline_asm_elementwise(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9},"
            " {$10, $11, $12, $13};",
            "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
            [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3],
            dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
            is_pure=False,
            pack=1,
        )
    else:
        return tl.inline_asm_elementwise(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9},"
            " {$10, $11, $12, $13};",
            "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
            [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3],
            dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
            is_pure=False,
            pack=1,
        )


@triton.jit
def four(place):
    """Four words that lie side by side, at a multiple of 16 bytes, read at once."""
    return tl.inline_asm_elementwise(
        "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];",
        "=r,=r,=r,=r,l",
        [place.to(tl.int64)],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def two(place):
    """Two words, at a multiple of 8 bytes."""
    return tl.inline_asm_elementwise(
        "ld.global.v2.b32 {$0, $1}, [$2];",
        "=r,=r,l",
        [place.to(tl.int64)],
        dtype=(tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def turned(a, b, c, d, within):
    """Four words of each of four neighbours, of which each then has those of one place."""
    return tl.inline_asm_elementwise(
        """
        {
        .reg .pred odd, high;
        .reg .b32 bit, a, b, c, d, x, y;
        and.b32 bit, $8, 1;
        setp.ne.b32 odd, bit, 0;
        and.b32 bit, $8, 2;
        setp.ne.b32 high, bit, 0;
        selp.b32 x, $4, $5, odd;
        selp.b32 y, $6, $7, odd;
        shfl.sync.bfly.b32 x, x, 1, 0x1f, 0xffffffff;
        shfl.sync.bfly.b32 y, y, 1, 0x1f, 0xffffffff;
        selp.b32 a, x, $4, odd;
        selp.b32 b, $5, x, odd;
        selp.b32 c, y, $6, odd;
        selp.b32 d, $7, y, odd;
        selp.b32 x, a, c, high;
        selp.b32 y, b, d, high;
        shfl.sync.bfly.b32 x, x, 2, 0x1f, 0xffffffff;
        shfl.sync.bfly.b32 y, y, 2, 0x1f, 0xffffffff;
        selp.b32 $0, x, a, high;
        selp.b32 $2, c, x, high;
        selp.b32 $1, y, b, high;
        selp.b32 $3, d, y, high;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r,r,r",
        [a, b, c, d, within],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


# Rows


@triton.jit
def paired(word, other, SELECTOR: tl.constexpr):
    """A half of each of two words."""
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", [word, other, SELECTOR], dtype=tl.int32, is_pure=False, pack=1
    )


# The same without PTX, for Triton's interpreter.


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
def plain_halves(word, zero, zero_below):
    return _pairs(word, -_number(zero_below + tl.zeros_like(word), tl.float16) - 64, False)


@triton.jit
def plain_below(zero):
    less = 960.0 - _number(zero, tl.float16)
    bits = less.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return bits | (bits << 16)


@triton.jit
def plain_wide_halves(word, zero):
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
def plain_product(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1, KIND: tl.constexpr):
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
def plain_four(place):
    words = place.to(tl.pointer_type(tl.int32))
    return tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3)


@triton.jit
def plain_two(place):
    words = place.to(tl.pointer_type(tl.int32))
    return tl.load(words), tl.load(words + 1)


@triton.jit
def plain_turned(a, b, c, d, within):
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (a.shape[0] // 4, 4, 4))
    even, odd = tl.split(tl.reshape(tl.permute(words, (0, 2, 1)), (a.shape[0], 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def plain_paired(word, other, SELECTOR: tl.constexpr):
    if SELECTOR == 0x5410:
        return (word & 0xFFFF) | (other << 16)
    else:
        return ((word >> 16) & 0xFFFF) | (other & -65536)


if triton.knobs.runtime.interpret:
    halves, below, wide_halves, product = plain_halves, plain_below, plain_wide_halves, plain_product
    four, two, turned, paired = plain_four, plain_two, plain_turned, plain_paired

LOW, HIGH = tl.constexpr(0x5410), tl.constexpr(0x7632)


@triton.jit
def pairs_of_halves(a, b, c, d):
    """Eight FLOAT16 as pairs of which one is four places after the other."""
    return paired(a, c, LOW), paired(a, c, HIGH), paired(b, d, LOW), paired(b, d, HIGH)


@triton.jit
def cut(bits):
    """A FLOAT32 as the first 8 of its digits, the next 8, and the rest; of an infinity nothing is left."""
    high = (bits & -65536).to(tl.float32, bitcast=True)
    x = bits.to(tl.float32, bitcast=True)
    rest = tl.where(x == high, 0.0, x - high)
    middle = rest.to(tl.int32, bitcast=True) & -65536
    return middle, (rest - middle.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True)


@triton.jit
def pairs_of_singles(a, b, c, d, e, f, g, h):
    """Eight FLOAT32 as three bfloat16 each, the last digits' first, in pairs as above."""
    a1, a2 = cut(a)
    b1, b2 = cut(b)
    c1, c2 = cut(c)
    d1, d2 = cut(d)
    e1, e2 = cut(e)
    f1, f2 = cut(f)
    g1, g2 = cut(g)
    h1, h2 = cut(h)
    return (
        paired(a2, e2, HIGH), paired(b2, f2, HIGH), paired(c2, g2, HIGH), paired(d2, h2, HIGH),
        paired(a1, e1, HIGH), paired(b1, f1, HIGH), paired(c1, g1, HIGH), paired(d1, h1, HIGH),
        paired(a, e, HIGH), paired(b, f, HIGH), paired(c, g, HIGH), paired(d, h, HIGH),
    )  # fmt: skip


@triton.jit
def _added(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def together(a, b, c, d):
    """The sums of each over warps, by lane."""
    SIZES: tl.constexpr = (a.shape[0] // 32, 32)
    four = tl.reshape(a, SIZES), tl.reshape(b, SIZES), tl.reshape(c, SIZES), tl.reshape(d, SIZES)
    return tl.reduce(four, 0, _added)
