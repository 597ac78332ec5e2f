"""Scatters, planned: a copy of the base, then the updates, by parts that no two threads write to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.launch.call import SMALL, make_dispatch
from anydml.engines.cpu.launch.record import outer_words
from anydml.engines.cpu.move.copy import CopyProgram
from anydml.engines.cpu.move.gather import PIECES
from anydml.engines.cpu.move.index_check import filled, kind_of, tuple_words
from anydml.ir.loops import Loops
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Scatter


LANES = 256
"""Batches side by side that a unit takes together, where those lie nearer to one another than tuples do."""


class ScatterProgram(NamedTuple):
    """A scatter, planned."""

    primitive: Scatter
    copy: CopyProgram
    kernel: Kernel
    offsets: tuple[int, int, int]
    """Of the updates, the indices and the target, in bytes, from the tensors' first elements."""
    words: tuple[int, ...]
    """After the three addresses."""
    units: int
    size: int
    """Bytes that the updates move."""

    @classmethod
    def plan(cls, primitive: Scatter) -> ScatterProgram:
        """Choose the kernel by the block that a tuple leads to."""
        indices, target, (batches, tuples, block) = primitive.indices, primitive.target, primitive.walks()
        width, index_width = target.data_type.size_in_bytes, indices.data_type.size_in_bytes
        count, steps, outer = 1, (1, 1), max(len(block.sizes) - 1, 0)
        if block.sizes:
            count, steps = block.sizes[-1], (block.strides[0][-1], block.strides[1][-1])
        shape, pieces = f"any {width}", count * width
        if outer == 0 and steps == (1, 1):
            shape = f"piece {pieces}" if pieces in PIECES else "row 1"
            count = count if pieces in PIECES else pieces
        strides = target.strides[primitive.indexed]
        indexed = [
            word
            for size, stride in zip(target.sizes[primitive.indexed], strides, strict=True)
            for word in (size, stride * width)
        ]
        lane_strides: tuple[int, ...] = (0, 0, 0)
        lanes, taken = 1, 1
        if batches.sizes and tuples.sizes and abs(batches.strides[0][-1]) < abs(tuples.strides[0][-1]):
            lanes, lane_strides = batches.sizes[-1], tuple(row[-1] for row in batches.strides)
            batches, taken = batches.pick(range(len(batches.sizes) - 1)), min(lanes, LANES)
        moved = batches.count * lanes * tuples.count * (primitive.tuple_size * index_width + 2 * block.count * width)
        units, longest = batches.count * -(-lanes // taken), indexed[0]
        wanted = get_num_threads() if moved >= SMALL else 1
        parts = max(min(-(-wanted // units), longest), 1)
        length = -(-longest // parts)
        parts = -(-longest // length)
        walked = Loops(tuples.sizes, (*tuples.strides, (0,) * len(tuples.sizes)), (0, 0, 0))
        widths = (index_width, width, width)
        words = (
            *(primitive.tuple_size, indices.strides[-1] * index_width, count, steps[0] * width, steps[1] * width),
            *(len(tuples.sizes), outer, *filled(indexed, 16), *tuple_words(walked, index_width, width)),
            *filled(outer_words(block, width, outer), 24),
            *(parts, length, lanes, taken, *(s * own for s, own in zip(lane_strides, widths, strict=True))),
            *(len(batches.sizes), *tuple_words(batches, index_width, width)),
        )
        kernel = get_kernel(f"scatter {shape} {kind_of(indices)}")
        copy = CopyProgram.plan(copy_of(primitive.source, target))
        return cls(primitive, copy, kernel, primitive.begins(), words, units * parts, moved)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; what lies in its place already is not copied."""
        primitive = self.primitive
        views = (primitive.updates, primitive.indices, primitive.target)
        addresses = [places[view.tensor] + offset for view, offset in zip(views, self.offsets, strict=True)]
        write = make_dispatch(self.kernel, (*addresses, *self.words), self.units, self.size)
        if primitive.is_in_place(places):
            return write
        return _Both(self.copy.bind(places), write)


class _Both:
    """The copy, then the updates."""

    __slots__ = ("launches",)

    def __init__(self, copy: Callable[[], Any], write: Callable[[], Any]) -> None:
        self.launches = copy, write

    def __call__(self) -> None:
        for launch in self.launches:
            launch()
