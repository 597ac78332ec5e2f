"""GEMM's shared Triton functions: which tile of the result a program has, and the K loop."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from anydml.engines.cuda.codegen import arithmetic_kernel as arithmetic
from anydml.engines.cuda.rows.tiles_kernel import far, known, place

GROUP = tl.constexpr(8)
"""Tiles below one another that are computed in turn, which leaves what they share in the cache."""


class GemmConstants(NamedTuple):
    """The compiler's knowledge of a product."""

    rows: int
    columns: int
    depth: int
    """Of a tile of the result, and of the terms that are added at once."""
    precision: str = "ieee"
    """Of FLOAT32: how many products of narrower numbers make one."""
    aligns: tuple[int, int, int] = (1, 1, 1)
    """Divisors of the numbers of rows, columns and terms."""
    is_even: tuple[bool, bool, bool] = (False, False, False)
    """Whether tiles fill the rows, the columns, the terms."""
    is_long: bool = True
    """Whether offsets within a matrix may be more than 31 bits hold."""
    is_left_turned: bool = False
    """Whether neighbours in the left matrix are of different rows, where blocks are read by descriptor."""
    is_right_transposed: bool = False
    """Whether neighbours in the right matrix are of one column."""
    is_one_line: bool = False
    """Whether there is one matrix, and tiles are beside one another alone."""
    stages: int = 1
    """Of a loop that is no product of the hardware's."""
    more: int = 0
    """Columns beside those, which have sums of their own: numbers of columns that are no power of two."""


@triton.jit
def corner(shape, TILE: tl.constexpr):
    """The numbers of this program's tile, from above and from the left, and of its matrix.

    Divisions take 0.1 us each, of the 10 us that a product of one row may take in all.
    """
    program = tl.program_id(0)
    if TILE.is_one_line:
        return tl.full((), 0, tl.int32), program, tl.full((), 0, tl.int32)
    high = (shape[0].to(tl.int32) + TILE.rows - 1) // TILE.rows
    wide = (shape[1].to(tl.int32) + TILE.columns + TILE.more - 1) // (TILE.columns + TILE.more)
    matrix = program // (high * wide)
    program %= high * wide
    first = program // (GROUP * wide) * GROUP
    size = tl.minimum(high - first, GROUP)
    within = program % (GROUP * wide)
    return first + within % size, within // size, matrix


@triton.jit
def there(row, column, shape, TILE: tl.constexpr):
    """Which rows and columns of a tile there are."""
    is_row = row < known(shape[0], TILE.aligns[0])
    is_column = column < known(shape[1], TILE.aligns[1])
    return is_row[:, None], is_column[None, :]


@triton.jit
def within(tile, COUNT: tl.constexpr):
    """The rows of a tile."""
    return tile * COUNT + tl.arange(0, COUNT)


@triton.jit
def columns_of(tile, TILE: tl.constexpr):
    """The columns of a tile, but for those beside them."""
    return tile * (TILE.columns + TILE.more) + tl.arange(0, TILE.columns)


@triton.jit
def more_columns_of(tile, TILE: tl.constexpr):
    """The columns beside those."""
    return tile * (TILE.columns + TILE.more) + TILE.columns + tl.arange(0, TILE.more)


@triton.jit
def to_matrix(view, matrix, sizes, strides, ALIGN: tl.constexpr):
    """Where a matrix of several begins."""
    return view + place(matrix, sizes, strides, ALIGN)


