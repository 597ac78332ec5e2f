"""Tuples of indices, as gathers and scatters walk them, and their check: the pass before a map that may raise.

Words after the header: source, indices, target, coordinates, coordinate step (bytes between the coordinates of a
tuple), block count, block source step, block target step, rank of the tuples, rank of the block's outer dimensions;
then size and source stride of each indexed dimension (8 pairs); size, index stride, source stride and target stride
of each dimension of tuples (8 fours); size, source stride and target stride of the block's outer dimensions (8
threes). A unit is one tuple.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.language import larger, load_word, make_load, quotient, remainder, smaller
from anydml.engines.cpu.codegen.outer_loops import FIRST
from anydml.engines.cpu.launch.program import KernelProgram, Listed
from anydml.engines.cpu.launch.record import Layout, Pointer, Table
from anydml.engines.reference import find_outside
from anydml.ir.loops import Loops, merge, order, squeeze
from anydml.ir.verbs import IndexFault
from anydml.memory import numpy_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Place, Program
    from anydml.ir.verbs import Check
    from anydml.ir.views import View


RANK = 8
"""Dimensions of tuples, of what they index and of a block that records have room for."""
GATHER = Layout(
    "source", "indices", "target", "coordinates", "coordinate_step", "count", "source_step", "target_step", "rank",
    "block_rank", Table("indexed", RANK, 2), Table("tuples", RANK, 4), Table("blocks", RANK, 3),
)  # fmt: skip
"""The coordinates of a tuple and the bytes from one to the next; the elements of a block's row and their steps; the
ranks of tuples and of a block's rows. Then size and stride of each indexed dimension; size, index stride, source stride
and target stride of each dimension of the tuples; size, source stride and target stride of each of a block."""
INDEXED, TUPLES, BLOCKS = (GATHER.at(name) for name in ("indexed", "tuples", "blocks"))


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program that runs when a check found nothing."""

    check: Check
    look: KernelProgram
    """The check alone."""
    program: Program

    @classmethod
    def plan(cls, check: Check, program: Program) -> CheckedProgram:
        """Look at each tuple once, in the order of their memory."""
        indices = check.indices
        width = indices.data_type.size_in_bytes
        tuples = _tuples(indices)
        record = GATHER.write({
            "indices": Pointer(indices.tensor, indices.offset * width), "coordinates": len(check.sizes),
            "coordinate_step": indices.strides[-1] * width, "count": 1, "rank": len(tuples.sizes),
            "indexed": [word for size in check.sizes for word in (size, 0)], "tuples": tuple_words(tuples, width, 0),
        })  # fmt: skip
        kind, size = kind_of(indices.data_type), tuples.count * len(check.sizes) * width
        kernel = get_kernel(f"check {kind}", functools.partial(make_check, kind))
        return cls(check, KernelProgram(kernel, record, tuples.count, size), program)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        view = self.check.indices
        address = places[view.tensor] + view.offset * view.data_type.size_in_bytes
        return _Checked(self.look.bind(places), self.program.bind(places), self.check, address)

    def kernels(self, places: Mapping[str, Place]) -> Sequence[KernelProgram] | None:
        """The check, whose status ends a command list, then the rest."""
        rest = self.program.kernels(places) if isinstance(self.program, Listed) else None
        return None if rest is None else (self.look, *rest)


class _Checked:
    """The bounds first, then the rest: nothing is written where an index is outside."""

    __slots__ = ("_address", "_check", "_look", "_run")

    def __init__(self, look: Callable[[], Any], run: Callable[[], Any], check: Check, address: int) -> None:
        self._look, self._run, self._check, self._address = look, run, check, address

    @property
    def launches(self) -> tuple[Callable[[], Any], ...]:
        """The kernels in order; where the first has a status, there is a fault."""
        return self._look, self._run

    def __call__(self) -> None:
        if self._look() is not None:
            raise self._fault()
        self._run()

    def _fault(self) -> IndexFault:
        """Find the first tuple in the order of the indices, which is not the order of the check."""
        view = self._check.indices
        indices = numpy_view(self._address, view.sizes, view.strides, view.data_type.dtype)
        # Without a fault the indices changed while they were looked at.
        return find_outside(self._check, indices) or IndexFault((), (), 0, 0, self._check.node)


