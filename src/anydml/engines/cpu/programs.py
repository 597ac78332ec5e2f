"""From a primitive to a kernel and its words: the shape of the work is chosen here, once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import KERNEL, address_of, make_dispatch, make_words
from anydml.engines.threads import get_num_threads, run
from anydml.memory import numpy_view
from anydml.plan import Loops, loops_of, merge, simplify, squeeze
from anydml.primitives import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.cpu.build import Kernel
    from anydml.memory import Buffer
    from anydml.primitives import IndexedCopy, Scan, StridedCopy, View

    Memory = Mapping[str, tuple[Buffer, int]]

STREAM_FROM = 32 * 1024 * 1024
"""Bytes of output from which on it is written past the cache."""
FAR_FROM = 1024 * 1024
"""Bytes of output from which on the input is fetched ahead."""
SEGMENT = 1024 * 1024
"""Bytes of a row that one unit of work copies."""
RUN = 64
"""The elements of a transpose's unit, as its kernel has them."""
PIECES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes that a gather copies in one step."""


def _first(view: View, memory: Memory) -> int:
    """The address of a tensor's first element."""
    buffer, offset = memory[view.tensor]
    return buffer.address + offset


def _outer(loops: Loops, width: int, dimensions: int) -> list[int]:
    """The words of outer dimensions: size, then the stride of each view in bytes."""
    words = []
    for k in range(dimensions):
        words += [loops.sizes[k], *(row[k] * width for row in loops.strides)]
    return words


