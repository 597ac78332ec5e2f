"""The statements of a model's graph: names that are there once and before they are used, types, and node types."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.core.display import Table
from anydml.core.enum_parsing import suggest
from anydml.core.errors import Fault, ModelFileError, UnsupportedError, printable
from anydml.onnx.element_types import ForeignType, read_element_type, refuse_kind, type_name
from anydml.onnx.functions import why_kept
from anydml.onnx.ir import graphs_within
from anydml.onnx.lower.registry import find_lowering, lowered_kinds
from anydml.onnx.protobuf import ELEMENT_NAMES
from anydml.onnx.signatures import node_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anydml.core.enums import DataType
    from anydml.onnx.element_types import ElementType
    from anydml.onnx.ir import Graph, Node, Size, ValueInfo
    from anydml.onnx.read import Source

_MOST_TOLD = 20
"""Faults that are told at once."""
_KINDS = {
    "sequence": "sequences",
    "map": "maps",
    "optional": "optional values",
    "sparse_tensor": "sparse tensors",
}
_LISTS = (_KINDS["sequence"], _KINDS["optional"])
"""Which need no host: they are lists of arrays, and None."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TensorInfo:
    """An input or an output of a model."""

    name: str
    element: ElementType
    shape: tuple[Size, ...] | None
    """A name stands for a size that is bound later, None for one without a name; None altogether for any shape."""
    is_optional: bool = False
    """Whether an input may be left out, having a value of the model's own."""

    @property
    def data_type(self) -> DataType:
        """DirectML's type: UINT8 for a boolean."""
        return self.element.data_type

    @property
    def element_type(self) -> str:
        """ONNX's name of the type: `FLOAT`."""
        return self.element.name

    def __str__(self) -> str:
        sizes = "any shape" if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return f"{printable(self.name)}: {self.element.name.lower()}[{printable(sizes)}]"


def ends_table(inputs: Mapping[str, TensorInfo], outputs: Mapping[str, TensorInfo]) -> Table:
    """The inputs and outputs of a model, as a notebook shows them."""
    rows = [
        (role, info.name, str(info)[len(printable(info.name)) + 2 :])
        for role, infos in (("input", inputs), ("output", outputs))
        for info in infos.values()
    ]
    return Table("", ("", "name", "type"), rows)


HOST_ONLY, NODE_TYPE = "host-only", "node-type"
"""DirectML has no operator or type for a node, which is kept from the host; ONNX has no such type of nodes."""


def blame(node: Node, takes: Callable[[Node], bool]) -> str:
    """Why nothing that could be built here would mend a node without a lowering; nothing where something would.

    `takes` says what the host runs where it may.
    """
    if takes(node):
        return HOST_ONLY
    return "" if node.domain or node.kind in lowered_kinds() else NODE_TYPE


WITHOUT_STRICT = "without strict it runs on the host"


def word_lacking(source: Source, node: Node) -> Fault:
    """The fault of a node of a type that ONNX lacks, and the type that is meant."""
    rule = f"ONNX has no node type {printable(node.kind)} at opset {source.opset}"
    return Fault(field=node.op_type, rule=rule, way_out=suggest(node.kind, lowered_kinds()))


def check_graph(
    source: Source, is_hosted: Callable[[Node], bool], *, is_strict: bool, takes: Callable[[Node], bool]
) -> bool:
    """Check node types first, all together, then names, then each node against what ONNX says of its type.

    A node that `is_hosted` takes, and what has a type that DirectML lacks, is left to the host: gives whether none is.
    Where it `is_strict`, tensors of such a type are refused, and sequences are not; `takes` says what the host would
    run.
    """
    graphs = [source.model.graph, *graphs_within(source.model.graph.node)]
    foreign = list(_foreign_types(source, graphs))
    refused = [fault for fault in foreign if not is_host_type(fault.value, is_strict=is_strict)]
    every = [(node, node.kind) for graph in graphs for node in graph.node]
    kinds = {kind for _, kind in every}
    lacking = {kind for kind in kinds if find_lowering(kind, source.opset) is None}
    others = [node for node, kind in every if kind in lacking and not is_hosted(node)]
    faults = [*_unsupported_nodes(source, others, takes), *_sparse_tensors(graphs)]
    faults += [replace(one, is_final=is_host_type(one.value)) for one in refused]
    if faults:
        raise UnsupportedError(source.name, faults[:_MOST_TOLD])
    _check_names(source, graphs)
    for node, _ in every:
        _check_node(source, node)
    return not foreign and not lacking


