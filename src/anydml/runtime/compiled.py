"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate, view
from anydml.enums import DataType
from anydml.errors import BindingError, DescriptionError, Fault, IndexRangeError, show
from anydml.memory import Buffer, numpy_address, span
from anydml.operators import OperatorDesc
from anydml.operators.fields import dml_name
from anydml.primitives import IndexFault, StridedCopy, View
from anydml.runtime.binding import (
    PERSISTENT_BUFFER_ALIGNMENT,
    BindingProperties,
    bind_array,
    hazards,
    raise_binding_faults,
)
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.enums import ExecutionFlags
    from anydml.runtime.device import Device


@dataclass(frozen=True, slots=True)
class Layout:
    """What an array must be to be bound without a closer look."""

    field: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    below: int
    """Bytes from the first element to the lowest, at most 0."""
    above: int
    """Bytes from the first element past the highest."""
    alignment: int

    @classmethod
    def of(cls, field: str, tensor: TensorDesc) -> Layout:
        """The layout of a described tensor."""
        width = tensor.data_type.size_in_bytes
        below, above = span(tensor.sizes, tensor.element_strides)
        steps = tuple(stride * width for stride in tensor.element_strides)
        alignment = tensor.guaranteed_base_offset_alignment
        return cls(field, tensor.data_type.dtype, tensor.sizes, steps, below * width, (above + 1) * width, alignment)

    def match(self, array: Any) -> int | None:
        """The address of a NumPy array of this layout."""
        if (
            type(array) is not np.ndarray
            or array.shape != self.shape
            or array.strides != self.steps
            or array.dtype != self.dtype
        ):
            return None
        address = numpy_address(array)
        return None if self.alignment and address % self.alignment else address