def _tuples(indices: View) -> Loops:
    """The tuples that differ, in the order of their memory: those that are read again need no second look."""
    own = [k for k, stride in enumerate(indices.strides[:-1]) if stride]
    strides, none = tuple(indices.strides[k] for k in own), (0,) * len(own)
    return merge(order(squeeze(Loops(tuple(indices.sizes[k] for k in own), (strides, none, none), (0, 0, 0))), 0))


def tuple_words(loops: Loops, index_width: int, width: int) -> list[int]:
    """Size, then the strides of the indices, the source and the target, in bytes."""
    words = []
    for k, size in enumerate(loops.sizes):
        index, read, written = (row[k] for row in loops.strides)
        words += [size, index * index_width, read * width, written * width]
    return words


# Kernels: indices of any type, clamped or checked.


def _make_load_index(kind: str) -> Any:
    """load(address, offset): an index as a signed word; a UINT64 of 2^63 and more reads as a negative number."""
    width, signed = int(kind[1:]) // 8, kind[0] == "i"

    def widen(builder: Any, value: Any) -> Any:
        if width == 8:
            return value
        return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

    return make_load(ir.IntType(8 * width), widen)


def make_index(kind: str) -> Any:
    """index(address, offset, size): an index as one of its dimension, or -1 where it is outside."""
    load, signed = _make_load_index(kind), kind[0] == "i"

    def index(address: int, offset: int, size: int) -> Any:
        i = load(address, offset)
        if signed and i < 0:
            i += size
        return i if 0 <= i < size else -1

    return index


def make_clamped(kind: str) -> Any:
    """clamped(address, offset, size): the nearest index of the dimension."""
    load, signed = _make_load_index(kind), kind[0] == "i"

    def clamped(address: int, offset: int, size: int) -> Any:
        i = load(address, offset)
        if signed:
            if i < 0:
                i += size
            return smaller(larger(i, 0), size - 1)
        return size - 1 if i < 0 else smaller(i, size - 1)

    return clamped


def make_check(kind: str) -> Any:
    """The kernel that returns the first tuple of a range with an index outside, counted from 1; 0 for none."""
    index, width = make_index(kind), int(kind[1:]) // 8

    def kernel(words: int, begin: int, end: int) -> int:
        indices, coordinates = load_word(words, FIRST + 8), load_word(words, FIRST + 24)
        coordinate_step = load_word(words, FIRST + 32)
        rank = load_word(words, FIRST + 64)
        inner = load_word(words, TUPLES + 32 * (rank - 1)) if rank > 0 else 1
        step = load_word(words, TUPLES + 32 * (rank - 1) + 8) if rank > 0 else 0
        unit = begin
        while unit < end:  # one row of tuples at a time
            rest = quotient(unit, inner)
            first = unit - rest * inner
            count = smaller(inner - first, end - unit)
            base = indices + first * step
            for k in range(rank - 2, -1, -1):
                size = load_word(words, TUPLES + 32 * k)
                base += remainder(rest, size) * load_word(words, TUPLES + 32 * k + 8)
                rest = quotient(rest, size)
            for k in range(coordinates):
                size = load_word(words, INDEXED + 16 * k)
                at = base + k * coordinate_step
                outside = 0
                if step == width:  # known, so that it goes by the vector
                    for i in range(count):
                        outside += 1 if index(at, i * width, size) < 0 else 0
                else:
                    for i in range(count):
                        outside += 1 if index(at, i * step, size) < 0 else 0
                if outside:  # rare: find the first tuple, whichever its coordinate
                    for i in range(count):
                        for j in range(coordinates):
                            where = base + j * coordinate_step
                            if index(where, i * step, load_word(words, INDEXED + 16 * j)) < 0:
                                return unit + i + 1
            unit += count
        return 0

    return kernel
