"""Walks over lines, planned: fills, conversions and scales, and what they share with reversals."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import STREAM_FROM
from anydml.engines.cpu.move.copy import CopyProgram
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of, match_filled, match_scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.enums import DataType
    from anydml.ir.patterns import Scaled
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

# Walks over lines, planned: what conversions, scales, fills and reversals have in common.


SEGMENT = 1024 * 1024
"""Bytes of a row, the source's or the target's, that one unit of work goes through."""
LONG_ROW = 256
"""Bytes of a row from which on whole lines of it are written past the cache, where the output is large."""
ELEMENTS = 64
"""Segments are whole multiples of it, so that lines of the cache are whole in each."""
OUTER_RANK = 8
"""Outer dimensions that a walk over lines has room for."""


class LineProgram(NamedTuple):
    """Lines to be walked over."""

    views: tuple[View | None, ...]
    """The source, the target, then what else is bound; None where there is only a number."""
    offsets: tuple[int, ...]
    """In bytes, from the tensors' first elements; the number itself where there is no tensor."""
    walk: Kernel
    line: str
    words: tuple[int, ...]
    """After the two addresses, up to the line's."""
    parameters: tuple[int, ...]
    """After the line's address, up to the addresses of what else is bound."""
    rest: tuple[int, ...]
    units: int
    size: int
    stream: str = ""
    """The line for a large target that is aligned to its elements, where that is another."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source, target, *others = [
            offset if view is None else places[view.tensor] + offset
            for view, offset in zip(self.views, self.offsets, strict=True)
        ]
        written = self.views[1]
        lies_well = written is not None and target % written.data_type.size_in_bytes == 0
        line = get_kernel(self.stream if self.stream and lies_well else self.line).address
        words = (source, target, *self.words, line, *self.parameters, *others, *self.rest)
        return make_dispatch(self.walk, words, self.units, self.size)


def kind_of(data_type: DataType) -> str:
    """A type as kernels name it: `f16`, `i32`, `u8`."""
    letter = "f" if data_type.is_float else "i" if data_type.is_signed else "u"
    return f"{letter}{data_type.size_in_bytes * 8}"


def as_word(number: float) -> int:
    """A float64's bits as a word."""
    (bits,) = struct.unpack("q", struct.pack("d", number))
    return int(bits)


def walk_words(loops: Loops, widths: Sequence[int], segment: int = SEGMENT) -> tuple[tuple[int, ...], int]:
    """The words of a walk whose innermost dimension is the last, and its units; widths are of source and target."""
    rank = max(len(loops.sizes) - 1, 0)
    count, steps = (loops.sizes[-1], [row[-1] for row in loops.strides]) if loops.sizes else (1, [1, 1])
    segments = -(-count * max(widths) // segment)
    length = -(-count // segments // ELEMENTS) * ELEMENTS
    segments = -(-count // length)
    table = [
        word
        for k in range(rank)
        for word in (loops.sizes[k], loops.strides[0][k] * widths[0], loops.strides[1][k] * widths[1])
    ]
    words = (count, steps[0] * widths[0], steps[1] * widths[1], segments, length, rank, *table)
    filled = (*words, *[0] * (3 * (OUTER_RANK - rank)))
    return filled, math.prod(loops.sizes[:rank]) * segments


def streams(loops: Loops, width: int, size: int) -> bool:
    """Whether a target of so many bytes is written past the cache: it is large, and its rows are long runs.

    Not on an x86: two threads of a Xeon take 12.8 ms for 16 M float32 to int32 so, and 11.6 without; 13 and 9 to fill.
    """
    is_run = bool(loops.sizes) and loops.strides[1][-1] == 1 and loops.sizes[-1] * width >= LONG_ROW
    return IS_ARM and is_run and size >= STREAM_FROM


# Fills, planned: a walk over the target and the numbers of its elements.


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


# Conversions and scales, planned: the line is chosen by the pair of types.


def moves_bits(primitive: Scaled) -> bool:
    """Whether elements only change their type's name: equal types, and integers of one width."""
    source, target = primitive.source.data_type, primitive.target.data_type
    same_width = source.size_in_bytes == target.size_in_bytes
    return primitive.is_conversion and same_width and source.is_float == target.is_float


def plan_scaled(verb: Map) -> CopyProgram | LineProgram | None:
    """Choose the line by the pair of types; a map that moves bits is a copy."""
    if (primitive := match_scaled(verb)) is None:
        return None
    source, target = primitive.source, primitive.target
    if moves_bits(primitive):
        return CopyProgram.plan(copy_of(source, target))
    widths = (source.data_type.size_in_bytes, target.data_type.size_in_bytes)
    loops = simplify(loops_of(source, target), 1)
    words, units = walk_words(loops, widths)
    line = f"line {_function(primitive)}"
    get_kernel(line)
    stream = f"{line} stream" if streams(loops, widths[1], loops.count * widths[1]) else ""
    if stream:
        get_kernel(stream)
    return LineProgram(
        views=(source, target),
        offsets=(loops.offsets[0] * widths[0], loops.offsets[1] * widths[1]),
        walk=get_kernel("walk"),
        line=line,
        words=words,
        parameters=(as_word(primitive.scale), as_word(primitive.bias)),
        rest=(),
        units=units,
        size=loops.count * sum(widths),
        stream=stream,
    )


def _function(primitive: Scaled) -> str:
    """A line's name, with that of the pairs that share it: bits are cut off whatever their sign."""
    source, target = kind_of(primitive.source.data_type), kind_of(primitive.target.data_type)
    if not primitive.is_conversion:
        return f"scale {source} {target}"
    if "f" not in source + target:
        target = f"u{target[1:]}"
        source = f"u{source[1:]}" if int(target[1:]) < int(source[1:]) else source
    return f"convert {source} {target}"
