"""Int4 `mma`: a warp multiplies 16 columns of weights by 16 terms with 16 terms by 8 rows, in inline PTX."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def halves(word, zero, zero_below):
    """The weights of a word less zero points, exactly: four pairs of FLOAT16, by turns of two columns.

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
def wide_halves(word, zero, other):
    """The same of bfloat16, which has FLOAT32's exponents: 128 more than the zero points, twice."""
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
        sub.rn.bf16x2 $1, b, $6;
        sub.rn.bf16x2 $2, c, $5;
        sub.rn.bf16x2 $3, d, $6;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r",
        [word, zero, other],
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
def four_if(place, there):
    """Four words of weights or scales, each read once; 0 where they are not there.

    No `ld.global.nc`, which the assembler moves behind the wait for the kernel before.
    """
    return tl.inline_asm_elementwise(
        """
        {
        .reg .pred there;
        setp.ne.b32 there, $5, 0;
        mov.b32 $0, 0;
        mov.b32 $1, 0;
        mov.b32 $2, 0;
        mov.b32 $3, 0;
        @there ld.global.L1::no_allocate.L2::256B.v4.b32 {$0, $1, $2, $3}, [$4];
        }
        """,
        "=&r,=&r,=&r,=&r,l,r",
        [place.to(tl.int64), there.to(tl.int32)],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def two_if(place, there):
    """Two, at a multiple of 8 bytes."""
    return tl.inline_asm_elementwise(
        """
        {
        .reg .pred there;
        setp.ne.b32 there, $3, 0;
        mov.b32 $0, 0;
        mov.b32 $1, 0;
        @there ld.global.L1::no_allocate.v2.b32 {$0, $1}, [$2];
        }
        """,
        "=&r,=&r,l,r",
        [place.to(tl.int64), there.to(tl.int32)],
        dtype=(tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )


@triton.jit
def one_if(place, there):
    """One."""
    return tl.inline_asm_elementwise(
        """
        {
        .reg .pred there;
        setp.ne.b32 there, $2, 0;
        mov.b32 $0, 0;
        @there ld.global.L1::no_allocate.b32 $0, [$1];
        }
        """,
        "=&r,l,r",
        [place.to(tl.int64), there.to(tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def four_apart(place):
    """Four words, at a multiple of an element's bytes."""
    if place.dtype.element_ty.primitive_bitwidth == 32:
        words = place.to(tl.pointer_type(tl.int32))
        return tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3)
    else:
        halves = place.to(tl.pointer_type(tl.int16))
        return _word_at(halves), _word_at(halves + 2), _word_at(halves + 4), _word_at(halves + 6)


@triton.jit
def _word_at(halves):
    return (tl.load(halves).to(tl.int32) & 0xFFFF) | (tl.load(halves + 1).to(tl.int32) << 16)


@triton.jit
def paired(word, other):
    """The high half of each of two words."""
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, 0x7632;", "=r,r,r", [word, other], dtype=tl.int32, is_pure=False, pack=1
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
def _pairs(word, less, other, WIDE: tl.constexpr):
    return (
        _pair(word, word >> 16, less, WIDE),
        _pair(word >> 4, word >> 20, other, WIDE),
        _pair(word >> 8, word >> 24, less, WIDE),
        _pair(word >> 12, word >> 28, other, WIDE),
    )


@triton.jit
def plain_halves(word, zero, zero_below):
    less = _number(zero + tl.zeros_like(word), tl.float16) - 1024
    return _pairs(word, less, -_number(zero_below + tl.zeros_like(word), tl.float16) - 64, False)


@triton.jit
def plain_below(zero):
    less = 960.0 - _number(zero, tl.float16)
    bits = less.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return bits | (bits << 16)


@triton.jit
def plain_wide_halves(word, zero, other):
    less = _number(zero + tl.zeros_like(word), tl.bfloat16) - 128
    return _pairs(word, less, _number(other + tl.zeros_like(word), tl.bfloat16) - 128, True)


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
def plain_four_if(place, there):
    words = place.to(tl.pointer_type(tl.int32))
    return (
        _plain_at(words, there),
        _plain_at(words + 1, there),
        _plain_at(words + 2, there),
        _plain_at(words + 3, there),
    )


@triton.jit
def plain_two_if(place, there):
    words = place.to(tl.pointer_type(tl.int32))
    return _plain_at(words, there), _plain_at(words + 1, there)


@triton.jit
def plain_one_if(place, there):
    return _plain_at(place.to(tl.pointer_type(tl.int32)), there)


@triton.jit
def _plain_at(words, there):
    return tl.load(words, mask=there, other=0)


@triton.jit
def plain_paired(word, other):
    return ((word >> 16) & 0xFFFF) | (other & -65536)


if triton.knobs.runtime.interpret:
    halves, below, wide_halves, product = plain_halves, plain_below, plain_wide_halves, plain_product
    four, four_if, two_if, one_if, paired = plain_four, plain_four_if, plain_two_if, plain_one_if, plain_paired


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
    """Eight FLOAT32 as three bfloat16 each, the last digits' first, in pairs of neighbours."""
    a1, a2 = cut(a)
    b1, b2 = cut(b)
    c1, c2 = cut(c)
    d1, d2 = cut(d)
    e1, e2 = cut(e)
    f1, f2 = cut(f)
    g1, g2 = cut(g)
    h1, h2 = cut(h)
    return (
        paired(a2, b2), paired(c2, d2), paired(e2, f2), paired(g2, h2),
        paired(a1, b1), paired(c1, d1), paired(e1, f1), paired(g1, h1),
        paired(a, b), paired(c, d), paired(e, f), paired(g, h),
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
