"""Gathers, planned: the kernel is chosen by the block that a tuple picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import STREAM_FROM, outer_words
from anydml.engines.cpu.move.index_check import filled, kind_of, tuple_words
from anydml.ir.fetches import match_gathered
from anydml.ir.loops import Loops, merge, order, simplify, squeeze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.fetches import Gathered
    from anydml.ir.verbs import Map


ALIGNED = 16
"""The alignment of rows that are written past the cache."""
PIECES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes that a gather copies in one step."""
TAKEN = 32
"""Bytes of a piece from which on an x86 takes them one after the other."""
NEAR = 256 * 1024
"""Bytes that an index reaches over, up to which elements are read from the cache and need not be fetched ahead."""
TILE = 512
"""Bytes of a row of which each element has its own place along an axis outside: what such a tile reads fits a cache."""


class GatherProgram(NamedTuple):
    """A gather, planned."""

    primitive: Gathered
    kernel: Kernel
    offsets: tuple[int, int, int]
    """In bytes, from the tensors' first elements."""
    words: tuple[int, ...]
    """After the three addresses."""
    tuples: int
    size: int
    """Bytes that it moves."""
    stream: Kernel | None = None
    """For large outputs whose rows are aligned."""

    @classmethod
    def plan(cls, primitive: Gathered, *, is_checked: bool = False) -> GatherProgram:
        """Choose the kernel by the block that a tuple picks; `is_checked` says that every index is inside."""
        source, indices, target = primitive.source, primitive.indices, primitive.target
        width, index_width = source.data_type.size_in_bytes, indices.data_type.size_in_bytes
        batch, depth, rank = primitive.batch_rank, primitive.tuple_size, len(indices.sizes) - 1
        across = (*source.strides[:batch], *[0] * (rank - batch))
        tuple_loops = Loops(indices.sizes[:-1], (indices.strides[:-1], across, target.strides[:rank]), (0, 0, 0))
        tuples = merge(order(squeeze(tuple_loops), 2))
        block_loops = Loops(
            target.sizes[rank:],
            (source.strides[batch + depth :], target.strides[rank:]),
            (source.offset, target.offset),
        )
        block = simplify(block_loops, 1)
        count, steps = 1, (1, 1)
        outer = max(len(block.sizes) - 1, 0)
        if block.sizes:
            count, steps = block.sizes[-1], (block.strides[0][-1], block.strides[1][-1])
        shape, pieces = f"any {width}", count * width
        if outer == 0 and steps == (1, 1):
            shape = f"piece {pieces}" if pieces in PIECES else "row 1" if IS_ARM else "ahead 1"
            count = count if pieces in PIECES else pieces
        kind = kind_of(indices)
        indexed = [
            word
            for size, stride in zip(primitive.indexed_sizes, source.strides[batch:], strict=False)
            for word in (size, stride * width)
        ]
        reach = abs(primitive.indexed_sizes[0] * source.strides[batch]) * width
        if depth == 1 and shape.startswith("piece") and pieces <= 8 and tuples.sizes:
            if tuples.strides[1][-1] == 0 and reach <= NEAR:
                shape = f"near {pieces}"
            elif tuples.strides[1][-1] and reach > NEAR:
                tuples = _tiled(tuples, TILE // pieces)
        elif depth == 1 and shape.startswith("piece") and pieces >= TAKEN and not IS_ARM:
            shape = f"take {pieces}"
        before = (depth, indices.strides[-1] * index_width, count, steps[0] * width, steps[1] * width)
        after = (*filled(indexed, 16), *tuple_words(tuples, index_width, width))
        words = (*before, len(tuples.sizes), outer, *after, *filled(outer_words(block, width, outer), 24))
        offsets = (block.offsets[0] * width, indices.offset * index_width, block.offsets[1] * width)
        move_size = tuples.count * (depth * index_width + 2 * block.count * width)
        kernel = get_kernel(f"gather {shape} {kind}{' checked' if is_checked and shape.startswith('take') else ''}")
        stream = None
        lies_well = all(s * width % ALIGNED == 0 for s in target.strides[:rank]) and pieces % ALIGNED == 0
        # Not past the cache on an x86, but for the shortest: two threads of a Xeon take 44 ms for 400,000 rows of 512
        # bytes so, and 35 ms without; for 6,400,000 of 16 bytes it is the other way round.
        is_quicker = IS_ARM or pieces == ALIGNED
        if is_quicker and not shape.startswith("any") and move_size // 2 >= STREAM_FROM and lies_well:
            stream = get_kernel(f"gather {shape} {kind} stream")
        return cls(primitive, kernel, offsets, words, tuples.count, move_size, stream)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        views = (self.primitive.source, self.primitive.indices, self.primitive.target)
        addresses = [places[view.tensor] + offset for view, offset in zip(views, self.offsets, strict=True)]
        kernel = self.stream if self.stream is not None and addresses[2] % ALIGNED == 0 else self.kernel
        return make_dispatch(kernel, (*addresses, *self.words), self.tuples, self.size)


def plan_gather(primitive: Map) -> GatherProgram | None:
    """Plan a map that picks elements by indices."""
    found = match_gathered(primitive)
    return None if found is None else GatherProgram.plan(found, is_checked=found.check in primitive.checks)


def _tiled(loops: Loops, length: int) -> Loops:
    """The innermost dimension in tiles that each go through the other dimensions, where it is whole tiles.

    What they read lies on the same lines, which then stay in the cache.
    """
    if len(loops.sizes) < 2 or loops.sizes[-1] % length or loops.sizes[-1] == length:
        return loops
    sizes = (loops.sizes[-1] // length, *loops.sizes[:-1], length)
    return Loops(sizes, tuple((row[-1] * length, *row) for row in loops.strides), loops.offsets)