@triton.jit
def down(view, row, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    return view + far(row.to(tl.int64), stride, STEP, ALIGN)[:, None]


@triton.jit
def across(view, column, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    return view + far(column.to(tl.int64), stride, STEP, ALIGN)[None, :]


@triton.jit
def multiply(
    left, right, row, column, shape, left_strides, right_strides, KIND: tl.constexpr, TILE: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """The sums of products of a tile, read through pointers to the matrices' first elements."""
    term = tl.arange(0, TILE.depth)
    is_row, is_column = there(row, column, shape, TILE)
    left_places = apart(row, left_strides[0], LEFT.row_step, LEFT.align, TILE)[:, None]
    left_places += apart(term, left_strides[1], LEFT.step, LEFT.align, TILE)[None, :]
    right_places = apart(term, right_strides[0], RIGHT.row_step, RIGHT.align, TILE)[:, None]
    right_places += apart(column, right_strides[1], RIGHT.step, RIGHT.align, TILE)[None, :]
    one = tl.full((), TILE.depth, tl.int64)
    left_step = far(one, left_strides[1], LEFT.step, LEFT.align)
    right_step = far(one, right_strides[0], RIGHT.row_step, RIGHT.align)
    total = tl.full((TILE.rows, column.shape[0]), 0, KIND)
    for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):
        more = step * TILE.depth + term < known(shape[2], TILE.aligns[2]).to(tl.int32)
        if TILE.is_even[2]:
            a = tl.load(left + left_places) if TILE.is_even[0] else tl.load(left + left_places, mask=is_row, other=0)
            b = (
                tl.load(right + right_places)
                if TILE.is_even[1]
                else tl.load(right + right_places, mask=is_column, other=0)
            )
        else:
            a = tl.load(left + left_places, mask=is_row & more[None, :], other=0)
            b = tl.load(right + right_places, mask=more[:, None] & is_column, other=0)
        total = tl.dot(a, b, total, input_precision=TILE.precision, out_dtype=KIND)
        left += left_step
        right += right_step
    return total


@triton.jit
def multiply_lines(
    left, right, row, column, shape, left_strides, right_strides, KIND: tl.constexpr, TILE: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """The same of a few rows, which each thread adds up for itself: the time is that of reading the right matrix."""
    term = tl.arange(0, TILE.depth)
    is_row, is_column = there(row, column, shape, TILE)
    left_places = apart(row, left_strides[0], LEFT.row_step, LEFT.align, TILE)[:, None]
    left_places += apart(term, left_strides[1], LEFT.step, LEFT.align, TILE)[None, :]
    right_places = apart(column, right_strides[1], RIGHT.step, RIGHT.align, TILE)[None, :]
    right_places += apart(term, right_strides[0], RIGHT.row_step, RIGHT.align, TILE)[:, None]
    if TILE.is_right_transposed:
        right_places, is_column = tl.trans(right_places), tl.trans(is_column)
        total = tl.full((TILE.rows, TILE.columns, TILE.depth), 0, KIND)
    else:
        total = tl.full((TILE.rows, TILE.depth, TILE.columns), 0, KIND)
    one = tl.full((), TILE.depth, tl.int64)
    left_step = far(one, left_strides[1], LEFT.step, LEFT.align)
    right_step = far(one, right_strides[0], RIGHT.row_step, RIGHT.align)
    for step in tl.range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth, num_stages=TILE.stages):
        more = step * TILE.depth + term < known(shape[2], TILE.aligns[2]).to(tl.int32)
        a = tl.load(left + left_places, mask=is_row & more[None, :], other=0).to(KIND)
        if TILE.is_right_transposed:
            b = tl.load(right + right_places, mask=is_column & more[None, :], other=0).to(KIND)
            x = tl.broadcast_to(a[:, None, :], total.shape)
        else:
            b = tl.load(right + right_places, mask=is_column & more[:, None], other=0).to(KIND)
            x = tl.broadcast_to(a[:, :, None], total.shape)
        total = arithmetic.fma(x, tl.broadcast_to(b[None, :, :], total.shape), total)
        left += left_step
        right += right_step
    return tl.sum(total, 2 if TILE.is_right_transposed else 1)


@triton.jit
def apart(index, stride, STEP: tl.constexpr, ALIGN: tl.constexpr, TILE: tl.constexpr):
    """Offsets, in as many bits as they need."""
    if TILE.is_long:
        return far(index.to(tl.int64), stride, STEP, ALIGN)
    else:
        return far(index, stride.to(tl.int32), STEP, ALIGN)


@triton.jit
def multiply_blocks(left, right, high, wide, matrix, shape, apart, KIND: tl.constexpr, TILE: tl.constexpr):
    """The same by descriptors, of which the hardware reads blocks; `apart` are the lines from matrix to matrix."""
    left_first = (matrix * apart[0]).to(tl.int32)
    right_first = (matrix * apart[1]).to(tl.int32)
    total = tl.full((TILE.rows, TILE.columns), 0, KIND)
    for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):
        a = left_block(left, left_first, high, step, TILE)
        b = right_block(right, right_first, wide * TILE.columns, step, TILE)
        total = tl.dot(a, b, total, input_precision=TILE.precision, out_dtype=KIND)
    return total


@triton.jit
def multiply_pairs(left, right, further, high, wide, matrix, shape, apart, KIND: tl.constexpr, TILE: tl.constexpr):
    """The same with columns beside those, in blocks of their own: one block of the left matrix is for both."""
    left_first = (matrix * apart[0]).to(tl.int32)
    right_first = (matrix * apart[1]).to(tl.int32)
    first = wide * (TILE.columns + TILE.more)
    total = tl.full((TILE.rows, TILE.columns), 0, KIND)
    beside = tl.full((TILE.rows, TILE.more), 0, KIND)
    for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):
        a = left_block(left, left_first, high, step, TILE)
        b = right_block(right, right_first, first, step, TILE)
        c = right_block(further, right_first, first + TILE.columns, step, TILE)
        total = tl.dot(a, b, total, input_precision=TILE.precision, out_dtype=KIND)
        beside = tl.dot(a, c, beside, input_precision=TILE.precision, out_dtype=KIND)
    return total, beside


@triton.jit
def left_block(left, first, high, step, TILE: tl.constexpr):
    if TILE.is_left_turned:
        return left.load([first + step * TILE.depth, high * TILE.rows]).T
    else:
        return left.load([first + high * TILE.rows, step * TILE.depth])


@triton.jit
def right_block(right, first, column, step, TILE: tl.constexpr):
    if TILE.is_right_transposed:
        return right.load([first + column, step * TILE.depth]).T
    else:
        return right.load([first + step * TILE.depth, column])