def check_support(source: Source, node: Node) -> None:
    """Check one node: that there is a lowering, and what ONNX says of its type."""
    if find_lowering(node.kind, source.opset) is None:
        rule = f"{printable(node.kind)} is not supported{why_kept(node, source.functions, source.model)}"
        raise UnsupportedError(node.label, Fault(field=node.op_type, rule=rule))
    _check_node(source, node)


def _check_node(source: Source, node: Node) -> None:
    if faults := list(node_faults(node, source.opset)):
        raise ModelFileError(node.label, faults)


def check_names(source: Source) -> None:
    """Check that every name is given once, and before it is used, and of one type where it is declared twice."""
    _check_names(source, [source.model.graph, *graphs_within(source.model.graph.node)])


def _check_names(source: Source, graphs: list[Graph]) -> None:
    if broken := [*_name_faults(graphs[0], frozenset()), *itertools.chain.from_iterable(map(_type_faults, graphs))]:
        raise ModelFileError(source.name, broken[:_MOST_TOLD])


def describe(
    info: ValueInfo, source: Source, what: str, *, is_optional: bool = False, may_be_foreign: bool = False
) -> TensorInfo:
    """An input or an output, as it is declared; one of a type that DirectML lacks where it may be."""
    try:
        element = element_of(info, source.name, what)
    except UnsupportedError:
        if not may_be_foreign:
            raise
        element = _foreign(info)
    if element is None and may_be_foreign and what == "output":  # which a node on the host may make of any type
        element = ForeignType.of("UNDEFINED")
    if element is None:
        rule = f"{what} '{printable(info.name)}' must have an element type"
        raise ModelFileError(source.name, Fault(field=info.name, rule=rule))
    return TensorInfo(info.name, element, info.type.shape, is_optional)


def _foreign(info: ValueInfo) -> ForeignType:
    kind = info.type.kind
    return ForeignType.of(type_name(info.type.element) if kind == "tensor" else kind.upper())


_LISTED = "`anydml support --onnx` lists the {} node types that run, and `anydml check` says where each node runs"
"""The names themselves are 2,000 characters, in which an error's other lines are lost."""


_OF_A_PROCESSOR = dict.fromkeys(
    ("com.microsoft.nchwc", "com.ms.internal.nhwc"),
    ": ONNX Runtime's optimiser wrote it for one kind of processor; optimise with ORT_ENABLE_EXTENDED instead",
)
"""By domain, why its node types are nobody else's."""


def _unsupported_nodes(source: Source, nodes: list[Node], takes: Callable[[Node], bool]) -> Iterator[Fault]:
    """One fault for each type of nodes that there is no lowering for, and that the host does not take."""
    counts = Counter(node.kind for node in nodes)
    first = {node.kind: node for node in reversed(nodes)}
    for i, (kind, count) in enumerate(sorted(counts.items())):
        others = f" and {count - 1} more" if count > 1 else ""
        at = f" at opset {source.opset}" if kind in lowered_kinds() else ""
        node = first[kind]
        why = why_kept(node, source.functions, source.model) or _OF_A_PROCESSOR.get(node.domain, "")
        rule, hint = f"{printable(kind)} is not supported{at}{why}", suggest(kind, lowered_kinds()) if not why else ""
        to_blame = "" if why else blame(node, takes)
        if to_blame == NODE_TYPE:
            rule = word_lacking(source, node).rule
        elif to_blame == HOST_ONLY:
            hint = f"{WITHOUT_STRICT};"
        listed = _LISTED.format(len(lowered_kinds())) if i == len(counts) - 1 else ""
        way_out = " ".join(filter(None, (hint, listed)))
        told = f"{node.label}{others}: {rule}"
        yield Fault(field=node.op_type, rule=told, value=count, way_out=way_out, is_final=bool(to_blame))


