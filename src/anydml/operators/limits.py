"""The operators with bounds: THRESHOLD, and CLIP and its gradient, with bounds of FLOAT or of the tensors' type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import maximum, minimum, where
from anydml.operators.elementwise import ElementWise, Scaled, number
from anydml.operators.fields import Float, Input, Output, Scalar, ValueType  # noqa: TC001 - read at run time
from anydml.operators.scalars import type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


class ElementWiseThreshold(Scaled):
    """At least a bound: max(x, Min). Of integers the bound loses its fraction; NaN stays."""

    min: Float

    def value(self, x: Expr) -> Expr:
        """max(x, Min)."""
        return maximum(x, number(self.min, x))


class ElementWiseClip(Scaled):
    """Between two bounds: max(Min, min(x, Max)). A Min above Max is what comes out everywhere.

    The bounds are made numbers of the tensor's type: for integers they lose their fraction. NaN stays, which the
    documents leave open.
    """

    min: Float
    max: Float

    def value(self, x: Expr) -> Expr:
        """max(Min, min(x, Max))."""
        return maximum(minimum(x, number(self.max, x)), number(self.min, x))


class _TypedBounds(ElementWise):
    """Bounds whose type is said, and is the tensors'."""

    if TYPE_CHECKING:
        min_max_data_type: ValueType
        min: Scalar
        max: Scalar

    def rules(self) -> Iterator[Fault]:
        """The bounds are of the type that is said."""
        yield from super().rules()
        for field, bound in (("Min", self.min), ("Max", self.max)):
            yield from type_faults(bound, DataType(self.min_max_data_type), field)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type too."""
        yield from super().output_rules()
        ((output, tensor),) = self.outputs().items()
        mine, theirs = DataType(self.min_max_data_type), tensor.data_type
        if mine != theirs:
            rule = f"MinMaxDataType must be {output}.DataType, {theirs.name}"
            yield Fault(field="MinMaxDataType", rule=rule, value=mine, found=mine.name)


class ElementWiseClip1(_TypedBounds, Scaled):
    """Between two bounds of the tensor's type: max(Min, min(x, Max)). A Min above Max is what comes out everywhere.

    NaN stays, which the documents leave open.
    """

    min_max_data_type: ValueType
    min: Scalar
    max: Scalar

    def value(self, x: Expr) -> Expr:
        """max(Min, min(x, Max))."""
        return maximum(minimum(x, number(self.max, x)), number(self.min, x))


class _ClipGrad(ElementWise):
    """The tensors of the gradients."""

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output

    def _inside(self, x: Expr, gradient: Expr, low: float, high: float) -> Expr:
        kind = self.input_tensor.data_type
        return where((number(low, x, kind) < x) & (x < number(high, x, kind)), gradient, 0)


class ElementWiseClipGrad(_ClipGrad):
    """The gradient of CLIP: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""

    min: Float
    max: Float

    def value(self, x: Expr, gradient: Expr) -> Expr:
        """Min < x < Max ? gradient : 0."""
        return self._inside(x, gradient, self.min, self.max)


class ElementWiseClipGrad1(_TypedBounds, _ClipGrad):
    """The gradient of CLIP1: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""

    min_max_data_type: ValueType
    min: Scalar
    max: Scalar

    def value(self, x: Expr, gradient: Expr) -> Expr:
        """Min < x < Max ? gradient : 0."""
        return self._inside(x, gradient, self.min, self.max)
