"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: running sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.enums import AxisDirection, DataType
from anydml.ir.verbs import Scan
from anydml.ir.views import View
from anydml.operator_type import OperatorType
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Direction, Input, Output, Uint, WithFloat64  # noqa: TC001 - read at run time
from anydml.operators.rules import axis_of_input, like_input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from anydml.errors import Fault


class _CumulativeDesc(OperatorDesc):
    """The shared part of the sum and the product."""

    input_tensor: Input
    output_tensor: Output
    axis: Uint
    axis_direction: Direction = AxisDirection.INCREASING
    allow_float64: WithFloat64 = False

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's."""
        yield from axis_of_input(self, self.axis)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)

    def _scan(self, function: Literal["sum", "product"], exclusive: bool) -> Scan:
        return Scan(
            sources=(View.of("InputTensor", self.input_tensor),),
            target=View.of("OutputTensor", self.output_tensor),
            axis=self.axis,
            function=function,
            reverse=self.axis_direction is AxisDirection.DECREASING,
            exclusive=exclusive,
        )


class CumulativeSummation(_CumulativeDesc):
    """Adds up elements along an axis, and writes the tally at each; exclusive, before the element is added."""

    type = OperatorType.CUMULATIVE_SUMMATION
    other_types = (DataType.UINT16,)
    # UINT16 stands in the edition of 2021 and no longer in the present one; what either lists is accepted.

    has_exclusive_sum: bool = False

    def lower(self) -> tuple[Scan]:
        """A scan that adds."""
        return (self._scan("sum", self.has_exclusive_sum),)

    def remarks(self) -> Iterator[str]:
        """UINT16 is in one edition only."""
        yield from super().remarks()
        if self.input_tensor.data_type is DataType.UINT16:
            yield "UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only"


class CumulativeProduct(_CumulativeDesc):
    """Multiplies elements along an axis, and writes the tally at each; exclusive, before the element is taken in."""

    type = OperatorType.CUMULATIVE_PRODUCT

    has_exclusive_product: bool = False

    def lower(self) -> tuple[Scan]:
        """A scan that multiplies."""
        return (self._scan("product", self.has_exclusive_product),)
