"""The rules of a graph: what its edges may connect, and that the descriptions on both ends agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault
from anydml.core.memory import layout_of, span, without_leading_ones
from anydml.graph.nodes import ConstantNode, InputEdge, OperatorNode, OutputEdge
from anydml.graph.wiring import fed_desc, find_cycle, input_descs, operators, output_descs, slot_names, used_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import FeatureLevel
    from anydml.graph.description import GraphDesc
    from anydml.graph.nodes import IntermediateEdge

_REINTERPRET = "reinterpret=True on the edge reads the same memory in another description"


def find_faults(graph: GraphDesc, level: FeatureLevel, where: str) -> list[Fault]:
    """Everything that is wrong with a graph at a level; `where` says whose level it is."""
    faults = list(_node_faults(graph, level, where))
    sound: dict[str, list[Any]] = {}
    for name in ("input_edges", "output_edges", "intermediate_edges"):
        sound[name] = []
        for number, edge in enumerate(getattr(graph, name)):
            wrong = [] if _is_in_range(graph, edge) else list(_range_faults(graph, f"{name}[{number}]", edge))
            faults += wrong
            sound[name].append(None if wrong else edge)
    kept = {name: tuple(edge for edge in edges if edge is not None) for name, edges in sound.items()}
    is_whole = all(len(kept[name]) == len(getattr(graph, name)) for name in kept)
    in_range = graph if is_whole else replace(graph, **kept)  # type: ignore[arg-type]  # the edges alone
    labels = {name: _Labels(name, edges) for name, edges in sound.items()}
    faults += _feeding_faults(in_range, labels, is_whole)
    faults += _input_faults(in_range, labels["input_edges"])
    faults += _intermediate_faults(in_range, labels["intermediate_edges"])
    faults += _output_faults(in_range, labels["output_edges"])
    if cycle := find_cycle(in_range):
        nodes = [graph.label(in_range.intermediate_edges[n].from_node_index) for n in cycle]
        field = labels["intermediate_edges"][cycle[0]]
        rule = f"{field} must not close a cycle: {' → '.join((*nodes, nodes[0]))}"
        found = f"the edges {', '.join(labels['intermediate_edges'][n] for n in cycle)}"
        faults.append(Fault(field=field, rule=rule, value=tuple(cycle), found=found))
    return faults


def find_remarks(graph: GraphDesc) -> Iterator[str]:
    """Remarks on a valid graph."""
    used = used_nodes(graph)
    for number, node in enumerate(graph.nodes):
        if number not in used:
            yield f"{graph.label(number)} feeds no output of the graph, and does not run"
        elif isinstance(node, OperatorNode):
            yield from (f"{graph.label(number)}: {remark}" for remark in node.desc.remarks())
    needed = {edge.graph_input_index for edge in graph.input_edges if edge.to_node_index in used}
    for number, name in enumerate(slot_names(graph)[0]):
        if number not in needed:
            yield f"no output of the graph needs graph input {number}, {name!r}"


class _Labels:
    """Errors' names for the edges that are in range, of which few have an error."""

    def __init__(self, name: str, edges: Sequence[Any]) -> None:
        self._name, self._edges = name, edges
        self._numbers = [number for number, edge in enumerate(edges) if edge is not None]

    def __getitem__(self, i: int) -> str:
        number = self._numbers[i]
        label, name = f"{self._name}[{number}]", self._edges[number].name
        return f"{label} {name!r}" if name else label


def _node_faults(graph: GraphDesc, level: FeatureLevel, where: str) -> Iterator[Fault]:
    if graph.output_count < 1:
        yield Fault(field="OutputCount", rule="OutputCount must be at least 1", value=0, found="0")
    for number, node in operators(graph).items():
        faults = node.desc.faults_at(level, where)
        if not faults and not any(desc.signed_strides for _, desc in node.outputs.values()):
            continue
        label = graph.label(number)
        for fault in faults:
            subject = f"{label}: {node.kind}" if node.name else label
            field = f"{label}.{fault.field}" if fault.field else label
            yield replace(fault, field=field, subject=subject)
        for name, desc in node.outputs.values():
            if any(stride < 0 for stride in desc.element_strides):
                rule = f"{name}.Strides of {label} must not be negative in a graph"
                yield Fault(field=f"{label}.{name}.Strides", rule=rule, value=desc.strides, found=str(desc.strides))


def _is_in_range(graph: GraphDesc, edge: Any) -> bool:
    """Whether an edge's numbers are those of nodes, of their slots and of the graph's own."""
    nodes, kind = graph.nodes, type(edge)
    if kind is not OutputEdge and not (
        edge.to_node_index < len(nodes) and edge.to_node_input_index in nodes[edge.to_node_index].inputs
    ):
        return False
    if kind is InputEdge:
        return bool(edge.graph_input_index < graph.input_count)
    return (
        edge.from_node_index < len(nodes)
        and edge.from_node_output_index in nodes[edge.from_node_index].outputs
        and (kind is not OutputEdge or edge.graph_output_index < graph.output_count)
    )


