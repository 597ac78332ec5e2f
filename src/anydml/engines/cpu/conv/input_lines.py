"""The input of a convolution or pooling over planes, as lines that windows walk over, with padding around them or not.

Planners ask for it once a route's condition holds (`schedules.py`); the walk itself is `ir/windows.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.rows.map import word_of
from anydml.ir.contraction import StridedOperand
from anydml.ir.views import View
from anydml.ir.windows import walked_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.ir.expressions import Expr
    from anydml.ir.padded_reads import Padded


class InputLines(NamedTuple):
    """Lines that lie some bytes apart, and where windows stand on them: in lines, and in elements of one."""

    x: StridedOperand
    """The first element that there is, and strides in bytes of dimensions that no window goes along."""
    height: int
    """Lines that there are."""
    width: int
    """Elements of a line."""
    pitch: int
    """Bytes from a line to the next."""
    apart: int
    """Bytes from an element to the next."""
    top: int
    """Lines of padding that the first windows have above those."""
    left: int
    """Elements of padding that they have before those."""
    down: int
    """From a row of the output to the next."""
    below: int
    """From a row of taps to the next."""
    step: int
    """From a place of the output to the next."""
    beside: int
    """From a tap to the next."""
    outside: Expr | View | None = None
    """The number that stands in the padding, or the element that has it; None where there is none."""

    @property
    def fill(self) -> int:
        """The number that stands in the padding, as often as four bytes have it; 0 where it is an element."""
        if self.outside is None or isinstance(self.outside, View):
            return 0
        word = word_of(self.outside)
        return word if self.x.width == 4 else (word & 0xFF) * 0x01010101

    @property
    def filler(self) -> list[StridedOperand]:
        """The element that stands in the padding, if it is one."""
        one = self.outside
        if not isinstance(one, View):
            return []
        return [StridedOperand(one.tensor, one.offset * one.data_type.size_in_bytes, (0,) * len(self.x.strides), 1)]

    def is_onward(self, operands: Operands, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """Whether windows go on from line to line and from element to element, those of rows and of columns."""
        steps = zip((*rows, *columns), (self.down, self.below, self.step, self.beside), strict=True)
        return all(step > 0 for k, step in steps if operands.found.sizes[k] > 1)


def find_lines(
    operands: Operands, x: Expr, rows: Sequence[int], columns: Sequence[int], padded: Padded | None
) -> InputLines | None:
    """How an operand lies along rows and columns of the output, each given with the dimension of its taps, if any.

    None where windows run on from line to line, where padding lies along other dimensions, and where something else
    reads what is padded.
    """
    sources, sizes = operands.primitive.sources, operands.found.sizes
    walked = walked_by(x, sources, {tap: place for place, *taps in (rows, columns) for tap in taps}, padded)
    lines, elements = (None, None) if walked is None else (walked.along(*rows), walked.along(*columns))
    if walked is None or lines is None or elements is None:
        return None
    if padded is not None:
        reading = [slot for slot, view in enumerate(sources) if view.tensor == padded.inner.tensor]
        is_ours = reading == [int(x.value)] and all(axis in (lines, elements) for axis in walked.limits)
        if not is_ours or max(lines.first, elements.first) > 0:
            return None
    width, unit = walked.kind.size_in_bytes, (elements.stride or 1) if padded is None else 1
    start = walked.start - sum(axis.stride * min(axis.first, 0) for axis in (lines, elements))
    (down, below), (step, beside) = (
        [axis.steps.get(k, 0) for k in dimensions] + [0] * (2 - len(dimensions))
        for axis, dimensions in ((lines, rows), (elements, columns))
    )
    return InputLines(
        StridedOperand(walked.tensor, width * start, tuple(width * walked.stride(k) for k in range(len(sizes))), width),
        lines.size, (elements.size - 1) * unit + 1, width * lines.stride, width * elements.stride // unit,
        max(-lines.first, 0), max(-elements.first, 0), down, below, step * unit, beside * unit,
        None if padded is None else padded.outside,
    )  # fmt: skip
