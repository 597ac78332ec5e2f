"""A model walked through node by node, for shapes that are known: what each node becomes, and the graph of them all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.enums import DataType
from anydml.errors import DescriptionError, DmlError, Fault, ModelError, UnsupportedError, printable
from anydml.onnx.graphs import check_support, describe, element_of
from anydml.onnx.library import kind_of
from anydml.onnx.lowerings import find_lowering
from anydml.onnx.nodes import Node, label_of
from anydml.onnx.signatures import check_types
from anydml.onnx.tensors import decode_tensor
from anydml.onnx.tracer import Tracer
from anydml.onnx.values import NeedsValueError, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from anydml.onnx.reading import Source
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


@dataclass(frozen=True, slots=True)
class Record:
    """What became of a node."""

    label: str
    """What errors call it."""
    kind: str
    """ONNX's node type."""
    name: str
    operators: tuple[OperatorDesc, ...] = ()
    """What it added to the graph."""
    note: str = ""
    """Why it added nothing: `folded`, `a view, no pass`, `empty`."""
    error: DmlError | None = None
    """What it met with, where the trace went on."""
    read: int | None = None
    """Bytes of its inputs; None where one is not known."""


@dataclass(slots=True)
class Trace:
    """A model as a graph."""

    tracer: Tracer
    outputs: dict[str, Value | None]
    """None for what a node that met with an error would have made."""
    records: list[Record] = field(default_factory=list)


class UnknownError(UnsupportedError):
    """A node after one that met with an error."""


def trace(
    source: Source,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray[Any, Any]],
    device: Device,
    *,
    kept: dict[str, Value] | None = None,
    keep_going: bool = False,
) -> Trace:
    """Walk through a model whose inputs have these shapes, and those of `values` these elements.

    `kept` has the model's own tensors and what nodes make of them alone, for the next trace. With `keep_going` an
    error is put in the record of its node.
    """
    graph = source.proto.graph
    tracer = Tracer(device, source.beside)
    known: dict[str, Value | None] = {"": None}
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for info in graph.input:
        if info.name in shapes:
            known[info.name] = _input(info, source, shapes[info.name], values.get(info.name))
        elif keep_going and info.name not in tensors:
            known[info.name] = None
    own = _Own(source, tensors, {} if kept is None else kept, tensors.keys() - known.keys())
    records = []
    for proto in graph.node:
        tracer.begin(label_of(proto), printable(proto.name or next(iter(proto.output), "")))
        error: DmlError | None = None
        try:
            if keep_going:
                check_support(source, proto)
            if (again := own.recall(proto)) is not None:
                made, tracer.folded = again, True
            else:
                inputs = [_find(name, known, own) for name in proto.input]
                node = Node(proto, source.opset, inputs, tracer)
                check_types(node, inputs)
                made = _lower(node)
                own.keep(proto, made)
        except DmlError as found:
            is_of_file = found.subject == source.name  # which says itself which tensor is at fault
            error = found if is_of_file else of_node(found, tracer.label)
            if isinstance(error, NeedsValueError):
                error.kind = kind_of(proto)
            if not keep_going:
                raise error from found.__cause__
            made = [None] * len(proto.output)
        # An output that is left out has no name, and what is called "" stays nothing.
        known.update((name, value) for name, value in zip(proto.output, made, strict=False) if name)
        own.absent.update((name, (tracer.label, i)) for i, name in enumerate(proto.output) if i >= len(made))
        note = "" if error or tracer.added else _note(tracer, made)
        read = None if error is None else _size([known.get(name) for name in proto.input if name])
        records.append(Record(tracer.label, kind_of(proto), proto.name, tuple(tracer.added), note, error, read))
    outputs: dict[str, Value | None] = {}
    for info in graph.output:
        is_missing = info.name in known and known[info.name] is None
        output = None if is_missing else _find(info.name, known, own)
        outputs[info.name] = output
        if output is not None and not keep_going:
            _check_type(info, output, source)
    return Trace(tracer, outputs, records)


def _input(info: Any, source: Source, shape: tuple[int, ...], array: np.ndarray[Any, Any] | None) -> Value:
    element = describe(info, source, "input").element
    if array is not None:
        return Value.of(element, array.view(element.held), info.name)
    try:
        return Value(element, shape, source=info.name, needs=frozenset([info.name]))
    except UnsupportedError as error:
        raise error.within(source.name, f"input '{printable(info.name)}': ") from None


