"""Graphs with symbolic sizes: the calls that build one are kept, and made again for other sizes.

A function decides by the sizes that it is given: how its inputs broadcast, what the output's sizes are. Called again it
decides for the sizes that there are then, so that a graph answers as one that is built for these would.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.api.builder import Graph
from anydml.api.expression import Expression, Recorded, Reference
from anydml.arrays.shared import SharedData
from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import ExecutionFlags
from anydml.core.errors import DescriptionError, DmlError, Fault, show
from anydml.core.graph_sizes import SUBJECT, GraphTape, told_sizes
from anydml.core.parse import read_bool, read_enum
from anydml.core.symbolic_sizes import OpenSize, Size
from anydml.graph.nodes import ConstantNode, OperatorNode
from anydml.graph.wiring import slot_names
from anydml.ir.substitution import Rebuilt
from anydml.runtime.graph import all_disabled
from anydml.runtime.replanning import Described
from anydml.runtime.symbolic import SymbolicGraph, SymbolicInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.core.graph_sizes import Repetition


EXAMPLES = "with the examples {}, of which dml.Size gives others"
_DESCRIBED = 3
"""Arguments of an input that is given by type and sizes."""
_MOST_COPIED = 4096
"""Bytes of a constant that each graph may have for itself."""


class _At(NamedTuple):
    """An expression by the call that gave it."""

    call: int
    place: int


class _Sizes(NamedTuple):
    """The numbers of a description, of which some are symbolic."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    total: int
    is_scalar: bool
    is_own: bool
    """Whether the symbols are those of this result, and not of an expression that the call gave back."""


class _Call(NamedTuple):
    """A call that added to the graph."""

    function: Callable[..., Any]
    args: Any
    named: Any
    mark: int
    """The operations on sizes before it."""
    gave: tuple[_Sizes, ...]


class _OfGraph:
    """Stands for the graph among the arguments of a call."""

    def __reduce__(self) -> str:
        return "_GRAPH"


_GRAPH = _OfGraph()


