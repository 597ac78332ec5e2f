"""A model walked through node by node, for shapes that are known: what each node becomes, and the graph of them all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, DmlError, Fault, ModelError, UnsupportedError, printable
from anydml.core.guards import off_tape, own_cache, tape_on
from anydml.core.symbolic_sizes import is_open
from anydml.onnx.checks import TensorInfo, check_support, describe, element_of
from anydml.onnx.lower.bound_node import BoundNode
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.lower.offsets import is_offset, names_in, remember
from anydml.onnx.lower.qdq_to_int8 import KINDS, OPENING, put_together, remember_parts, with_parts
from anydml.onnx.lower.refusals import Refusal, Why, as_told
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.lower.repeated_layers import NEW, key_of, sketch
from anydml.onnx.lower.scope import Scope
from anydml.onnx.lower.tracer import Tracer
from anydml.onnx.lower.values import Value
from anydml.onnx.signatures import check_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from anydml.onnx.ir import Graph, Node, ValueInfo
    from anydml.onnx.lower.lowering_cache import Line
    from anydml.onnx.read import Source
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """The fate of a node."""

    label: str
    """The name in errors."""
    kind: str
    """ONNX's node type."""
    name: str
    node: Node
    operators: tuple[OperatorDesc, ...] = ()
    """The operators that it added to the graph."""
    note: str = ""
    """Why it added nothing: `folded`, `a view, no pass`, `empty`."""
    refusal: Refusal | None = None
    """Why it is no part of the graph, where the trace went on."""
    read: int | None = None
    """Bytes of its inputs; None where one is not known."""
    depth: int = 0
    """How many branches it lies within; theirs come before the record of their If."""
    makes: Mapping[str, TensorInfo | None] = field(default_factory=dict)
    """By the names of its outputs; None for one that is not known."""
    taped: int = 0
    """Where the tape was that is on, after it: what was found of symbolic sizes for it lies before."""


@dataclass(slots=True)
class Trace:
    """A model as a graph."""

    tracer: Tracer
    outputs: dict[str, Value | None]
    """None for what a refused node would have made."""
    records: list[Record] = field(default_factory=list)
    """Of a trace that went on after refusals."""


def trace(
    source: Source,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray[Any, Any]],
    device: Device,
    *,
    kept: Kept | None = None,
    assumes: bool = True,
) -> Trace | Refusal:
    """Walk through a model whose inputs have these shapes, and those of `values` these elements.

    `kept` has the model's own tensors and what nodes make of them alone, for the next trace. Unless it `assumes` that
    bounds which a run gives need no clamping, they must be known. A broken rule is raised; what the host or a run's
    values may mend is a refusal.
    """
    return _trace(source, shapes, values, device, kept, keep_going=False, assumes=assumes)


def trace_all(
    source: Source,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray[Any, Any]],
    device: Device,
    *,
    kept: Kept | None = None,
    assumes: bool = True,
) -> Trace:
    """The same past refusals, which the records of their nodes have."""
    found = _trace(source, shapes, values, device, kept, keep_going=True, assumes=assumes)
    assert isinstance(found, Trace)  # noqa: S101 - for type checkers: a walk that goes on has its refusals in records
    return found


def count_nodes(kinds: Iterable[str]) -> int:
    """How many nodes a model is said to have, by their types: Constants are tensors that stand among nodes."""
    return sum(kind != "Constant" for kind in kinds)


