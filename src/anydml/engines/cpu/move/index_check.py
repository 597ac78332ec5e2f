"""Tuples of indices, as gathers and scatters walk them, and their check: the pass before a map that may raise."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.memory import numpy_view
from anydml.engines.common.program import Program
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.language import larger, make_load, quotient, remainder, smaller
from anydml.engines.cpu.launch.program import KernelProgram, Listed
from anydml.engines.cpu.launch.record import OUTER, Layout, Pointer, Table, dimension_words
from anydml.engines.reference import find_outside
from anydml.ir.loops import Loops, merge, order, squeeze
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Place
    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.ir.verbs import Check
    from anydml.ir.views import View


RANK = 8
"""Dimensions of tuples, of what they index and of a block that records have room for."""
TUPLES = Table("tuples", RANK, "size indices source target")
"""The dimensions of tuples: the size, and the strides of the indices and of both others."""
GATHER = Layout(
    "source", "indices", "target", "coordinates", "coordinate_step", "count", "source_step", "target_step", "rank",
    "block_rank", Table("indexed", RANK, "size stride", "coordinates"), TUPLES,
    Table("blocks", RANK, OUTER.columns, "block_rank"),
)  # fmt: skip
"""The coordinates of a tuple and the bytes from one to the next; the elements of a block's row and their steps; the
ranks of tuples and of a block's rows. A work item is one tuple."""


@dataclass(frozen=True, slots=True)
class CheckedProgram(Program):
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
            "indexed": dimension_words(check.sizes, [(0,) * len(check.sizes)], (0,)),
            "tuples": dimension_words(tuples.sizes, tuples.strides, (width, 0, 0)),
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


# Kernels: indices of any type, clamped or checked.


def _make_load_index(kind: str) -> Any:
    """load(address, offset): an index as a signed word; a UINT64 of 2^63 and more reads as a negative number."""
    width, signed = int(kind[1:]) // 8, kind[0] == "i"

    def widen(f: Function, value: Value) -> Value:
        return f.cast("sext" if signed else "zext", value, "i64")

    return make_load(f"i{8 * width}", widen)


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


def find_tuple(tuples: Any, rank: int, number: int) -> tuple[int, int, int]:
    """Where the tuple of some number lies: bytes on in the indices, in the source and in the target."""
    indices = source = target = 0
    for k in range(rank - 1, -1, -1):
        size = tuples[k].size
        i = remainder(number, size)
        number = quotient(number, size)
        indices += i * tuples[k].indices
        source += i * tuples[k].source
        target += i * tuples[k].target
    return indices, source, target


def make_check(kind: str) -> Any:
    """The kernel that returns the first tuple of a range with an index outside, counted from 1; 0 for none."""
    index, width = make_index(kind), int(kind[1:]) // 8

    def kernel(words: int, begin: int, end: int) -> int:
        w = GATHER(words)
        indices, coordinates, coordinate_step, rank = w.indices, w.coordinates, w.coordinate_step, w.rank
        inner = w.tuples[rank - 1].size if rank > 0 else 1
        step = w.tuples[rank - 1].indices if rank > 0 else 0
        unit = begin
        while unit < end:  # one row of tuples at a time
            rest = quotient(unit, inner)
            first = unit - rest * inner
            count = smaller(inner - first, end - unit)
            on, _, _ = find_tuple(w.tuples, rank - 1, rest)
            base = indices + first * step + on
            for k in range(coordinates):
                size = w.indexed[k].size
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
                            if index(where, i * step, w.indexed[j].size) < 0:
                                return unit + i + 1
            unit += count
        return 0

    return kernel
