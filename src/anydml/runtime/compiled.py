"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.arrays import allocate, view
from anydml.enums import DataType
from anydml.errors import BindingError, DescriptionError, Fault, IndexRangeError, show
from anydml.memory import Buffer
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
    Inputs flagged OWNED_BY_DML are given once to `initialize`, and are left out of every call.
    """

    def __init__(self, operator: Operator, flags: ExecutionFlags) -> None:
        if not isinstance(operator, Operator):
            rule = "operator must be an Operator"
            raise DescriptionError("CompiledOperator", Fault(field="operator", rule=rule, found=show(operator)))
        desc = operator.desc
        self.device = operator.device
        self.operator = operator
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
            return self.bind(*inputs, out=out).dispatch()
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

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc!r}, engine={self.device.engine.name!r})"


def allocate_bytes(size: int) -> Buffer | None:
    """Memory of the runtime's own; none for a size of 0."""
    if not size:
        return None
    array = allocate(DataType.UINT8, (size,))
    return Buffer(array.__array_interface__["data"][0], size, True, array)


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
