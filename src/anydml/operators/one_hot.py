"""ONE_HOT: lines of one value, with another where an index says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import coordinate, given, load, where
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Input, Output, Uint  # noqa: TC001 - read at run time
from anydml.operators.margins import walked
from anydml.operators.rules import axis_of_input, same_data_type, same_dimension_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.arrays.tensor import TensorDesc
    from anydml.operators.sizes import Sizes

INT64 = DataType.INT64


class OneHot(Computed):
    """Lines along an axis that have Values[1] at an index and Values[0] elsewhere.

    An index of a signed type counts from the end where it is negative; a line whose index lies outside has Values[0]
    alone. Values[1] is the second along the last dimension of ValuesTensor that has two.
    """

    implies_output = False
    output_like = "ValuesTensor"
    shares_rank = True
    typed_like = {"OutputTensor": "ValuesTensor"}  # noqa: RUF012 - a table that nobody writes to

    indices_tensor: Input
    values_tensor: Input
    output_tensor: Output
    axis: Uint

    def rules(self) -> Iterator[Fault]:
        """There is one index for each line, and two values at least."""
        yield from same_dimension_count(self, "ValuesTensor", "IndicesTensor")
        if self.values_tensor.element_count < 2:
            rule = "ValuesTensor must have two elements at least"
            found = str(self.values_tensor.element_count)
            yield Fault(field="ValuesTensor.Sizes", rule=rule, value=self.values_tensor.sizes, found=found)
        faults = list(axis_of_input(self, self.axis, "IndicesTensor"))
        yield from faults
        if not faults and (size := self.indices_tensor.sizes[self.axis]) != 1:
            field = f"IndicesTensor.Sizes[{self.axis}]"
            rule = f"{field}, along the axis, must be 1"
            yield Fault(field=field, rule=rule, value=size, found=str(size))

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the values' type, and has the indices' sizes but for the axis."""
        yield from same_data_type(self, "OutputTensor", "ValuesTensor")
        faults = list(same_dimension_count(self, "OutputTensor", "IndicesTensor"))
        yield from faults
        pairs = zip(self.output_tensor.sizes, self.indices_tensor.sizes, strict=not faults)
        for k, (size, wanted) in enumerate(pairs):
            if not faults and k != self.axis and size != wanted:
                field = f"OutputTensor.Sizes[{k}]"
                rule = f"{field} must be IndicesTensor.Sizes[{k}], {wanted}, as in every dimension but the axis"
                yield Fault(field=field, rule=rule, value=size, found=str(size))

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:  # noqa: ARG003 - as others
        """Two values."""
        return DataType.FLOAT32, (*(1,) * (first.dimension_count - 1), 2)

    def lower(self) -> tuple[Map]:
        """A map of the coordinate along the axis."""
        target, indices = View.of("OutputTensor", self.output_tensor), View.of("IndicesTensor", self.indices_tensor)
        index, kind = load(0, indices.data_type), indices.data_type
        if kind.is_signed:
            index = index.to(INT64)
            index = where(index < 0, index + given(target.sizes[self.axis], INT64), index)
            is_on = index.equals(coordinate(self.axis))
        else:  # compared in its own type: 2^64 - 1 must not turn into -1
            is_on = index.equals(coordinate(self.axis).to(kind))
        values = View.of("ValuesTensor", self.values_tensor)
        step = next(stride for size, stride in reversed([*zip(values.sizes, values.strides, strict=True)]) if size > 1)
        none = (0,) * len(target.sizes)
        off, on = (walked(values, target.sizes, none, offset) for offset in (0, step))
        sources = (walked(indices, target.sizes, indices.strides), off, on)
        own = values.data_type
        return (Map(sources, target, where(is_on, load(2, own), load(1, own))),)
