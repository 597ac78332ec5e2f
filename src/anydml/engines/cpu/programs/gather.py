"""Indexed copies, planned: the kernel is chosen by the block that a tuple picks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.call import make_dispatch, make_words
from anydml.engines.cpu.programs.words import STREAM_FROM, outer_words
from anydml.memory import numpy_view
from anydml.plan import Loops, merge, simplify, squeeze
from anydml.primitives import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.cpu.build import Kernel
    from anydml.primitives import IndexedCopy

ALIGNED = 16
"""What rows must be aligned to, to be written past the cache."""
PIECES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes that a gather copies in one step."""


@dataclass(frozen=True, slots=True)
class GatherProgram:
    """An indexed copy, planned."""

    primitive: IndexedCopy
    check: Kernel
    kernel: Kernel
    words: tuple[int, ...]
    """After the three addresses."""
    tuples: int
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
        tuples = merge(squeeze(tuple_loops))
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
            shape = f"piece {pieces}" if pieces in PIECES else "row 1"
            count = count if pieces in PIECES else pieces
        kind = f"{'i' if indices.data_type.is_signed else 'u'}{index_width * 8}"
        indexed = [
            word
            for size, stride in zip(primitive.indexed_sizes, source.strides[batch:], strict=False)
            for word in (size, stride * width)
        ]
        tuple_words = []
        for k, size in enumerate(tuples.sizes):
            index, read, written = (row[k] for row in tuples.strides)
            tuple_words += [size, index * index_width, read * width, written * width]
        words = (
            depth, indices.strides[-1] * index_width, count, steps[0] * width, steps[1] * width,
            len(tuples.sizes), outer,
            *_filled(indexed, 16), *_filled(tuple_words, 32), *_filled(outer_words(block, width, outer), 24),
        )  # fmt: skip
        offsets = (block.offsets[0] * width, indices.offset * index_width, block.offsets[1] * width)
        check_size = tuples.count * depth * index_width
        move_size = check_size + 2 * tuples.count * block.count * width
        kernel = get_kernel(f"gather {shape} {kind}")
        stream = None
        lies_well = all(s * width % ALIGNED == 0 for s in target.strides[:rank]) and pieces % ALIGNED == 0
        # Not past the cache on an x86, but for the shortest: two threads of a Xeon take 44 ms for 400,000 rows of 512
        # bytes so, and 35 ms without; for 6,400,000 of 16 bytes it is the other way round.
        is_quicker = IS_ARM or pieces == ALIGNED
        if is_quicker and not shape.startswith("any") and move_size // 2 >= STREAM_FROM and lies_well:
            stream = get_kernel(f"gather {shape} {kind} stream")
        check, sizes = get_kernel(f"check {kind}"), (check_size, move_size)
        return cls(primitive, check, kernel, (*offsets, *words), tuples.count, sizes, stream)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in. In `clamp` mode there is nothing to check."""
        views = (self.primitive.source, self.primitive.indices, self.primitive.target)
        addresses = [places[view.tensor] + offset for view, offset in zip(views, self.words[:3], strict=True)]
        words = make_words((*addresses, *self.words[3:]), self.tuples)
        kernel = self.stream if self.stream is not None and addresses[2] % ALIGNED == 0 else self.kernel
        copy = make_dispatch(kernel, words, self.tuples, self.sizes[1])
        if self.primitive.clamp:
            return copy
        check = make_dispatch(self.check, words, self.tuples, self.sizes[0])
        return _Checked(check, copy, self.primitive, words, addresses[1])


class _Checked:
    """The bounds first, then the copy: nothing is written where an index is outside."""

    __slots__ = ("_check", "_copy", "_indices", "_primitive", "_words")

    def __init__(
        self, check: Callable[[], Any], copy: Callable[[], Any], primitive: IndexedCopy, words: bytes, indices: int
    ) -> None:
        self._check, self._copy, self._primitive, self._words, self._indices = check, copy, primitive, words, indices

    def __call__(self) -> None:
        if (status := self._check()) is not None:
            raise self._fault(status)
        self._copy()

    def _fault(self, status: int) -> IndexFault:
        """Word the tuple: the status is its number from 1 on, or False, which a small check's says no more than."""
        view = self._primitive.indices
        indices = numpy_view(self._indices, view.sizes, view.strides, view.data_type.dtype)
        signed = view.data_type.is_signed
        places: Iterable[tuple[int, ...]] = np.ndindex(view.sizes[:-1])
        if status:
            places = [tuple(int(i) for i in np.unravel_index(status - 1, view.sizes[:-1]))]
        for position in places:
            found = tuple(int(i) for i in indices[position])
            for k, (index, size) in enumerate(zip(found, self._primitive.indexed_sizes, strict=True)):
                if not (-size if signed else 0) <= index < size:
                    return IndexFault(position, found, self._primitive.batch_rank + k, size)
        return IndexFault((), (), 0, 0)  # the indices changed while they were looked at


def _filled(words: Sequence[int], length: int) -> list[int]:
    return [*words, *[0] * (length - len(words))]
