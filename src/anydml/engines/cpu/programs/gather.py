"""Indexed copies, planned: the kernel is chosen by the block that a tuple picks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.call import make_dispatch
from anydml.engines.cpu.programs.words import STREAM_FROM, outer_words
from anydml.engines.reference import resolve
from anydml.ir.plan import Loops, merge, order, simplify, squeeze
from anydml.ir.verbs import IndexFault
from anydml.memory import numpy_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.build import Kernel
    from anydml.ir.verbs import IndexedCopy

ALIGNED = 16
"""What rows must be aligned to, to be written past the cache."""
PIECES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes that a gather copies in one step."""
TAKEN = 32
"""Bytes of a piece from which on an x86 takes them one after the other."""
NEAR = 256 * 1024
"""Bytes that an index reaches over, up to which elements are read from the cache and need not be fetched ahead."""
TILE = 512
"""Bytes of a row of which each element has its own place along an axis outside: what such a tile reads fits a cache."""


@dataclass(frozen=True, slots=True)
class GatherProgram:
    """An indexed copy, planned."""

    primitive: IndexedCopy
    check: Kernel
    kernel: Kernel
    offsets: tuple[int, int, int]
    """In bytes, from the tensors' first elements."""
    check_words: tuple[int, ...]
    words: tuple[int, ...]
    """Both after the three addresses."""
    tuples: tuple[int, int]
    """That the check looks at, and that the copy takes."""
    sizes: tuple[int, int]
    """Bytes that the check reads, and that the copy moves."""
    stream: Kernel | None = None
    """For large outputs whose rows are aligned."""

    @classmethod
    def plan(cls, primitive: IndexedCopy) -> GatherProgram:
        """Choose the kernel by the block that a tuple picks."""
        source, indices, target = primitive.source, primitive.indices, primitive.target
        width, index_width = source.data_type.size_in_bytes, indices.data_type.size_in_bytes
        batch, depth, rank = primitive.batch_rank, primitive.tuple_size, len(indices.sizes) - 1
        across = (*source.strides[:batch], *[0] * (rank - batch))
        tuple_loops = Loops(indices.sizes[:-1], (indices.strides[:-1], across, target.strides[:rank]), (0, 0, 0))
        checked = _checked(tuple_loops)
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
        kind = f"{'i' if indices.data_type.is_signed else 'u'}{index_width * 8}"
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
        after = (*_filled(indexed, 16),)
        blocks = _filled(outer_words(block, width, outer), 24)
        words, check_words = (
            (*before, len(loops.sizes), outer, *after, *_tuple_words(loops, index_width, width), *blocks)
            for loops in (tuples, checked)
        )
        offsets = (block.offsets[0] * width, indices.offset * index_width, block.offsets[1] * width)
        check_size = checked.count * depth * index_width
        move_size = tuples.count * (depth * index_width + 2 * block.count * width)
        is_checked = shape.startswith("take") and not primitive.clamp
        kernel = get_kernel(f"gather {shape} {kind}{' checked' if is_checked else ''}")
        stream = None
        lies_well = all(s * width % ALIGNED == 0 for s in target.strides[:rank]) and pieces % ALIGNED == 0
        # Not past the cache on an x86, but for the shortest: two threads of a Xeon take 44 ms for 400,000 rows of 512
        # bytes so, and 35 ms without; for 6,400,000 of 16 bytes it is the other way round.
        is_quicker = IS_ARM or pieces == ALIGNED
        if is_quicker and not shape.startswith("any") and move_size // 2 >= STREAM_FROM and lies_well:
            stream = get_kernel(f"gather {shape} {kind} stream")
        check, sizes = get_kernel(f"check {kind}"), (check_size, move_size)
        counts = (checked.count, tuples.count)
        return cls(primitive, check, kernel, offsets, check_words, words, counts, sizes, stream)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in. In `clamp` mode there is nothing to check."""
        views = (self.primitive.source, self.primitive.indices, self.primitive.target)
        addresses = [places[view.tensor] + offset for view, offset in zip(views, self.offsets, strict=True)]
        words = (*addresses, *self.words)
        kernel = self.stream if self.stream is not None and addresses[2] % ALIGNED == 0 else self.kernel
        copy = make_dispatch(kernel, words, self.tuples[1], self.sizes[1])
        if self.primitive.clamp:
            return copy
        check_words = (*addresses, *self.check_words)
        check = make_dispatch(self.check, check_words, self.tuples[0], self.sizes[0])
        return _Checked(check, copy, self.primitive, addresses[1])


class _Checked:
    """The bounds first, then the copy: nothing is written where an index is outside."""

    __slots__ = ("_check", "_copy", "_indices", "_primitive")

    def __init__(self, check: Callable[[], Any], copy: Callable[[], Any], primitive: IndexedCopy, indices: int) -> None:
        self._check, self._copy, self._primitive, self._indices = check, copy, primitive, indices

    def __call__(self) -> None:
        if self._check() is not None:
            raise self._fault()
        self._copy()

    def _fault(self) -> IndexFault:
        """Find the first tuple in the order of the indices, which is not the order of the check."""
        view = self._primitive.indices
        try:
            resolve(self._primitive, numpy_view(self._indices, view.sizes, view.strides, view.data_type.dtype))
        except IndexFault as fault:
            return fault
        return IndexFault((), (), 0, 0)  # the indices changed while they were looked at


def _checked(loops: Loops) -> Loops:
    """The tuples that differ, in the order of their memory: those that are read again need no second look."""
    own = loops.pick([k for k, stride in enumerate(loops.strides[0]) if stride])
    return merge(order(squeeze(Loops(own.sizes, (own.strides[0], *[(0,) * len(own.sizes)] * 2), own.offsets)), 0))


def _tiled(loops: Loops, length: int) -> Loops:
    """The innermost dimension in tiles that each go through the other dimensions, where it is whole tiles.

    What they read lies on the same lines, which then stay in the cache.
    """
    if len(loops.sizes) < 2 or loops.sizes[-1] % length or loops.sizes[-1] == length:
        return loops
    sizes = (loops.sizes[-1] // length, *loops.sizes[:-1], length)
    return Loops(sizes, tuple((row[-1] * length, *row) for row in loops.strides), loops.offsets)


def _tuple_words(loops: Loops, index_width: int, width: int) -> list[int]:
    """Size, then the strides of the indices, the source and the target, in bytes."""
    words = []
    for k, size in enumerate(loops.sizes):
        index, read, written = (row[k] for row in loops.strides)
        words += [size, index * index_width, read * width, written * width]
    return _filled(words, 32)


def _filled(words: Sequence[int], length: int) -> list[int]:
    return [*words, *[0] * (length - len(words))]
