"""An ONNX model as graphs for the page: its own, the bodies of its nodes, and its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.explore.drawing import GraphNode, ModelGraph, Slot, tell
from anydml.onnx.bodies import bodies_of, captures, names_read
from anydml.onnx.library import AttributeProto, TensorProto, kind_of, node_rules
from anydml.onnx.nodes import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.onnx.reading import Source

_MOST_GRAPHS = 1_000
"""That the page is told of; a model may have as many as nodes."""
_MOST_ELEMENTS = 16
"""Of an attribute's list."""
_FIELDS = {"FLOAT": "f", "INT": "i", "STRING": "s"}
"""By the type of an attribute, the field that holds its value."""


def graphs_of(source: Source) -> list[ModelGraph]:
    """Every graph, the model's own first."""
    reader = _Reader(source)
    reader.add(source.proto.graph, source.proto.graph.name or "graph", None)
    called = {kind_name(function): reader.add_function(function) for function in source.proto.functions}
    for node in (node for graph in reader.graphs for node in graph.nodes):
        if node.kind in called and not node.end:
            node.bodies.append(("function", called[node.kind]))
    return reader.graphs


def kind_name(function: Any) -> str:
    """The type of a node that calls a function."""
    return f"{function.domain}.{function.name}" if function.domain else str(function.name)


def weights_of(graph: Any) -> dict[str, Any]:
    """By name, the tensors that a graph has as initializers, or as attributes of nodes without inputs."""
    found = {tensor.name: tensor for tensor in getattr(graph, "initializer", ())}
    outputs = {info if isinstance(info, str) else info.name for info in graph.output}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.output) == 1 and node.output[0] not in outputs:
            value = next((each.t for each in node.attribute if each.name == "value"), None)
            found[node.output[0]] = node if value is None else value
    return found


class _Reader:
    def __init__(self, source: Source) -> None:
        self._opset = source.opset
        self.graphs: list[ModelGraph] = []

    def add(self, graph: Any, title: str, around: int | None) -> int:
        """Read a graph and those within it; gives its number."""
        number = len(self.graphs)
        weights = weights_of(graph)
        made = ModelGraph(title, around=around, types=_types(graph, weights))
        self.graphs.append(made)
        given = [(info.name, "") for info in graph.input if info.name not in weights]
        if around is not None:
            given += [(name, "of the graph around it") for name in sorted(captures(graph))]
        for name, where in given:
            node = GraphNode("Input", name, outputs=[Slot("", name)], end="input")
            node.attributes = [("from", where)] if where else []
            made.nodes.append(node)
        self._nodes(made, number, graph.node, weights)
        made.nodes += [GraphNode("Output", o.name, inputs=[Slot("", o.name)], end="output") for o in graph.output]
        return number

    def add_function(self, function: Any) -> int:
        """Read a function, whose calls were put in place where that could be."""
        number = len(self.graphs)
        made = ModelGraph(f"function {function.name}", around=0)
        self.graphs.append(made)
        made.nodes += [GraphNode("Input", name, outputs=[Slot("", name)], end="input") for name in function.input]
        self._nodes(made, number, function.node, weights_of(function))
        made.nodes += [GraphNode("Output", name, inputs=[Slot("", name)], end="output") for name in function.output]
        return number

    def _nodes(self, made: ModelGraph, number: int, nodes: Iterable[Any], weights: Mapping[str, Any]) -> None:
        for proto in nodes:
            if proto.op_type == "Constant" and len(proto.output) == 1 and proto.output[0] in weights:
                continue  # shown at the nodes that read it
            made.nodes.append(self._node(proto, number, weights))

    def _node(self, proto: Any, number: int, weights: Mapping[str, Any]) -> GraphNode:
        kind, rules = kind_of(proto), node_rules(kind_of(proto), self._opset)
        formal = ((), ()) if rules is None else (rules.inputs, rules.outputs)
        inputs, outputs = (
            [Slot(_slot_name(known, k), name, name in weights) for k, name in enumerate(names) if name]
            for known, names in zip(formal, (proto.input, proto.output), strict=True)
        )
        inputs += [Slot("read within", name, name in weights) for name in names_read(proto)[len(inputs) :]]
        name = proto.name or next(iter(proto.output), "")
        node = GraphNode(kind, proto.name, inputs, outputs, label=label_of(proto), shown=tell(name, 100_000))
        inner = {own for own, _ in bodies_of(proto)}
        node.attributes = [(each.name, _value(each)) for each in proto.attribute if each.name not in inner]
        for own, graph in bodies_of(proto):
            if len(self.graphs) < _MOST_GRAPHS:
                node.bodies.append((own, self.add(graph, f"{own} of {proto.name or kind}", number)))
        return node


def _slot_name(rules: tuple[Any, ...], number: int) -> str:
    if not rules:
        return str(number)
    rule = rules[min(number, len(rules) - 1)]
    return f"{rule.name}[{number - len(rules) + 1}]" if rule.is_variadic else str(rule.name)


def _value(attribute: Any) -> str:
    if attribute.ref_attr_name:
        return f"the call's {attribute.ref_attr_name}"
    kind = next(
        (name for name, number in AttributeProto.AttributeType.items() if number == attribute.type), "UNDEFINED"
    )
    if kind == "TENSOR":
        return _tensor_type(attribute.t)
    if kind in _FIELDS:
        return _word(getattr(attribute, _FIELDS[kind]))
    if kind not in ("FLOATS", "INTS", "STRINGS"):
        return kind.lower()
    values = getattr(attribute, kind.lower())
    more = f", … {len(values)} in all" if len(values) > _MOST_ELEMENTS else ""
    return f"[{', '.join(map(_word, values[:_MOST_ELEMENTS]))}{more}]"


def _word(value: float | bytes) -> str:
    if isinstance(value, bytes):
        return value[:300].decode("utf-8", "replace")
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _types(graph: Any, weights: Mapping[str, Any]) -> dict[str, str]:
    """The types that a graph says itself."""
    found = {info.name: _info_type(info) for info in (*graph.value_info, *graph.input, *graph.output)}
    found |= {name: _tensor_type(each) for name, each in weights.items() if isinstance(each, TensorProto)}
    return {name: told for name, told in found.items() if told}


def _info_type(info: Any) -> str:
    if not info.type.HasField("tensor_type"):
        return str(info.type.WhichOneof("value") or "").removesuffix("_type")
    kind = info.type.tensor_type
    sizes = [
        str(dim.dim_value) if dim.HasField("dim_value") else tell(dim.dim_param, 40) or "?" for dim in kind.shape.dim
    ]
    return f"{_element(kind.elem_type)}[{','.join(sizes)}]" if kind.HasField("shape") else _element(kind.elem_type)


def _tensor_type(tensor: Any) -> str:
    return f"{_element(tensor.data_type)}[{','.join(map(str, tensor.dims))}]"


def _element(number: int) -> str:
    names = TensorProto.DataType
    return str(names.Name(number)).lower() if number in names.values() else f"type {number}"
