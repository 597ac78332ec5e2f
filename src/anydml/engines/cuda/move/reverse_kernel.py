"""Reversals: copies in which each line says how far it is turned round."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import take_turn
from anydml.engines.cuda.rows.tiles_kernel import along, corner, place, running, walk


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
    take_turn()
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