def _trace(
    source: Source,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray[Any, Any]],
    device: Device,
    kept: Kept | None,
    *,
    keep_going: bool,
    assumes: bool,
) -> Trace | Refusal:
    if tape_on() is not None and not is_open([*shapes.values()]):  # by a signal's handler, amid another trace
        with off_tape():
            return _trace(source, shapes, values, device, kept, keep_going=keep_going, assumes=assumes)
    graph = source.model.graph
    tracer = Tracer(device, source.beside, assumes=assumes)
    scope = Scope(source, graph, Kept() if kept is None else kept)
    for info in graph.input:
        if info.name in shapes:
            scope.give(info.name, _input(info, source, shapes[info.name], values.get(info.name)))
        elif keep_going and not scope.has(info.name):
            scope.give(info.name, None)
    walk = _Walk(source, tracer, scope, keep_going=keep_going)
    try:
        outputs = walk.through(graph)
    except DmlError as error:
        if walk.refusal is not None and walk.refusal.why is not Why.RULE:
            return walk.refusal
        raise as_told(error) from error.__cause__
    if tracer.assumed and not tracer.assumed <= names_in(value.expression for value in outputs if value is not None):
        # What nothing reads is not run, and would not be found outside, though a shape that depends on it may be read.
        return _trace(source, shapes, values, device, kept, keep_going=keep_going, assumes=False)
    return Trace(tracer, dict(zip((info.name for info in graph.output), outputs, strict=True)), walk.records)


class _Walk:
    """A way through the nodes of a graph, and of the branches that are known to be taken."""

    def __init__(self, source: Source, tracer: Tracer, scope: Scope, *, keep_going: bool) -> None:
        self._source, self._tracer, self._scope = source, tracer, scope
        self._keep_going = keep_going
        self._depth = 0
        self.refusal: Refusal | None = None
        """That of the node at which a walk ends that does not go on."""
        self.records: list[Record] = []

    def through(self, graph: Graph) -> list[Value | None]:
        """The results of a graph; None for those of a refused node."""
        tracer, scope = self._tracer, self._scope
        for line in scope.kept.lines(graph):
            node = line.node
            tracer.begin(line.label, line.shown)
            refusal: Refusal | None = None
            try:
                if self._keep_going:
                    check_support(self._source, node)
                if (again := scope.recall(node)) is not None:
                    made, tracer.folded = again, True
                else:
                    inputs = [scope.find(name) for name in node.input]
                    made = self._lower(line, inputs)
                    if line.kind in OPENING and "qdq_to_int8" not in self._source.disabled_passes:
                        made = remember_parts(self._node(node, inputs, tracer), made)
                    scope.keep(node, made)
                    for value in made:
                        if value is not None and value.known is None and is_offset(value):
                            remember(self._node(node, inputs, tracer), inputs, [value])
            except DmlError as found:
                if self.refusal is not None and found is self.refusal.error:  # that of a branch's node
                    raise
                is_of_file = found.subject == self._source.name  # which says itself which tensor is at fault
                error = as_told(found if is_of_file else of_node(found, tracer.label))
                refusal = Refusal.of(found, error, line.kind)
                if not self._keep_going:
                    self.refusal = refusal
                    raise error from found.__cause__
                made = [None] * len(node.output)
            scope.put(node, made)
            if self._keep_going:
                self._record(line, made, refusal)
        outputs: list[Value | None] = []
        for info in graph.output:
            output = None if scope.is_failed(info.name) else scope.find(info.name)
            outputs.append(output)
            if output is not None and not self._keep_going:
                _check_type(info, output, self._source)
        return outputs

    def _lower(self, line: Line, inputs: list[Value | None]) -> list[Value | None]:
        """The results of a node for its inputs; one that is equal to an earlier one becomes the same."""
        tracer, kept = self._tracer, self._scope.kept
        if _folds_symbols(inputs):  # found in no cache, for which sizes would have to be told apart
            return _lower(self._node(line.node, inputs, tracer), inputs)
        every = with_parts(inputs) if line.kind in KINDS else inputs
        if line.alike is not None and (told := key_of(every)) is not None:
            key = (line.alike, self._source.opset, told)
            if (pattern := own_cache(kept.patterns).get(key, NEW)) is NEW:

                def lower(into: Tracer, given: Sequence[Value | None]) -> list[Value | None]:
                    own = put_together(given, inputs)
                    return _lower(self._node(line.node, own, into), own)

                pattern = sketch(tracer, every, lower)
                kept.keep_pattern(key, pattern)
            if pattern is not None and (made := pattern.put(tracer, every)) is not None:
                return made
        return _lower(self._node(line.node, inputs, tracer), inputs)

    def _node(self, node: Node, inputs: Sequence[Value | None], tracer: Tracer) -> BoundNode:
        return BoundNode(node, self._source.opset, inputs, tracer, self._inline)

    def _record(self, line: Line, made: list[Value | None], refusal: Refusal | None) -> None:
        tracer, node = self._tracer, line.node
        note = "" if refusal or tracer.added else tracer.note or _note(tracer, made)
        read = None if refusal is None else _size([name for name in node.input if name], self._scope)
        what = (line.label, line.kind, node.name, node, tuple(tracer.added), note, refusal, read)
        makes = {
            name: None if value is None else TensorInfo(name, value.element, value.shape)
            for name, value in zip(node.output, made, strict=False)
        }
        tape = tape_on()
        self.records.append(Record(*what, self._depth, makes, 0 if tape is None else tape.length))

    def _inline(self, graph: Graph, name: str) -> list[Value | None]:
        """The results of a branch, whose nodes are part of the model's graph; `name` is the branch's."""
        tracer, outer = self._tracer, self._scope
        label, called = tracer.label, tracer.name
        self._scope = Scope(self._source, graph, outer.kept, outer=outer, path=f"{outer.path}{label}\0{name}\0")
        self._depth += 1
        try:
            found = self.through(graph)
        finally:
            self._scope = outer
            self._depth -= 1
        tracer.begin(label, called)
        tracer.note = f"{name} is taken, as is known before anything runs"
        return found


