"""Strided copies: bits are moved as unsigned integers of the elements' width, or of several elements together."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import along, known, place


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
    source_inner,
    target_inner,
    middle,
    source_middle,
    target_middle,
    inner_blocks,
    middle_blocks,
    sizes,
    source_strides,
    target_strides,
    SOURCE_MIDDLE_STEP: tl.constexpr,
    SOURCE_STEP: tl.constexpr,
    TARGET_STEP: tl.constexpr,
    SOURCE_ALIGN: tl.constexpr,
    TARGET_ALIGN: tl.constexpr,
    INNER_ALIGN: tl.constexpr,
    MIDDLE_ALIGN: tl.constexpr,
    TURN: tl.constexpr,
    INNER: tl.constexpr,
    MIDDLE: tl.constexpr,
):
    """A tile over two dimensions; the others are counted by the program's number."""
    number = tl.program_id(0)
    first = (number % inner_blocks.to(tl.int32)).to(tl.int64) * INNER
    number //= inner_blocks.to(tl.int32)
    row = (number % middle_blocks.to(tl.int32)).to(tl.int64) * MIDDLE
    number //= middle_blocks.to(tl.int32)
    source += place(number, sizes, source_strides, SOURCE_ALIGN)
    target += place(number, sizes, target_strides, TARGET_ALIGN)
    source_rows = along(row, MIDDLE, source_middle, SOURCE_MIDDLE_STEP, SOURCE_ALIGN)[:, None]
    source_columns = along(first, INNER, source_inner, SOURCE_STEP, SOURCE_ALIGN)[None, :]
    target_rows = along(row, MIDDLE, target_middle, 2, TARGET_ALIGN)[:, None]
    target_columns = along(first, INNER, target_inner, TARGET_STEP, TARGET_ALIGN)[None, :]
    is_row = row + tl.arange(0, MIDDLE) < known(middle, MIDDLE_ALIGN)
    is_column = first + tl.arange(0, INNER) < known(inner, INNER_ALIGN)
    mask = is_row[:, None] & is_column[None, :]
    value = turn_word(tl.load(source + source_rows + source_columns, mask=mask), TURN)
    tl.store(target + target_rows + target_columns, value, mask=mask)


@triton.jit
def copy_flat(source, target, count, sizes, source_strides, target_strides, LONG: tl.constexpr, BLOCK: tl.constexpr):
    """Elements by their running number, for shapes whose inner dimensions are too small for a tile."""
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = number < count
    if not LONG:
        number = number.to(tl.int32)
    value = tl.load(source + place(number, sizes, source_strides, 1), mask=mask)
    tl.store(target + place(number, sizes, target_strides, 1), value, mask=mask)
