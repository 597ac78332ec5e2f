"""DIAGONAL_MATRIX and DIAGONAL_MATRIX1: a number along diagonals of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import coordinate, given, load, where
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Float,
    Int,
    OptionalInput,
    Output,
    Scalar,
    ValueType,
)
from anydml.operators.rules import like_input
from anydml.operators.scalars import as_type, saturated, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


class _Diagonal(Computed):
    """The shared part of the two."""

    if TYPE_CHECKING:
        output_tensor: Output

    @property
    def _place(self) -> Expr:
        """How far right of the main diagonal an element is."""
        last = self.output_tensor.dimension_count - 1
        return coordinate(last) - coordinate(last - 1)

    def _lower(self, is_filled: Expr, value: float, source: View | None) -> tuple[Map]:
        kind = self.output_tensor.data_type
        other = given(0, kind) if source is None else load(0, kind)
        target = View.of("OutputTensor", self.output_tensor)
        return (Map(() if source is None else (source,), target, where(is_filled, given(value, kind), other)),)


class DiagonalMatrix(_Diagonal):
    """Matrices with Value on a diagonal and 0 elsewhere: Output[…, y, x] = Value where x = y + Offset.

    Of integers Value loses its fraction, and is at the nearer end of their range.
    """

    implies_output = False

    output_tensor: Output
    offset: Int = 0
    value: Float = 1.0

    def rules(self) -> Iterator[Fault]:
        """Every Offset and Value will do."""
        yield from ()

    def output_rules(self) -> Iterator[Fault]:
        """So will every output."""
        yield from ()

    def lower(self) -> tuple[Map]:
        """A map of the coordinates."""
        is_filled = self._place.equals(given(self.offset, DataType.INT64))
        return self._lower(is_filled, saturated(self.value, self.output_tensor.data_type), None)


class DiagonalMatrix1(_Diagonal):
    """Matrices with Value on some diagonals, and elsewhere the input or 0.

    Output[…, y, x] = Value where DiagonalFillBegin <= x - y < DiagonalFillEnd. With a begin above the end it is Value
    outside of end .. begin - 1.
    """

    implies_output = False

    input_tensor: OptionalInput = None
    output_tensor: Output
    value_data_type: ValueType
    value: Scalar = 1
    diagonal_fill_begin: Int = 0
    diagonal_fill_end: Int = 1

    def rules(self) -> Iterator[Fault]:
        """Value is of the type that is said."""
        yield from type_faults(self.value, DataType(self.value_data_type), "Value")

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type, and like the input where there is one."""
        mine, theirs = DataType(self.value_data_type), self.output_tensor.data_type
        if mine != theirs:
            rule = f"ValueDataType must be OutputTensor.DataType, {theirs.name}"
            yield Fault(field="ValueDataType", rule=rule, value=mine, found=mine.name)
        if self.input_tensor is not None:
            yield from like_input(self)

    def lower(self) -> tuple[Map]:
        """A map of the coordinates, and of the input."""
        begin, end = (given(bound, DataType.INT64) for bound in (self.diagonal_fill_begin, self.diagonal_fill_end))
        from_begin, before_end = self._place >= begin, self._place < end
        is_filled = from_begin & before_end
        if self.diagonal_fill_end < self.diagonal_fill_begin:
            is_filled = from_begin | before_end
        source = None if self.input_tensor is None else View.of("InputTensor", self.input_tensor)
        return self._lower(is_filled, as_type(self.value, self.output_tensor.data_type), source)
