"""One call of a function: arrays are described and checked, or known from an earlier call, and run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.arrays import allocate, place_of, view, wrap
from anydml.arrays.plain import as_plain, plain_key, plain_maker, wrap_plain
from anydml.errors import DescriptionError, Fault, raise_description_faults
from anydml.operators.fields import dml_name
from anydml.parse import read_int
from anydml.runtime.device import Device, device_named
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.arrays import ArrayView
    from anydml.operators import OperatorDesc
    from anydml.runtime.compiled import CompiledOperator


# Calls that were made before, by what they are made of: 12 us a call instead of 270. Only those on NumPy arrays and
# PyTorch's tensors, which say what they are at once. With each, what makes its result.
known_calls: dict[object, tuple[CompiledOperator, Callable[[], Any]]] = {}
_MOST_KNOWN = 1024


class Attempt:
    """A call to be found among those made before."""

    __slots__ = ("_arrays", "_inputs", "_out", "key")

    def __init__(
        self, cls: type[OperatorDesc], device: object, out: object, inputs: tuple[Any, ...], *attributes: Any
    ) -> None:
        self._inputs, self._out = inputs, out
        self.key: object = None
        try:
            self._arrays: list[Any] = [as_plain(x) for x in (inputs if out is None else (*inputs, out))]
            key = (
                cls,
                device,
                out is None,
                *[plain_key(x) for x in self._arrays],
                *[(type(a), tuple(a) if type(a) is list else a) for a in attributes],
            )
            hash(key)
        except Exception:  # noqa: BLE001 - whatever it is, the description will say
            return
        self.key = key

    def run(self) -> Any:
        """The result, where the call is known and needs no closer look; None otherwise."""
        if (known := known_calls.get(self.key)) is None:
            return None
        compiled, make_result = known
        if self._out is not None:
            bound = compiled.bind_known(self._arrays, self._out)
            return None if bound is None else bound.dispatch()
        try:
            result = make_result()
        except Exception:  # noqa: BLE001 - there is no room for it, which the closer look words
            return None
        bound = compiled.bind_known((*self._arrays, result), result, is_fresh=True)
        if bound is None:
            return None
        bound.dispatch()
        return wrap_plain(result, self._inputs[0])


class Call:
    """One call of a function: arrays are described at their own rank and checked, then padded for the device's level.

    Every fault is told in the caller's own dimensions; leading dimensions of size 1 that a level asks for are
    added afterwards.
    """

    def __init__(
        self,
        cls: type[OperatorDesc],
        device: Device | str | None,
        out: object,
        *inputs: object,
        output_sizes: Any = None,
        key: object = None,
    ) -> None:
        self.key = key
        if isinstance(device, Device):
            self.device = device
        elif device is None:
            place = place_of(inputs[0])
            self.device = device_named(place if place.startswith("cuda:") else None)
        else:  # what is no name cannot be looked up, and is refused by Device
            self.device = device_named(device) if isinstance(device, str) else Device(device)
        memory = self.device.engine.memory
        self.cls = cls
        self.name = cls.type.name
        fields = [dml_name(name) for name in cls.input_names()]
        self.inputs = [view(x, self.name, field, memory=memory) for field, x in zip(fields, inputs, strict=True)]
        self.out = None if out is None else view(out, self.name, "OutputTensor", memory=memory, convert=False)
        self.output_sizes = output_sizes
        self.faults: list[Fault] = []
        self.rank = len(self.inputs[0].sizes)
        self.result_rank = self.common_rank = self.rank

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
        """Describe, check, pad, compile or find compiled, bind and dispatch.

        `fills` are the values of attribute arrays for leading dimensions that are added.
        """
        try:
            desc = self._describe(attributes)
        except DescriptionError as error:
            raise DescriptionError(self.name, [*self.faults, *error.faults]) from None
        padded = self._padded(desc, fills)
        level = self.device.feature_level
        own = [] if self.faults else [self._in_callers_dimensions(fault) for fault in desc.own_faults()]
        raise_description_faults(
            self.name, [*padded.level_faults(level, f"this device is {level}"), *self.faults, *own]
        )
        compiled = self.device.compile_cached(padded)
        (output,) = compiled.outputs.values()
        sizes = output.sizes[len(output.sizes) - self.result_rank :]
        like, memory = self.inputs[0].array, compiled.memory
        if self.key is not None:
            if len(known_calls) >= _MOST_KNOWN:
                known_calls.clear()
            known_calls[self.key] = (compiled, plain_maker(output.data_type, sizes, memory))
        if self.out is not None:
            return compiled.bind_view(self.inputs, self.out).dispatch()
        result = allocate(output.data_type, sizes, memory=memory, like=like)
        compiled.bind_view(self.inputs, view(result, self.name, "OutputTensor", memory=memory)).dispatch()
        return wrap(result, like)

    def _describe(self, attributes: dict[str, Any]) -> OperatorDesc:
        tensors = {
            name: self._tensor(dml_name(name), seen).padded(self.common_rank)
            for name, seen in zip(self.cls.input_names(), self.inputs, strict=True)
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
            output = self._tensor("OutputTensor", self.out)
        if output is None:
            return self.cls.draft(**tensors, **attributes)
        return self.cls(output_tensor=output.padded(self.common_rank), **tensors, **attributes)

    def _tensor(self, field: str, seen: ArrayView) -> TensorDesc:
        signed = any(stride < 0 for stride in seen.strides)
        sizes, strides = seen.sizes, seen.strides
        if field == "OutputTensor" and not sizes:  # a single element, which a description gives one dimension
            sizes, strides = (1,), (1,)
        try:
            return TensorDesc(seen.data_type, sizes, strides=strides, signed_strides=signed)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None

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
