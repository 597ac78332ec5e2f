"""Implicit GEMM's shared Triton functions: which tile a program has, and offsets as the compiler vectorises them; and
`StencilConstants`, what the compiler knows of stencils and resampling.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl


class WindowConstants(NamedTuple):
    """The compiler's knowledge of a convolution."""

    rows: int
    columns: int
    depth: int
    """Of a tile: places, channels, and the innermost terms that are added at once."""
    blocks: int = 1
    """Of so many terms, in a tap."""
    taps: tuple[int, ...] = ()
    """The sizes of a window, the fastest first."""
    precision: str = "ieee"
    """Of FLOAT32: how many products of narrower numbers make one."""
    aligns: tuple[int, ...] = ()
    """By view, what strides are divided by: the left factor, the right one, and those outside of the sum."""
    steps: tuple[int, ...] = ()
    """By view, a stride of 1 or 0 that the compiler is to know, 2 for others: along terms, and in others columns."""
    inner: int = 2
    """The same of the right factor along terms."""
    align: int = 1
    """A divisor of the number of innermost terms."""
    wide: int = 1
    """A divisor of the number of the result's channels."""
    high: int = 1
    """A divisor of the number of places."""
    is_even: bool = False
    """Whether tiles fill the terms of a tap."""
    is_filled: bool = False
    """Whether tiles fill the channels of the result."""
    is_long: bool = True
    """Whether offsets may be more than 31 bits hold."""
    beside: int = 0
    """Places beside those, which have sums of their own: numbers of places that are no power of two."""


class StencilConstants(NamedTuple):
    """The compiler's knowledge of folds over small windows."""

    rows: int
    columns: int
    aligns: tuple[int, ...]
    """By view, what strides are divided by: those of what is read, and of the targets."""
    steps: tuple[int, ...]
    """By view, a stride of 1 or 0 along columns that the compiler is to know; 2 for others."""
    wide: int = 1
    """A divisor of the number of columns."""
    is_long: bool = True
    """Whether offsets may be more than 31 bits hold."""


@triton.jit
def corner(shape, TILE: tl.constexpr):
    """The numbers of this program's tile, by place and channel, and of its group."""
    wide = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns
    program = tl.program_id(0)
    column = program % wide
    program = program // wide
    high = shape[5].to(tl.int32)
    return program % high, column, program // high


@triton.jit
def index(number, TILE: tl.constexpr):
    """A coordinate in as many bits as offsets need."""
    return number.to(tl.int64) if TILE.is_long else number


@triton.jit
def far(offset, ALIGN: tl.constexpr):
    """An offset whose strides were divided."""
    return offset * ALIGN


@triton.jit
def read(place, inside, other):
    """Elements, and another number where there is none."""
    return tl.load(place, mask=inside, other=other)
