"""Maps and reduces as they are bound: what a plan on disk has of them, apart from how they are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.launch.call import Template, make_dispatch
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.walk import make_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel


class MapProgram(NamedTuple):
    """A map, planned."""

    row: Kernel
    tensors: tuple[str, ...]
    """Of each view; empty for a coordinate."""
    offsets: tuple[int, ...]
    """In bytes, from the tensors' first elements; of a coordinate the first."""
    fixed: tuple[int, ...]
    """Between what the first segment lacks and the views' addresses."""
    words: tuple[int, ...]
    """After the views' addresses."""
    units: int
    size: int
    """In bytes, times the weight of the arithmetic: what threads share work out by."""
    aligned: int = 0
    """The bytes of the target's elements where segments begin with lines of the cache; 0 where they need not: written
    past the cache, lines in one piece take 0.95 of the time for one source, and 0.97 for three."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        addresses = [
            places[tensor] + offset if tensor else offset
            for tensor, offset in zip(self.tensors, self.offsets, strict=True)
        ]
        less, units = self._align(addresses[-1]) if self.aligned else (0, self.units)
        words = (self.row.address, less, *self.fixed, *addresses, *self.words)
        return make_dispatch(get_kernel("rows", make_rows), words, units, self.size)

    def direct(self, tensors: Sequence[str]) -> Callable[..., Any] | None:
        """As the engine's protocol has it."""
        if self.aligned:
            return None
        words = (self.row.address, 0, *self.fixed, *self.offsets, *self.words)
        first = 2 + len(self.fixed)
        both = enumerate(zip(self.tensors, self.offsets, strict=True), first)
        places = {number: (tensor, offset) for number, (tensor, offset) in both if tensor}
        return Template(get_kernel("rows", make_rows), words, places, self.units, self.size).direct(tensors)

    def _align(self, target: int) -> tuple[int, int]:
        """How many elements fewer the first segment has, and the units then."""
        _, _, count, _, length, _ = self.fixed
        less = target % LINE // self.aligned
        return less, -(-(count + less) // length)
