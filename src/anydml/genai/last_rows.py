"""Logits of the rows that are asked for: a prompt's are needed after its last token alone.

Of a prompt of 512 tokens and a vocabulary of 150,000 the product that makes logits is a quarter of all arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.onnx.ir import ValueInfo, ValueType, make_node
from anydml.onnx.protobuf import ELEMENT_NUMBERS

if TYPE_CHECKING:
    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.read import Source

ROWS = "anydml.rows"
"""The input that a model has then: which rows of all sequences' tokens, one after the other, [rows, n]."""
_FLAT, _TAKEN = "anydml.flat", "anydml.taken"
_UNARY, _BINARY = {"Cast", "Identity", "Tanh"}, {"Add", "Div", "Mul", "Sub"}
"""What may stand between the product and logits: capped ones are divided, and so on."""


def with_rows(source: Source, logits: str) -> Source:
    """The model with the input; as it is where logits are made in another way than by a product of each row."""
    graph = source.model.graph
    if not source.opset or (found := _product(graph, logits)) is None:
        return source
    place, node = found
    taken = [
        make_node("Flatten", [node.input[0]], [_FLAT], axis=2),
        make_node("Gather", [_FLAT, ROWS], [_TAKEN], axis=0),
    ]
    nodes = [*graph.node[:place], *taken, replace(node, input=(_TAKEN, *node.input[1:])), *graph.node[place + 1 :]]
    rows = ValueInfo(ROWS, ValueType("tensor", ELEMENT_NUMBERS["INT64"], ("anydml.sequences", "anydml.count")))
    known = [info for info in graph.value_info if info.name not in _between(graph, place, logits)]
    graph = replace(graph, node=tuple(nodes), input=(*graph.input, rows), value_info=tuple(known))
    return replace(source, model=replace(source.model, graph=_with_open_rows(graph, logits)))


def _product(graph: Graph, logits: str) -> tuple[int, Node] | None:
    """The product that makes logits, and its place among the nodes."""
    makers = {name: (place, node) for place, node in enumerate(graph.node) for name in node.output}
    readers: dict[str, int] = {}
    for node in graph.node:
        for name in node.reads:
            readers[name] = readers.get(name, 0) + 1
    shapes = {tensor.name: tensor.dims for tensor in graph.initializer}
    declared = {info.name: info.type.shape for info in graph.output}
    name = logits
    if len(declared.get(name) or ()) != 3:
        return None
    while name in makers:
        place, node = makers[name]
        if name != logits and (readers[name] > 1 or name in declared):
            return None
        constants = [given for given in node.input[1:] if given]
        is_plain = all(given in shapes for given in constants)
        if node.kind == "com.microsoft.MatMulNBits" or node.kind == "MatMul":
            is_matrix = node.op_type != "MatMul" or len(shapes.get(node.input[1], ())) == 2
            return (place, node) if is_plain and is_matrix else None
        is_scalar = node.kind in _BINARY and all(len(shapes.get(given, (0, 0))) < 2 for given in constants)
        if node.kind not in _UNARY and not is_scalar:
            return None
        name = node.input[0]
    return None


def _between(graph: Graph, place: int, logits: str) -> set[str]:
    """What is made from the product on: of other rows than the model says."""
    found = {*graph.node[place].output}
    for node in graph.node[place:]:
        if found.intersection(node.input):
            found.update(node.output)
    return found | {logits}


def _with_open_rows(graph: Graph, logits: str) -> Graph:
    """The graph whose logits are of as many rows as are asked for."""
    outputs = []
    for info in graph.output:
        if info.name == logits and info.type.shape is not None:
            shape = ("anydml.sequences", "anydml.count", info.type.shape[2])
            info = replace(info, type=replace(info.type, shape=shape))
        outputs.append(info)
    return replace(graph, output=tuple(outputs))
