"""One call of a function: arrays are described and checked, or known from an earlier call, and run."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anydml.api.broadcasting import (
    NUMBERS,
    is_number,
    number_types,
    numbers_of,
    one_of,
    read_as,
    read_list_as,
    read_plain,
    spread,
    spread_views,
    view_number,
    without_truths,
)
from anydml.api.describing import Call, argument_of, described, hand_over, name_slots, note_arguments
from anydml.api.expression import Expression
from anydml.arrays import DeviceArray, allocate, device_of, results_in, view, wrap
from anydml.arrays.fingerprints import as_plain, plain_key, plain_maker, wrap_plain
from anydml.arrays.tensor import TensorDesc
from anydml.arrays.view import describe, is_dask, is_tensor
from anydml.core.device_memory import memories, on_loss
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.guards import own_cache, tape_on
from anydml.core.late_imports import import_alone
from anydml.core.memory import HOST
from anydml.core.symbolic_sizes import as_numbers, exact, is_open
from anydml.engines.common.threads import number_cell
from anydml.operators.schema.fields import bare_name
from anydml.operators.schema.reports import CONVERT
from anydml.runtime.call_cache import CallCache
from anydml.runtime.device import Device, device_named
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from anydml.api.builder import Graph
    from anydml.arrays import ArrayView
    from anydml.core.enums import FeatureLevel
    from anydml.operators import OperatorDesc
    from anydml.operators.schema.sizes import Sizes
    from anydml.runtime.compiled import CompiledOperator

    _Known = tuple[CompiledOperator, Callable[[], Any] | None, tuple[tuple[int, Any], ...], Any]


# Calls on the expressions of a graph: a node is described and checked, and added


_described: dict[Hashable, tuple[OperatorDesc, int, list[TensorDesc]]] = {}
"""Calls that were described before, by everything that a description comes of, with the results and their rank."""
_MOST_DESCRIBED = 4096
_INDICES = (DataType.UINT32, DataType.UINT64)


def _is_packed(tensor: TensorDesc) -> bool:
    """Whether a tensor is what its type and sizes alone say."""
    return tensor.strides is None and tensor == TensorDesc(tensor.data_type, tensor.sizes)


class NodeCall(Call):
    """A call on expressions, which adds a node to their graph."""

    inputs: list[Expression]
    _found: Hashable = None
    """By what the description is to be found again."""

    def __init__(
        self,
        cls: type[OperatorDesc],
        graph: Graph,
        device: object,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        spreading: dict[str, Any] | None,
        names: Sequence[str] | None,
        results: Sequence[str] | None,
    ) -> None:
        self._graph, self.name = graph, cls.type.name
        faults = []
        for option, value in (("out", out), ("device", device)):
            if value is not None:
                rule = f"{option} must not be given with an Expression: a graph is built, and nothing is run"
                way_out = "pass out= to the compiled graph" if option == "out" else "the graph has a device already"
                faults.append(Fault(field=option, rule=rule, value=value, found=describe(value), way_out=way_out))
        fields = name_slots(cls, cls.input_names() if names is None else names, len(inputs))
        given: list[Any] = []
        for field, value in zip(fields, inputs, strict=True):
            if is_number(value) or numbers_of(value) is not None:
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
        read = read_plain(cls, graph.device.feature_level, fields, given, in_graph=True)
        wanted = None
        if spreading is not None:
            sizes = {field: read[i].shape if i in read else given[i].sizes for i, field in enumerate(fields)}
            wanted = cls.spread(sizes, **spreading)
            self.scalars = tuple(fields)
        given = [graph.constant(read[i]) if i in read else x for i, x in enumerate(given)]
        if wanted is not None:
            given = [self._spread(x, *wanted[field], field) for x, field in zip(given, fields, strict=True)]
        super().__init__(cls, graph.device, given, output_sizes, names, results)

    def _spread(self, x: Expression, seen: Sizes, sizes: Sizes, field: str) -> Expression:
        if x.sizes == sizes:
            return x
        strides, signed = spread(x.sizes, x.strides, seen, sizes), x.desc.signed_strides
        try:
            other = TensorDesc(x.data_type, sizes, strides=strides, flags=x.desc.flags, signed_strides=signed)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None
        return x.seen_as(other)

    def run(
        self, fills: Mapping[str, float] | None = None, outputs: Sequence[TensorDesc] | None = None, **attributes: Any
    ) -> Any:
        """Describe and check, and add the node; an equal call has been described before: models repeat their layers."""
        told = (*(fills or {}).items(), outputs, *attributes.items())
        key = None if self.faults or self._graph.policy_name is None else self._key(told)
        if key is not None and (known := own_cache(_described).get(key)) is not None:
            desc, self.result_rank, outputs = known
            return self._add(desc, outputs)
        self._found = key
        return super().run(fills, outputs, **attributes)

    def _key(self, told: object) -> Hashable:
        """Everything that a description comes of; None where that cannot be told."""
        inputs = tuple((x.desc, x.is_scalar) for x in self.inputs)
        ranks = (self.rank, self.result_rank, self.common_rank, self.has_room)
        graph = (self._graph.device.feature_level, self._graph.policy_name)
        try:
            names: tuple[Hashable, ...] = (self.cls, tuple(self.names), tuple(self.results))
            key = (names, graph, inputs, ranks, exact(self.output_sizes), exact(told))
            _ = key in own_cache(_described)  # whether it can be one
        except TypeError:
            return None
        return key

    def describe(self, field: str, tensor: Expression) -> TensorDesc:
        """Its description in the graph."""
        if tensor.is_scalar and field not in self.scalars:
            return described(self.cls, field, tensor.data_type, ())  # which says what is wrong
        return tensor.desc

    def lay_out(self, desc: OperatorDesc) -> OperatorDesc:
        """The output with the strides of the graph's tensor policy."""
        names = desc.outputs()
        if self._graph.policy_name == "default" and all(map(_is_packed, names.values())):
            return desc
        if any(desc.rules()):
            return desc
        return desc.with_tensors(lambda name, tensor: self._laid_out(name, tensor) if name in names else tensor)

    def _laid_out(self, name: str, tensor: TensorDesc) -> TensorDesc:
        output = self._bare(name, tensor)
        try:
            strides = self._graph.strides_for(output.sizes, output.data_type)
            laid_out = TensorDesc(output.data_type, output.sizes, strides=strides)
        except DescriptionError as error:
            raise error.within(self.name, f"tensor_policy: {name}.") from None
        return laid_out.padded(tensor.dimension_count)

    def _bare(self, name: str, output: TensorDesc) -> TensorDesc:
        """An output as the caller has it: without the dimensions that were added."""
        first = output.dimension_count - max(self.rank_of(name), 1)
        strides = None if output.strides is None else output.strides[first:]
        return TensorDesc(output.data_type, output.sizes[first:], strides=strides)

    def finish(self, desc: OperatorDesc) -> Any:
        """Add the node."""
        outputs = [self._bare(*output) for output in desc.outputs().items()]
        if self._found is not None:
            described_before = own_cache(_described)
            if len(described_before) >= _MOST_DESCRIBED:
                described_before.clear()
            described_before[self._found] = (desc, self.result_rank, outputs)
        return self._add(desc, outputs)

    def _add(self, desc: OperatorDesc, outputs: Sequence[TensorDesc]) -> Any:
        found = self._graph.add(desc, tuple(self.inputs), outputs)
        for expression in found:
            expression.is_scalar = self.result_rank == 0
        return self.hand_over(found)