def _range_faults(graph: GraphDesc, field: str, edge: Any) -> Iterator[Fault]:
    """Check an edge's numbers: of nodes, of their slots, of the graph's own."""

    def check(name: str, value: int, count: int, what: str) -> Iterator[Fault]:
        if value >= count:
            rule = f"{field}.{name} must lie in 0 .. {count - 1}, {what}"
            if not count:
                rule = f"{field}.{name}: {what}: there are none"
            yield Fault(field=f"{field}.{name}", rule=rule, value=value, found=str(value))

    for side, what in (("from", "output"), ("to", "input")):
        if (number := getattr(edge, f"{side}_node_index", None)) is None:
            continue
        title = side.capitalize()
        wrong = list(check(f"{title}NodeIndex", number, len(graph.nodes), "the graph's nodes"))
        yield from wrong
        if not wrong:
            slots: Mapping[int, object] = getattr(graph.nodes[number], f"{what}s")
            slot: int = getattr(edge, f"{side}_node_{what}_index")
            if slot in slots:
                continue
            name, count = f"{title}Node{what.capitalize()}Index", max(slots, default=-1) + 1
            yield from check(name, slot, count, f"{what}s of {graph.label(number)}")
            if slot < count:
                rule = f"{field}.{name} must be a tensor that {graph.label(number)} has: this one is optional"
                yield Fault(field=f"{field}.{name}", rule=rule, value=slot, found=str(slot))
    if (number := getattr(edge, "graph_input_index", None)) is not None:
        yield from check("GraphInputIndex", number, graph.input_count, "the graph's inputs")
    if (number := getattr(edge, "graph_output_index", None)) is not None:
        yield from check("GraphOutputIndex", number, graph.output_count, "the graph's outputs")


def _feeding_faults(graph: GraphDesc, labels: dict[str, _Labels], is_whole: bool) -> Iterator[Fault]:
    """Check that each input of a node, each output and each input of the graph has its edges.

    Where an edge is out of range nothing counts as missing: it may be the one.
    """
    feeds: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name in ("input_edges", "intermediate_edges"):
        for i, edge in enumerate(getattr(graph, name)):
            feeds.setdefault((edge.to_node_index, edge.to_node_input_index), []).append((name, i))
    for number, node in operators(graph).items():
        for slot, (name, _) in node.inputs.items():
            fed = feeds.get((number, slot), ())
            if len(fed) == 1:
                continue
            given = [labels[kind][i] for kind, i in fed]
            if len(given) > 1:
                rule = f"{name} of {graph.label(number)} must be fed by one edge"
                found = " and ".join(given)
                yield Fault(field=given[-1], rule=rule, value=tuple(given), found=found)
            elif not given and is_whole:
                rule = f"{name} of {graph.label(number)} must be fed by an edge"
                yield Fault(field=graph.label(number), rule=rule, found="none")
    outputs: dict[int, list[str]] = {}
    for i, edge in enumerate(graph.output_edges):
        outputs.setdefault(edge.graph_output_index, []).append(labels["output_edges"][i])
    for number in range(graph.output_count):
        given = outputs.get(number, [])
        if len(given) > 1:
            rule = f"graph output {number} must have one edge"
            yield Fault(field=given[-1], rule=rule, value=tuple(given), found=" and ".join(given))
        elif not given and is_whole:
            rule = f"graph output {number} must have an edge"
            yield Fault(field="output_edges", rule=rule, found="none")
    for number, desc in enumerate(input_descs(graph)):
        if is_whole and desc is None:
            rule = f"graph input {number} must feed a node"
            way_out = "leave it out, or describe it in input_descs"
            yield Fault(field="input_edges", rule=rule, found="no edge", way_out=way_out)


def _input_faults(graph: GraphDesc, labels: _Labels) -> Iterator[Fault]:
    names = {name: f"input_names[{i}]" for i, name in enumerate(graph.input_names or ())}
    names |= {edge.name: f"{labels[i]}.Name" for i, edge in enumerate(graph.input_edges) if edge.name == "out"}
    if "out" in names:
        rule = f"{names['out']} must not be 'out', which a call has for the outputs"
        yield Fault(field=names["out"], rule=rule, value="out")
    descs = input_descs(graph)
    for i, edge in enumerate(graph.input_edges):
        source = descs[edge.graph_input_index]
        fed = fed_desc(graph, edge)
        if source is None or _is_plain(source, fed, edge):
            continue
        what, label = f"graph input {edge.graph_input_index}", labels[i]
        yield from _ends(label, what, source, _fed_name(graph, edge), fed, reinterpret=edge.reinterpret)
        if source.is_owned_by_dml != fed.is_owned_by_dml:
            rule = f"{label}: {_fed_name(graph, edge)} and {what} must both have OWNED_BY_DML, or neither"
            yield Fault(field=label, rule=rule, value=fed.flags)


def _is_plain(source: TensorDesc, fed: TensorDesc, edge: InputEdge | IntermediateEdge) -> bool:
    """Whether an edge needs no closer look: both ends are packed, and alike or marked and of as many bytes."""
    if source.strides is not None or fed.strides is not None or source.flags or fed.flags:
        return False
    if edge.reinterpret:
        return source.data_type.bytes_of(source.element_count) == fed.data_type.bytes_of(fed.element_count)
    is_alike = source.sizes == fed.sizes or without_leading_ones(source.sizes) == without_leading_ones(fed.sizes)
    return is_alike and source.data_type is fed.data_type


