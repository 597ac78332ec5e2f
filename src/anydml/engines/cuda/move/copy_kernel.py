"""Copies, reversals and fills: bits moved as unsigned integers of the elements' width or of several together, and
elements made of their own numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.rows.map_kernel import float_of, number_of
from anydml.engines.cuda.rows.tiles_kernel import along, corner, place, running, walk

# Strided copies: bits are moved as unsigned integers of the elements' width, or of several elements together.


@triton.jit
def reverse_word(word, WIDTH: tl.constexpr):
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
    REVERSE: tl.constexpr,
):
    """Words moved, the elements within each of them turned round where the source runs backwards."""
    wait_for_previous()
    source, target, mask = walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE)
    tl.store(target, reverse_word(tl.load(source, mask=mask), REVERSE), mask=mask)


# Fills: elements made of their own numbers, as if those lay in memory.


@triton.jit
def fill_tiles(
    target,
    inner,
    middle,
    blocks,
    sizes,
    number_strides,
    target_strides,
    first,
    start,
    delta,
    TILE: tl.constexpr,
):
    """Start and delta by the walk's source, which is the number itself. Products and sums stay apart when compiled.

    Integers are counted in 32 bits where those hold the type, since what wraps in more bits wraps in fewer.
    """
    wait_for_previous()
    TYPE: tl.constexpr = target.dtype.element_ty
    number = first.to(tl.int64)
    number, target, mask = walk(number, target, inner, middle, blocks, sizes, number_strides, target_strides, TILE)
    if TYPE.is_floating():
        value = number_of(number.to(tl.float64) * float_of(delta) + float_of(start), TYPE)
    else:
        COUNTER: tl.constexpr = tl.uint64 if TYPE.primitive_bitwidth == 64 else tl.uint32
        value = (number.to(COUNTER) * delta.to(COUNTER) + start.to(COUNTER)).to(TYPE)
    tl.store(target, value, mask=mask)


# Reversals: copies in which each line says how far it is turned round.


@triton.jit
def reverse_tiles(
    source,
    lengths,
    target,
    inner,
    middle,
    blocks,
    sizes,
    source_strides,
    target_strides,
    length_steps,
    length_strides,
    axis_steps,
    axis_strides,
    axis_first,
    axis_size,
    axis_source,
    TILE: tl.constexpr,
    AXIS_STEP: tl.constexpr,
    LENGTH_STEP: tl.constexpr,
    AXIS_ALIGN: tl.constexpr,
    OFFSET: tl.constexpr,
):
    """Elements below their line's length come from as far before its end.

    Where neither the place on the axis nor the line changes along the inner dimension of a tile, with both steps 0, a
    row of it has one place and one length, and its elements stay neighbours.
    """
    wait_for_previous()
    source, target, mask = walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE)
    if TILE.is_flat:
        number, is_line = running(inner[0], TILE)
        at = place(number, sizes, axis_strides, 1)
        lengths += place(number, sizes, length_strides, 1)
    else:
        row, first, number = corner(blocks, TILE)
        rows = (row + tl.arange(0, TILE.middle))[:, None]
        at = place(number, sizes, axis_strides, 1) + rows * axis_steps[1]
        lengths += place(number, sizes, length_strides, 1) + rows * length_steps[1]
        is_line = rows < middle[0]
        if AXIS_STEP != 0:
            at += along(first, TILE.inner, axis_steps[0], AXIS_STEP, 1)[None, :]
        if LENGTH_STEP != 0:
            lengths += along(first, TILE.inner, length_steps[0], LENGTH_STEP, 1)[None, :]
            is_line &= (first + tl.arange(0, TILE.inner) < inner[0])[None, :]
    length = tl.load(lengths, mask=is_line, other=0).to(tl.uint64)
    length = tl.minimum(length, axis_size.to(tl.uint64)).to(OFFSET)
    at = (at + axis_first).to(OFFSET)
    source += tl.where(at < length, length - 1 - 2 * at, 0) * axis_source.to(OFFSET) * AXIS_ALIGN
    tl.store(target, tl.load(source, mask=mask), mask=mask)
