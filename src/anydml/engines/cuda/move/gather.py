"""Gathers, planned: a tile of index tuples by a part of the block that each picks; index checks are a pass before."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.symbolic_sizes import gcd
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import alignment_of, ceil_power, divisor_of, fastest_first, over, step_of, warps_for
from anydml.engines.cuda.launch import Checked, Kernel, kind_of
from anydml.engines.cuda.move.gather_kernel import NONE_OUTSIDE, check_indices, gather_tiles
from anydml.engines.cuda.scratch import NO_WORDS, DeviceWords, shared_words
from anydml.ir.fetches import match_gathered
from anydml.ir.loops import Loops, merge, order, simplify, squeeze
from anydml.ir.substitution import FILLED
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.device import Figures
    from anydml.engines.cuda.scratch import Words
    from anydml.ir.fetches import Gathered
    from anydml.ir.verbs import Check, Map

# Checks of indices, planned: a pass before the kernel that they guard.


CHECKED_TUPLES = 1024
"""Tuples that a program of the check looks at in one step."""


def check_kernel(check: Check, figures: Figures) -> Kernel:
    """The kernel that looks at every index."""
    indices = check.indices
    tuples = merge(squeeze(Loops(_looked_at(check), (indices.strides[:-1],), (0,))))
    sizes, strides = fastest_first(tuples.sizes, tuples.strides[0])
    step = min(ceil_power(tuples.count), CHECKED_TUPLES, figures.tile)
    programs = min(-(-tuples.count // step), 8 * figures.multiprocessors)
    constants = {
        "SIGNED": indices.data_type.is_signed,
        "INDEX_STEP": step_of(strides[0]),
        "TUPLES": step,
        "PROGRAMS": ceil_power(programs),
    }
    steps = -(-tuples.count // (step * programs))
    numbers = (tuples.count, strides[0], sizes, strides, indices.strides[-1], check.sizes, programs, steps)
    pointers = (kind_of(indices.data_type), "i64", "i64")
    return Kernel(check_indices, pointers, numbers, constants, programs, warps_for(step, 8), figures)


def bind_checked(
    checks: Sequence[Check],
    figures: Figures,
    places: Mapping[str, int],
    launch: Callable[[tuple[int, ...]], Callable[[], Any]],
) -> Callable[[], Any]:
    """A function that launches checks, and a kernel that takes the addresses of their verdicts."""
    if not checks:
        return launch(())
    looks = []
    for check in checks:
        kernel, view = check_kernel(check, figures), check.indices
        verdict = DeviceWords(2 + kernel.programs, figures.index)
        report, array = shared_words(1 + len(check.sizes))
        address = places[view.tensor] + view.offset * view.data_type.size_in_bytes
        looks.append(_Look(check, kernel.launch((address, verdict.address, report)), verdict, array))
    return _Guarded(looks, launch(tuple(look.verdict.address for look in looks)), figures.index)


class _Look:
    """One check, and what it found."""

    __slots__ = ("_check", "_report", "launch", "verdict")

    def __init__(self, check: Check, launch: Callable[[], Any], verdict: DeviceWords, report: Words) -> None:
        self._check, self.launch, self.verdict, self._report = check, launch, verdict, report

    def fault(self) -> IndexFault | None:
        """The first tuple with an index outside."""
        if self._report[0] == NONE_OUTSIDE.value:
            return None
        view, sizes = self._check.indices, self._check.sizes
        position = tuple(int(i) for i in np.unravel_index(int(self._report[0]), _looked_at(self._check)))
        most = 0 if view.data_type.is_signed else 2 ** (8 * view.data_type.size_in_bytes)
        found = tuple(int(i) % most if most else int(i) for i in self._report[1:])
        low = [-size if view.data_type.is_signed else 0 for size in sizes]
        outside = [not least <= index < size for least, index, size in zip(low, found, sizes, strict=True)]
        if True not in outside:
            return IndexFault((), (), 0, 0, self._check.node)  # the indices changed while they were looked at
        k = outside.index(True)
        return IndexFault(position, found, self._check.dimension + k, sizes[k], self._check.node)


class _Guarded(Checked):
    """The bounds first, then the rest, which writes nothing where an index is outside."""

    __slots__ = ("_looks", "_run")

    def __init__(self, looks: Sequence[_Look], run: Callable[[], Any], index: int) -> None:
        super().__init__(index, "gather")
        self._looks, self._run = looks, run

    def launch(self) -> None:
        """Launch the checks, and what they guard."""
        for look in self._looks:
            look.verdict.enter()
            look.launch()
        self._run()
        for look in self._looks:
            look.verdict.leave()

    def look(self) -> None:
        """Raise the first fault."""
        for look in self._looks:
            if fault := look.fault():
                raise fault


def _looked_at(check: Check) -> tuple[int, ...]:
    """The sizes of the tuples that differ: those that a GATHER repeats for each batch are looked at once."""
    indices = check.indices
    return tuple(n if stride else 1 for n, stride in zip(indices.sizes[:-1], indices.strides[:-1], strict=True))


# Gathers, planned: a tile of tuples by a part of the block that each of them picks.


WIDEST = 8
MOST_ELEMENTS = 1024
"""Words of a block that one program copies."""
MOST_TUPLES = 512
POLICY = "evict_first"
"""Indices and results pass by once: the cache is the source's."""