def _input(info: ValueInfo, source: Source, shape: tuple[int, ...], array: np.ndarray[Any, Any] | None) -> Value:
    element = describe(info, source, "input").element
    if array is not None:
        return Value.of(element, array.view(element.held), info.name)
    try:
        return Value(element, shape, source=info.name, needs=frozenset([info.name]))
    except UnsupportedError as error:
        raise as_told(error).within(source.name, f"input '{printable(info.name)}': ") from None


def _size(names: list[str], scope: Scope) -> int | None:
    """The bytes of values; None where one is not known."""
    try:
        values = [scope.find(name) for name in names]
    except DmlError:
        return None
    return sum(value.element.bytes_of(value.count) for value in values if value is not None)


def _folds_symbols(inputs: Sequence[Value | None]) -> bool:
    """Whether a node reads symbolic sizes, and nothing that is not known."""
    known = [value.known for value in inputs if value is not None]
    return any(one is not None and one.opened is not None for one in known) and None not in known


def _lower(node: BoundNode, inputs: Sequence[Value | None]) -> list[Value | None]:
    check_types(node, inputs)
    lowering = find_lowering(node.kind, node.version)
    assert lowering is not None  # noqa: S101 - for type checkers: nothing else gets here
    return list(lowering(node))


def _note(tracer: Tracer, made: list[Value | None]) -> str:
    values = [value for value in made if value is not None]
    if values and all(value.count == 0 for value in values):
        return "empty"
    return "folded" if tracer.folded or all(value.is_known for value in values) else "a view, no pass"


def _check_type(info: ValueInfo, value: Value, source: Source) -> None:
    declared = element_of(info, source.name, "output")
    if declared is not None and declared != value.element:
        rule = f"output '{printable(info.name)}' must be of {value.element.name}, as the node that makes it has it"
        raise ModelError(source.name, Fault(field=info.name, rule=rule, found=declared.name))


def of_node(error: DmlError, label: str) -> DmlError:
    """The same error told of a node; where DirectML's operator takes no such type or rank at all, a refusal."""
    faults = error.faults
    if error.subject not in (label, "onnx"):
        faults = tuple(replace(fault, rule=f"{error.subject}: {fault.rule}") for fault in faults)
    faults = tuple(replace(fault, way_out=_without_clamp(fault.way_out)) for fault in faults)
    lacking = (f for f in faults if isinstance(f.value, DataType) or f.field.endswith(".DimensionCount"))
    if isinstance(error, DescriptionError) and any(f.level is None for f in lacking):
        return UnsupportedError(label, faults)
    return type(error)(label, faults)


def _without_clamp(way_out: str) -> str:
    """A way out in ONNX's terms, which has no index mode."""
    return way_out.partition(", or index_mode")[0]