class Operator:
    """IDMLOperator: a description found valid on a device."""

    def __init__(self, device: Device, desc: OperatorDesc) -> None:
        if not isinstance(desc, OperatorDesc):
            rule = "desc must be an operator description, such as Slice1(...)"
            raise DescriptionError("Device", Fault(field="desc", rule=rule, value=desc, found=show(desc)))
        desc.validate(device.feature_level)
        self.device = device
        self.desc = desc

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is worth knowing of the description, though it is valid."""
        return tuple(self.desc.remarks())

    def __repr__(self) -> str:
        return f"Operator({self.desc!r})"


class CompiledOperator:
    """IDMLCompiledOperator: an operator made ready for an engine, to be called again and again.

    `run(x, out=y)` binds and dispatches; `run.bind(x, out=y)` binds once, and its `dispatch()` does nothing else.
    Inputs flagged OWNED_BY_DML are given once to `initialize`, and are left out of every call. The arrays of the last
    call with `out` are remembered, and kept alive, until the next.
    """

    def __init__(self, created: Operator, flags: ExecutionFlags) -> None:
        if not isinstance(created, Operator):
            rule = "operator must be an Operator"
            raise DescriptionError("CompiledOperator", Fault(field="operator", rule=rule, found=show(created)))
        desc = created.desc
        self.device = created.device
        self.operator = created
        self.desc = desc
        self.flags = flags
        self.name = desc.type.name
        self.inputs = {dml_name(name): getattr(desc, name) for name in desc.input_names()}
        self.outputs = {dml_name(name): getattr(desc, name) for name in desc.output_names()}
        self._free = [field for field, tensor in self.inputs.items() if not tensor.is_owned_by_dml]
        self.owned = {field: tensor for field, tensor in self.inputs.items() if tensor.is_owned_by_dml}
        self.persistent_places, self._persistent_size = self._place_owned()
        self.persistent: Buffer | None = None
        self.is_initialized = False
        self._layouts = [
            Layout.of(field, tensor)
            for field, tensor in (*self.inputs.items(), *self.outputs.items())
            if not tensor.is_owned_by_dml
        ]
        self._last: _Last | None = None
        packed = {
            name: TensorDesc(tensor.data_type, tensor.sizes)
            for name in desc.input_names()
            if (tensor := getattr(desc, name)).is_owned_by_dml
        }
        engine = self.device.engine
        self._program = engine.compile(replace(desc, **packed).lower())  # type: ignore[type-var]  # a dataclass
        self._copies = {
            field: engine.compile(
                StridedCopy(View.of(field, tensor), View.of("Persistent", TensorDesc(tensor.data_type, tensor.sizes)))
            )
            for field, tensor in self.owned.items()
        }

    def _place_owned(self) -> tuple[dict[str, int], int]:
        """Lay the owned tensors out in the persistent resource, packed and aligned."""
        places, size = {}, 0
        for field, tensor in self.owned.items():
            places[field] = size
            length = TensorDesc(tensor.data_type, tensor.sizes).total_tensor_size_in_bytes
            size += -(-length // PERSISTENT_BUFFER_ALIGNMENT) * PERSISTENT_BUFFER_ALIGNMENT
        return places, size

    @property
    def binding_properties(self) -> BindingProperties:
        """What must be bound to run it: no engine here needs scratch memory; owned tensors need lasting memory."""
        count = len(self.inputs) + len(self.outputs) + (1 if self.owned else 0)
        return BindingProperties(count, 0, self._persistent_size)

    # Arrays

    def initialize(self, *owned: object) -> CompiledOperator:
        """Copy the inputs that are OWNED_BY_DML, in the order of the fields; they need not live on."""
        self._check_count("initialize", list(self.owned), owned, "the inputs flagged OWNED_BY_DML")
        self.check_not_initialized()
        faults: list[Fault] = []
        bound = [
            bind_array(field, tensor, view(array, self.name, field), is_output=False, faults=faults)
            for (field, tensor), array in zip(self.owned.items(), owned, strict=True)
        ]
        raise_binding_faults(self.name, faults)
        memory = allocate_bytes(self._persistent_size)
        self.copy_owned({b.field: (b.memory, b.offset) for b in bound}, memory)
        return self

    def bind(self, *inputs: object, out: object) -> BoundOperator:
        """Attach arrays: inputs in the order of the fields, and the output."""
        self._check_count("bind", self._free, inputs, "the inputs")
        seen = [view(array, self.name, field) for field, array in zip(self._free, inputs, strict=True)]
        (output_field,) = self.outputs
        return self.bind_views(seen, view(out, self.name, output_field, convert=False))

    def _bind_plain(self, arrays: tuple[Any, ...]) -> BoundOperator | None:
        """Attach NumPy arrays laid out to the letter as described and well apart; None where a closer look is due."""
        if len(arrays) != len(self._layouts) or (self.owned and self.persistent is None):
            return None
        ranges = []
        for layout, array in zip(self._layouts, arrays, strict=True):
            if (place := layout.match(array)) is None:
                return None
            ranges.append((place + layout.below, place + layout.above))
        low, high = ranges[-1]
        if not arrays[-1].flags.writeable or any(low < end and start < high for start, end in ranges[:-1]):
            return None
        return self.bind_fresh(arrays)

    def bind_fresh(self, arrays: Sequence[Any]) -> BoundOperator:
        """Attach arrays known to fit, the output last."""
        memory = {
            layout.field: (Buffer(numpy_address(array), 0, True, array), 0)
            for layout, array in zip(self._layouts, arrays, strict=True)
        }
        return self.attach(memory, self.persistent, arrays[-1])

    def bind_views(self, inputs: Sequence[ArrayView], output: ArrayView) -> BoundOperator:
        """Attach arrays that were looked at already."""
        if self.owned and self.persistent is None:
            rule = f"{', '.join(self.owned)} must be given to initialize() first, being OWNED_BY_DML"
            raise BindingError(self.name, Fault(field=next(iter(self.owned)), rule=rule))
        faults: list[Fault] = []
        bound = [
            bind_array(field, self.inputs[field], seen, is_output=False, faults=faults)
            for field, seen in zip(self._free, inputs, strict=True)
        ]
        (output_field,) = self.outputs
        target = bind_array(output_field, self.outputs[output_field], output, is_output=True, faults=faults)
        if not faults:
            faults += hazards(bound, [target], in_place=self.desc.in_place)
        raise_binding_faults(self.name, faults)
        memory = {b.field: (b.memory, b.offset) for b in (*bound, target)}
        return self.attach(memory, self.persistent, output.array)

    def __call__(self, *inputs: object, out: object = None) -> Any:
        """Run on arrays; without `out` the result is a new array of the first input's library."""
        if out is not None:
            last = self._last
            if last is not None and last.is_of(inputs, out):
                return last.bound.dispatch()
            bound = self._bind_plain((*inputs, out))
            self._last = None if bound is None else _Last(inputs, out, bound, self._layouts)
            bound = bound or self.bind(*inputs, out=out)
            return bound.dispatch()
        self._check_count("call", self._free, inputs, "the inputs")
        seen = [view(array, self.name, field) for field, array in zip(self._free, inputs, strict=True)]
        (desc,) = self.outputs.values()
        result = allocate(desc.data_type, desc.sizes, desc.element_strides)
        self.bind_views(seen, view(result, self.name, "OutputTensor")).dispatch()
        return seen[0].wrap(result) if seen else result

    def _check_count(self, call: str, fields: list[str], given: Sequence[object], what: str) -> None:
        if len(fields) != len(given):
            rule = f"{call}() takes {what}: {', '.join(fields) or 'none'}"
            fault = Fault(field="inputs", rule=rule, value=len(given), found=f"{len(given)} arrays")
            raise BindingError(self.name, fault)

    # Memory

    def attach(
        self, memory: Mapping[str, tuple[Buffer, int]], persistent: Buffer | None, out: object = None
    ) -> BoundOperator:
        """Attach memory that was checked."""
        owned = {}
        if persistent is not None:
            owned = {field: (persistent, place) for field, place in self.persistent_places.items()}
        everything = {**memory, **owned}
        return BoundOperator(self.desc, self._program.bind(everything), everything, out)

    def check_not_initialized(self) -> None:
        """An operator that owns tensors is initialized exactly once: what is bound to it relies on them."""
        if self.owned and self.is_initialized:
            rule = "the operator is initialized already, which happens exactly once"
            raise BindingError(self.name, Fault(field="", rule=rule, way_out="compile it again for other data"))

    def copy_owned(self, sources: Mapping[str, tuple[Buffer, int]], persistent: Buffer | None) -> None:
        """Fill the persistent resource; the operator is initialized from then on."""
        if persistent is not None:
            for field, program in self._copies.items():
                place = (persistent, self.persistent_places[field])
                program.bind({field: sources[field], "Persistent": place})()
        self.persistent = persistent
        self.is_initialized = True

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook."""
        return self.desc._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc!r}, engine={self.device.engine.name!r})"


def allocate_bytes(size: int) -> Buffer | None:
    """Memory of the runtime's own; none for a size of 0."""
    if not size:
        return None
    array = allocate(DataType.UINT8, (size,))
    return Buffer(array.__array_interface__["data"][0], size, True, array)


