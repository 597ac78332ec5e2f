"""Tiles' shared Triton functions: a tile over two dimensions, or elements by their running number, and where a
coordinate lies.
"""

from __future__ import annotations

import triton
import triton.language as tl

# The need of every kernel: where a coordinate lies.
#
# The compiler moves 16 bytes at once only where it sees that addresses and counts are multiples of that much. Hints to
# it are lost when it folds the numbers that they are on, so strides come divided by ALIGN and are multiplied again.


@triton.jit
def place(number, sizes, strides, ALIGN: tl.constexpr):
    """The offset of the coordinate of a running number, the first dimension running fastest."""
    at = tl.zeros((), tl.int64)
    for k in tl.static_range(len(sizes)):
        if k == len(sizes) - 1:
            at += number.to(tl.int64) * strides[k]
        else:
            at += (number % sizes[k].to(number.dtype)).to(tl.int64) * strides[k]
            number //= sizes[k].to(number.dtype)
    return at * ALIGN


@triton.jit
def along(first, COUNT: tl.constexpr, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    """The offsets of neighbours from `first` on."""
    return far(first + tl.arange(0, COUNT), stride, STEP, ALIGN)


@triton.jit
def far(index, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    """The offset of an index. A STEP of 1, 0 or -1 is the stride itself, which the compiler sees."""
    if STEP == 2:
        return index * stride * ALIGN
    else:
        return index * STEP


@triton.jit
def known(count, ALIGN: tl.constexpr):
    """A count that is a multiple of ALIGN, as the compiler then sees."""
    return count // ALIGN * ALIGN


# Walks of views together: a tile over two dimensions, or elements by their running number.


@triton.jit
def corner(blocks, TILE: tl.constexpr):
    """The first row and column of this program's tile, and the number of its coordinate in the other dimensions."""
    number = tl.program_id(0)
    nothing = tl.full((), 0, tl.int32)
    if TILE.levels == 1:
        return nothing.to(tl.int64), number.to(tl.int64) * TILE.inner, nothing
    else:
        first = (number % blocks[0].to(tl.int32)).to(tl.int64) * TILE.inner
        number //= blocks[0].to(tl.int32)
        if TILE.levels == 2:
            return number.to(tl.int64) * TILE.middle, first, nothing
        else:
            row = (number % blocks[1].to(tl.int32)).to(tl.int64) * TILE.middle
            number //= blocks[1].to(tl.int32)
            return row, first, number


@triton.jit
def running(count, TILE: tl.constexpr):
    """The running numbers of this program's elements, and which of them there are."""
    number = tl.program_id(0).to(tl.int64) * TILE.inner + tl.arange(0, TILE.inner)
    mask = number < count
    if not TILE.is_long:
        number = number.to(tl.int32)
    return number, mask


@triton.jit
def begin(counts, blocks, TILE: tl.constexpr):
    """This program's first row and column, the number of its coordinate in the other dimensions, and what there is."""
    if TILE.is_flat:
        number, mask = running(counts[0], TILE)
        return number, number, number, mask
    else:
        row, first, number = corner(blocks, TILE)
        is_row = row + tl.arange(0, TILE.middle) < known(counts[1], TILE.middle_align)
        is_column = first + tl.arange(0, TILE.inner) < known(counts[0], TILE.inner_align)
        return row, first, number, is_row[:, None] & is_column[None, :]


@triton.jit
def reach(view, row, first, number, steps, sizes, strides, TILE: tl.constexpr, REACH: tl.constexpr):
    """Where the elements of this program lie in one view, `steps` its strides along a tile's columns and rows."""
    view += place(number, sizes, strides, REACH.align)
    if not TILE.is_flat:
        view += along(row, TILE.middle, steps[1], REACH.middle_step, REACH.align)[:, None]
        view += along(first, TILE.inner, steps[0], REACH.step, REACH.align)[None, :]
    return view


@triton.jit
def fetch(view, row, first, number, mask, counts, steps, sizes, strides, TILE: tl.constexpr, REACH: tl.constexpr):
    """The elements of this program in one view; where a row repeats one element it is read once."""
    if TILE.is_flat or REACH.step != 0:
        return tl.load(reach(view, row, first, number, steps, sizes, strides, TILE, REACH), mask=mask)
    elif TILE.middle == 1:
        view += place(number, sizes, strides, REACH.align)
        return tl.load(view + far(row, steps[1], REACH.middle_step, REACH.align))
    else:
        view += place(number, sizes, strides, REACH.align)
        view += along(row, TILE.middle, steps[1], REACH.middle_step, REACH.align)
        return tl.load(view, mask=row + tl.arange(0, TILE.middle) < counts[1])[:, None]


@triton.jit
def put_four(target, a, b, c, d, mask, TILE: tl.constexpr):
    """Store four results of each element beside one another: 16 bytes at once, where four stores leave gaps."""
    a, b = tl.broadcast_to(a, mask.shape), tl.broadcast_to(b, mask.shape)
    c, d = tl.broadcast_to(c, mask.shape), tl.broadcast_to(d, mask.shape)
    numbers = tl.join(tl.join(a, c), tl.join(b, d))  # whose last two coordinates count a, b, c, d
    if TILE.is_flat:
        numbers = tl.reshape(numbers, [TILE.inner, 4])
        tl.store(target[:, None] + tl.arange(0, 4)[None, :], numbers, mask=mask[:, None])
    else:
        numbers = tl.reshape(numbers, [TILE.middle, TILE.inner, 4])
        tl.store(target[:, :, None] + tl.arange(0, 4)[None, None, :], numbers, mask=mask[:, :, None])


@triton.jit
def walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE: tl.constexpr):
    """Where the elements of this program lie in both views, and which of them there are.

    `inner` and `middle` are a size, a stride in the source and one in the target.
    """
    if TILE.is_flat:
        number, mask = running(inner[0], TILE)
        source += place(number, sizes, source_strides, 1)
        target += place(number, sizes, target_strides, 1)
    else:
        row, first, number = corner(blocks, TILE)
        source += place(number, sizes, source_strides, TILE.source_align)
        target += place(number, sizes, target_strides, TILE.target_align)
        source += along(row, TILE.middle, middle[1], TILE.source_middle_step, TILE.source_align)[:, None]
        source += along(first, TILE.inner, inner[1], TILE.source_step, TILE.source_align)[None, :]
        target += along(row, TILE.middle, middle[2], 2, TILE.target_align)[:, None]
        target += along(first, TILE.inner, inner[2], TILE.target_step, TILE.target_align)[None, :]
        is_row = row + tl.arange(0, TILE.middle) < known(middle[0], TILE.middle_align)
        is_column = first + tl.arange(0, TILE.inner) < known(inner[0], TILE.inner_align)
        mask = is_row[:, None] & is_column[None, :]
    return source, target, mask
