"""GATHER and GATHER_ELEMENTS: copy what indices point at along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.enums import IndexMode
from anydml.errors import Fault
from anydml.ir.fetches import gathered
from anydml.ir.views import View
from anydml.operator_type import OperatorType
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Input, Output, OutsideIndex, Uint  # noqa: TC001 - read at run time
from anydml.operators.gather import word_index
from anydml.operators.rules import axis_of_input, exact_sizes, same_data_type, same_dimension_count, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.enums import DataType
    from anydml.ir.verbs import IndexFault, Map


def _word_outside_axis(fault: IndexFault, position: tuple[int, ...], index_type: DataType) -> Fault:
    """Word an index outside the axis, which has no number: leading 1s that the caller did not write count in it."""
    return word_index(fault, position, index_type, str(fault.indices[0]), "the axis")


class Gather(OperatorDesc):
    """Copies blocks of the input by indices along an axis: Output[…, i, …] = Input[…, Indices[i], …].

    The last IndexDimensions dimensions of IndicesTensor are meant, after leading 1s; they stand in the output in the
    place of the axis. Leading 1s that the output has no room for are left away.
    """

    type = OperatorType.GATHER
    # The reference says that IndexDimensions lies below IndicesTensor.DimensionCount, which its own examples reach;
    # and its third example has 2 where 1 gives the sizes that it writes.

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output
    axis: Uint
    index_dimensions: Uint
    index_mode: OutsideIndex = IndexMode.RAISE

    @property
    def _index_sizes(self) -> tuple[int, ...]:
        return self.indices_tensor.sizes[self.indices_tensor.dimension_count - self.index_dimensions :]

    def rules(self) -> Iterator[Fault]:
        """The axis and the dimensions of indices are there, and what is gathered fits the tensors' dimensions."""
        faults = [*same_dimension_count(self, "IndicesTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        count, given = self.indices_tensor.dimension_count, self.index_dimensions
        if given > count:
            rule = f"IndexDimensions must lie in 0 .. {count}, the dimensions of IndicesTensor"
            faults.append(Fault(field="IndexDimensions", rule=rule, value=given, found=str(given)))
        else:
            for i, size in enumerate(self.indices_tensor.sizes[: count - given]):
                if size != 1:
                    name = f"IndicesTensor.Sizes[{i}]"
                    rule = f"{name} must be 1, because only the last IndexDimensions = {given} dimensions count"
                    faults.append(Fault(field=name, rule=rule, value=size, found=str(size)))
        yield from faults
        if faults:
            return
        gathered = self._gathered_sizes()
        lead = gathered[: max(len(gathered) - count, 0)]
        if any(size != 1 for size in lead):
            rule = f"the result {gathered} must fit the {count} dimensions of the tensors, leading 1s left away"
            way_out = f"describe all three tensors with {len(gathered)} dimensions, leading sizes of 1 added"
            yield Fault(
                field="OutputTensor.DimensionCount", rule=rule, value=count, found=str(len(gathered)), way_out=way_out
            )

    def _gathered_sizes(self) -> tuple[int, ...]:
        sizes = self.input_tensor.sizes
        return (*sizes[: self.axis], *self._index_sizes, *sizes[self.axis + 1 :])

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's sizes with those of the indices in the place of the axis; 1s in front, or fewer of them."""
        sizes, count = self._gathered_sizes(), self.input_tensor.dimension_count
        return (1,) * (count - len(sizes)) + sizes[max(len(sizes) - count, 0) :]

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of the implied sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        source = "the sizes of InputTensor with those of the indices in the place of the axis"
        yield from counts or exact_sizes(self, "OutputTensor", self.implied_output_sizes(), source)

    def lower(self) -> tuple[Map]:
        """A gather in which the dimensions before the axis are batches that share the indices."""
        before, sizes = self.input_tensor.sizes[: self.axis], self._gathered_sizes()
        indices = View.of("IndicesTensor", self.indices_tensor).last(self.index_dimensions)
        target = View.of("OutputTensor", self.output_tensor)
        strides = (0,) * (len(sizes) - len(target.sizes)) + target.strides[max(len(target.sizes) - len(sizes), 0) :]
        gather = gathered(
            source=View.of("InputTensor", self.input_tensor),
            indices=View(
                indices.tensor,
                indices.data_type,
                (*before, *indices.sizes, 1),
                ((0,) * len(before)) + indices.strides + (0,),
            ),
            target=View(target.tensor, target.data_type, sizes, strides),
            batch_rank=self.axis,
            clamp=self.index_mode is IndexMode.CLAMP,
        )
        return (gather,)

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place among the dimensions of IndicesTensor that count."""
        return _word_outside_axis(fault, fault.position[self.axis :], self.indices_tensor.data_type)


class GatherElements(OperatorDesc):
    """Copies single elements by an index each: Output[…, i, …] = Input[…, Indices[…, i, …], …]."""

    type = OperatorType.GATHER_ELEMENTS

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output
    axis: Uint
    index_mode: OutsideIndex = IndexMode.RAISE

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and off it the indices have the input's sizes."""
        faults = [*same_dimension_count(self, "IndicesTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        yield from faults
        if faults:
            return
        pairs = zip(self.indices_tensor.sizes, self.input_tensor.sizes, strict=True)
        for i, (size, wanted) in enumerate(pairs):
            if i != self.axis and size != wanted:
                name = f"IndicesTensor.Sizes[{i}]"
                rule = f"{name} must be InputTensor.Sizes[{i}], {wanted}, as in every dimension but the axis"
                yield Fault(field=name, rule=rule, value=size, found=str(size))

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The indices'."""
        return self.indices_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of the indices' sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from same_sizes(self, "OutputTensor", "IndicesTensor")

    def lower(self) -> tuple[Map]:
        """A gather in which every dimension but the axis is a batch."""
        order = self._order()
        indices = View.of("IndicesTensor", self.indices_tensor).pick(order)
        gather = gathered(
            source=View.of("InputTensor", self.input_tensor).pick(order),
            indices=View(indices.tensor, indices.data_type, (*indices.sizes, 1), (*indices.strides, 0)),
            target=View.of("OutputTensor", self.output_tensor).pick(order),
            batch_rank=len(order) - 1,
            clamp=self.index_mode is IndexMode.CLAMP,
        )
        return (gather,)

    def _order(self) -> Sequence[int]:
        """The dimensions with the axis last."""
        return [*(k for k in range(self.input_tensor.dimension_count) if k != self.axis), self.axis]

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place in IndicesTensor."""
        position = dict(zip(self._order(), fault.position, strict=True))
        return _word_outside_axis(fault, tuple(position[k] for k in sorted(position)), self.indices_tensor.data_type)