class _Last:
    """The arrays of a call, for the next that has the same: a loop binds once without being told to."""

    __slots__ = ("_first", "_first_shape", "_inputs", "_out", "_out_shape", "_shapes", "bound")

    def __init__(self, inputs: tuple[Any, ...], out: Any, bound: BoundOperator, layouts: Sequence[Layout]) -> None:
        self._inputs, self._out, self.bound = inputs, out, bound
        self._shapes, self._out_shape = [layout.shape for layout in layouts[:-1]], layouts[-1].shape
        self._first: Any = inputs[0] if inputs else None
        self._first_shape = self._shapes[0] if inputs else None

    def is_of(self, inputs: tuple[Any, ...], out: Any) -> bool:
        """Whether these are the same arrays, and nobody gave one another shape in place."""
        if out is not self._out or out.shape != self._out_shape or len(inputs) != len(self._inputs):
            return False
        if len(inputs) == 1:
            first = inputs[0]
            return first is self._first and first.shape == self._first_shape
        return all(a is b and a.shape == s for a, b, s in zip(inputs, self._inputs, self._shapes, strict=True))


class BoundOperator:
    """A compiled operator with its memory attached, which it keeps alive."""

    __slots__ = ("_desc", "_dispatch", "_memory", "_out")

    def __init__(self, desc: OperatorDesc, dispatch: Callable[[], Any], memory: object, out: object) -> None:
        self._desc, self._dispatch, self._memory, self._out = desc, dispatch, memory, out

    def dispatch(self) -> Any:
        """Run it: everything was checked and planned before, but for the values of indices. Returns the output."""
        try:
            self._dispatch()
        except IndexFault as fault:
            raise IndexRangeError(self._desc.type.name, self._desc.word_index_fault(fault)) from None
        except MemoryError as error:
            rule = f"memory ran out while the operator ran ({show(error)})"
            raise BindingError(self._desc.type.name, Fault(field="", rule=rule)) from error
        return self._out
