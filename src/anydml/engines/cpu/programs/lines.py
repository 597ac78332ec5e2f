"""Walks over lines, planned: what maps, fills and reversals have in common."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import make_dispatch
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.programs.words import STREAM_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.enums import DataType
    from anydml.ir.plan import Loops
    from anydml.ir.views import View

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
