"""Strided copies: bits are moved as unsigned integers of the elements' width, or of several elements together."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.tiles import walk
from anydml.engines.cuda.kernels.turns import take_turn


@triton.jit
def turn_word(word, WIDTH: tl.constexpr):
    """Reverse the elements of `WIDTH` bytes within a word."""
    bits: tl.constexpr = word.dtype.primitive_bitwidth
    if bits == 64:
        if WIDTH < 8:
            word = (word << 32) | (word >> 32)
        if WIDTH < 4:
            word = ((word & 0x0000FFFF0000FFFF) << 16) | ((word >> 16) & 0x0000FFFF0000FFFF)
        if WIDTH < 2:
            word = ((word & 0x00FF00FF00FF00FF) << 8) | ((word >> 8) & 0x00FF00FF00FF00FF)
    if bits == 32:
        if WIDTH < 4:
            word = (word << 16) | (word >> 16)
        if WIDTH < 2:
            word = ((word & 0x00FF00FF) << 8) | ((word >> 8) & 0x00FF00FF)
    if bits == 16:
        if WIDTH < 2:
            word = (word << 8) | (word >> 8)
    return word


@triton.jit
def copy_tiles(
    source,
    target,
    inner,
    middle,
    blocks,
    sizes,
    source_strides,
    target_strides,
    TILE: tl.constexpr,
    TURN: tl.constexpr,
):
    """Words moved, the elements within each of them turned round where the source runs backwards."""
    take_turn()
    source, target, mask = walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE)
    tl.store(target, turn_word(tl.load(source, mask=mask), TURN), mask=mask)
