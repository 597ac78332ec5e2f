"""Scatters: a copy of the base, then blocks of updates to where tuples of indices say, in their order.

Words are those of a gather, from the updates, which are its source, to the target; the fours of the tuples have no
target stride. Behind the block's threes stand the parts that the first coordinate's dimension is cut into and the
length of one, the lanes, how many of them a unit takes, and their strides in the indices, the updates and the target;
then the rank of the batches, and size, index stride, update stride and target stride of each (8 fours).

A unit is a part of some lanes of a batch: it goes through all tuples, and writes those that lead into its part, so that
no two units write to one place, and the last of equal tuples stays.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.language import load_word, quotient, remainder, smaller
from anydml.engines.cpu.codegen.outer_loops import FIRST
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout, Pointer, Table, outer_words
from anydml.engines.cpu.move.copy import program_of_copy
from anydml.engines.cpu.move.gather import PIECES, make_block
from anydml.engines.cpu.move.index_check import GATHER, INDEXED, RANK, TUPLES, make_index, tuple_words
from anydml.ir.loops import Loops
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Place
    from anydml.ir.verbs import Scatter

LANES = 256
"""Batches side by side that a unit takes together, where those lie nearer to one another than tuples do."""


SCATTER = Layout(
    *GATHER.fields, "parts", "length", "lanes", "taken", "lane_index", "lane_source", "lane_target", "batch_rank",
    Table("batches", RANK, 4),
)  # fmt: skip
"""A gather's from the updates, the source, to the target, without target strides of tuples. Then the parts that the
first indexed dimension is cut into and the length of one; the lanes, how many of them a work item takes, and their
strides; size, index stride, update stride and target stride of each dimension of the batches."""


@dataclass(frozen=True, slots=True)
class ScatterProgram:
    """A copy of the base, which is left out where it lies in its place already, then the updates."""

    copy: KernelProgram
    updates: KernelProgram
    is_alike: bool
    """Whether the base lies as the target does."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source, target = (places[one.tensor] + one.offset for one in self.copy.record.relocations)
        updates = self.updates.bind(places)
        return updates if self.is_alike and source == target else _Both(self.copy.bind(places), updates)

    def kernels(self, places: Mapping[str, Place]) -> Sequence[KernelProgram] | None:
        """Both, or the updates alone."""
        own = [(places[one.tensor], one.offset) for one in self.copy.record.relocations]
        source, target = ((place.array, place.offset + offset) for place, offset in own)
        if self.is_alike and source == target:
            return (self.updates,)
        copies = self.copy.kernels(places)
        return None if copies is None else (*copies, self.updates)


def plan_scatter(primitive: Scatter) -> ScatterProgram:
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
    pointers = [
        Pointer(view.tensor, begin)
        for view, begin in zip((primitive.updates, indices, target), primitive.begins(), strict=True)
    ]
    names = zip(("lane_index", "lane_source", "lane_target"), lane_strides, widths, strict=True)
    record = SCATTER.write({
        "source": pointers[0], "indices": pointers[1], "target": pointers[2], "coordinates": primitive.tuple_size,
        "coordinate_step": indices.strides[-1] * index_width, "count": count, "source_step": steps[0] * width,
        "target_step": steps[1] * width, "rank": len(tuples.sizes), "block_rank": outer, "indexed": indexed,
        "tuples": tuple_words(walked, index_width, width), "blocks": outer_words(block, width, outer),
        "parts": parts, "length": length, "lanes": lanes, "taken": taken,
        **{name: stride * own for name, stride, own in names},
        "batch_rank": len(batches.sizes), "batches": tuple_words(batches, index_width, width),
    })  # fmt: skip
    kind = kind_of(indices.data_type)
    make = functools.partial(make_scatter, kind, shape.split()[0], int(shape.split()[1]))
    kernel = get_kernel(f"scatter {shape} {kind}", make)
    updates = KernelProgram(kernel, record, units * parts, moved)
    copy = program_of_copy(copy_of(primitive.source, target))
    return ScatterProgram(copy, updates, primitive.source.strides == target.strides)