def _sparse_tensors(graphs: list[Graph]) -> Iterator[Fault]:
    if any(graph.sparse_initializer for graph in graphs):
        yield Fault(field="sparse_initializer", rule="DirectML has no sparse tensors")


def _foreign_types(source: Source, graphs: list[Graph]) -> Iterator[Fault]:
    for graph in graphs:
        for what, infos in (("input", graph.input), ("output", graph.output)):
            for info in infos:
                try:
                    element_of(info, source.name, what)
                except UnsupportedError as error:
                    yield error.faults[0]
        for tensor in graph.initializer:
            try:
                read_element_type(tensor.data_type, source.name, f"initializer '{printable(tensor.name)}'")
            except UnsupportedError as error:
                yield error.faults[0]


def is_host_type(found: object, *, is_strict: bool = False) -> bool:
    """Whether what DirectML has no type for is one of ONNX's at all: by its number, or by what it is of no tensor."""
    if is_strict or found in (0, None):
        return found in _LISTS
    return isinstance(found, str) or found in ELEMENT_NAMES


def _type_faults(graph: Graph) -> Iterator[Fault]:
    """An initializer that is an input too is of the type that the input is declared to have."""
    declared = {info.name: _tensor_element(info) for info in graph.input}
    for tensor in graph.initializer:
        wanted = declared.get(tensor.name, 0)
        if wanted not in (0, tensor.data_type):
            rule = f"initializer '{printable(tensor.name)}' must be of {type_name(wanted)}, as its input is declared"
            yield Fault(field=tensor.name, rule=rule, found=type_name(tensor.data_type))


def _tensor_element(info: ValueInfo) -> int:
    return info.type.element if info.type.kind == "tensor" else 0


def element_of(info: ValueInfo, subject: str, what: str) -> ElementType | None:
    """The element type of an input or output; None where the model does not say."""
    label = f"{what} '{printable(info.name)}'"
    kind, number = info.type.kind, info.type.element
    if not kind or (kind == "tensor" and not number):
        return None
    if kind != "tensor":
        raise refuse_kind(_KINDS.get(kind, kind), subject, label)
    return read_element_type(number, subject, label)


def _name_faults(graph: Graph, outer: frozenset[str]) -> Iterator[Fault]:
    """Every name is given once, and before it is used; a body has the names of the graphs around it as well."""
    inputs = [info.name for info in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    for what, names in (("inputs", inputs), ("initializers", initializers)):
        for name, count in Counter(names).items():
            if count > 1 or not name:
                rule = f"{what} must have unique names"
                yield Fault(field=what, rule=rule, value=name, found=repr(printable(name)))
    known = {*inputs, *initializers}
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        for name in node.input:
            if name and name not in known and name not in outer:
                why = "a later node produces it" if name in later else "nothing makes it"
                rule = f"{node.label}: input '{printable(name)}' must be produced by an earlier node"
                yield Fault(field=name, rule=rule, way_out=why)
        for _, body in node.bodies:
            yield from _name_faults(body, outer | known)
        for name in node.output:
            if name and name in known:
                yield Fault(field=name, rule=f"{node.label}: '{printable(name)}' must be produced by one node only")
            known.add(name)
    outputs = [info.name for info in graph.output]
    for name in outputs:
        if not name or (name not in known and name not in outer):
            yield Fault(field="outputs", rule=f"output '{printable(name)}' is produced by no node")
    if len(set(outputs)) < len(outputs):
        yield Fault(field="outputs", rule="outputs must have unique names")
    if not outputs:
        yield Fault(field="outputs", rule="the graph must have outputs")
