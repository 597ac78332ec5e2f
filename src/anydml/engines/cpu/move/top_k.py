"""Top-k, planned: the first few places of each line's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import outer_words
from anydml.ir.loops import Loops, merge, order, squeeze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Sort


class TopProgram(NamedTuple):
    """The first few of an order, planned."""

    primitive: Sort
    kernel: Kernel
    words: tuple[int, ...]
    """After the two addresses."""
    units: int
    size: int

    @classmethod
    def plan(cls, primitive: Sort) -> TopProgram:
        """One unit for each line."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        wanted, count = target.sizes[axis], source.sizes[axis]
        widths = (source.data_type.size_in_bytes, target.data_type.size_in_bytes)
        others = [k for k in range(len(source.sizes)) if k != axis]
        loops = Loops(source.sizes, (source.strides, target.strides), (0, 0)).pick(others)
        loops = merge(order(squeeze(loops), 1))
        in_bytes = Loops(
            loops.sizes,
            tuple(tuple(s * own for s in row) for row, own in zip(loops.strides, widths, strict=True)),
            (0, 0),
        )
        steps = (source.strides[axis] * widths[0], target.strides[axis] * widths[1])
        rank = len(loops.sizes)
        words = (count, *steps, wanted, rank, *outer_words(in_bytes, 1, rank))
        kind = f"{'f' if source.data_type.is_float else 'i' if source.data_type.is_signed else 'u'}{8 * widths[0]}"
        which = "largest" if primitive.largest else "smallest"
        kernel = get_kernel(f"top {kind} u{8 * widths[1]} {which}")
        return cls(primitive, kernel, words, loops.count, loops.count * count * widths[0])

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source, target = (
            places[view.tensor] + view.offset * view.data_type.size_in_bytes
            for view in (self.primitive.source, self.primitive.target)
        )
        return make_dispatch(self.kernel, (source, target, *self.words), self.units, self.size)
