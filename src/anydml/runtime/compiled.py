"""Operators on a device: created, compiled, and bound to arrays."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, IndexRangeError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property
from anydml.core.memory import HOST, has_fast_address
from anydml.graph.arena import check_bounds, lay_out
from anydml.graph.guard import guard
from anydml.graph.lower import lower_operator
from anydml.ir.bounds import are_checked
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import verbs_of
from anydml.ir.views import View
from anydml.operators import OperatorDesc
from anydml.runtime.bound import MOST_KNOWN, BoundOperator, Known
from anydml.runtime.call_cache import CallCache
from anydml.runtime.dispatchable import Compiled
from anydml.runtime.launches import in_a_row
from anydml.runtime.pass_programs import join_steps
from anydml.runtime.persistent_resource import Kept
from anydml.runtime.prepacked import Layouts
from anydml.runtime.profiler_hook import WATCHER
from anydml.runtime.schedules import Schedules, schedules_of
from anydml.runtime.staging import kept_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.core.enums import ExecutionFlags
    from anydml.core.memory import Buffer
    from anydml.ir.verbs import IndexFault
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
        """Remarks on a description that is valid."""
        return tuple(self.desc.remarks())

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook."""
        return self.desc._repr_html_()

    def __repr__(self) -> str:
        return f"Operator({self.desc!r})"


def _packed(tensor: TensorDesc) -> TensorDesc:
    """Without gaps; 4-bit elements stay in the bytes that they share."""
    strides = tensor.strides if tensor.data_type.is_half_byte else None
    return TensorDesc(tensor.data_type, tensor.sizes, strides=strides)


def _is_dense(tensor: TensorDesc) -> bool:
    """Whether it is kept as it lies: what is laid out of it is laid out of the tensor that is given."""
    return tensor.element_strides == _packed(tensor).element_strides


def _bytes_or_elements(field: str, tensor: TensorDesc) -> View:
    """The part of an owned tensor that is copied."""
    if not tensor.data_type.is_half_byte:
        return View.of(field, tensor)
    return View(field, DataType.UINT8, (tensor.data_type.bytes_of(tensor.extent),), (1,))


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
        self.in_place, self.shares = desc.in_place, desc.shares()
        self.word = functools.partial(_word_index_fault, desc)
        super().__init__(created.device, flags, desc.inputs(), desc.outputs())
        for what, slots in (("inputs", desc.input_slots()), ("outputs", desc.output_slots())):
            self.gaps[what] = tuple(slot for slot, tensor in enumerate(slots.values()) if tensor is None)
        self._known: CallCache[Known] = CallCache(MOST_KNOWN)
        kept = desc.with_tensors(lambda _, tensor: _packed(tensor) if tensor.is_owned_by_dml else tensor)
        recipe = lower_operator(kept, self.device.engine.takes)
        if len(recipe.steps) > 1:
            import_alone(
                "anydml.graph.optimise", "anydml.graph.passes.padding", "anydml.graph.passes.horizontal_fusion"
            )
            from anydml.graph.optimise import optimise  # with all rules: 10 ms of import, where they are first needed
            from anydml.graph.passes.horizontal_fusion import horizontal_fusion
            from anydml.graph.passes.padding import padding

            recipe = padding(recipe) if self.device.engine.traits.masks_padding else recipe
            recipe = horizontal_fusion(guard(optimise(recipe)))
        if are_checked():
            check_bounds(recipe, lay_out(recipe), {**kept.inputs(), **kept.outputs()})
        engine = self.device.engine
        dense = frozenset(field for field, tensor in self.owned.items() if _is_dense(tensor))
        recipe, ready = join_steps(engine, recipe, dense)
        self.recipe, self._dense = recipe, dense
        """The steps that a dispatch takes."""
        self._arena = lay_out(recipe)
        self.temporary_size = self._arena.size_in_bytes
        self._programs = [
            ready.get(number) or engine.compile(step.primitive, dense) for number, step in enumerate(recipe.steps)
        ]
        self._ahead = Layouts.of(recipe, self._programs)
        self.plan_owned(self._ahead, {field: field for field in self.owned})

    @property
    def schedules(self) -> Schedules:
        """For each pass the route of the engine's decision table that it takes, and the condition that chose it."""
        passes = (((self.name,), verbs_of(step.primitive)) for step in self.recipe.steps)
        return schedules_of(self.device.engine, passes, self._dense)

    def gatherer(self) -> Callable[[Sequence[Any]], Any]:
        """What hands results over: one alone, several by their names, SPLIT's parts in a tuple."""
        return self.desc.own_gatherer()

    def keep(self, field: str, tensor: TensorDesc) -> Kept:
        """An owned tensor is kept packed."""
        packed = _packed(tensor)
        copy = copy_of(_bytes_or_elements(field, tensor), _bytes_or_elements("Persistent", packed))
        return Kept(field, copy, packed.total_tensor_size_in_bytes)

    @cached_property
    def kept(self) -> Collection[str]:
        """The outputs that are read before they are written."""
        return kept_of(self.recipe.steps, {field: field for field in self.outputs})

    def launch(self, places: Mapping[str, int], temporary: Buffer | None) -> Callable[[], Any]:
        """A function that runs each step in turn; tensors between them lie in the temporary memory."""
        launches = self._ahead.bind(self._programs, self._arena.placed(places, temporary))
        if (recorder := WATCHER.get()) is not None:
            launches = list(recorder.watch(self, dict(enumerate(launches))).values())
        return in_a_row(launches)

    @cached_property
    def direct(self) -> Callable[..., Any] | None:
        """A function that runs it on NumPy arrays exactly as described, new outputs last; None where it is bound.

        Nobody watches it then.
        """
        is_one = len(self._programs) == 1 and not (self.owned or self.temporary_size or self._ahead.maps)
        if not is_one or self.memory != HOST or not has_fast_address:
            return None
        return self._programs[0].direct(self._bound_fields)

    def several(self, out: object) -> list[object]:
        """A list is for operators that give one; to others it is no array."""
        return super().several(out) if self.desc.gives_several() or len(self.outputs) > 1 else [out]

    def bind(self, *inputs: object, out: object) -> BoundOperator:
        """Attach arrays: inputs in the order of the fields, and the output, or a list of several."""
        outputs = self.several(out)
        if (bound := self.bind_plain(inputs, outputs, self.handed_back(outputs))) is not None:
            return bound
        self.check_count("bind", self.free, inputs, "the inputs")
        seen = self.look(self.free, inputs)
        return self.bind_views(seen, self.look_at_outputs(outputs, out), self.handed_back(outputs))

    def __call__(self, *inputs: object, out: object = None) -> Any:
        """Run on arrays; without `out` the result is a new array of the first input's library, or several of them."""
        if out is not None:
            key = (id(inputs[0]), id(out)) if len(inputs) == 1 else (*map(id, inputs), id(out))
            known = self._known.get(key)
            if known is not None and known.is_of(inputs, out):
                known.dispatch()
                return out
            bound = self.bind(*inputs, out=out)
            if type(out) is np.ndarray and all(
                type(array) is np.ndarray for array in inputs
            ):  # a tensor may be given other memory
                self._known.keep(key, Known(inputs, out, bound))
            return bound.dispatch()
        self.check_count("call", self.free, inputs, "the inputs")
        return self.run_anew(inputs)

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook."""
        return self.desc._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc!r}, engine={self.device.name!r})"
