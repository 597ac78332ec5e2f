"""How a call of a function describes its tensors: at their own rank, then padded for the device's level."""

from __future__ import annotations

import abc
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.errors import DescriptionError, Fault, raise_description_faults
from anydml.operators.fields import dml_name
from anydml.parse import read_int
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays import ArrayView
    from anydml.builder import Expression
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


class Call(abc.ABC):
    """One call of a function: tensors are described at their own rank and checked, then padded for the device's level.

    Every fault is told in the caller's own dimensions; leading dimensions of size 1 that a level asks for are
    added afterwards.
    """

    out: ArrayView | None = None

    def __init__(
        self, cls: type[OperatorDesc], device: Device, inputs: Sequence[ArrayView | Expression], output_sizes: Any
    ) -> None:
        self.cls, self.device, self.inputs, self.output_sizes = cls, device, inputs, output_sizes
        self.name = cls.type.name
        self.faults: list[Fault] = []
        self.rank = len(inputs[0].sizes)
        self.result_rank = self.common_rank = self.rank

    @abc.abstractmethod
    def finish(self, desc: OperatorDesc) -> Any:
        """Do what a description in which nothing is at fault says."""

    @abc.abstractmethod
    def describe(self, field: str, tensor: Any) -> TensorDesc:
        """The description of an input, or of an array for the output."""

    def lay_out(self, desc: OperatorDesc) -> OperatorDesc:
        """The same with the output laid out as the caller has it; packed, where it was inferred."""
        return desc

    def axis(self, axis: object) -> int:
        """An axis of the array, negative from the end."""
        rank = max(self.rank, 1)
        return read_int(axis, "Axis", self.faults, -rank, rank - 1) % rank

    def make_room_for_gathered(self, batch: int) -> None:
        """A gather's tensors have different ranks, and are described with as many dimensions as the largest."""
        indices = self.inputs[1].sizes
        tuple_size = indices[-1] if indices else 0
        self.result_rank = max(len(indices) - 1 + self.rank - batch - tuple_size, 0)
        self.common_rank = max(self.rank, len(indices))
        counts = {count for row in self.cls.support for count in row.tensors["OutputTensor"].dimension_counts}
        if self.result_rank > max(counts):
            rule = f"the result must have at most {max(counts)} dimensions"
            self.faults.append(Fault(field="OutputTensor.DimensionCount", rule=rule, found=str(self.result_rank)))
            return
        at_level = self.cls.support.row_at(max(self.device.feature_level, self.cls.introduced()))
        first = self.cls.support.first_with("OutputTensor", dimension_count=self.result_rank)
        if self.result_rank > max(at_level.tensors["OutputTensor"].dimension_counts) and first is not None:
            rule = f"a result of {self.result_rank} dimensions needs {first.dml_name}"
            where = f"this device is {self.device.feature_level}"
            self.faults.append(Fault(field="OutputTensor.DimensionCount", rule=rule, way_out=where, level=first))
            return
        self.common_rank = max(self.common_rank, self.result_rank)

    def run(self, fills: dict[str, int], **attributes: Any) -> Any:
        """Describe, check and pad, and do what that says.

        `fills` are the values of attribute arrays for leading dimensions that are added.
        """
        try:
            desc = self.lay_out(self._describe(attributes))
        except DescriptionError as error:
            raise DescriptionError(self.name, [*self.faults, *error.faults]) from None
        padded = self._padded(desc, fills)
        level = self.device.feature_level
        own = [] if self.faults else [self._in_callers_dimensions(fault) for fault in desc.own_faults()]
        raise_description_faults(
            self.name, [*padded.level_faults(level, f"this device is {level}"), *self.faults, *own]
        )
        return self.finish(padded)

    def _describe(self, attributes: dict[str, Any]) -> OperatorDesc:
        tensors = {
            name: self.describe(dml_name(name), tensor).padded(self.common_rank)
            for name, tensor in zip(self.cls.input_names(), self.inputs, strict=True)
        }
        output = None
        if self.output_sizes is not None:
            try:
                output = TensorDesc(self.inputs[0].data_type, self.output_sizes)
            except DescriptionError as error:
                raise error.within(self.name, "OutputTensor.") from None
        if self.out is not None:
            if output is not None and output.sizes != self.out.sizes:
                rule = f"out must have the output_sizes, {output.sizes}"
                fault = Fault(field="OutputTensor.Sizes", rule=rule, value=self.out.sizes, found=str(self.out.sizes))
                raise DescriptionError(self.name, fault)
            output = self.describe("OutputTensor", self.out)
        if output is None:
            return self.cls.draft(**tensors, **attributes)
        return self.cls(output_tensor=output.padded(self.common_rank), **tensors, **attributes)

    def _padded(self, desc: OperatorDesc, fills: dict[str, int]) -> OperatorDesc:
        """The same with the smallest dimension count that the level takes, where that is larger."""
        row = self.cls.support.row_at(max(self.device.feature_level, self.cls.introduced()))
        counts = row.tensors["InputTensor"].dimension_counts
        rank = min((count for count in counts if count >= self.common_rank), default=self.common_rank)
        added = rank - self.common_rank
        if not added:
            return desc
        changes: dict[str, Any] = {
            name: getattr(desc, name).padded(getattr(desc, name).dimension_count + added)
            for name in (*desc.input_names(), *desc.output_names())
        }
        changes |= {name: (fill,) * added + tuple(getattr(desc, name)) for name, fill in fills.items()}
        if "axis" in desc.field_types():
            changes["axis"] = getattr(desc, "axis") + added  # noqa: B009 - not every operator has one
        return replace(desc, **changes)  # type: ignore[type-var]  # every description is a dataclass

    def _in_callers_dimensions(self, fault: Fault) -> Fault:
        """Number a gather's dimensions as the caller's arrays have them, without those added to match ranks."""
        ranks = {"InputTensor": self.rank, "OutputTensor": self.result_rank}
        if len(self.inputs) > 1:
            ranks["IndicesTensor"] = len(self.inputs[1].sizes)

        def shift(match: re.Match[str]) -> str:
            added = self.common_rank - ranks[match[1]]
            return f"{match[1]}.Sizes[{max(int(match[2]) - added, 0)}]"

        field, rule = (re.sub(r"(\w+Tensor)\.Sizes\[(\d+)\]", shift, text) for text in (fault.field, fault.rule))
        return replace(fault, field=field, rule=rule)
