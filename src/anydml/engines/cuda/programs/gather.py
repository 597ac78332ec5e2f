"""Indexed copies, planned: a tile of tuples by a part of the block that each of them picks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.engines.cuda.kernels.gather import NONE_OUTSIDE, check_indices, gather_tiles
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import (
    alignment_of,
    ceil_power,
    fastest_first,
    kind_of,
    over,
    step_of,
    warps_for,
)
from anydml.engines.cuda.scratch import NO_WORDS, DeviceWords, shared_words
from anydml.engines.exclusive import one_at_a_time
from anydml.ir.plan import Loops, merge, order, simplify, squeeze
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.scratch import Words
    from anydml.ir.verbs import IndexedCopy

WIDEST = 8
MOST_ELEMENTS = 1024
"""Words of a block that one program copies."""
MOST_TUPLES = 512
POLICY = "evict_first"
"""Indices and results pass by once: the cache is the source's."""
CHECKED_TUPLES = 1024
"""Tuples that a program of the check looks at in one step."""


@dataclass(frozen=True, slots=True)
class GatherProgram:
    """An indexed copy, planned."""

    primitive: IndexedCopy
    tuples: Loops
    """Over the tuples: strides in the indices, the source and the target."""
    block: Loops
    """Over what a tuple picks: strides in the source and the target."""
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: IndexedCopy, figures: Figures) -> GatherProgram:
        """Simplify, and compile the kernels for memory that is aligned."""
        source, indices, target = primitive.source, primitive.indices, primitive.target
        batch, depth, rank = primitive.batch_rank, primitive.tuple_size, len(indices.sizes) - 1
        across = (*source.strides[:batch], *[0] * (rank - batch))
        tuples = Loops(indices.sizes[:-1], (indices.strides[:-1], across, target.strides[:rank]), (0, 0, 0))
        picked = (source.strides[batch + depth :], target.strides[rank:])
        block = simplify(Loops(target.sizes[rank:], picked, (source.offset, target.offset)), 1)
        # By the target's memory: the tuples of a GATHER_ELEMENTS along the first axis lie across it otherwise.
        program = cls(primitive, merge(order(squeeze(tuples), 2)), block, figures)
        program.kernel(program.widest()).prepare()
        if not primitive.clamp:
            program.check().prepare()
        return program

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.primitive.source.data_type.size_in_bytes

    @property
    def coordinate_strides(self) -> tuple[int, ...]:
        """How far a step in each coordinate leads in the source."""
        batch = self.primitive.batch_rank
        return self.primitive.source.strides[batch : batch + self.primitive.tuple_size]

    def widest(self) -> int:
        """The widest word that every block is made of, in bytes."""
        if len(self.block.sizes) != 1 or any(row != (1,) for row in self.block.strides):
            return self.width
        steps = (*self.coordinate_strides, *self.tuples.strides[1], *self.tuples.strides[2])
        return max(math.gcd(*(n * self.width for n in (*self.block.sizes, *steps)), WIDEST), self.width)

    def kernel(self, word: int) -> Kernel:
        """The kernel that moves words of so many bytes."""
        if word not in self.kernels:
            self.kernels[word] = self._tiles(word)
        return self.kernels[word]

    def _tiles(self, word: int) -> Kernel:
        together = word // self.width
        tuple_sizes, index_strides, batch_strides, target_strides = fastest_first(
            self.tuples.sizes, *self.tuples.strides
        )
        block_sizes, sources, targets = fastest_first(self.block.sizes, *self.block.strides)
        if together > 1:
            block_sizes = (block_sizes[0] // together,)
            batch_strides = tuple(s // together for s in batch_strides)
            target_strides = tuple(s // together for s in target_strides)
        chosen = tuple(s // together for s in self.coordinate_strides)
        elements = math.prod(block_sizes)
        most = max(self.figures.tile // max(word, 4), 16)
        element_tile = min(ceil_power(elements), most, MOST_ELEMENTS)
        tuple_tile = min(ceil_power(self.tuples.count), most // element_tile, MOST_TUPLES)
        blocks = -(-elements // element_tile)
        source_align = alignment_of((*chosen, *batch_strides))
        target_align = alignment_of(target_strides) if step_of(target_strides[0]) == 2 else 1
        constants = {
            "SIGNED": self.primitive.indices.data_type.is_signed,
            "GUARDED": not self.primitive.clamp,
            "INDEX_STEP": step_of(index_strides[0]),
            "TUPLE_STEP": step_of(target_strides[0]),
            "SOURCE_STEP": step_of(sources[0]),
            "TARGET_STEP": step_of(targets[0]),
            "SOURCE_ALIGN": source_align,
            "TARGET_ALIGN": target_align,
            "ELEMENT_ALIGN": alignment_of((elements,)),
            "POLICY": POLICY,
            "TUPLES": tuple_tile,
            "ELEMENTS": element_tile,
        }
        chosen, batch_strides = over(chosen, source_align), over(batch_strides, source_align)
        target_strides = over(target_strides, target_align)
        numbers = (
            self.tuples.count,
            index_strides[0],
            target_strides[0],
            tuple_sizes,
            index_strides,
            batch_strides,
            target_strides,
            self.primitive.indices.strides[-1],
            self.primitive.indexed_sizes,
            chosen,
            elements,
            sources[0],
            targets[0],
            blocks,
            block_sizes,
            sources,
            targets,
        )
        pointers = (f"u{8 * word}", self._index_type, f"u{8 * word}", "i64")
        programs = blocks * -(-self.tuples.count // tuple_tile)
        warps = warps_for(element_tile * tuple_tile, 1 if element_tile == 1 else 4)
        return Kernel(gather_tiles, pointers, numbers, constants, programs, warps, self.figures)

    @property
    def _index_type(self) -> str:
        return kind_of(self.primitive.indices.data_type)

    def check(self) -> Kernel:
        """The kernel that looks at every index."""
        indices = self.primitive.indices
        tuples = merge(squeeze(Loops(_looked_at(self.primitive), (indices.strides[:-1],), (0,))))
        sizes, strides = fastest_first(tuples.sizes, tuples.strides[0])
        step = min(ceil_power(tuples.count), CHECKED_TUPLES, self.figures.tile)
        programs = min(-(-tuples.count // step), 8 * self.figures.multiprocessors)
        constants = {
            "SIGNED": self.primitive.indices.data_type.is_signed,
            "INDEX_STEP": step_of(strides[0]),
            "TUPLES": step,
            "PROGRAMS": ceil_power(programs),
        }
        numbers = (
            tuples.count,
            strides[0],
            sizes,
            strides,
            indices.strides[-1],
            self.primitive.indexed_sizes,
            programs,
            -(-tuples.count // (step * programs)),
        )
        pointers = (self._index_type, "i64", "i64")
        return Kernel(check_indices, pointers, numbers, constants, programs, warps_for(step, 8), self.figures)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, and move words as wide as they allow. In `clamp` mode there is nothing to check."""
        source, indices, target = (
            places[view.tensor] + offset * view.data_type.size_in_bytes
            for view, offset in (
                (self.primitive.source, self.block.offsets[0]),
                (self.primitive.indices, self.primitive.indices.offset),
                (self.primitive.target, self.block.offsets[1]),
            )
        )
        word = self.widest()
        while word > self.width and (source % word or target % word):
            word //= 2
        kernel = self.kernel(word)
        if self.primitive.clamp:
            return kernel.launch((source, indices, target, NO_WORDS))
        check = self.check()
        verdict = DeviceWords(2 + check.programs, self.figures.index)
        report, array = shared_words(1 + self.primitive.tuple_size)
        checked = _Checked(
            check.launch((indices, verdict.address, report)),
            kernel.launch((source, indices, target, verdict.address)),
            self.primitive,
            array,
            verdict,
        )
        return one_at_a_time(checked, "gather")


def _looked_at(primitive: IndexedCopy) -> tuple[int, ...]:
    """The sizes of the tuples that differ: those that a GATHER repeats for each batch are looked at once."""
    indices = primitive.indices
    return tuple(n if stride else 1 for n, stride in zip(indices.sizes[:-1], indices.strides[:-1], strict=True))


class _Checked:
    """The bounds first, then the copy, which writes nothing where an index is outside; the host waits for the first."""

    __slots__ = ("_check", "_copy", "_event", "_primitive", "_report", "_verdict")

    def __init__(
        self,
        check: Callable[[], Any],
        copy: Callable[[], Any],
        primitive: IndexedCopy,
        report: Words,
        verdict: DeviceWords,
    ) -> None:
        self._check, self._copy, self._primitive, self._report, self._verdict = check, copy, primitive, report, verdict
        self._event = None if IS_INTERPRETED else torch.cuda.Event()

    def __call__(self) -> None:
        self._verdict.enter()
        self._check()
        if self._event is None:
            self._copy()
        elif torch.cuda.is_current_stream_capturing():  # nobody can wait; a replay writes nothing for a bad index
            self._copy()
            return
        else:
            self._event.record()
            self._copy()
            self._verdict.leave()
            self._event.synchronize()
        if self._report[0] != NONE_OUTSIDE.value:
            raise self._fault()

    def _fault(self) -> IndexFault:
        view, sizes = self._primitive.indices, self._primitive.indexed_sizes
        position = tuple(int(i) for i in np.unravel_index(int(self._report[0]), _looked_at(self._primitive)))
        most = 0 if view.data_type.is_signed else 2 ** (8 * view.data_type.size_in_bytes)
        found = tuple(int(i) % most if most else int(i) for i in self._report[1:])
        low = [-size if view.data_type.is_signed else 0 for size in sizes]
        outside = [not least <= index < size for least, index, size in zip(low, found, sizes, strict=True)]
        if True not in outside:
            return IndexFault((), (), 0, 0)  # the indices changed while they were looked at
        k = outside.index(True)
        return IndexFault(position, found, self._primitive.batch_rank + k, sizes[k])