@dataclass(frozen=True, slots=True)
class CopyProgram:
    """A strided copy, planned."""

    primitive: StridedCopy
    kernel: Kernel
    words: tuple[int, ...]
    """After the two addresses."""
    offsets: tuple[int, int]
    """In bytes, from the tensors' first elements."""
    units: int
    size: int
    unaligned: str = ""
    """The kernel for a target that is not aligned to its elements, where that is another."""

    @classmethod
    def plan(cls, primitive: StridedCopy) -> CopyProgram:
        """Choose the kernel by the innermost dimension."""
        width = primitive.source.data_type.size_in_bytes
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        size = loops.count * width * 2
        offsets = (loops.offsets[0] * width, loops.offsets[1] * width)
        if (other := _transposed_dimension(loops)) is not None:
            return cls._plan_transpose(primitive, loops, other, width, offsets, size)
        rank = max(len(loops.sizes) - 1, 0)
        count, source_step, target_step = 1, 1, 1
        if loops.sizes:
            count, source_step, target_step = loops.sizes[-1], loops.strides[0][-1], loops.strides[1][-1]
        kinds = {1: "run", -1: "backward", 0: "repeated", 2: "second", -2: "second_back"}
        kind = kinds.get(source_step, "gathered") if target_step == 1 else "strided"
        large = ""
        if kind in ("run", "backward", "second", "second_back") and count * width >= 256:
            large += " stream" if size // 2 >= STREAM_FROM else ""
            large += " far" if size // 2 >= FAR_FROM and (kind != "run" or count * width < SEGMENT) else ""
        segments = -(-count * width // SEGMENT)
        length = -(-count // segments)
        words = (count, source_step * width, target_step * width, segments, length, rank, *_outer(loops, width, rank))
        units = math.prod(loops.sizes[:rank]) * segments
        plain = f"copy {kind} {width}"
        return cls(primitive, get_kernel(plain + large), words, offsets, units, size, plain if large else "")

    @classmethod
    def _plan_transpose(
        cls, primitive: StridedCopy, loops: Loops, other: int, width: int, offsets: tuple[int, int], size: int
    ) -> CopyProgram:
        last = len(loops.sizes) - 1
        outer = loops.pick([k for k in range(last) if k != other])
        across, along = loops.strides[0][last] * width, loops.strides[1][other] * width
        rank = len(outer.sizes)
        words = (
            loops.sizes[last], across, 0, loops.sizes[other], along, rank, *_outer(outer, width, rank)
        )  # fmt: skip
        units = outer.count * (-(-loops.sizes[last] // RUN) + 1)
        return cls(primitive, get_kernel(f"transpose {width}"), words, offsets, units, size)

    def bind(self, memory: Memory) -> Callable[[], Any]:
        """Put the addresses in."""
        source = _first(self.primitive.source, memory) + self.offsets[0]
        target = _first(self.primitive.target, memory) + self.offsets[1]
        words = make_words((source, target, *self.words), self.units)
        kernel = self.kernel
        if self.unaligned and target % self.primitive.target.data_type.size_in_bytes:
            kernel = get_kernel(self.unaligned)
        return make_dispatch(kernel, words, self.units, self.size)


def _transposed_dimension(loops: Loops) -> int | None:
    """The dimension along which the source is contiguous, where the target is along another, and both are long."""
    if len(loops.sizes) < 2 or loops.strides[1][-1] != 1 or abs(loops.strides[0][-1]) < 4 or loops.sizes[-1] < 4:
        return None
    last = len(loops.sizes) - 1
    found = [k for k in range(last) if loops.strides[0][k] == 1 and loops.sizes[k] >= 4]
    return found[-1] if found else None


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
            *_filled(indexed, 16), *_filled(tuple_words, 32), *_filled(_outer(block, width, outer), 24),
        )  # fmt: skip
        offsets = (block.offsets[0] * width, indices.offset * index_width, block.offsets[1] * width)
        check_size = tuples.count * depth * index_width
        move_size = check_size + 2 * tuples.count * block.count * width
        kernel = get_kernel(f"gather {shape} {kind}")
        return cls(
            primitive, get_kernel(f"check {kind}"), kernel, (*offsets, *words), tuples.count, (check_size, move_size)
        )

    def bind(self, memory: Memory) -> Callable[[], Any]:
        """Put the addresses in. In `clamp` mode there is nothing to check."""
        views = (self.primitive.source, self.primitive.indices, self.primitive.target)
        places = [_first(view, memory) + offset for view, offset in zip(views, self.words[:3], strict=True)]
        words = make_words((*places, *self.words[3:]), self.tuples)
        copy = make_dispatch(self.kernel, words, self.tuples, self.sizes[1])
        if self.primitive.clamp:
            return copy
        check = make_dispatch(self.check, words, self.tuples, self.sizes[0])
        return _Checked(check, copy, self.primitive, words, places[1])


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


LONG_TILE = 4 * 4112
"""Elements in a tile of a long row, as its kernel has it."""
COLUMN_TILE = 4096


@dataclass(frozen=True, slots=True)
class ScanProgram:
    """A running sum or product, planned."""

    primitive: Scan
    kernel: Kernel
    words: tuple[int, ...]
    """After the two addresses."""
    offsets: tuple[int, int]
    units: int
    size: int
    rows: tuple[tuple[int, int], ...] = ()
    """For long rows, the bytes from the first to each, in the source and in the target."""

    @classmethod
    def plan(cls, primitive: Scan) -> ScanProgram:
        """Choose the kernel by where the axis lies."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        width, count = source.data_type.size_in_bytes, source.sizes[axis]
        steps = (source.strides[axis], target.strides[axis])
        others = loops_of(source, target).pick([k for k in range(len(source.sizes)) if k != axis])
        if primitive.reverse:
            starts = tuple(o + (count - 1) * step for o, step in zip(others.offsets, steps, strict=True))
            others = Loops(others.sizes, others.strides, starts)
            steps = (-steps[0], -steps[1])
        if count == 1:
            steps = (1, 1)
        loops = simplify(others, 1)
        offsets = (loops.offsets[0] * width, loops.offsets[1] * width)
        size = loops.count * count * width * 2
        kind = ("f" if source.data_type.is_float else "u") + str(width * 8)
        name = f"{kind} {primitive.function}{' exclusive' if primitive.exclusive else ''}"
        along = (count, steps[0] * width, steps[1] * width)
        if steps in ((1, 1), (-1, -1)):
            turned = " reverse" if steps == (-1, -1) else ""
            if loops.count < 8 and count >= 8 * LONG_TILE:
                kernel = get_kernel(f"scan long {name}{turned}")
                return cls(primitive, kernel, (*along, 1, 0, 0, 1, 0), offsets, 1, size, _places(loops, width))
            kernel = get_kernel(f"scan rows {name}{turned}")
            return cls._plan_across(primitive, kernel, along, loops, offsets, size, 4)
        if loops.sizes and loops.strides[0][-1] == loops.strides[1][-1] == 1 and loops.sizes[-1] >= 16:
            tile = _column_tile(loops)
            deep = "" if tile >= loops.sizes[-1] == abs(steps[1]) else " deep"
            kernel = get_kernel(f"scan columns {name}{deep}")
            return cls._plan_across(primitive, kernel, along, loops, offsets, size, tile)
        rank = len(loops.sizes)
        words = (*along, 1, 0, 0, 1, rank, 0, *_outer(loops, width, rank))
        return cls(primitive, get_kernel(f"scan lines {name}"), words, offsets, loops.count, size)

    @classmethod
    def _plan_across(
        cls,
        primitive: Scan,
        kernel: Kernel,
        along: tuple[int, int, int],
        loops: Loops,
        offsets: tuple[int, int],
        size: int,
        tile: int,
    ) -> ScanProgram:
        """Tiles across the innermost of the other dimensions."""
        width, rank = primitive.source.data_type.size_in_bytes, max(len(loops.sizes) - 1, 0)
        across, steps = 1, (0, 0)
        if loops.sizes:
            across, steps = loops.sizes[-1], (loops.strides[0][-1] * width, loops.strides[1][-1] * width)
        tiles = -(-across // tile)
        words = (*along, across, *steps, tiles, rank, tile, *_outer(loops, width, rank))
        return cls(primitive, kernel, words, offsets, tiles * math.prod(loops.sizes[:rank]), size)

    def bind(self, memory: Memory) -> Callable[[], Any]:
        """Put the addresses in."""
        source = _first(self.primitive.source, memory) + self.offsets[0]
        target = _first(self.primitive.target, memory) + self.offsets[1]
        if self.rows:
            return _Long(self.kernel, [(source + s, target + t, *self.words) for s, t in self.rows], self.words[0])
        words = make_words((source, target, *self.words), self.units)
        return make_dispatch(self.kernel, words, self.units, self.size)


def _places(loops: Loops, width: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        tuple(sum(i * s for i, s in zip(at, row, strict=True)) * width for row in loops.strides)
        for at in np.ndindex(loops.sizes)
    )


def _column_tile(loops: Loops) -> int:
    """The widest tile that leaves work for every thread: wide ones are fetched in long stretches."""
    across, outer = loops.sizes[-1], math.prod(loops.sizes[:-1])
    per_step = max(-(-get_num_threads() // outer), 1)
    return max(min(COLUMN_TILE, -(-across // per_step // 16) * 16), 64)


class _Long:
    """Rows, one after the other, each shared by all threads, who hand the total on from tile to tile."""

    __slots__ = ("_call", "_chain", "_rows")

    def __init__(self, kernel: Kernel, rows: list[tuple[int, ...]], count: int) -> None:
        self._call = KERNEL(kernel.address)
        self._chain = np.zeros(2 + 2 * -(-count // LONG_TILE), np.int64)
        address: int = self._chain.__array_interface__["data"][0]
        self._rows = [make_words((*row, address), 1) for row in rows]

    def __call__(self) -> None:
        for words in self._rows:
            self._chain.fill(0)
            place, call = address_of(words), self._call
            run(lambda _turn, place=place, call=call: call(place, 0, 1), get_num_threads())  # type: ignore[misc]  # bound now
