"""Reversals: copies in which each line says how far it is turned round."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import place
from anydml.engines.cuda.kernels.tiles import corner, running, walk


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
    ALONG_INNER: tl.constexpr,
    BY_INNER: tl.constexpr,
    AXIS_ALIGN: tl.constexpr,
):
    """Elements below their line's length come from as far before its end.

    Along the inner dimension of a tile the place on the axis changes where ALONG_INNER, and the line where BY_INNER:
    where neither does, a row of the tile has one place and one length, and its elements stay neighbours.
    """
    source, target, mask = walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE)
    if TILE.is_flat:
        number, is_line = running(inner[0], TILE)
        at = place(number, sizes, axis_strides, 1)
        lengths += place(number, sizes, length_strides, 1)
    else:
        row, first, number = corner(blocks, TILE)
        rows = (row + tl.arange(0, TILE.middle))[:, None]
        columns = (first + tl.arange(0, TILE.inner))[None, :]
        at = place(number, sizes, axis_strides, 1) + rows * axis_steps[1]
        lengths += place(number, sizes, length_strides, 1) + rows * length_steps[1]
        is_line = rows < middle[0]
        if ALONG_INNER:
            at += columns * axis_steps[0]
        if BY_INNER:
            lengths += columns * length_steps[0]
            is_line &= columns < inner[0]
    length = tl.load(lengths, mask=is_line, other=0).to(tl.uint64)
    length = tl.minimum(length, axis_size.to(tl.uint64)).to(tl.int64)
    at += axis_first
    moved = tl.where(at < length, length - 1 - 2 * at, 0)
    source += moved * axis_source * AXIS_ALIGN
    tl.store(target, tl.load(source, mask=mask), mask=mask)
