"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE: tensors made of a number, or counted on from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.core.operator_type import OperatorType
from anydml.ir.patterns import filled
from anydml.ir.views import View
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Output, Scalar, ValueType, WithFloat64, dml_name
from anydml.operators.scalars import as_type, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.verbs import Map


class _FillDesc(OperatorDesc):
    """The shared part of the two: no input, and numbers whose type a field says."""

    implies_output = False

    output_tensor: Output
    value_data_type: ValueType

    def rules(self) -> Iterator[Fault]:
        """The numbers are of the type that is said."""
        kind = DataType(self.value_data_type)
        for name in self.field_types():
            if name.removeprefix("value_") in ("value", "start", "delta"):
                yield from type_faults(getattr(self, name), kind, dml_name(name), is_step=name == "value_delta")

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type too."""
        mine, theirs = DataType(self.value_data_type), self.output_tensor.data_type
        if mine != theirs:
            rule = f"ValueDataType must be OutputTensor.DataType, {theirs.name}"
            yield Fault(field="ValueDataType", rule=rule, value=mine, found=mine.name)

    def _fill(self, start: float, delta: float) -> tuple[Map]:
        kind = self.output_tensor.data_type
        return (filled(View.of("OutputTensor", self.output_tensor), as_type(start, kind), as_type(delta, kind)),)


class FillValueConstant(_FillDesc):
    """Writes one number everywhere."""

    type = OperatorType.FILL_VALUE_CONSTANT

    value: Scalar

    def lower(self) -> tuple[Map]:
        """A fill that stays where it starts."""
        return self._fill(self.value, 0)


class FillValueSequence(_FillDesc):
    """Counts the elements in their order: Output[n] = ValueStart + n·ValueDelta."""

    type = OperatorType.FILL_VALUE_SEQUENCE

    value_start: Scalar
    value_delta: Scalar
    allow_float64: WithFloat64 = False

    def lower(self) -> tuple[Map]:
        """A fill that goes on from element to element."""
        return self._fill(self.value_start, self.value_delta)
