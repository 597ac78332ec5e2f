"""How a call of a function describes its tensors: at their own rank, then padded for the device's level."""

from __future__ import annotations

import abc
import functools
import inspect
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import DescriptionError, DmlError, Fault, FeatureLevelError, raise_description_faults
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import function_name
from anydml.core.parse import read_int, read_ints
from anydml.operators.schema.fields import bare_name, dml_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.core.enums import DataType
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


def described(cls: type[OperatorDesc], field: str, data_type: DataType, sizes: Sequence[int] | int) -> TensorDesc:
    """An output that a function is told, packed."""
    try:
        return TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise error.within(cls.type.name, f"{field}.") from None


def argument_name(name: str) -> str:
    """A function's name for an input: `x` for `input_tensor`, `input_gradient` for `input_gradient_tensor`."""
    return "x" if name == "input_tensor" else name.removesuffix("_tensor")


def argument_of(cls: type[OperatorDesc], field: str) -> str:
    """A function's name for an input of DirectML's name; `x` for one of several."""
    return next((argument_name(name) for name in cls.input_names() if dml_name(name) == field), "x")


_Wrong = TypeVar("_Wrong", bound=DmlError)


def note_arguments(error: _Wrong, cls: type[OperatorDesc]) -> _Wrong:
    """An error of a function, with a note that tells its arguments' names for the fields that the error names."""
    functions = import_alone("anydml.api.functions")  # which imports this module
    function = function_name(cls.type)
    known = inspect.signature(getattr(functions, function)).parameters
    told, found = " ".join(fault.rule for fault in error.faults), {}
    for name in cls.field_types():
        argument = argument_name(name) if name in cls.input_names() else name
        if argument in known and re.search(rf"\b{dml_name(name)}\b", told):
            found[argument] = dml_name(name)
    if found:
        listed = ", ".join(f"{argument}= is {field}" for argument, field in found.items())
        error.add_note(f"arguments of anydml.{function}: {listed}")
    return error


def name_slots(cls: type[OperatorDesc], names: Sequence[str], count: int) -> list[str]:
    """DirectML's names of so many tensors of some fields, of which one may hold several."""
    return [f"{dml_name(name)}{place}" for name in names for place in _places(cls, name, count - len(names) + 1)]


def _places(cls: type[OperatorDesc], name: str, count: int) -> list[str]:
    return [f"[{i}]" for i in range(count)] if cls.field_types()[name].is_tensor_array else [""]


def _by_field(cls: type[OperatorDesc], names: Sequence[str], tensors: Sequence[TensorDesc]) -> dict[str, Any]:
    """Tensors as the fields of a description that they are for."""
    left, found = list(tensors), {}
    for name in names:
        count = len(_places(cls, name, len(tensors) - len(names) + 1))
        own, left = left[:count], left[count:]
        found[name] = tuple(own) if cls.field_types()[name].is_tensor_array else own[0]
    return found


@functools.cache
def _least_rank(cls: type[OperatorDesc], field: str) -> int:
    """The dimensions that every level asks of an output, where the first input may have fewer; else 0.

    Coordinates of one dimension are a table too.
    """
    if not cls.input_names():
        return 0
    first, own = (
        min(count for row in cls.support for count in row.tensors[name].dimension_counts)
        for name in (bare_name(dml_name(cls.input_names()[0])), field)
    )
    return own if own > first else 0


def hand_over(cls: type[OperatorDesc], gives: tuple[str, ...], asked: Sequence[str], found: Sequence[Any]) -> Any:
    """Outputs as a function gives them: one alone, several by their names, with None for those not asked for."""
    if len(gives) > 1:
        by_name = dict(zip((name for name in cls.output_names() if name in asked), found, strict=True))
        found = [by_name.get(name) for name in gives]
    return cls.gatherer(gives)(found)