def _intermediate_faults(graph: GraphDesc, labels: _Labels) -> Iterator[Fault]:
    for i, edge in enumerate(graph.intermediate_edges):
        node = graph.nodes[edge.from_node_index]
        name, source = node.outputs[edge.from_node_output_index]
        fed = fed_desc(graph, edge)
        if source is not None and _is_plain(source, fed, edge):
            continue
        fed_name, label = _fed_name(graph, edge), labels[i]
        what = f"{name} of {graph.label(edge.from_node_index)}"
        if isinstance(node, OperatorNode) and fed.is_owned_by_dml:
            rule = f"{label}: {fed_name} must not have OWNED_BY_DML, which is for inputs of the graph"
            yield Fault(field=label, rule=rule, value=fed.flags)
        if edge.reinterpret and isinstance(node, OperatorNode) and source is not None and has_gaps(source):
            rule = f"{label}: {what} must have no gaps to be read in another description: nobody writes there"
            yield Fault(field=label, rule=rule, value=source.strides, found=f"strides {source.element_strides}")
        if source is not None:
            yield from _ends(label, what, source, fed_name, fed, reinterpret=edge.reinterpret)
        elif isinstance(node, ConstantNode):
            yield from _room(label, what, (0, node.size_in_bytes), fed_name, fed)


def _output_faults(graph: GraphDesc, labels: _Labels) -> Iterator[Fault]:
    descs = output_descs(graph)
    for number, desc in enumerate(descs):
        if desc is not None and desc.is_owned_by_dml:
            rule = f"graph output {number} must not have OWNED_BY_DML, which is for inputs of the graph"
            yield Fault(field=f"output_descs[{number}]", rule=rule, value=desc.flags)
    for i, edge in enumerate(graph.output_edges):
        node, label = graph.nodes[edge.from_node_index], labels[i]
        name, source = node.outputs[edge.from_node_output_index]
        what = f"{name} of {graph.label(edge.from_node_index)}"
        given = descs[edge.graph_output_index]
        number = edge.graph_output_index
        if given is None:
            rule = f"{label}: {what} is raw bytes without a description"
            yield Fault(field=label, rule=rule, way_out="give the constant as an array, or with a desc")
        elif isinstance(node, ConstantNode) and source is None:
            yield from _room(label, what, (0, node.size_in_bytes), f"graph output {number}", given)
        elif source is not None:
            yield from _ends(label, what, source, f"graph output {number}", given, reinterpret=False)


def _fed_name(graph: GraphDesc, edge: Any) -> str:
    name = graph.nodes[edge.to_node_index].inputs[edge.to_node_input_index][0]
    return f"{name} of {graph.label(edge.to_node_index)}"


def _ends(
    label: str, what: str, source: TensorDesc, fed_name: str, fed: TensorDesc, *, reinterpret: bool
) -> Iterator[Fault]:
    """Check that the two ends of an edge agree, leading sizes of 1 aside; or that one fits the other's memory."""
    if reinterpret:
        yield from _room(label, what, byte_span(source), fed_name, fed)
        return
    way_out = "" if label.startswith("output_edges") else _REINTERPRET
    if fed.data_type != source.data_type:
        rule = f"{label}: {fed_name} must be of {source.data_type.name}, as {what} is"
        yield Fault(field=label, rule=rule, value=fed.data_type, found=fed.data_type.name, way_out=way_out)
    if without_leading_ones(fed.sizes) != without_leading_ones(source.sizes):
        rule = f"{label}: {fed_name} must be of sizes {source.sizes}, as {what} is"
        yield Fault(field=label, rule=rule, value=fed.sizes, found=str(fed.sizes), way_out=way_out)
    elif layout_of(fed.sizes, fed.element_strides) != layout_of(source.sizes, source.element_strides):
        rule = f"{label}: {fed_name} must have strides {source.element_strides}, as {what} has"
        yield Fault(field=label, rule=rule, value=fed.strides, found=str(fed.element_strides), way_out=way_out)


def byte_span(desc: TensorDesc) -> tuple[int, int]:
    """The bytes that a tensor touches, from the lowest to past the highest, counted from its first element."""
    return desc.data_type.byte_range(*span(desc.sizes, desc.element_strides))


def has_gaps(desc: TensorDesc) -> bool:
    """Whether some bytes between a tensor's elements are nobody's."""
    low, high = byte_span(desc)
    return high - low > desc.data_type.bytes_of(desc.element_count)


def _room(label: str, what: str, room: tuple[int, int], fed_name: str, fed: TensorDesc) -> Iterator[Fault]:
    low, high = byte_span(fed)
    if low < room[0] or high > room[1]:
        rule = f"{label}: {fed_name} must fit the bytes {room[0]} .. {room[1]} of {what}, from its first element on"
        yield Fault(field=label, rule=rule, value=(low, high), found=f"{low} .. {high}")
