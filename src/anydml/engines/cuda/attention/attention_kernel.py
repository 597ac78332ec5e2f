"""Attention's shared Triton functions: the tiles that a program reads, and the online softmax."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.rows.tiles_kernel import far, known
from anydml.engines.cuda.rows.tiles_kernel import place as placed

LOG2E = tl.constexpr(1.4426950408889634)


class AttentionConstants(NamedTuple):
    """The compiler's knowledge of an attention."""

    rows: int
    """Queries of a program."""
    keys: int
    """That it takes at once."""
    size: int
    value_size: int
    """Of a query, and of a value: powers of two."""
    precision: str = "ieee"
    """Of FLOAT32: how many products of narrower numbers make one."""
    aligns: tuple[int, int, int, int] = (1, 1, 1, 1)
    """Divisors of the numbers of queries and of keys, the size and the values' size."""
    is_even: tuple[bool, bool, bool, bool] = (False, False, False, False)
    """Whether tiles fill those."""
    is_long: bool = True
    """Whether offsets within a matrix may be more than 31 bits hold."""
    stages: int = 1
    """Of the loop over the keys of one query, which has no product of the hardware's."""
    parts: int = 1
    """Of the keys, each a program's."""


@triton.jit
def block(shape, LAST_FIRST: tl.constexpr, TILE: tl.constexpr):
    """The numbers of this program's part of the keys, of its queries and of its matrix; the last queries first where
    those see the most.
    """
    high = (shape[0].to(tl.int32) + TILE.rows - 1) // TILE.rows
    program = tl.program_id(0) // TILE.parts
    within = program % high
    if LAST_FIRST:
        within = high - 1 - within
    return tl.program_id(0) % TILE.parts, within, program // high


@triton.jit
def steps_of(part, count, PARTS: tl.constexpr):
    """The first step of a part of so many, and the one after its last."""
    each = (count + PARTS - 1) // PARTS
    first = tl.minimum(part * each, count)
    return first, tl.minimum(first + each, count)


@triton.jit
def put_part(parts, matrix, part, row, number, total, sums, top, queries, value_size, TILE: tl.constexpr):
    """Write what is known of some queries after a part of the keys: two numbers of each, after all sums of values."""
    is_row = (row < queries)[:, None]
    line = (matrix.to(tl.int64) * queries + row[:, None]) * TILE.parts + part
    tl.store(parts + line * (value_size + 2) + number[None, :], total, mask=is_row & (number < value_size)[None, :])
    tl.store(parts + line * (value_size + 2) + value_size, tl.broadcast_to(top, (TILE.rows, 1)), mask=is_row)
    tl.store(parts + line * (value_size + 2) + value_size + 1, tl.broadcast_to(sums, (TILE.rows, 1)), mask=is_row)


@triton.jit
def join_parts(parts, target, shape, sizes, strides, matrix_strides, TILE: tl.constexpr, LINE: tl.constexpr):
    """The result of one query: the parts' sums, each scaled by how far its largest score is from that of all."""
    wait_for_previous()
    queries, value_size = shape[0].to(tl.int32), shape[3].to(tl.int32)
    query = tl.program_id(0) % queries
    matrix = tl.program_id(0) // queries
    part, number = tl.arange(0, TILE.parts), tl.arange(0, TILE.value_size)
    line = parts + (tl.program_id(0).to(tl.int64) * TILE.parts + part[:, None]) * (value_size + 2)
    inside = (number < value_size)[None, :]
    total, top = tl.load(line + number[None, :], mask=inside, other=0), tl.load(line + value_size)
    less = power_of(top, tl.max(top, 0, keep_dims=True))
    found = tl.sum(total * less, 0, keep_dims=True) / tl.sum(tl.load(line + value_size + 1) * less, 0, keep_dims=True)
    place = target + placed(matrix, sizes, matrix_strides, LINE.align)
    place += far(query.to(tl.int64), strides[0], LINE.row_step, LINE.align)
    place += far(number.to(tl.int64), strides[1], LINE.step, LINE.align)[None, :]
    tl.store(place, found.to(target.dtype.element_ty), mask=inside)


@triton.jit
def tile(view, row, column, rows, columns, strides, EVEN_ROWS: tl.constexpr, EVEN: tl.constexpr,
         IS_LONG: tl.constexpr, LINE: tl.constexpr):  # fmt: skip
    """A tile of a matrix, 0 where there is nothing."""
    if IS_LONG:
        down = far(row.to(tl.int64), strides[0], LINE.row_step, LINE.align)
        across = far(column.to(tl.int64), strides[1], LINE.step, LINE.align)
    else:
        down = far(row, strides[0].to(tl.int32), LINE.row_step, LINE.align)
        across = far(column, strides[1].to(tl.int32), LINE.step, LINE.align)
    places = view + (down[:, None] + across[None, :])
    if EVEN_ROWS and EVEN:
        return tl.load(places)
    elif EVEN:
        return tl.load(places, mask=(row < rows)[:, None], other=0)
    else:
        return tl.load(places, mask=(row < rows)[:, None] & (column < columns)[None, :], other=0)


@triton.jit
def power_of(x, top):
    """exp(x - top); of differences from 0 where all scores so far are -∞, and none of them counts.

    The difference comes before log2(e): x·log2(e) - top·log2(e) has the rounding errors of both products, as large as
    the scores are, and those of two blocks of keys differ. 32 heads of 2048 x 128 in FLOAT32 were up to 2.85e-6 of the
    largest off, and are 1.5e-6 (PyTorch 1.9e-6).
    """
    return tl.exp2((x - tl.where(top == float("-inf"), 0.0, top)) * LOG2E)


@triton.jit
def soften(x, top, sums, total):
    """Online softmax: the powers of a block of scores, then the largest score, the sums and the totals, rescaled."""
    larger = tl.maximum(top, tl.max(x, 1))
    power = power_of(x, larger[:, None])
    less = power_of(top, larger)
    return power, larger, sums * less + tl.sum(power, 1), total * less[:, None]


@triton.jit
def scores(query, key):
    """The products of one query with some keys, below one another."""
    return tl.sum(query.to(tl.float32) * key.to(tl.float32), 1, keep_dims=True)


@triton.jit
def soften_each(x, value, top, sums, total):
    """The state of one query after some more keys: each line of a tile has a largest score and sums of its own."""
    larger = tl.maximum(top, x)
    power, less = power_of(x, larger), power_of(top, larger)
    return larger, sums * less + power, total * less + power * value.to(tl.float32)


@triton.jit
def joined(top, sums, total):
    """The sums of all lines, what they are divided by, and the largest score."""
    largest = tl.max(top, 0, keep_dims=True)
    less = power_of(top, largest)
    return tl.sum(total * less, 0, keep_dims=True), tl.sum(sums * less, 0, keep_dims=True), largest


@triton.jit
def count(number, ALIGN: tl.constexpr):
    """A count of 31 bits."""
    return known(number, ALIGN).to(tl.int32)