class Call(abc.ABC):
    """One call of a function: tensors are described at their own rank and checked, then padded for the device's level.

    Every fault is told in the caller's own dimensions; leading dimensions of size 1 that a level asks for are
    added afterwards.
    """

    scalars: tuple[str, ...] = ()
    """The inputs that may be a single number, without dimensions."""
    outs: list[ArrayView] | None = None
    """The arrays that were given for the outputs."""
    key: object = None
    """The call's identity among others, where that is known."""
    inputs: list[Any]
    implies_types = True
    """Whether the results' types are the operator's, and nobody said them."""
    gives: tuple[str, ...]
    """The fields of the results that the function has, whatever is asked for."""

    def __init__(
        self,
        cls: type[OperatorDesc],
        device: Device,
        inputs: Sequence[Any],
        output_sizes: Any,
        names: Sequence[str] | None = None,
        results: Sequence[str] | None = None,
    ) -> None:
        self.cls, self.device, self.inputs, self.output_sizes = cls, device, list(inputs), output_sizes
        self.names = cls.input_names() if names is None else names
        """The fields of the inputs: optional ones may be left out."""
        self.results = cls.usual_outputs() if results is None else results
        """The fields of the outputs: optional ones may be asked for."""
        self.gives = cls.output_names()
        self.name = cls.type.name
        self.faults: list[Fault] = []
        self.rank = len(inputs[0].sizes) if inputs else 0
        self.result_rank = self.rank if cls.result_rank is None else cls.result_rank
        self.common_rank = max(self.rank, 1)
        self.has_room = False

    @abc.abstractmethod
    def finish(self, desc: OperatorDesc) -> Any:
        """Do what a description in which nothing is at fault says."""

    def hand_over(self, found: Sequence[Any]) -> Any:
        """The outputs as the function gives them."""
        return hand_over(self.cls, self.gives, self.results, found)

    @abc.abstractmethod
    def describe(self, field: str, tensor: Any) -> TensorDesc:
        """The description of an input, or of an array for the output."""

    def lay_out(self, desc: OperatorDesc) -> OperatorDesc:
        """The same with the output laid out as the caller has it; packed, where it was inferred."""
        return desc

    def reword(self, fault: Fault, desc: OperatorDesc) -> Fault:
        """A fault of the level as the caller can act on it."""
        del desc
        return fault

    def convert(self, fault: Fault) -> Fault:
        """A fault of two inputs' types with the way to convert one of them."""
        return fault

    def rank_of(self, field: str) -> int:
        """The dimensions of a result, by DirectML's name: `output_sizes` are those of the first."""
        is_told = self.output_sizes is None or field == dml_name(self.results[0])
        found = self.cls.result_ranks.get(field, self.result_rank if is_told else self.rank)
        return max(found, _least_rank(self.cls, bare_name(field))) if found else 0

    def axis(self, axis: object) -> int:
        """An axis of the array, negative from the end."""
        rank = max(self.rank, 1)
        return read_int(axis, "Axis", self.faults, -rank, rank - 1) % rank

    def axes(self, axes: object) -> tuple[int, ...]:
        """Axes of the array, negative from the end; None for all of them."""
        rank = max(self.rank, 1)
        if axes is None:
            return tuple(range(rank))
        return tuple(axis % rank for axis in read_ints(axes, "Axes", self.faults, -rank, rank - 1))

    def make_room(self, result_rank: int) -> None:
        """A gather's tensors have different ranks, and are described with as many dimensions as the largest."""
        self.has_room = True
        self.result_rank = max(result_rank, 0)
        self.common_rank = max(1, *(len(tensor.sizes) for tensor in self.inputs)) if self.inputs else self.result_rank
        if not self.inputs:
            return
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

    def share_rank(self) -> None:
        """Describe every input with as many dimensions as the first: leading ones of size 1 are added."""
        self.has_room, self.scalars = True, tuple(map(dml_name, self.names[1:]))

    def pad_to_least(self) -> None:
        """Describe with as many dimensions as every level asks for: leading ones of size 1 are added."""
        field = dml_name(self.cls.input_names()[0])
        least = min(count for row in self.cls.support for count in row.tensors[field].dimension_counts)
        if least > self.common_rank:
            self.has_room, self.common_rank = True, least

    def run(
        self, fills: Mapping[str, float] | None = None, outputs: Sequence[TensorDesc] | None = None, **attributes: Any
    ) -> Any:
        """Describe, check and pad, and do what that says.

        `fills` are the values of attribute arrays for leading dimensions that are added; `outputs` is what comes out
        of an operator that does not imply it.
        """
        fills, self.implies_types = fills or {}, outputs is None
        try:
            desc = self.lay_out(self._describe(outputs, attributes))
        except DescriptionError as error:
            raise note_arguments(DescriptionError(self.name, [*self.faults, *error.faults]), self.cls) from None
        padded = self._padded(desc, fills)
        level = self.device.feature_level
        own = [] if self.faults else [self._in_callers_dimensions(fault) for fault in desc.own_faults()]
        of_level = [self.reword(fault, padded) for fault in padded.level_faults(level, f"this device is {level}")]
        if not of_level:  # which say already how to convert
            own = [self.convert(fault) for fault in own]
        try:
            raise_description_faults(self.name, [*of_level, *self.faults, *own])
        except (DescriptionError, FeatureLevelError) as error:
            raise note_arguments(error, self.cls) from None
        if padded is desc:
            desc.found_sound(level)
        return self.finish(padded)

    def _describe(self, outputs: Sequence[TensorDesc] | None, attributes: dict[str, Any]) -> OperatorDesc:
        fields = name_slots(self.cls, self.names, len(self.inputs))
        found = [self.describe(field, x) for field, x in zip(fields, self.inputs, strict=True)]
        if self.has_room:  # other operators' inputs are of one rank, which a check tells
            found = [tensor.padded(self.common_rank) for tensor in found]
        tensors = _by_field(self.cls, self.names, found)
        if self.output_sizes is not None:
            try:
                outputs = [TensorDesc(self._output_type(fields), self.output_sizes)]
            except DescriptionError as error:
                raise error.within(self.name, "OutputTensor.") from None
            self.result_rank = outputs[0].dimension_count
        if self.outs is not None:
            outputs = self._given_outputs(self.outs, outputs)
        asked: dict[str, Any] = dict.fromkeys(set(self.results).intersection(self.cls.optional_outputs()), True)
        if outputs is None:
            return self._at_level(self.cls.draft(**tensors, **asked, **attributes))
        rank = self.common_rank if self.cls.result_rank is None else self.cls.result_rank
        ranks = [self.cls.result_ranks.get(dml_name(name), rank) for name in self.results]
        padded = [output.padded(ranks[min(i, len(ranks) - 1)]) for i, output in enumerate(outputs)]
        if len(padded) < len(self.results):  # `output_sizes` are those of the first, and others are asked for
            told = _by_field(self.cls, self.results[:1], padded)
            return self.cls.draft(**tensors, **asked, **told, **attributes)
        return self.cls(**tensors, **_by_field(self.cls, self.results, padded), **attributes)

    def _output_type(self, fields: Sequence[str]) -> DataType:
        """The output's type, where its sizes alone are told."""
        like = self.cls.output_like
        found: DataType = self.inputs[fields.index(like) if like else 0].data_type
        return found

    def _at_level(self, desc: OperatorDesc) -> OperatorDesc:
        """The same with an output that the level has, where its type is free: truths are UINT32 before 2_0."""
        row = desc.own_support().row_at(max(self.device.feature_level, self.cls.introduced()))

        def has(field: str, tensor: TensorDesc) -> bool:
            return tensor.data_type in row.tensors[bare_name(field)].data_types

        if all(has(*output) for output in desc.outputs().items()):
            return desc
        if not all(has(*given) for given in desc.inputs().items()):
            return desc  # whose faults are told
        names = desc.outputs()

        def change(field: str, tensor: TensorDesc) -> TensorDesc:
            if field not in names or has(field, tensor):
                return tensor
            return TensorDesc(min(row.tensors[bare_name(field)].data_types), tensor.sizes)

        return desc.with_tensors(change)

    def _given_outputs(self, outs: list[ArrayView], wanted: Sequence[TensorDesc] | None) -> list[TensorDesc]:
        """The outputs as the caller's arrays have them, which must be what the call says of them."""
        fields = name_slots(self.cls, self.results, len(outs))
        found = [self.describe(field, out) for field, out in zip(fields, outs, strict=True)]
        faults = []
        if wanted is not None and len(wanted) != len(outs) and self.output_sizes is None:
            rule = f"out must be {len(wanted)} arrays"
            faults.append(Fault(field="out", rule=rule, value=len(outs), found=str(len(outs))))
        for field, mine, other in zip(fields, found, wanted or (), strict=False):
            out = field.replace("OutputTensors", "out").replace("OutputTensor", "out")
            if mine.sizes != other.sizes:
                source = "output_sizes" if self.output_sizes is not None else "sizes"
                rule = f"{out} must have the {source}, {other.sizes}"
                faults.append(Fault(field=f"{field}.Sizes", rule=rule, value=mine.sizes, found=str(mine.sizes)))
            if mine.data_type != other.data_type:
                rule = f"{out} must be of {other.data_type.name}"
                faults.append(
                    Fault(field=f"{field}.DataType", rule=rule, value=mine.data_type, found=mine.data_type.name)
                )
        if faults:
            raise DescriptionError(self.name, faults)
        return found

    def _padded(self, desc: OperatorDesc, fills: Mapping[str, float]) -> OperatorDesc:
        """The same with the smallest dimension count that the level takes, where that is larger."""
        row = desc.own_support().row_at(max(self.device.feature_level, self.cls.introduced()))
        counts = next(iter(row.tensors.values())).dimension_counts
        rank = min((count for count in counts if count >= self.common_rank), default=self.common_rank)
        added = rank - self.common_rank
        if not added or not desc.leads:
            return desc
        changes: dict[str, Any] = {name: (fill,) * added + tuple(getattr(desc, name)) for name, fill in fills.items()}
        if "axis" in desc.field_types():
            changes["axis"] = getattr(desc, "axis") + added  # noqa: B009 - not every operator has one
        if "axes" in desc.field_types():
            changes["axes"] = tuple(axis + added for axis in getattr(desc, "axes"))  # noqa: B009 - not every operator has any
        return desc.with_tensors(lambda _, tensor: tensor.padded(max(tensor.dimension_count, rank)), **changes)

    def _in_callers_dimensions(self, fault: Fault) -> Fault:
        """Number a gather's dimensions as the caller's arrays have them, without those added to match ranks."""
        ranks = {"InputTensor": self.rank, "OutputTensor": self.result_rank}
        if "indices_tensor" in self.cls.input_names():
            ranks["IndicesTensor"] = len(self.inputs[1].sizes)

        def shift(match: re.Match[str]) -> str:
            added = self.common_rank - ranks.get(match[1], self.common_rank)
            return f"{match[1]}.Sizes[{max(int(match[2]) - added, 0)}]"

        field, rule = (re.sub(r"(\w+Tensor)\.Sizes\[(\d+)\]", shift, text) for text in (fault.field, fault.rule))
        return replace(fault, field=field, rule=rule)
