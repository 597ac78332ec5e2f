"""One call of a function: arrays are described and checked, or known from an earlier call, and run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.arrays import allocate, place_of, view, wrap
from anydml.arrays.plain import as_plain, plain_key, plain_maker, wrap_plain
from anydml.arrays.view import describe, is_tensor
from anydml.broadcasting import (
    common_sizes,
    is_number,
    number_types,
    read_as,
    spread,
    spread_views,
    view_number,
    without_truths,
)
from anydml.builder import Expression
from anydml.describing import Call, argument_of, described, name_slots
from anydml.enums import DataType
from anydml.errors import DescriptionError, Fault, show
from anydml.operators.description import CONVERT
from anydml.memory import HOST
from anydml.operators.fields import bare_name
from anydml.runtime.device import Device, device_named
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.arrays import ArrayView
    from anydml.builder import Graph
    from anydml.operators import OperatorDesc
    from anydml.runtime.compiled import CompiledOperator


# Calls that were made before, by what they are made of: 12 us a call instead of 270. Only those on NumPy arrays and
# PyTorch's tensors, which say what they are at once. With each, what makes its result where there is one alone, and
# the numbers among its inputs, with their places, as arrays.
known_calls: dict[object, tuple[CompiledOperator, Callable[[], Any] | None, tuple[tuple[int, Any], ...]]] = {}
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
                # 2.0 and True are equal to numbers that a list may have, and are none.
                *[(type(a), *a, *map(type, a)) if type(a) in (list, tuple) else (type(a), a) for a in attributes],
            )
            hash(key)
        except Exception:  # noqa: BLE001 - whatever it is, the description will say
            return
        self.key = key

    def run(self) -> Any:
        """The result, where the call is known and needs no closer look; None otherwise."""
        if (known := known_calls.get(self.key)) is None:
            return None
        compiled, make_result, numbers = known
        for place, number in numbers:
            self._arrays.insert(place, number)
        if self._out is not None:
            bound = compiled.bind_known(self._arrays, self._out)
            return None if bound is None else bound.dispatch()
        if make_result is None:
            return None
        try:
            result = make_result()
        except Exception:  # noqa: BLE001 - there is no room for it, which the closer look words
            return None
        bound = compiled.bind_known((*self._arrays, result), result, is_fresh=True)
        if bound is None:
            return None
        bound.dispatch()
        return wrap_plain(result, self._inputs[0]) if self._inputs else result


def make_call(
    cls: type[OperatorDesc],
    device: Device | str | None,
    out: object,
    *inputs: object,
    output_sizes: Any = None,
    key: object = None,
    graph: Graph | None = None,
    broadcasts: bool = False,
) -> Call:
    """A call on arrays, or where there is an expression among them, or a graph is given, one that adds to a graph.

    With `broadcasts` the inputs are given the sizes that they have together, and may be numbers.
    """
    for given in (*inputs, *(out if isinstance(out, (list, tuple)) else (out,))):
        if isinstance(given, Expression):
            graph = graph or given.graph
    if graph is not None:
        return NodeCall(cls, graph, device, out, inputs, output_sizes, broadcasts)
    return ArrayCall(cls, device, out, inputs, output_sizes, key, broadcasts)


def _several(cls: type[OperatorDesc], out: object) -> list[object]:
    """The arrays that were given for the outputs: a list of them, where the operator gives one."""
    if not cls.gives_several():
        return [out]
    if not isinstance(out, (list, tuple)):
        raise DescriptionError(cls.type.name, Fault(field="out", rule="out must be a list of arrays", found=show(out)))
    return list(out)


class ArrayCall(Call):
    """A call on arrays, which runs at once."""

    inputs: list[ArrayView]

    def __init__(
        self,
        cls: type[OperatorDesc],
        device: Device | str | None,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        key: object,
        broadcasts: bool,
    ) -> None:
        outs = None if out is None else _several(cls, out)
        if device is None:
            place = place_of(next((x for x in (*inputs, *(outs or ())) if not is_number(x)), None))
            device = device_named(place if place.startswith("cuda:") else None)
        elif not isinstance(device, Device):  # what is no name cannot be looked up, and is refused by Device
            device = device_named(device) if isinstance(device, str) else Device(device)
        memory, name = device.engine.memory, cls.type.name
        fields = name_slots(cls, cls.input_names(), len(inputs))
        self.key, self._out, self.cls, self.device = key, out, cls, device
        self._numbers: list[tuple[int, Any]] = []
        if broadcasts:
            seen = self._broadcast(fields, inputs)
            self.scalars = (*fields, *name_slots(cls, cls.output_names(), 1))
        else:
            seen = [view(x, name, field, memory=memory) for field, x in zip(fields, inputs, strict=True)]
        if outs is not None:
            fields = name_slots(cls, cls.output_names(), len(outs))
            self.outs = [
                view(x, name, field, memory=memory, convert=False) for field, x in zip(fields, outs, strict=True)
            ]
        super().__init__(cls, device, seen, output_sizes)
        numbers = {place for place, _ in self._numbers}
        self._like = next((x.array for i, x in enumerate(seen) if i not in numbers), None)
        if self._like is None and seen:
            self._like = seen[0].array

    def _broadcast(self, fields: Sequence[str], inputs: Sequence[object]) -> list[ArrayView]:
        """Inputs in their common sizes; a number is made an array of the type beside it."""
        name, memory = self.cls.type.name, self.device.engine.memory
        given = [without_truths(x) for x in inputs]
        seen = [
            None if is_number(x) else view(x, name, field, memory=memory)
            for field, x in zip(fields, given, strict=True)
        ]
        # An array without dimensions is a number too, beside others: one of another type takes theirs.
        weak = [x is None or not x.sizes for x in seen] if any(x is not None and x.sizes for x in seen) else []
        weak = weak or [x is None for x in seen]
        if any(weak):
            types = [None if x is None or w else x.data_type for x, w in zip(seen, weak, strict=True)]
            values = [x if is_number(x) else None for x in given]
            found = number_types(self.cls, self.device.feature_level, values, types)
            for i, (kind, like) in enumerate(found):
                known = seen[i]
                if known is not None and (not weak[i] or known.data_type == kind or known.buffer.device != HOST):
                    continue
                value = given[i] if known is None else known.numpy()[()]
                number = view_number(read_as(value, kind, self.cls, fields[i], like), memory, name, fields[i])
                if known is None:
                    self._numbers.append((i, number.array))
                else:
                    self.key = None  # the value is not in it
                seen[i] = number
        return spread_views(name, fields, [x for x in seen if x is not None])

    def describe(self, field: str, tensor: ArrayView) -> TensorDesc:
        """An array as it lies."""
        signed = any(stride < 0 for stride in tensor.strides)
        sizes, strides = tensor.sizes, tensor.strides
        if field in ("OutputTensor", *self.scalars) and not sizes:  # one element, which is described in one dimension
            sizes, strides = (1,), (1,)
        try:
            return TensorDesc(tensor.data_type, sizes, strides=strides, signed_strides=signed)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None

    def reword(self, fault: Fault) -> Fault:
        """FLOAT64 is what NumPy makes of floats: what helps is told first."""
        slot = fault.field.removesuffix(".DataType")
        slots = name_slots(self.cls, self.cls.input_names(), len(self.inputs))
        if fault.value is not DataType.FLOAT64 or not (
            slot in slots and self.cls.support.first_with(bare_name(slot), data_type=DataType.FLOAT32)
        ):
            return fault
        x = argument_of(self.cls, slot)
        convert = f"{x}.float()" if is_tensor(self.inputs[slots.index(slot)].array) else f'{x}.astype("float32")'
        reason = fault.way_out.replace(f"{CONVERT},", ";").replace(CONVERT, "")
        return replace(fault, way_out=f"pass {convert}: {reason}")

    def finish(self, desc: OperatorDesc) -> Any:
        """Compile or find compiled, bind and dispatch."""
        compiled = self.device.compile_cached(desc)
        memory = compiled.memory
        kinds = [
            (output.data_type, output.sizes[len(output.sizes) - self.result_rank :])
            for output in compiled.outputs.values()
        ]
        if self.key is not None:
            if len(known_calls) >= _MOST_KNOWN:
                known_calls.clear()
            known_calls[self.key] = (compiled, plain_maker(*kinds[0], memory) if len(kinds) == 1 else None, tuple(self._numbers))
        if self.outs is not None:
            return compiled.bind_views(self.inputs, self.outs, self._out).dispatch()
        like = self._like
        results = [allocate(*kind, memory=memory, like=like) for kind in kinds]
        targets = [view(x, self.name, field, memory=memory) for field, x in zip(compiled.outputs, results, strict=True)]
        compiled.bind_views(self.inputs, targets, None).dispatch()
        found = [wrap(result, like) if self.inputs else result for result in results]
        return found if self.cls.gives_several() else found[0]


class NodeCall(Call):
    """A call on expressions, which adds a node to their graph."""

    inputs: list[Expression]

    def __init__(
        self,
        cls: type[OperatorDesc],
        graph: Graph,
        device: object,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        broadcasts: bool,
    ) -> None:
        self._graph = graph
        faults = []
        for option, value in (("out", out), ("device", device)):
            if value is not None:
                rule = f"{option} must not be given with an Expression, which nothing is run for"
                way_out = "the compiled graph takes out" if option == "out" else "the graph has a device of its own"
                faults.append(Fault(field=option, rule=rule, value=value, found=describe(value), way_out=way_out))
        fields = name_slots(cls, cls.input_names(), len(inputs))
        given: list[Any] = []
        for field, value in zip(fields, inputs, strict=True):
            if broadcasts and is_number(value):
                given.append(value)
            elif not isinstance(value, Expression):
                rule, found = f"{field} must be an Expression, as another tensor is", describe(value)
                way_out = "Graph.constant(array) makes it part of the graph, Graph.input(array) an input"
                faults.append(Fault(field=field, rule=rule, value=value, found=found, way_out=way_out))
            elif value.graph is not graph:
                rule = f"{field} must be an Expression of the same graph as the others"
                faults.append(Fault(field=field, rule=rule, value=value, found=f"{value!r} of another graph"))
            else:
                given.append(value)
        if faults:
            raise DescriptionError(cls.type.name, faults)
        if broadcasts:
            given = self._broadcast(cls, fields, given)
            self.scalars = tuple(fields)
        super().__init__(cls, graph.device, given, output_sizes)

    def _broadcast(self, cls: type[OperatorDesc], fields: Sequence[str], given: list[Any]) -> list[Expression]:
        """Inputs in their common sizes; a number is made a constant of the type beside it."""
        name = cls.type.name
        types = [None if is_number(x) else x.data_type for x in given]
        values = [x if is_number(x) else None for x in given]
        found = number_types(cls, self._graph.device.feature_level, values, types)
        numbers = {
            i: read_as(value, kind, cls, field, like)
            for i, (value, field, (kind, like)) in enumerate(zip(values, fields, found, strict=True))
            if value is not None
        }
        sizes = common_sizes(name, fields, [() if i in numbers else x.sizes for i, x in enumerate(given)])
        made = [self._graph.constant(numbers[i]) if i in numbers else x for i, x in enumerate(given)]
        return [x if x.sizes == sizes else self._spread(x, sizes, field) for x, field in zip(made, fields, strict=True)]

    def _spread(self, x: Expression, sizes: tuple[int, ...], field: str) -> Expression:
        strides = spread(x.sizes, x.strides, sizes)
        try:
            return x.seen_as(TensorDesc(x.data_type, sizes, strides=strides, flags=x.desc.flags,
                                        signed_strides=x.desc.signed_strides))
        except DescriptionError as error:
            raise error.within(self.cls.type.name, f"{field}.") from None

    def describe(self, field: str, tensor: Expression) -> TensorDesc:
        """What it is described as in the graph."""
        if tensor.is_scalar and field not in self.scalars:
            return described(self.cls, field, tensor.data_type, ())  # which says what is wrong
        return tensor.desc

    def lay_out(self, desc: OperatorDesc) -> OperatorDesc:
        """The output with the strides of the graph's tensor policy."""
        if any(desc.rules()):
            return desc
        names = desc.outputs()
        return desc.with_tensors(lambda name, tensor: self._laid_out(name, tensor) if name in names else tensor)

    def _laid_out(self, name: str, tensor: TensorDesc) -> TensorDesc:
        output = self._bare(tensor)
        try:
            strides = self._graph.strides_for(output.sizes, output.data_type)
            laid_out = TensorDesc(output.data_type, output.sizes, strides=strides)
        except DescriptionError as error:
            raise error.within(self.name, f"tensor_policy: {name}.") from None
        return laid_out.padded(tensor.dimension_count)

    def _bare(self, output: TensorDesc) -> TensorDesc:
        """An output as the caller has it: without the dimensions that were added."""
        first = output.dimension_count - max(self.result_rank, 1)
        strides = None if output.strides is None else output.strides[first:]
        return TensorDesc(output.data_type, output.sizes[first:], strides=strides)

    def finish(self, desc: OperatorDesc) -> Expression | list[Expression]:
        """Add the node."""
        outputs = [self._bare(output) for output in desc.outputs().values()]
        found = self._graph.add(desc, tuple(self.inputs), outputs)
        for expression in found:
            expression.is_scalar = self.result_rank == 0
        return found if self.cls.gives_several() else found[0]
