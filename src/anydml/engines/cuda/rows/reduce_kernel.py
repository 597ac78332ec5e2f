"""Reductions' shared Triton functions: a tile of some rows by some of their elements, folded once or repeatedly."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from anydml.engines.cuda.codegen import arithmetic_kernel as arithmetic
from anydml.engines.cuda.rows.tiles_kernel import far, known, place


class RowTile(NamedTuple):
    """The compiler's knowledge of a tile."""

    rows: int
    length: int
    """Elements of a row that are in the tile at a time."""
    align: int = 1
    """A divisor of the length of a row."""
    row_align: int = 1
    """A divisor of the number of rows."""
    is_long: bool = False
    """Whether rows or their elements may be more than 31 bits count."""


class RowSteps(NamedTuple):
    """The compiler's knowledge of a view: its strides of 1, 0 or -1 from row to row and along a row; 2 for others."""

    row_step: int = 2
    step: int = 2
    align: int = 1


@triton.jit
def parted(parts):
    """This program's tile, and the part of its rows that is this program's."""
    program = tl.program_id(0)
    return program // parts.to(tl.int32), program % parts.to(tl.int32)


@triton.jit
def begin(tile, count, TILE: tl.constexpr):
    """The numbers of a tile's rows, and which of them there are."""
    number = tile * tl.full((), TILE.rows, tl.int64) + tl.arange(0, TILE.rows)
    is_row = (number < known(count, TILE.row_align))[:, None]
    if not TILE.is_long:
        number = number.to(tl.int32)
    return number, is_row


@triton.jit
def within(first, TILE: tl.constexpr):
    """The numbers of the elements of a row from one on."""
    number = first + tl.arange(0, TILE.length)
    return number if TILE.is_long else number.to(tl.int32)


@triton.jit
def there(number, length, TILE: tl.constexpr):
    """Which of those elements there are."""
    return (number < known(length, TILE.align))[None, :]


@triton.jit
def to_rows(view, number, sizes, strides, LINE: tl.constexpr):
    """Where rows begin."""
    return view + _far(number, sizes, strides, LINE.row_step, LINE.align)[:, None]


@triton.jit
def along(view, number, sizes, strides, LINE: tl.constexpr):
    """Where elements of rows lie, from where the rows begin."""
    return view + _far(number, sizes, strides, LINE.step, LINE.align)[None, :]


@triton.jit
def _far(number, sizes, strides, STEP: tl.constexpr, ALIGN: tl.constexpr):
    if len(sizes) == 1:
        return far(number.to(tl.int64), strides[0], STEP, ALIGN)
    else:
        return place(number, sizes, strides, ALIGN)


@triton.jit
def divided(a, b):
    """Quotients by one number a row, of FLOAT32: 6 operations an element and not 12.

    The divisor is made a number of 1 to 2, whose inverse is the nearest there is; a quotient put right by what it
    leaves is then the nearest too, but for numerators below 2^-100, where it may be the one beside it.
    """
    exponent = b.to(tl.int32, bitcast=True) & 0x7F800000
    scale = tl.maximum(0x7F000000 - exponent, 0x00800000).to(tl.float32, bitcast=True)
    divisor = b * scale
    inverse = tl.div_rn(tl.full((), 1.0, tl.float32), divisor)
    quotient = a * inverse
    left = arithmetic.fma(-divisor, quotient, a)
    better = arithmetic.fma(left, inverse, quotient)
    return tl.where(tl.abs(left) > 0, better, quotient) * scale  # of infinities NaN is left


# Folds: an operation of two, and of all elements of each row of a tile


@triton.jit
def both_sum(a, b):
    return tl.add(a, b, sanitize_overflow=False)


@triton.jit
def both_product(a, b):
    return tl.mul(a, b, sanitize_overflow=False)


@triton.jit
def both_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def both_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def wide(x):
    """Numbers in a type that folds go through registers in; narrow ones wrap when they are narrowed again."""
    if x.dtype == tl.float16:
        return x.to(tl.float32)
    elif x.dtype.is_floating() or x.dtype.primitive_bitwidth >= 32:
        return x
    else:
        return x.to(tl.int32) if x.dtype.is_int_signed() else x.to(tl.uint32)


@triton.jit
def spread(x, ROWS: tl.constexpr, LENGTH: tl.constexpr):
    """A number for each place of a tile."""
    return tl.broadcast_to(x, (ROWS, LENGTH))


@triton.jit
def fold_sum(x):
    return tl.reduce(wide(x), 1, both_sum, keep_dims=True).to(x.dtype)


@triton.jit
def fold_product(x):
    return tl.reduce(wide(x), 1, both_product, keep_dims=True).to(x.dtype)


@triton.jit
def fold_max(x):
    return tl.reduce(wide(x), 1, both_max, keep_dims=True).to(x.dtype)


@triton.jit
def fold_min(x):
    return tl.reduce(wide(x), 1, both_min, keep_dims=True).to(x.dtype)