class Recording:
    """The calls that built a graph, in order, and its sizes."""

    def __init__(self) -> None:
        Recorded.is_there = True
        self.tape = GraphTape()
        self.inputs: list[tuple[Any, ...]] = []
        """Of each input its sizes: numbers, names, and None for what is computed of others."""
        self.is_within = False
        """Whether a call is being made, which is kept as one."""
        self.calls: list[_Call] = []
        self.end = 0
        """The operations on sizes after them."""

    # While the graph is built

    def sizes(self, given: Any) -> tuple[Any, ...]:
        """Sizes of an input: numbers, names, `Size` objects, and what was computed of sizes of this graph."""
        several = given if isinstance(given, (list, tuple)) else (given,)
        found = []
        for i, one in enumerate(several):
            if isinstance(one, (str, Size)):
                size = one if isinstance(one, Size) else _read_name(one, f"Sizes[{i}]")
                found.append(self.tape.named(size.name, size))
            else:
                if type(one) is OpenSize and one.tape is not self.tape:
                    rule = f"Sizes[{i}] must be a size of this graph; {one!r} is another's"
                    raise DescriptionError(SUBJECT, Fault(field=f"Sizes[{i}]", rule=rule))
                found.append(one)
        return tuple(found)

    def input(self, graph: Graph, what: Any) -> Expression:
        """An input of a description or an array, or of a type and sizes, and of a name."""
        made: Expression = self.call(graph, _input, (graph, *what), {})
        names = {size.number: name for name, size in self.tape.names.items()}
        sizes = made.desc.sizes if len(what) < _DESCRIBED else what[1]
        self.inputs.append(tuple(names.get(one.number) if type(one) is OpenSize else one for one in sizes))
        return made

    def constant(self, graph: Graph, node: ConstantNode, name: str | None) -> Expression:
        """A constant, of which the graphs for all sizes share one copy."""
        if isinstance(node.data, bytes) and node.desc is not None and len(node.data) > _MOST_COPIED:
            data, is_scalar = node.data, node.is_scalar
            node = ConstantNode(_shared(data), desc=node.desc)
            object.__setattr__(node, "is_scalar", is_scalar)
        made: Expression = self.call(graph, Graph.constant, (graph, node, name), {})
        return made

    def call(self, graph: Graph, function: Callable[..., Any], args: Any, named: Mapping[str, Any]) -> Any:
        """Call a function that adds to the graph, and keep the call."""
        if self.is_within:
            return function(*args, **named)
        mark = self.tape.mark
        stored = _stored(args, graph), _stored(dict(named), graph)
        self.is_within = True
        try:
            with self.tape.describing():
                result = _own(function(*args, **named))
                made = list(_expressions(result))
                gave = tuple(map(self._freshen, made))
        except DmlError as error:
            raise told_sizes(error, EXAMPLES, self.tape.examples) from None
        finally:
            self.is_within = False
        for place, one in enumerate(made):
            one.made = _At(len(self.calls), place)
        self.calls.append(_Call(function, *stored, mark, gave))
        return result

    def begin(self, inputs: Any, nodes: Any) -> None:
        """Keep what the graph has already, without symbolic sizes."""
        # In a function of its own: places in what is there already are for that alone to read.
        self.calls.append(_Call(functools.partial(_restore, inputs, nodes), (_GRAPH,), {}, 0, ()))
        self.inputs += [descs[0].sizes for descs, _ in inputs]

    def rename(self, graph: Graph, expression: Expression, name: str) -> None:
        """Keep the name of a node."""
        if not self.is_within:
            self.calls.append(_Call(_rename, _stored((expression, name), graph), {}, self.tape.mark, ()))

    def _freshen(self, made: Expression) -> _Sizes:
        """Give a result sizes of its own: they are found by the same call for other sizes."""
        desc = made.desc
        if made.is_given_back:
            return _Sizes(desc.sizes, desc.strides, desc.total_tensor_size_in_bytes, made.is_scalar, is_own=False)
        fresh = self.tape.fresh
        known: dict[int, OpenSize] = {}

        def own(size: Any) -> Any:
            if type(size) is not OpenSize:
                return size
            return known[size.number] if size.number in known else known.setdefault(size.number, fresh(size))

        sizes = tuple(map(own, desc.sizes))
        strides = None if desc.strides is None else tuple(map(own, desc.strides))
        total = own(desc.total_tensor_size_in_bytes)
        if known:
            changed = TensorDesc.__new__(TensorDesc)
            for name in TensorDesc.__slots__:
                if name != "__weakref__":
                    object.__setattr__(changed, name, getattr(desc, name))
            for name, value in (("sizes", sizes), ("strides", strides), ("total_tensor_size_in_bytes", total)):
                object.__setattr__(changed, name, value)
            made.describe_anew(changed)
        return _Sizes(sizes, strides, total, made.is_scalar, is_own=True)

    # For other sizes

    def so_far(self) -> Recording:
        """The calls so far, whatever is added to the graph."""
        found = copy.copy(self)
        found.calls, found.end = list(self.calls), self.tape.mark
        return found

    def again(self, graph: Graph, sizes: Mapping[str, Any], outputs: Sequence[Expression]) -> list[Expression]:
        """Build into an empty graph for other sizes, which may be symbols of a tape; the same outputs."""
        repetition, made = self.tape.again(sizes), list[list[Expression]]()
        rebuilt = Rebuilt({OpenSize: repetition.__getitem__})

        def read(found: Any) -> Any:
            kind = type(found)
            if kind is _At:
                return made[found.call][found.place]
            if kind is Reference:
                return graph.refer(found)
            if kind is OpenSize:
                return repetition[found]
            if kind is TensorDesc or kind is OperatorNode:
                return rebuilt(found)
            if kind is _OfGraph:
                return graph
            if kind is dict:
                return {key: read(one) for key, one in found.items()}
            return kind(map(read, found)) if kind in (list, tuple) else found

        for call in self.calls:
            repetition.advance(call.mark)
            results = list(_expressions(call.function(*read(call.args), **read(call.named))))
            _bind(repetition, call, results)
            made.append(results)
        repetition.advance(self.end)
        return [read(_place(one)) for one in outputs]


def _bind(repetition: Repetition, call: _Call, results: Sequence[Expression]) -> None:
    """Let the sizes that a call gave be those that it gives now."""
    is_same = len(results) == len(call.gave)
    for before, one in zip(call.gave, results, strict=False):
        desc = one.desc
        is_same = is_same and (len(desc.sizes), one.is_scalar) == (len(before.sizes), before.is_scalar)
        pairs: list[tuple[Any, int]] = [*zip(before.sizes, desc.sizes, strict=False)]
        is_same = is_same and all(old == new for old, new in pairs if type(old) is not OpenSize)
        pairs.append((before.total, desc.total_tensor_size_in_bytes))
        if before.strides is not None and desc.strides is not None:
            pairs += zip(before.strides, desc.strides, strict=False)
        for old, new in pairs:
            if type(old) is OpenSize and before.is_own:
                repetition.put(old, new)
    if not is_same:
        name = getattr(call.function, "__name__", "a call")
        rule = f"{name} must give results of the dimensions, and the fixed sizes, that it gave for the examples"
        way_out = "name the axes that go, or build another graph"
        raise DescriptionError(SUBJECT, Fault(field=name, rule=rule, way_out=way_out))