class _Own:
    """The model's own tensors, decoded when they are first asked for, and what nodes make of them alone."""

    def __init__(self, source: Source, tensors: Mapping[str, Any], kept: dict[str, Value], names: set[str]) -> None:
        self._source, self._tensors, self._kept = source, tensors, kept
        self._names = {"", *names}
        """Of what is the model's own in this trace: an initializer may be given at a run."""
        self.absent: dict[str, tuple[str, int]] = {}
        """Outputs that a node names and that are not computed: harmless until somebody reads one."""

    def find(self, name: str) -> Value:
        """An initializer."""
        source = self._source
        if name in self.absent:
            label, i = self.absent[name]
            rule = f"outputs[{i}] of {label}, '{printable(name)}', is not supported"
            raise UnsupportedError(source.name, Fault(field=name, rule=rule))
        if name not in self._kept:
            what = f"initializer '{printable(name)}'"
            raw = source.raw.get(name)
            self._kept[name] = decode_tensor(self._tensors[name], source.name, what, source.beside, raw)
        return replace(self._kept[name].for_next_graph(), source=name)

    def recall(self, node: Any) -> list[Value | None] | None:
        """What a node made in an earlier trace, where that is the same in each."""
        if not (self._is_own(node) and all(name in self._kept for name in node.output if name)):
            return None
        self._names.update(node.output)
        return [self._kept[name].for_next_graph() if name else None for name in node.output]

    def keep(self, node: Any, made: list[Value | None]) -> None:
        """Keep what a node made of the model's own tensors alone."""
        if self._is_own(node) and all(value is not None and value.is_known for value in made):
            for name, value in zip(node.output, made, strict=False):
                if name and value is not None:
                    self._kept[name] = value.for_next_graph()
                    self._names.add(name)

    def _is_own(self, node: Any) -> bool:
        return all(name in self._names for name in node.input)


def _find(name: str, known: dict[str, Value | None], own: _Own) -> Value | None:
    """The value of that name."""
    if name in known:
        if known[name] is None and name:
            rule = f"'{printable(name)}' is not known, for what became of the node that makes it"
            raise UnknownError("onnx", Fault(field=name, rule=rule))
        return known[name]
    known[name] = own.find(name)
    return known[name]


def _size(values: list[Value | None]) -> int | None:
    """The bytes of values; None where one is not known."""
    found = [value.element.bytes_of(value.count) for value in values if value is not None]
    return sum(found) if len(found) == len(values) else None


def _lower(node: Node) -> list[Value | None]:
    lowering = find_lowering(node.kind, node.version)
    assert lowering is not None  # noqa: S101 - for type checkers: nothing else gets here
    return list(lowering(node))


def _note(tracer: Tracer, made: list[Value | None]) -> str:
    values = [value for value in made if value is not None]
    if values and all(value.count == 0 for value in values):
        return "empty"
    return "folded" if tracer.folded or all(value.is_known for value in values) else "a view, no pass"


def _check_type(info: Any, value: Value, source: Source) -> None:
    declared = element_of(info, source.name, "output")
    if declared is not None and declared != value.element:
        rule = f"output '{printable(info.name)}' must be of {value.element.name}, as the node that makes it has it"
        raise ModelError(source.name, Fault(field=info.name, rule=rule, found=declared.name))


def of_node(error: DmlError, label: str) -> DmlError:
    """The same error told of a node; where DirectML has no such type for an operator at all, a refusal."""
    faults = error.faults
    if error.subject not in (label, "onnx"):
        faults = tuple(replace(fault, rule=f"{error.subject}: {fault.rule}") for fault in faults)
    faults = tuple(replace(fault, way_out=_without_clamp(fault.way_out)) for fault in faults)
    if isinstance(error, NeedsValueError):
        return NeedsValueError(label, faults, error.inputs)
    lacks_type = any(isinstance(f.value, DataType) and f.level is None for f in faults)
    if isinstance(error, DescriptionError) and lacks_type:
        return UnsupportedError(label, faults)
    return type(error)(label, faults)


def _without_clamp(way_out: str) -> str:
    """A way out in ONNX's terms, which has no index mode."""
    return way_out.partition(", or index_mode")[0]