class _Both:
    """The copy, then the updates."""

    __slots__ = ("launches",)

    def __init__(self, copy: Callable[[], Any], write: Callable[[], Any]) -> None:
        self.launches = copy, write

    def __call__(self) -> None:
        for launch in self.launches:
            launch()


PARTS, BATCHES = SCATTER.at("parts"), SCATTER.at("batches")


def make_scatter(kind: str, shape: str, width: int) -> Any:
    """The kernel. An index outside its dimension leads nowhere: one that changes after the check does no harm."""
    index, block = make_index(kind), make_block(shape, width, False)

    def run(
        words: int,
        source: int,
        source_step: int,
        indices: int,
        index_step: int,
        target: int,
        count: int,
        lanes: int,
        low: int,
        high: int,
    ) -> None:
        coordinates, coordinate_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        size, stride = load_word(words, INDEXED), load_word(words, INDEXED + 8)
        lane_index, lane_source = load_word(words, PARTS + 32), load_word(words, PARTS + 40)
        lane_target = load_word(words, PARTS + 48)
        for i in range(count):
            for lane in range(lanes):
                at = indices + i * index_step + lane * lane_index
                first = index(at, 0, size)
                if low <= first < high:
                    to, is_inside = target + lane * lane_target + first * stride, 1
                    for k in range(1, coordinates):
                        other = index(at + k * coordinate_step, 0, load_word(words, INDEXED + 16 * k))
                        to += other * load_word(words, INDEXED + 16 * k + 8)
                        is_inside = 0 if other < 0 else is_inside
                    if is_inside:
                        block(words, source + i * source_step + lane * lane_source, to)

    def kernel(words: int, begin: int, end: int) -> int:
        rank = load_word(words, FIRST + 64)
        inner, index_step, source_step, rows = 1, 0, 0, 1
        if rank > 0:
            last = TUPLES + 32 * (rank - 1)
            inner, index_step, source_step = (
                load_word(words, last),
                load_word(words, last + 8),
                load_word(words, last + 16),
            )
        for k in range(rank - 1):
            rows *= load_word(words, TUPLES + 32 * k)
        parts, length = load_word(words, PARTS), load_word(words, PARTS + 8)
        width, most = load_word(words, PARTS + 16), load_word(words, PARTS + 24)
        groups = quotient(width + most - 1, most)
        batch_rank = load_word(words, PARTS + 56)
        for unit in range(begin, end):
            rest = quotient(unit, parts)
            low = (unit - rest * parts) * length
            number = quotient(rest, groups)
            lane = (rest - number * groups) * most
            source = load_word(words, FIRST) + lane * load_word(words, PARTS + 40)
            indices = load_word(words, FIRST + 8) + lane * load_word(words, PARTS + 32)
            target = load_word(words, FIRST + 16) + lane * load_word(words, PARTS + 48)
            for k in range(batch_rank - 1, -1, -1):
                size = load_word(words, BATCHES + 32 * k)
                i = remainder(number, size)
                number = quotient(number, size)
                indices += i * load_word(words, BATCHES + 32 * k + 8)
                source += i * load_word(words, BATCHES + 32 * k + 16)
                target += i * load_word(words, BATCHES + 32 * k + 24)
            for r in range(rows):
                left, x, s = r, indices, source
                for k in range(rank - 2, -1, -1):
                    size = load_word(words, TUPLES + 32 * k)
                    i = remainder(left, size)
                    left = quotient(left, size)
                    x += i * load_word(words, TUPLES + 32 * k + 8)
                    s += i * load_word(words, TUPLES + 32 * k + 16)
                run(words, s, source_step, x, index_step, target, inner, smaller(most, width - lane), low, low + length)
        return 0

    return kernel