# Calls on arrays


known_calls: CallCache[_Known] = CallCache(1024)
"""By what a call is made of and the threads that its work is divided for: 12 us a call instead of 270. Only those on
NumPy arrays and PyTorch's tensors, which say what they are at once. With each operator what makes its result, where
there is one alone, the numbers among its inputs, with their places, as arrays, and what hands the result over where
others might have been asked for."""
on_loss.append(known_calls.clear)


class Attempt:
    """A call to be found among those made before: of a function, by its operator or by all that it chooses from."""

    __slots__ = ("_arrays", "_inputs", "_known", "_out", "key")

    def __init__(
        self, function: object, device: object, out: object, inputs: tuple[Any, ...], *attributes: Any
    ) -> None:
        self._inputs, self._out = inputs, out
        self.key: object = None
        self._known: _Known | None = None
        if tape_on() is not None and is_open(attributes):
            return  # it is a graph's
        try:
            given = inputs if out is None else (*inputs, out)
            self._arrays: list[Any] = [*given]
            layouts: list[Any] = []
            if given and type(given[0]) is DeviceArray:  # which says it at once, from the second call on
                layouts = [x.key if type(x) is DeviceArray else None for x in given]
            if not layouts or None in layouts:
                self._arrays = [as_plain(x) for x in given]
                layouts = [plain_key(x) for x in self._arrays]
            key = (
                function,
                device,
                out is None,
                *layouts,
                # 2.0 and True are equal to numbers that a list may have, and are none.
                *[(type(a), *a, *map(type, a)) if type(a) in (list, tuple) else (type(a), a) for a in attributes],
            )
            self._known = known_calls.get((number_cell.value, key))
        except Exception:  # noqa: BLE001 - whatever it is, the description will say
            return
        self.key = key

    def run(self) -> Any:
        """The result, where the call is known and needs no closer look; None otherwise."""
        if self._known is None:
            return None
        compiled, make_result, numbers, several = self._known
        for place, number in numbers:
            self._arrays.insert(place, number)
        if self._out is not None:
            if not compiled.run_known(self._arrays, self._out):
                return None
            return self._out if several is None else several([self._out])
        if make_result is None:
            return None
        try:
            result = make_result()
        except Exception:  # noqa: BLE001 - there is no room for it, which the closer look words
            return None
        if (direct := compiled.direct) is not None and WATCHER.get() is None:
            direct(*self._arrays, result)
        elif not compiled.run_known((*self._arrays, result), result, is_fresh=True):
            return None
        found = wrap_plain(result, self._inputs[0]) if self._inputs else result
        return found if several is None else several([found])


