"""Orders, planned: a program for some elements of a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.kernels.order import order_lines
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.programs.shapes import ceil_power, fastest_first, kind_of
from anydml.ir.plan import Loops, merge, order, squeeze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.ir.choosing import Sort

MOST_EACH = 64
"""Elements of a line that a program has: each meets as many others at once."""


@dataclass(frozen=True, slots=True)
class OrderProgram:
    """An order, planned."""

    primitive: Sort
    kernel: Kernel

    @classmethod
    def plan(cls, primitive: Sort, figures: Figures) -> OrderProgram:
        """Blocks of all lines."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        count = source.sizes[axis]
        others = [k for k in range(len(source.sizes)) if k != axis]
        lines = Loops(source.sizes, (source.strides, target.strides), (0, 0)).pick(others)
        lines = merge(order(squeeze(lines), 1))
        each = min(ceil_power(count), MOST_EACH)
        blocks = -(-count // each)
        numbers: Numbers = (
            *(count, target.sizes[axis], source.strides[axis], target.strides[axis], blocks),
            *fastest_first(lines.sizes, *lines.strides),
        )
        constants = {"IS_FLOAT": source.data_type.is_float, "LARGEST": primitive.largest, "EACH": each}
        pointers = (kind_of(source.data_type), kind_of(target.data_type))
        kernel = Kernel(order_lines, pointers, numbers, constants, lines.count * blocks, 4, figures)
        kernel.prepare()
        return cls(primitive, kernel)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source, target = (
            places[view.tensor] + view.offset * view.data_type.size_in_bytes
            for view in (self.primitive.source, self.primitive.target)
        )
        return self.kernel.launch((source, target))
