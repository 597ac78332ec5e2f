"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate, view, wrap
from anydml.arrays.plain import wrap_plain
from anydml.errors import DescriptionError, Fault, IndexRangeError, show
from anydml.operators import OperatorDesc
from anydml.operators.fields import dml_name
from anydml.primitives import StridedCopy, View
from anydml.runtime.bound import MOST_KNOWN, BoundOperator, Known
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
        self.word = functools.partial(_word_index_fault, desc)
        super().__init__(created.device, flags, inputs, outputs)
        self._known: dict[tuple[int, ...], Known] = {}
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

    def bind(self, *inputs: object, out: object) -> BoundOperator:
        """Attach arrays: inputs in the order of the fields, and the output."""
        if (bound := self.bind_plain(inputs, (out,), out)) is not None:
            return bound
        self.check_count("bind", self.free, inputs, "the inputs")
        seen = self.look(self.free, inputs)
        (output_field,) = self.outputs
        return self.bind_view(seen, view(out, self.name, output_field, memory=self.memory, convert=False))

    def bind_view(self, inputs: Sequence[ArrayView], output: ArrayView) -> BoundOperator:
        """Attach arrays that were looked at already."""
        return self.bind_views(inputs, [output], output.array)

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
        if (plain := self.bind_plain(inputs, (result,), result)) is not None:
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
