"""Index checks, planned: the pass before a map that may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.reference import find_outside
from anydml.ir.loops import Loops, merge, order, squeeze
from anydml.ir.verbs import IndexFault
from anydml.memory import numpy_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Check
    from anydml.ir.views import View


class CheckedProgram(NamedTuple):
    """A program that runs when a check found nothing."""

    check: Check
    kernel: Kernel
    words: tuple[int, ...]
    """After the three addresses."""
    tuples: int
    program: Program

    @classmethod
    def plan(cls, check: Check, program: Program) -> CheckedProgram:
        """Look at each tuple once, in the order of their memory."""
        indices = check.indices
        width = indices.data_type.size_in_bytes
        tuples = _tuples(indices)
        sizes = [word for size in check.sizes for word in (size, 0)]
        words = (
            *(len(check.sizes), indices.strides[-1] * width, 1, 0, 0, len(tuples.sizes), 0),
            *filled(sizes, 16),
            *tuple_words(tuples, width, 0),
            *filled((), 24),
        )
        return cls(check, get_kernel(f"check {kind_of(indices)}"), words, tuples.count, program)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return _Checked(self.look(places), self.program.bind(places), self.check, self._address(places))

    def look(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """The check alone, with the addresses put in."""
        size = self.tuples * len(self.check.sizes) * self.check.indices.data_type.size_in_bytes
        return make_dispatch(self.kernel, (0, self._address(places), 0, *self.words), self.tuples, size)

    def _address(self, places: Mapping[str, int]) -> int:
        view = self.check.indices
        return places[view.tensor] + view.offset * view.data_type.size_in_bytes


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


def kind_of(indices: View) -> str:
    """The type of indices as kernels name it."""
    return f"{'i' if indices.data_type.is_signed else 'u'}{indices.data_type.size_in_bytes * 8}"


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
    return filled(words, 32)


def filled(words: Sequence[int], length: int) -> list[int]:
    """Words, and as many more as there is room for."""
    return [*words, *[0] * (length - len(words))]
