"""Reversals, planned: the walk is chosen by where the axis lies, and by whether rows have one length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.move.copy import CopyProgram
from anydml.engines.cpu.rows.lines import OUTER_RANK, SEGMENT, LineProgram, streams, walk_words
from anydml.ir.fetches import match_turned
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from anydml.ir.fetches import Turned
    from anydml.ir.verbs import Map


COLUMNS, BLOCK = 4096, 256
"""The most columns in a tile, and its rows, as the kernel for columns that have a length each has them."""


def plan_reverse(verb: Map) -> CopyProgram | LineProgram | None:
    """Walk along the axis, across it by whole rows, or down columns that have a length each."""
    if (primitive := match_turned(verb)) is None:
        return None
    source, target, lengths, axis = primitive.source, primitive.target, primitive.lengths, primitive.axis
    width, length_width = source.data_type.size_in_bytes, lengths.data_type.size_in_bytes
    size = source.sizes[axis]
    if size == 1:
        return CopyProgram.plan(copy_of(source, target))
    along = (source.strides[axis], target.strides[axis])
    others = simplify(_others(primitive), 1)
    in_rows = bool(others.sizes) and others.strides[1][-1] < abs(along[1])
    in_columns = in_rows and others.strides[2][-1] != 0
    if in_columns:
        at = len(others.sizes) - 1
        loops = _insert(others, at, -(-size // BLOCK), (0, 0))
    else:
        at = sum(abs(s) >= abs(along[1]) for s in others.strides[1]) if in_rows else len(others.sizes)
        loops = _insert(others, at, size, along)
    words, units = walk_words(loops, (width, width), COLUMNS * width if in_columns else SEGMENT)
    strides = [s * length_width for s in loops.strides[2]]
    byte_count = others.count * size * width
    line = f"line move {width}"
    stream = f"{line} stream" if streams(loops, width, byte_count) else ""
    get_kernel(line), stream and get_kernel(stream)
    return LineProgram(
        views=(source, target, lengths),
        offsets=(loops.offsets[0] * width, loops.offsets[1] * width, loops.offsets[2] * length_width),
        walk=get_kernel("reverse columns" if in_columns else "reverse"),
        line=line,
        words=words,
        parameters=(0, 0),
        rest=(
            length_width,
            *strides[:-1],
            *[0] * (OUTER_RANK - len(strides) + 1),
            at if in_rows else -1,
            size,
            along[0] * width,
            along[1] * width,
            strides[-1],
        ),
        units=units,
        size=2 * byte_count,
        stream=stream,
    )


def _others(primitive: Turned) -> Loops:
    """Every dimension but the axis."""
    every = loops_of(primitive.source, primitive.target, primitive.lengths)
    loops = Loops(primitive.source.sizes, every.strides, every.offsets)
    return loops.pick([k for k in range(len(loops.sizes)) if k != primitive.axis])


def _insert(loops: Loops, at: int, size: int, along: tuple[int, int]) -> Loops:
    """The axis as one more dimension, along which a length is the same."""
    strides = tuple((*row[:at], step, *row[at:]) for row, step in zip(loops.strides, (*along, 0), strict=True))
    return Loops((*loops.sizes[:at], size, *loops.sizes[at:]), strides, loops.offsets)
