"""Scatters: a copy of the base, then blocks of updates to where tuples of indices say, in their order.

A unit is a part of some lanes of a batch: it goes through all tuples, and writes those that lead into its part, so that
no two units write to one place, and the last of equal tuples stays.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.language import quotient, remainder, smaller
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout, Pointer, dimension_words
from anydml.engines.cpu.move.copy import plan_copy
from anydml.engines.cpu.move.gather import block_of, make_block
from anydml.engines.cpu.move.index_check import GATHER, TUPLES, find_tuple, make_index
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Place
    from anydml.engines.cpu.codegen.outer_loops import Way
    from anydml.ir.verbs import Scatter

LANES = 256
"""Batches side by side that a unit takes together, where those lie nearer to one another than tuples do."""


SCATTER = Layout(
    *GATHER.fields, "parts", "length", "lanes", "taken", "lane_index", "lane_source", "lane_target", "batch_rank",
    TUPLES._replace(name="batches", rank="batch_rank"),
)  # fmt: skip
"""A gather's from the updates, the source, to the target, without target strides of tuples. Then the parts that the
first indexed dimension is cut into and the length of one; the lanes, how many of them a work item takes, and their
strides; and the batches."""


@dataclass(frozen=True, slots=True)
class ScatterProgram(Program):
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
    shape, _, fields = block_of(block, width, "row 1")
    indexed = dimension_words(target.sizes[primitive.indexed], [target.strides[primitive.indexed]], (width,))
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
    widths = (index_width, width, width)
    pointers = [
        Pointer(view.tensor, begin)
        for view, begin in zip((primitive.updates, indices, target), primitive.begins(), strict=True)
    ]
    names = zip(("lane_index", "lane_source", "lane_target"), lane_strides, widths, strict=True)
    record = SCATTER.write({
        "source": pointers[0], "indices": pointers[1], "target": pointers[2], "coordinates": primitive.tuple_size,
        "coordinate_step": indices.strides[-1] * index_width, "rank": len(tuples.sizes), "indexed": indexed,
        "tuples": dimension_words(tuples.sizes, (*tuples.strides, (0,) * len(tuples.sizes)), widths), **fields,
        "parts": parts, "length": length, "lanes": lanes, "taken": taken,
        **{name: stride * own for name, stride, own in names}, "batch_rank": len(batches.sizes),
        "batches": dimension_words(batches.sizes, batches.strides, widths),
    })  # fmt: skip
    kind = kind_of(indices.data_type)
    make = functools.partial(make_scatter, kind, shape.split()[0], int(shape.split()[1]))
    kernel = get_kernel(f"scatter {shape} {kind}", make)
    updates = KernelProgram(kernel, record, units * parts, moved)
    copy = plan_copy(copy_of(primitive.source, target))
    return ScatterProgram(copy, updates, primitive.source.strides == target.strides)


class _Both:
    """The copy, then the updates."""

    __slots__ = ("launches",)

    def __init__(self, copy: Callable[[], Any], write: Callable[[], Any]) -> None:
        self.launches = copy, write

    def __call__(self) -> None:
        for launch in self.launches:
            launch()


def make_scatter(kind: str, shape: str, width: int) -> Any:
    """The kernel. An index outside its dimension leads nowhere: one that changes after the check does no harm."""
    index, block = make_index(kind), make_block(shape, width, False)

    def run(w: Any, source: Way, indices: Way, target: int, count: int, lanes: int, low: int, high: int) -> None:
        # A row of tuples, each for some lanes: those that lead into a part are written.
        (first_source, source_step), (first_index, index_step) = source, indices
        coordinates, coordinate_step = w.coordinates, w.coordinate_step
        size, stride = w.indexed[0].size, w.indexed[0].stride
        lane_index, lane_source, lane_target = w.lane_index, w.lane_source, w.lane_target
        for i in range(count):
            for lane in range(lanes):
                at = first_index + i * index_step + lane * lane_index
                first = index(at, 0, size)
                if low <= first < high:
                    to, is_inside = target + lane * lane_target + first * stride, 1
                    for k in range(1, coordinates):
                        other = index(at + k * coordinate_step, 0, w.indexed[k].size)
                        to += other * w.indexed[k].stride
                        is_inside = 0 if other < 0 else is_inside
                    if is_inside:
                        block(w, first_source + i * source_step + lane * lane_source, to)

    def kernel(words: int, begin: int, end: int) -> int:
        w = SCATTER(words)
        rank, parts, length, width, most = w.rank, w.parts, w.length, w.lanes, w.taken
        inner, index_step, source_step, rows = 1, 0, 0, 1
        if rank > 0:
            last = w.tuples[rank - 1]
            inner, index_step, source_step = last.size, last.indices, last.source
        for k in range(rank - 1):
            rows *= w.tuples[k].size
        groups, batch_rank = quotient(width + most - 1, most), w.batch_rank
        for unit in range(begin, end):
            rest = quotient(unit, parts)
            low = (unit - rest * parts) * length
            number = quotient(rest, groups)
            lane = (rest - number * groups) * most
            source = w.source + lane * w.lane_source
            indices = w.indices + lane * w.lane_index
            target = w.target + lane * w.lane_target
            for k in range(batch_rank - 1, -1, -1):
                size = w.batches[k].size
                i = remainder(number, size)
                number = quotient(number, size)
                indices += i * w.batches[k].indices
                source += i * w.batches[k].source
                target += i * w.batches[k].target
            for r in range(rows):
                x, s, _ = find_tuple(w.tuples, rank - 1, r)
                taken = smaller(most, width - lane)
                run(w, (source + s, source_step), (indices + x, index_step), target, inner, taken, low, low + length)
        return 0

    return kernel
