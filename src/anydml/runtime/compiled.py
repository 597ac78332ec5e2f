"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate, view, wrap
from anydml.arrays.cuda import is_capturing
from anydml.arrays.plain import as_plain, plain_address, plain_key, wrap_plain
from anydml.errors import DescriptionError, Fault, IndexRangeError, show
from anydml.memory import HOST
from anydml.operators import OperatorDesc
from anydml.operators.fields import dml_name
from anydml.primitives import StridedCopy, View
from anydml.runtime.bound import MOST_KNOWN, BoundOperator, Known, Layout
from anydml.runtime.dispatchable import Compiled, Kept
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.enums import ExecutionFlags
    from anydml.memory import Buffer
    from anydml.primitives import IndexFault
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


def _word_index_fault(desc: OperatorDesc, fault: IndexFault) -> IndexRangeError:
    return IndexRangeError(desc.type.name, desc.word_index_fault(fault))


class CompiledOperator(Compiled):
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
        self.operator = created
        self.desc = desc
        self.name = desc.type.name
        self.in_place = desc.in_place
        inputs = {dml_name(name): getattr(desc, name) for name in desc.input_names()}
        outputs = {dml_name(name): getattr(desc, name) for name in desc.output_names()}
        super().__init__(created.device, flags, inputs, outputs)
        self._word = functools.partial(_word_index_fault, desc)
        self._layouts = [
            Layout.of(field, tensor, self.memory)
            for field, tensor in (*inputs.items(), *outputs.items())
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
        self._program = self.device.engine.compile(replace(desc, **packed).lower())  # type: ignore[type-var]  # a dataclass

    def keep(self, field: str, tensor: TensorDesc) -> Kept:
        """An owned tensor is kept packed."""
        packed = TensorDesc(tensor.data_type, tensor.sizes)
        copy = StridedCopy(View.of(field, tensor), View.of("Persistent", packed))
        return Kept(copy, packed.total_tensor_size_in_bytes, 0)

    def launch(self, places: Mapping[str, int], temporary: Buffer | None) -> Callable[[], Any]:  # noqa: ARG002 - none
        """What dispatches, given the address of each tensor's first element; no engine needs scratch memory here."""
        return self._program.bind(places)

    @property
    def word(self) -> Callable[[IndexFault], IndexRangeError]:
        """What words an index outside its dimension."""
        return self._word

    def bind(self, *inputs: object, out: object) -> BoundOperator:
        """Attach arrays: inputs in the order of the fields, and the output."""
        if (bound := self._bind_plain(inputs, out)) is not None:
            return bound
        self.check_count("bind", self.free, inputs, "the inputs")
        seen = self.look(self.free, inputs)
        (output_field,) = self.outputs
        return self.bind_view(seen, view(out, self.name, output_field, memory=self.memory, convert=False))

    def bind_view(self, inputs: Sequence[ArrayView], output: ArrayView) -> BoundOperator:
        """Attach arrays that were looked at already."""
        return self.bind_views(inputs, [output], output.array)

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
            return BoundOperator(self.name, self._word, launch, (memory, self.persistent), out)
        if not is_fresh:
            target, written = layouts[-1], addresses[-1]
            is_writable = not is_host or arrays[-1].flags.writeable
            if not is_writable or (target.alignment and written % target.alignment):
                return None
            low, high = written + target.below, written + target.above
            for layout, address in zip(layouts[:-1], addresses, strict=False):
                is_apart = low >= address + layout.above or address + layout.below >= high
                if not is_apart and not (address == written and layout.key == target.key and self.in_place):
                    return None
                if layout.alignment and address % layout.alignment:
                    return None
        places = dict(zip(self._bound_fields, addresses, strict=True))
        launch = self._program.bind(self.with_owned(places, self.persistent) if self.owned else places)
        if not (is_host or is_capturing()):  # PyTorch gives one tensor's memory to the next: addresses come back
            if len(self._launches) >= MOST_KNOWN:
                self._launches.clear()
            self._launches[addresses] = launch
        return BoundOperator(self.name, self._word, launch, (memory, self.persistent), out)

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
        self.check_count("call", self.free, inputs, "the inputs")
        (desc,) = self.outputs.values()
        like = inputs[0] if inputs else None
        result = allocate(desc.data_type, desc.sizes, desc.element_strides, memory=self.memory, like=like)
        if (plain := self._bind_plain(inputs, result)) is not None:
            plain.dispatch()
            return wrap_plain(result, like) if inputs else result
        seen = self.look(self.free, inputs)
        self.bind_view(seen, view(result, self.name, "OutputTensor", memory=self.memory)).dispatch()
        return wrap(result, seen[0].array) if seen else result

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook."""
        return self.desc._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc!r}, engine={self.device.name!r})"