def compile_symbolic(
    graph: Graph, outputs: Sequence[Expression], flags: Any, *, optimise: bool, disabled: frozenset[str]
) -> SymbolicGraph:
    """Check a graph for the examples of its sizes, and have it compiled for those that come."""
    recording = graph.recording
    assert recording is not None  # noqa: S101 - for type checkers: it has symbolic sizes
    recording.tape.check_free()
    faults: list[Fault] = []
    read = read_enum(ExecutionFlags, flags, "flags", faults, ExecutionFlags.NONE)
    optimise = read_bool(optimise, "optimise", faults)
    if faults:
        raise DescriptionError(SUBJECT, faults)
    disabled = all_disabled(disabled, optimise=optimise)
    calls = recording.so_far()  # the graph may be added to

    def describe(sizes: Mapping[str, Any]) -> Described[Mapping[int, tuple[Any, ...]]]:
        made = Graph(graph.device, tensor_policy=graph.policy)
        given = calls.again(made, sizes, outputs)
        results = {i: (one.data_type, (), ()) for i, one in enumerate(given) if one.is_scalar}
        return Described(results, made.desc(given))

    examples = recording.tape.examples
    try:
        _, desc = describe(examples)
        desc.validate(graph.device.feature_level)
    except DmlError as error:
        raise told_sizes(error, EXAMPLES, examples) from None
    names, names_out = slot_names(desc)
    described = [one.desc for one in graph.inputs]
    if any(one.is_owned_by_dml for one in described):
        rule = "inputs must not be OWNED_BY_DML where sizes are symbolic: they would be laid out for each size"
        way_out = "Graph.constant(array) makes data part of the graph"
        raise DescriptionError(SUBJECT, Fault(field="Flags", rule=rule, way_out=way_out))
    inputs = [
        SymbolicInput(name, one.data_type, sizes, show(one.sizes))
        for name, one, sizes in zip(names, described, recording.inputs, strict=True)
    ]
    told = ", ".join(
        f"{name}: {one.data_type.name.lower()} {show(one.sizes)}" for name, one in zip(names_out, outputs, strict=True)
    )
    return SymbolicGraph(graph.device, describe, inputs, examples, told, read, disabled)


def _read_name(name: str, field: str) -> Size:
    try:
        return Size(name)
    except DescriptionError as error:
        raise error.within(SUBJECT, f"{field}: ") from None


def _stored(found: Any, graph: Graph) -> Any:
    """Arguments as they are kept: expressions by the calls that gave them, and nothing that a caller may change."""
    if isinstance(found, Expression):
        return _place(found) if found.graph is graph else found
    if found is graph:
        return _GRAPH
    kind = type(found)
    if kind is dict:
        return {key: _stored(one, graph) for key, one in found.items()}
    if kind is list or kind is tuple:
        return kind(_stored(one, graph) for one in found)
    return found.copy() if isinstance(found, np.ndarray) else found


def _place(expression: Expression) -> _At | Reference:
    """An expression by the call that gave it, or where it was in the graph before sizes were symbolic."""
    return expression.reference if expression.made is None else expression.made


def _own(result: Any) -> Any:
    """A result with an expression of its own in the place of each that was there before the call."""
    if isinstance(result, Expression):
        return result.given_back() if result.made is not None else result
    if isinstance(result, (list, tuple)):
        several = [_own(one) for one in result]
        return type(result)(*several) if hasattr(result, "_fields") else type(result)(several)
    return result


def _input(graph: Graph, *what: Any) -> Expression:
    *described, name = what
    if len(what) < _DESCRIBED:
        return graph.put_input(described[0], name)
    data_type, sizes = described
    try:
        desc = TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise error.within(SUBJECT, "input: ") from None
    if desc.data_type.is_half_byte:
        rule = f"input: DataType must not be {desc.data_type.name}, whose bytes do not say how many elements there are"
        raise DescriptionError(SUBJECT, Fault(field="DataType", rule=rule, value=desc.data_type))
    return graph.put_input(desc, name)


def _shared(data: bytes) -> SharedData:
    return SharedData(len(data), lambda: np.frombuffer(data, np.uint8))


def _restore(inputs: Any, nodes: Any, graph: Graph) -> None:
    graph.restore(inputs, nodes)


def _rename(expression: Expression, name: str) -> None:
    expression.named(name)


def _expressions(result: Any) -> Iterator[Expression]:
    """The expressions that a call gives."""
    if isinstance(result, Expression):
        yield result
    elif isinstance(result, (list, tuple)):
        for one in result:
            yield from _expressions(one)
