"""JOIN and SPLIT: put tensors together along an axis, and take one apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.errors import Fault
from anydml.ir.patterns import copy_of
from anydml.ir.views import View
from anydml.operator_type import OperatorType
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Input, Inputs, Output, Outputs, Uint  # noqa: TC001 - read at run time
from anydml.operators.rules import axis_of_input, same_data_type, same_dimension_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.verbs import Map
    from anydml.tensor import TensorDesc


def _sizes_off_axis(desc: OperatorDesc, field: str, other: str, axis: int) -> Iterator[Fault]:
    """Check that two tensors differ along the axis at most."""
    mine, theirs = desc.tensors()[field].sizes, desc.tensors()[other].sizes
    for i, (size, wanted) in enumerate(zip(mine, theirs, strict=True)):
        if i != axis and size != wanted:
            rule = f"{field}.Sizes[{i}] must be {other}.Sizes[{i}], {wanted}, as in every dimension but the axis"
            yield Fault(field=f"{field}.Sizes[{i}]", rule=rule, value=size, found=str(size))


def _alike(desc: OperatorDesc, fields: Sequence[str], other: str, axis: int) -> Iterator[Fault]:
    """Check that tensors have the type, the dimension count and off the axis the sizes of another."""
    for field in fields:
        yield from same_data_type(desc, field, other)
        counts = list(same_dimension_count(desc, field, other))
        yield from counts
        if not counts and axis < desc.tensors()[other].dimension_count:
            yield from _sizes_off_axis(desc, field, other, axis)


def _parts(whole: View, tensors: Sequence[TensorDesc], axis: int) -> Iterator[View]:
    """The parts of a tensor along an axis that others are as large as."""
    start = [0] * len(whole.sizes)
    for tensor in tensors:
        yield whole.window(start, (1,) * len(start), tensor.sizes)
        start[axis] += tensor.sizes[axis]


class Join(OperatorDesc):
    """Puts tensors one after the other along an axis."""

    type = OperatorType.JOIN

    input_tensors: Inputs
    output_tensor: Output
    axis: Uint

    @property
    def input_count(self) -> int:
        """DirectML's InputCount, the number of tensors."""
        return len(self.input_tensors)

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the inputs', which differ along it at most."""
        first, *others = self.inputs()
        yield from axis_of_input(self, self.axis, first)
        yield from _alike(self, others, first, self.axis)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The inputs', which add up along the axis."""
        sizes = list(self.input_tensors[0].sizes)
        sizes[self.axis] = sum(tensor.sizes[self.axis] for tensor in self.input_tensors)
        return tuple(sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the inputs' type, and as long as all of them together."""
        first = next(iter(self.inputs()))
        faults = list(_alike(self, ["OutputTensor"], first, self.axis))
        yield from faults
        if any("DimensionCount" in fault.field for fault in faults):
            return
        size, wanted = self.output_tensor.sizes[self.axis], self.implied_output_sizes()[self.axis]
        if size != wanted:
            field = f"OutputTensor.Sizes[{self.axis}]"
            rule = f"{field} must be {wanted}, the sum of the inputs' sizes along the axis"
            yield Fault(field=field, rule=rule, value=size, found=str(size))

    def lower(self) -> tuple[Map, ...]:
        """A copy of each input into its part of the output."""
        parts = _parts(View.of("OutputTensor", self.output_tensor), self.input_tensors, self.axis)
        sources = (View.of(name, tensor) for name, tensor in self.inputs().items())
        return tuple(map(copy_of, sources, parts))


class Split(OperatorDesc):
    """Takes a tensor apart along an axis: what JOIN puts together."""

    type = OperatorType.SPLIT
    implies_output = False

    input_tensor: Input
    output_tensors: Outputs
    axis: Uint

    @property
    def output_count(self) -> int:
        """DirectML's OutputCount, the number of tensors."""
        return len(self.output_tensors)

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's."""
        yield from axis_of_input(self, self.axis)

    def output_rules(self) -> Iterator[Fault]:
        """The outputs are of the input's type, differ along the axis at most, and add up to the input."""
        faults = list(_alike(self, list(self.outputs()), "InputTensor", self.axis))
        yield from faults
        if any("DimensionCount" in fault.field for fault in faults):
            return
        total, wanted = sum(t.sizes[self.axis] for t in self.output_tensors), self.input_tensor.sizes[self.axis]
        if total != wanted:
            rule = f"the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[{self.axis}], {wanted}"
            yield Fault(field="OutputTensors", rule=rule, value=total, found=str(total))

    def lower(self) -> tuple[Map, ...]:
        """A copy of each part of the input into its output."""
        parts = _parts(View.of("InputTensor", self.input_tensor), self.output_tensors, self.axis)
        targets = (View.of(name, tensor) for name, tensor in self.outputs().items())
        return tuple(map(copy_of, parts, targets))
