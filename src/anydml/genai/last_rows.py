"""Logits of the rows that are asked for: a prompt's are needed after its last token alone.

Of a prompt of 512 tokens and a vocabulary of 150,000 the product that makes logits is a quarter of all arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.ir import Tensor, ValueInfo, ValueType, make_node
from anydml.onnx.protobuf import ELEMENT_NUMBERS, tensor_of

if TYPE_CHECKING:
    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.read import Source

ROWS = "anydml.rows"
"""The input that a model has then: whether a row of logits is that of a token of its sequence, [rows, n, tokens, 1]."""
_UNARY, _BINARY = {"Cast", "Identity", "Tanh"}, {"Add", "Div", "Mul", "Sub"}
"""What may stand between the product and logits: capped ones are divided, and so on."""
_SIZES = {ELEMENT_NUMBERS["FLOAT"]: 4, ELEMENT_NUMBERS["FLOAT16"]: 2, ELEMENT_NUMBERS["BFLOAT16"]: 2}
"""Bytes of the types that models compute in."""
_AXES = 13
"""The opset from which on axes are an input."""


def rows_at(places: np.ndarray[Any, Any], tokens: int) -> np.ndarray[Any, Any]:
    """The input for logits of the tokens at some places of each sequence, [rows, n]."""
    found: np.ndarray[Any, Any] = places[:, :, None] == np.arange(tokens)
    return found[..., None]


def with_rows(source: Source, logits: str) -> Source:
    """The model with the input; as it is where logits are made in another way than by a product of each row.

    Rows are picked by a sum in which one token counts, which gives its very numbers. The index of a gather would be
    checked before any output is written: caches could not be written in place.
    """
    graph = source.model.graph
    if not source.opset or (found := _product(graph, logits)) is None:
        return source
    place, node = found
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    element = types[node.input[1 if node.op_type == "MatMul" else 2]]
    if element not in _SIZES:
        return source
    more = [Tensor("anydml.zero", element, (), bytes(_SIZES[element]))]
    apart, kept = _along("Unsqueeze", node.input[0], 1, source.opset, more), f"{ROWS}.kept"
    picked = make_node("Where", [ROWS, apart.output[0], more[0].name], [kept])
    whole = _along("ReduceSum", kept, 2, source.opset, more)
    last = replace(node, input=(whole.output[0], *node.input[1:]))
    nodes = [*graph.node[:place], apart, picked, whole, last, *graph.node[place + 1 :]]
    sizes = "anydml.sequences", "anydml.count", "anydml.tokens", 1
    rows = ValueInfo(ROWS, ValueType("tensor", ELEMENT_NUMBERS["BOOL"], sizes))
    graph = replace(
        graph,
        node=tuple(nodes),
        input=(*graph.input, rows),
        initializer=(*graph.initializer, *more),
        value_info=tuple(info for info in graph.value_info if info.name not in _after(graph, place)),
    )
    return replace(source, model=replace(source.model, graph=_with_open_rows(graph, logits)))


def _along(kind: str, given: str, axis: int, opset: int, more: list[Tensor]) -> Node:
    """A node along an axis, which is an initializer of its own from some opset on."""
    options: dict[str, Any] = {"keepdims": 0} if kind == "ReduceSum" else {}
    inputs = [given]
    if opset >= _AXES:
        more.append(tensor_of(np.array([axis]), f"{ROWS}.axis{axis}"))
        inputs.append(more[-1].name)
    else:
        options["axes"] = [axis]
    return make_node(kind, inputs, [f"{ROWS}.{kind}"], **options)


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


def _after(graph: Graph, place: int) -> set[str]:
    """What is made from the product on: of other rows than the model says."""
    found = {*graph.node[place].output}
    for node in graph.node[place:]:
        if found.intersection(node.input):
            found.update(node.output)
    return found


def _with_open_rows(graph: Graph, logits: str) -> Graph:
    """The graph whose logits are of as many rows as are asked for."""
    outputs = []
    for info in graph.output:
        if info.name == logits and info.type.shape is not None:
            shape = ("anydml.sequences", "anydml.count", info.type.shape[2])
            info = replace(info, type=replace(info.type, shape=shape))
        outputs.append(info)
    return replace(graph, output=tuple(outputs))
