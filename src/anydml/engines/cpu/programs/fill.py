"""Fills, planned: a walk over the target and the numbers of its elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.programs.lines import LineProgram, as_word, kind_of, streams, walk_words
from anydml.ir.patterns import match_filled
from anydml.ir.plan import Loops, simplify

LINE = 64
"""Bytes of a line of the cache."""

if TYPE_CHECKING:
    from anydml.ir.patterns import Filled
    from anydml.ir.verbs import Map


def plan_fill(primitive: Map) -> LineProgram | None:
    """Let the number of an element be its place in a source of which every element is a byte; None for other maps."""
    found = match_filled(primitive)
    if found is None:
        return None
    target, width = found.target, found.target.data_type.size_in_bytes
    numbers = tuple(math.prod(target.sizes[k + 1 :]) for k in range(len(target.sizes)))
    loops = simplify(Loops(target.sizes, (numbers, target.strides), (0, target.offset)), 1)
    words, units = walk_words(loops, (1, width))
    kind, parameters = _sequence(found)
    line = f"line sequence {kind}"
    get_kernel(line)
    size = loops.count * width
    stream = f"{line} stream" if streams(loops, width, size) else ""
    if stream:
        get_kernel(stream)
    return LineProgram(
        views=(None, target),
        offsets=(loops.offsets[0], loops.offsets[1] * width),
        walk=get_kernel("walk"),
        line=line,
        words=words,
        parameters=parameters,
        rest=(),
        units=units,
        size=_touched(loops, width),
        stream=stream,
    )


def _touched(loops: Loops, width: int) -> int:
    """The bytes of the lines that are written to: a margin of one element a line takes as long as 16."""
    if not loops.sizes:
        return width
    step, run = loops.strides[1][-1] * width, loops.sizes[-1] * width
    if step == width:
        return loops.count * width // run * (-(-run // LINE) * LINE)
    return loops.count * min(abs(step), LINE)


def _sequence(primitive: Filled) -> tuple[str, tuple[int, int]]:
    """The kind that computes, and its start and delta as words."""
    data_type = primitive.target.data_type
    bits = f"u{data_type.size_in_bytes * 8}"
    if not primitive.delta:
        start = np.array(primitive.start, data_type.dtype).view(f"i{data_type.size_in_bytes}")
        return bits, (int(start), 0)
    if data_type.is_float:
        return kind_of(data_type), (as_word(primitive.start), as_word(primitive.delta))
    return bits, (_wrapped(int(primitive.start)), _wrapped(int(primitive.delta)))


def _wrapped(number: int) -> int:
    """An integer of any size as a word, which is signed."""
    return (number + 2**63) % 2**64 - 2**63
