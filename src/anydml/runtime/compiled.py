"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate, view, wrap
from anydml.arrays.cuda import is_capturing, on_callers_stream
from anydml.arrays.plain import as_plain, plain_address, plain_key, wrap_plain
from anydml.errors import BindingError, DescriptionError, Fault, show
from anydml.memory import HOST
from anydml.operators import OperatorDesc
from anydml.operators.fields import dml_name
from anydml.primitives import StridedCopy, View
from anydml.runtime.binding import (
    PERSISTENT_BUFFER_ALIGNMENT,
    BindingProperties,
    bind_array,
    hazards,
    raise_binding_faults,
)
from anydml.runtime.bound import MOST_KNOWN, BoundOperator, Known, Layout
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.enums import ExecutionFlags
    from anydml.memory import Buffer
    from anydml.runtime.binding import Bound
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
    Inputs flagged OWNED_BY_DML are given once to `initialize`, and are left out of every call. A call with arrays of
    an earlier one finds them bound.
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
        engine = self.device.engine
        self.memory = engine.memory
        self.inputs = {dml_name(name): getattr(desc, name) for name in desc.input_names()}
        self.outputs = {dml_name(name): getattr(desc, name) for name in desc.output_names()}
        self._free = [field for field, tensor in self.inputs.items() if not tensor.is_owned_by_dml]
        self.owned = {field: tensor for field, tensor in self.inputs.items() if tensor.is_owned_by_dml}
        self.persistent_places, self._persistent_size = self._place_owned()
        self.persistent: Buffer | None = None
        self.is_initialized = False
        self._layouts = [
            Layout.of(field, tensor, self.memory)
            for field, tensor in (*self.inputs.items(), *self.outputs.items())
            if not tensor.is_owned_by_dml
        ]
        self._bound_fields = [layout.field for layout in self._layouts]
        self._known: dict[tuple[int, ...], Known] = {}
        self._launches: dict[tuple[int, ...], Callable[[], Any]] = {}
        packed = {
            name: TensorDesc(tensor.data_type, tensor.sizes)
            for name in desc.input_names()
            if (tensor := getattr(desc, name)).is_owned_by_dml
        }
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
            bind_array(field, self.owned[field], seen, is_output=False, faults=faults)
            for field, seen in zip(self.owned, self._look(list(self.owned), owned), strict=True)
        ]
        raise_binding_faults(self.name, faults)
        self.copy_owned({b.field: b for b in bound}, self._reserve(self._persistent_size))
        return self

    def _reserve(self, size: int) -> Buffer | None:
        """Memory of the operator's own; none for a size of 0."""
        try:
            return self.device.engine.reserve(size) if size else None
        except Exception as error:
            rule = f"{size} bytes of {self.memory} memory could not be allocated ({show(error)})"
            raise BindingError(self.name, Fault(field="PersistentResource", rule=rule, value=size)) from error

    def _look(self, fields: Sequence[str], arrays: Sequence[object]) -> list[ArrayView]:
        named = zip(fields, arrays, strict=True)
        return [view(array, self.name, field, memory=self.memory) for field, array in named]

    def bind(self, *inputs: object, out: object) -> BoundOperator:
        """Attach arrays: inputs in the order of the fields, and the output."""
        if (bound := self._bind_plain(inputs, out)) is not None:
            return bound
        self._check_count("bind", self._free, inputs, "the inputs")
        seen = self._look(self._free, inputs)
        (output_field,) = self.outputs
        return self.bind_views(seen, view(out, self.name, output_field, memory=self.memory, convert=False))

    def _bind_plain(self, inputs: tuple[Any, ...], out: Any) -> BoundOperator | None:
        """Attach arrays laid out to the letter as described and well apart; None where a closer look is due."""
        layouts = self._layouts
        if len(inputs) + 1 != len(layouts) or (self.owned and self.persistent is None):
            return None
        arrays = []
        for layout, array in zip(layouts, (*inputs, out), strict=True):
            plain = array if type(array) is np.ndarray else as_plain(array)
            if plain is None or plain_key(plain) != layout.key:
                return None
            arrays.append(plain)
        return self.bind_known(arrays, out)

    def bind_known(self, arrays: Sequence[Any], out: Any, *, is_fresh: bool = False) -> BoundOperator | None:
        """Attach plain arrays of layouts known to fit, the last of them what `out` is; None for a closer look.

        With `is_fresh` it was allocated a moment ago: nothing else lies there.
        """
        layouts, addresses = self._layouts, tuple([plain_address(array) for array in arrays])
        is_host = self.memory == HOST
        memory = arrays if is_host else [array.untyped_storage() for array in arrays]  # set_() leaves it to its holders
        if (launch := self._launches.get(addresses)) is not None:
            return BoundOperator(self.desc, launch, (memory, self.persistent), out)
        if not is_fresh:
            target, written = layouts[-1], addresses[-1]
            is_writable = not is_host or arrays[-1].flags.writeable
            if not is_writable or (target.alignment and written % target.alignment):
                return None
            low, high = written + target.below, written + target.above
            for layout, address in zip(layouts[:-1], addresses, strict=False):
                is_apart = low >= address + layout.above or address + layout.below >= high
                if not is_apart and not (address == written and layout.key == target.key and self.desc.in_place):
                    return None
                if layout.alignment and address % layout.alignment:
                    return None
        launch = self._launch(dict(zip(self._bound_fields, addresses, strict=True)), self.persistent)
        if not (is_host or is_capturing()):  # PyTorch gives one tensor's memory to the next: addresses come back
            if len(self._launches) >= MOST_KNOWN:
                self._launches.clear()
            self._launches[addresses] = launch
        return BoundOperator(self.desc, launch, (memory, self.persistent), out)

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
        return self.attach((*bound, target), self.persistent, output.array)

    def __call__(self, *inputs: object, out: object = None) -> Any:
        """Run on arrays; without `out` the result is a new array of the first input's library."""
        if out is not None:
            key = (id(inputs[0]), id(out)) if len(inputs) == 1 else (*map(id, inputs), id(out))
            known = self._known.get(key)
            if known is not None and known.is_of(inputs, out):
                known.dispatch()
                return out
            bound = self.bind(*inputs, out=out)
            if all(type(array) is np.ndarray for array in (*inputs, out)):  # a tensor may be given other memory
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = Known(inputs, out, bound)
            return bound.dispatch()
        self._check_count("call", self._free, inputs, "the inputs")
        (desc,) = self.outputs.values()
        like = inputs[0] if inputs else None
        result = allocate(desc.data_type, desc.sizes, desc.element_strides, memory=self.memory, like=like)
        if (plain := self._bind_plain(inputs, result)) is not None:
            plain.dispatch()
            return wrap_plain(result, like) if inputs else result
        seen = self._look(self._free, inputs)
        self.bind_views(seen, view(result, self.name, "OutputTensor", memory=self.memory)).dispatch()
        return wrap(result, seen[0].array) if seen else result

    def _check_count(self, call: str, fields: list[str], given: Sequence[object], what: str) -> None:
        if len(fields) != len(given):
            rule = f"{call}() takes {what}: {', '.join(fields) or 'none'}"
            fault = Fault(field="inputs", rule=rule, value=len(given), found=f"{len(given)} arrays")
            raise BindingError(self.name, fault)

    # Memory

    def attach(self, bound: Sequence[Bound], persistent: Buffer | None, out: object = None) -> BoundOperator:
        """Attach memory that was checked, to be run on the stream that its library works on."""
        launch = self._launch({b.field: b.address for b in bound}, persistent)
        launch = on_callers_stream(launch, [b.memory for b in bound])
        return BoundOperator(self.desc, launch, (bound, persistent), out)

    def _launch(self, places: dict[str, int], persistent: Buffer | None) -> Callable[[], Any]:
        """What dispatches, given the address of each tensor's first element."""
        if persistent is not None:
            owned = {field: persistent.address + place for field, place in self.persistent_places.items()}
            places = {**places, **owned}
        return self._program.bind(places)

    def check_not_initialized(self) -> None:
        """An operator that owns tensors is initialized exactly once: what is bound to it relies on them."""
        if self.owned and self.is_initialized:
            rule = "the operator is initialized already, which happens exactly once"
            raise BindingError(self.name, Fault(field="", rule=rule, way_out="compile it again for other data"))

    def copy_owned(self, sources: Mapping[str, Bound], persistent: Buffer | None) -> None:
        """Fill the persistent resource; the operator is initialized from then on."""
        if persistent is not None:
            for field, program in self._copies.items():
                source, place = sources[field], persistent.address + self.persistent_places[field]
                copy = program.bind({field: source.address, "Persistent": place})
                on_callers_stream(copy, [source.memory])()
        self.persistent = persistent
        self.is_initialized = True

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook."""
        return self.desc._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc!r}, engine={self.device.name!r})"
