"""Products of matrices: which tile of the result a program has, and the sums of its products."""

from typing import NamedTuple

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import far, known, place

GROUP = tl.constexpr(8)
"""Tiles below one another that are computed in turn, which leaves what they share in the cache."""


class Product(NamedTuple):
    """What the compiler knows of a product."""

    rows: int
    columns: int
    depth: int
    """Of a tile of the result, and of the terms that are added at once."""
    precision: str = "ieee"
    """Of FLOAT32: how many products of narrower numbers make one."""
    aligns: tuple[int, int, int] = (1, 1, 1)
    """What divides the numbers of rows, columns and terms."""
    is_left_whole: bool = False
    """Whether all of a block of the left matrix can be read, rows past the last by reading that again."""
    is_right_whole: bool = False
    is_left_turned: bool = False
    """Whether neighbours in the left matrix are of different rows, where blocks are read by descriptor."""
    is_right_turned: bool = False
    """Whether neighbours in the right matrix are of one column."""


@triton.jit
def corner(shape, TILE: tl.constexpr):
    """The numbers of this program's tile, from above and from the left, and of its matrix."""
    high = (shape[0].to(tl.int32) + TILE.rows - 1) // TILE.rows
    wide = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns
    program = tl.program_id(0)
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
    """The rows or columns of a tile."""
    return tile * COUNT + tl.arange(0, COUNT)


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
    if LEFT.row_step != 1:
        row = tl.minimum(row, shape[0].to(tl.int32) - 1)
    if RIGHT.step != 1:
        column = tl.minimum(column, shape[1].to(tl.int32) - 1)
    left = across(down(left, row, left_strides[0], LEFT.row_step, LEFT.align), term, left_strides[1], LEFT.step, LEFT.align)
    right = across(down(right, term, right_strides[0], RIGHT.row_step, RIGHT.align), column, right_strides[1], RIGHT.step, RIGHT.align)
    total = tl.full((TILE.rows, TILE.columns), 0, KIND)
    for step in range(0, (shape[2] + TILE.depth - 1) // TILE.depth):
        more = step * TILE.depth + term < known(shape[2], TILE.aligns[2])
        if TILE.is_left_whole:
            a = tl.load(left)
        else:
            a = tl.load(left, mask=is_row & more[None, :], other=0)
        if TILE.is_right_whole:
            b = tl.load(right)
        else:
            b = tl.load(right, mask=more[:, None] & is_column, other=0)
        total = tl.dot(a, b, total, input_precision=TILE.precision, out_dtype=KIND)
        left += TILE.depth * far(tl.full((), 1, tl.int64), left_strides[1], LEFT.step, LEFT.align)
        right += TILE.depth * far(tl.full((), 1, tl.int64), right_strides[0], RIGHT.row_step, RIGHT.align)
    return total


@triton.jit
def multiply_blocks(left, right, high, wide, matrix, shape, apart, KIND: tl.constexpr, TILE: tl.constexpr):
    """The same by descriptors, of which the hardware reads blocks; `apart` are the lines from matrix to matrix."""
    left_first = (matrix * apart[0]).to(tl.int32)
    right_first = (matrix * apart[1]).to(tl.int32)
    total = tl.full((TILE.rows, TILE.columns), 0, KIND)
    for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):
        if TILE.is_left_turned:
            a = left.load([left_first + step * TILE.depth, high * TILE.rows]).T
        else:
            a = left.load([left_first + high * TILE.rows, step * TILE.depth])
        if TILE.is_right_turned:
            b = right.load([right_first + wide * TILE.columns, step * TILE.depth]).T
        else:
            b = right.load([right_first + step * TILE.depth, wide * TILE.columns])
        total = tl.dot(a, b, total, input_precision=TILE.precision, out_dtype=KIND)
    return total