def level_of(device: Any, inputs: Sequence[object]) -> FeatureLevel:
    """The feature level that a call works at: its graph's, or the device's."""
    for given in inputs:
        if isinstance(given, Expression):
            return given.graph.device.feature_level
    if not isinstance(device, Device):
        device = device_named(device) if device is None or isinstance(device, str) else Device(device)
    found: FeatureLevel = device.feature_level
    return found


def make_call(
    cls: type[OperatorDesc],
    device: Device | str | None,
    out: object,
    *inputs: object,
    output_sizes: Any = None,
    key: object = None,
    graph: Graph | None = None,
    spreading: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
    results: Sequence[str] | None = None,
) -> Call:
    """A call on arrays, or where there is an expression among them, or a graph is given, one that adds to a graph.

    With attributes for `spreading` the inputs are given sizes that fit, and may be numbers. `names` are the fields of
    the inputs, where optional ones are left out, and `results` those of the outputs, where some are asked for.
    """
    for given in (*inputs, *(out if isinstance(out, (list, tuple)) else (out,))):
        if isinstance(given, Expression):
            graph = graph or given.graph
    try:
        if graph is not None:
            return NodeCall(cls, graph, device, out, inputs, output_sizes, spreading, names, results)
        if any(map(is_dask, inputs)):
            lazy: Callable[..., Call] = import_alone("anydml.dask.calls").DaskCall  # a layer above, as the arrays are
            return lazy(cls, device, out, inputs, output_sizes, spreading, names, results)
        return ArrayCall(cls, device, out, inputs, output_sizes, key, spreading, names, results)
    except DescriptionError as error:
        note_arguments(error, cls)
        raise


def _several(cls: type[OperatorDesc], out: object, results: Sequence[str] | None) -> list[object]:
    """The arrays that were given for the outputs: a list of them, where several are asked for."""
    if not cls.gives_several() and (results is None or len(results) < 2):
        return [out]
    if not isinstance(out, (list, tuple)):
        raise DescriptionError(cls.type.name, Fault(field="out", rule="out must be a list of arrays", found=show(out)))
    return list(out)


