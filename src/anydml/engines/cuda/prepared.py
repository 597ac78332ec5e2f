"""Programs of one kernel that reads some of its sources as they are laid out first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ALIGNMENT
from anydml.engines.cuda.launch import Bases, BlockDescriptor
from anydml.engines.cuda.move.copy import CopyProgram
from anydml.engines.cuda.rows.map import MapProgram
from anydml.engines.cuda.scratch import DeviceWords
from anydml.ir.patterns import is_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from anydml.engines.cuda.device import Figures
    from anydml.engines.cuda.launch import Kernel
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class PreparedProgram(Program):
    """A kernel, and what is laid out for it: in memory of the program's own, or ahead, of what never changes."""

    kernel: Kernel
    bases: Bases
    before: tuple[Program, ...] = ()
    scratch: Mapping[str, int] = field(default_factory=dict)
    """The bytes of memory of the program's own, by name."""
    layouts: Mapping[str, Map] = field(default_factory=dict)
    otherwise: Callable[[], Kernel] | None = None
    """The maker of a kernel that reads no blocks, for sources that do not begin at a multiple of 16 bytes."""

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        bases: Bases,
        laid_out: Sequence[Map],
        sources: Sequence[View],
        constants: frozenset[str],
        otherwise: Callable[[], Kernel] | None = None,
    ) -> Self:
        """Lay constants out ahead that are read in one way alone, and the others at each dispatch."""
        tensors = [view.tensor for view in sources]
        ahead = [one for one in laid_out if one.source.tensor in constants and tensors.count(one.source.tensor) == 1]
        now = [one for one in laid_out if one not in ahead]
        kernel.prepare()
        size = {one.target.tensor: math.prod(one.target.sizes) * one.target.data_type.size_in_bytes for one in now}
        before = tuple(_mapped(one, kernel.figures) for one in now)
        return cls(kernel, bases, before, size, {one.target.tensor: one for one in ahead}, otherwise)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; what is laid out anew gets memory of the program's own."""
        if not self.before:
            return self._launch(places)
        words = DeviceWords(sum(size // 8 + 4 for size in self.scratch.values()), self.kernel.figures.index)
        held, at = dict(places), words.address
        for name, size in self.scratch.items():
            held[name] = -(-at // 16) * 16
            at = held[name] + size
        starts = [one.bind(held) for one in self.before]
        return words.around([*starts, self._launch(held)], "window")

    def _launch(self, places: Mapping[str, int]) -> Callable[[], Any]:
        addresses, kernel = [places[tensor] + offset for tensor, offset in self.bases], self.kernel
        pairs = zip(kernel.pointers, addresses, strict=True)
        if self.otherwise and any(
            isinstance(pointer, BlockDescriptor) and address % ALIGNMENT for pointer, address in pairs
        ):
            kernel = self.otherwise()
        return kernel.launch(addresses)


def _mapped(one: Map, figures: Figures) -> Program:
    return CopyProgram.plan(one, figures) if is_copy(one) else MapProgram.plan(one, figures)