@dataclass(frozen=True, slots=True)
class GatherProgram(Program):
    """A gather, planned."""

    primitive: Gathered
    checks: tuple[Check, ...]
    """At most one: its kernel looks at one verdict."""
    tuples: Loops
    """Over the tuples: strides in the indices, the source and the target."""
    block: Loops
    """Over what a tuple picks: strides in the source and the target."""
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, verb: Map, figures: Figures) -> GatherProgram | None:
        """Simplify, and compile the kernels for memory that is aligned."""
        primitive = match_gathered(verb)
        if primitive is None or len(verb.checks) > 1:
            return None
        source, indices, target = primitive.source, primitive.indices, primitive.target
        batch, depth, rank = primitive.batch_rank, primitive.tuple_size, len(indices.sizes) - 1
        across = (*source.strides[:batch], *[0] * (rank - batch))
        tuples = Loops(indices.sizes[:-1], (indices.strides[:-1], across, target.strides[:rank]), (0, 0, 0))
        picked = (source.strides[batch + depth :], target.strides[rank:])
        block = simplify(Loops(target.sizes[rank:], picked, (source.offset, target.offset)), 1)
        # By the target's memory: the tuples of a GATHER_ELEMENTS along the first axis lie across it otherwise.
        program = cls(primitive, verb.checks, merge(order(squeeze(tuples), 2)), block, figures)
        program.kernel(program.widest()).prepare()
        for check in verb.checks:
            check_kernel(check, figures).prepare()
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
        common: int = gcd(*(n * self.width for n in (*self.block.sizes, *steps)), WIDEST)
        return max(common, self.width)

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
            "SIGNED": self.primitive.indices.data_type.is_signed, "GUARDED": bool(self.checks),
            "INDEX_STEP": step_of(index_strides[0]), "TUPLE_STEP": step_of(target_strides[0]),
            "SOURCE_STEP": step_of(sources[0]), "TARGET_STEP": step_of(targets[0]), "SOURCE_ALIGN": source_align,
            "TARGET_ALIGN": target_align, "ELEMENT_ALIGN": divisor_of(elements), "POLICY": POLICY,
            "TUPLES": tuple_tile, "ELEMENTS": element_tile,
        }  # fmt: skip
        chosen, batch_strides = over(chosen, source_align), over(batch_strides, source_align)
        target_strides = over(target_strides, target_align)
        numbers = (
            self.tuples.count, index_strides[0], target_strides[0], tuple_sizes, index_strides, batch_strides,
            target_strides, self.primitive.indices.strides[-1], self.primitive.indexed_sizes, chosen,
            elements, sources[0], targets[0], blocks, block_sizes, sources, targets,
        )  # fmt: skip
        pointers = (f"u{8 * word}", self._index_type, f"u{8 * word}", "i64")
        programs = blocks * -(-self.tuples.count // tuple_tile)
        warps = warps_for(element_tile * tuple_tile, 1 if element_tile == 1 else 4)
        return Kernel(gather_tiles, pointers, numbers, constants, programs, warps, self.figures)

    @property
    def _index_type(self) -> str:
        return kind_of(self.primitive.indices.data_type)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, and move words as wide as they allow."""
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

        def launch(verdicts: tuple[int, ...]) -> Callable[[], Any]:
            return kernel.launch((source, indices, target, *(verdicts or (NO_WORDS,))))

        return bind_checked(self.checks, self.figures, places, launch)