class ArrayCall(Call):
    """A call on arrays, which runs at once."""

    inputs: list[ArrayView]
    _takes_truths = False
    """Whether an array for the output is of booleans."""

    def __init__(
        self,
        cls: type[OperatorDesc],
        device: Device | str | None,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        key: object,
        spreading: dict[str, Any] | None,
        names: Sequence[str] | None,
        results: Sequence[str] | None,
    ) -> None:
        outs = None if out is None else _several(cls, out, results)
        self._given = outs or []
        if device is None:
            arrays = (x for x in (*inputs, *(outs or ())) if not isinstance(x, (list, tuple, range, *NUMBERS)))
            device = device_named(device_of(next(arrays, None)))
        elif not isinstance(device, Device):  # what is no name cannot be looked up, and is refused by Device
            device = device_named(device) if isinstance(device, str) else Device(device)
        memory, name = device.engine.memory, cls.type.name
        self._memory = memory  # where numbers and results go
        if memory in memories:
            self._memory = results_in(memory, next((x for x in inputs if not isinstance(x, NUMBERS)), None))
        fields = name_slots(cls, cls.input_names() if names is None else names, len(inputs))
        self._truths = {field for field, x in zip(fields, inputs, strict=True) if without_truths(x) is not x}
        self.key, self._out, self.cls, self.device = key, out, cls, device
        self._numbers: list[tuple[int, Any]] = []
        if spreading is not None:
            seen = self._broadcast(fields, inputs, spreading)
            self.scalars = (*fields, *name_slots(cls, cls.output_names(), 1))
        else:
            given = [self._unsigned(field, without_truths(x)) for field, x in zip(fields, inputs, strict=True)]
            read = read_plain(cls, device.feature_level, fields, given)
            seen = [
                view_number(read[i], self._memory, name, fields[i])
                if i in read
                else view(x, name, fields[i], memory=memory)
                for i, x in enumerate(given)
            ]
        if any(x.data_type.is_half_byte for x in seen):
            self.key = None  # what was looked at is a packed copy
        if outs is not None:
            fields = name_slots(cls, cls.usual_outputs() if results is None else results, len(outs))
            if len(fields) != len(outs):
                rule = f"out must be {len(fields)} arrays"
                raise DescriptionError(name, Fault(field="out", rule=rule, value=len(outs), found=str(len(outs))))
            targets = [without_truths(x) if spreading is not None else x for x in outs]
            self.outs = [
                view(x, name, field, memory=memory, convert=False) for field, x in zip(fields, targets, strict=True)
            ]
            self._takes_truths = any(x is not y for x, y in zip(outs, targets, strict=True))
        if memory in memories:
            places = {self._memory} if outs is None else {x.buffer.device for x in self.outs or ()}
            if {*places, *(x.buffer.device for x in seen)} != {memory}:
                self.key = None  # it is staged anew each time
        super().__init__(cls, device, seen, output_sizes, names, results)
        numbers = {place for place, _ in self._numbers}
        self._like = next((x.array for i, x in enumerate(seen) if i not in numbers), None)
        if self._like is None and seen:
            self._like = seen[0].array

    def _broadcast(
        self, fields: Sequence[str], inputs: Sequence[object], attributes: dict[str, Any]
    ) -> list[ArrayView]:
        """Inputs in sizes that fit; a number, or a list of them, is made an array of the type beside it."""
        name, memory, own = self.cls.type.name, self.device.engine.memory, self._memory
        given = [without_truths(x) for x in inputs]
        lists = [numbers_of(x) for x in given]
        seen = [
            None if is_number(x) or several is not None else view(x, name, field, memory=memory)
            for field, x, several in zip(fields, given, lists, strict=True)
        ]
        # Beside arrays with dimensions, the host's without any are numbers too: one of another type takes theirs.
        is_beside = any(x is not None and x.sizes for x in seen)
        weak = [x is None or (is_beside and not x.sizes and x.buffer.device == HOST) for x in seen]
        if any(weak):
            types = [None if x is None else x.data_type for x in seen]
            values = [
                one_of(several) if several is not None else x if is_number(x) else None
                for x, several in zip(given, lists, strict=True)
            ]
            level = self.device.feature_level
            for i, (kind, like) in enumerate(number_types(self.cls, level, fields, values, types, weak)):
                known, several = seen[i], lists[i]
                if not weak[i] or (known is not None and known.data_type == kind):
                    continue
                if several is not None:
                    number = read_list_as(several, kind, self.cls, fields[i], like)
                else:
                    number = read_as(given[i] if known is None else known.numpy()[()], kind, self.cls, fields[i], like)
                seen[i] = made = view_number(number, own, name, fields[i])
                if known is None:
                    self._numbers.append((i, made.array))
                else:
                    self.key = None  # which has no value in it
        return spread_views(self.cls, fields, [x for x in seen if x is not None], attributes)

    def run(
        self, fills: Mapping[str, float] | None = None, outputs: Sequence[TensorDesc] | None = None, **attributes: Any
    ) -> Any:
        """Describe, check and run; a symbolic size of a graph is its number here, for which alone the graph is then."""
        if any(map(is_open, attributes.values())) or is_open(self.output_sizes):
            self.key, self.output_sizes = None, as_numbers(self.output_sizes)
            attributes = {name: as_numbers(value) for name, value in attributes.items()}
        return super().run(fills, outputs, **attributes)

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

    def reword(self, fault: Fault, desc: OperatorDesc) -> Fault:
        """A type that NumPy makes of floats, or that indices have elsewhere: what helps is told first."""
        slot, found = fault.field.removesuffix(".DataType"), fault.value
        slots = name_slots(self.cls, self.names, len(self.inputs))
        if not isinstance(found, DataType) or slot not in slots:
            return fault
        is_double = found is DataType.FLOAT64
        usual = (DataType.FLOAT32,) if is_double else (DataType.INT64, DataType.UINT32)
        if slot in self._truths:
            usual = (DataType.FLOAT32, *usual)
            fault = replace(fault, found=f"booleans, which are read as {found.name}")
        taken = [one for one in usual if desc.own_support().first_with(bare_name(slot), data_type=one)]
        if not taken or not (is_double or (CONVERT in fault.way_out and not found.is_float)):
            return fault
        reason = fault.way_out.replace(f"{CONVERT},", ";").replace(CONVERT, "")
        return replace(fault, way_out=f"pass {self._converted(slot, taken[0])}: {reason}")

    def convert(self, fault: Fault) -> Fault:
        """A type that must be another input's: how to give it that."""
        slot = fault.field.removesuffix(".DataType")
        theirs = DataType.__members__.get(fault.rule.rpartition(".DataType, ")[2])
        if theirs is None or theirs.is_half_byte or slot not in name_slots(self.cls, self.names, len(self.inputs)):
            return fault
        return replace(fault, way_out=fault.way_out or f"pass {self._converted(slot, theirs)}")

    def _converted(self, slot: str, data_type: DataType) -> str:
        """The expression that gives an input another type, in the words of its library."""
        name, slots = data_type.name.lower(), name_slots(self.cls, self.names, len(self.inputs))
        converted = f'astype("{name}")'
        if is_tensor(self.inputs[slots.index(slot)].array):
            converted = {"float32": "float()", "int64": "long()"}.get(name, f"to(torch.{name})")
        return f"{argument_of(self.cls, slot)}.{converted}"

    def finish(self, desc: OperatorDesc) -> Any:
        """Compile or find compiled, bind and dispatch."""
        if self._takes_truths and not getattr(desc, "gives_truths", False):
            rule = "out must not be an array of booleans: results are not only 0 and 1"
            raise DescriptionError(self.name, Fault(field="out", rule=rule, way_out='pass out.view("uint8")'))
        compiled = self.device.compile_cached(desc)
        memory = self._memory
        kinds = [
            (output.data_type, output.sizes[len(output.sizes) - self.rank_of(field) :])
            for field, output in compiled.outputs.items()
        ]
        if self.key is not None:
            is_plain = len(kinds) == 1 and not (kinds[0][0] in _INDICES and is_tensor(self._like))
            maker = plain_maker(*kinds[0], memory) if is_plain else None
            several = partial(hand_over, self.cls, self.gives, self.results) if len(self.gives) > 1 else None
            known_calls.keep((number_cell.value, self.key), (compiled, maker, tuple(self._numbers), several))
        if self.outs is not None:
            compiled.bind_views(self.inputs, self.outs, self._out).dispatch()
            return self.hand_over(self._given)
        like = self._like
        results = [allocate(*kind, memory=memory, like=like) for kind in kinds]
        named = zip(compiled.outputs, results, strict=True)
        targets = [view(x, self.name, field, memory=compiled.memory) for field, x in named]
        compiled.bind_views(self.inputs, targets, None).dispatch()
        found = [wrap(result, like) if self.inputs else result for result in results]
        return self.hand_over([self._signed(x, kind) for x, (kind, _) in zip(found, kinds, strict=True)])

    def _unsigned(self, field: str, array: Any) -> Any:
        """Indices as PyTorch has them, where a field takes unsigned ones alone: the same bits."""
        if "Indices" not in field or not is_tensor(array) or str(array.dtype) != "torch.int64":
            return array
        row = self.cls.support.row_at(max(self.device.feature_level, self.cls.introduced()))
        taken = row.tensors[bare_name(field)].data_types
        is_other = DataType.INT64 not in taken and DataType.UINT64 in taken
        return array.view(sys.modules["torch"].uint64) if is_other else array

    def _signed(self, result: Any, kind: DataType) -> Any:
        """Indices and counts as PyTorch has them, which cannot index with unsigned ones."""
        if kind not in _INDICES or not is_tensor(result) or any(x.data_type is kind for x in self.inputs):
            return result
        return result.long() if self.implies_types else result
