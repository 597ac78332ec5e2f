"""Parts of a model as models of their own: some of its nodes, with what they read from others given.

A node with bodies, such as an If, is one node: what its bodies read from outside, it reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.core.errors import printable
from anydml.onnx.ir import Graph, Model, Node, ValueInfo, ValueType
from anydml.onnx.library import number_of_dtype
from anydml.onnx.partition.host import refuse_external, with_elements
from anydml.onnx.protobuf import tensor_of
from anydml.onnx.tensors import decode_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from anydml.onnx.ir import Tensor
    from anydml.onnx.read import Source

    Array = np.ndarray[Any, Any]

MOST_SIZES = 1024
"""Elements of whole numbers and truths that are taken for sizes, axes or indices rather than for data."""


def self_contained(source: Source) -> Model:
    """A model with the tensors that lie beside it in itself."""

    def whole(tensor: Tensor) -> Tensor:
        if not tensor.is_external:
            return tensor
        what = f"initializer '{printable(tensor.name)}'"
        return with_elements(tensor, decode_tensor(tensor, source.name, what, source.beside))

    graph = source.model.graph
    found = replace(graph, initializer=tuple(map(whole, graph.initializer)))
    for node in found.node:  # whoever runs a part would read those of nodes and bodies wherever they are
        refuse_external(node)
    return replace(source.model, graph=found)


def needed(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes that outputs need, in their order."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.makes):
            found.append(node)
            wanted.update(node.reads)
    return found[::-1]


def missing(model: Model, nodes: Sequence[Node], outputs: Sequence[str]) -> list[str]:
    """Tensors that some nodes of a model read, or outputs are, and neither they make nor the model has."""
    graph = model.graph
    has = (
        {info.name for info in graph.input} | graph.constants | {each.values.name for each in graph.sparse_initializer}
    )
    has.update(name for node in nodes for name in node.makes)
    return list(dict.fromkeys(n for n in (*(r for node in nodes for r in node.reads), *outputs) if n not in has))


def with_outputs(model: Model, names: Iterable[str]) -> Model:
    """The same model with more of what its nodes make as outputs."""
    graph = model.graph
    declared = {info.name for info in graph.output}
    more = [ValueInfo(name) for name in names if name not in declared]
    return replace(model, graph=replace(graph, output=(*graph.output, *more)))


def cut(
    model: Model,
    nodes: Sequence[Node],
    outputs: Sequence[str],
    values: Mapping[str, Any],
    *,
    is_fixed: bool = False,
) -> Model:
    """A model of some of the nodes, and of nothing else that they do not need.

    `values` has what other nodes made: arrays, that become inputs of their types and shapes, or with `is_fixed`
    constants; few whole numbers, which may be sizes, are constants in any case. Outputs among them have their types.
    """
    graph = model.graph
    read = {name for node in nodes for name in node.reads} | set(outputs)
    inputs = [info for info in graph.input if info.name in read]
    tensors = [tensor for tensor in graph.initializer if tensor.name in read]
    for name in missing(model, nodes, outputs):
        if is_fixed or is_size(values[name]):
            tensors.append(tensor_of(values[name], name))
        else:
            inputs.append(ValueInfo(name, _type_of(values[name], values[name].shape)))
    declared = {info.name: info for info in (*graph.output, *graph.value_info)}

    def told(name: str) -> ValueInfo:
        if name in values:
            return ValueInfo(name, _type_of(values[name], (None,) * values[name].ndim))
        return declared.get(name, ValueInfo(name))

    sparse = [each for each in graph.sparse_initializer if each.values.name in read]
    part = Graph(nodes, inputs, list(map(told, outputs)), tensors, sparse, name="part")
    version = max(model.ir_version, 4)  # from which on a constant need not be an input
    return Model(part, model.opset_import, model.functions, version)


def _type_of(array: Array, shape: tuple[int | None, ...]) -> ValueType:
    return ValueType("tensor", number_of_dtype(array.dtype), shape)


def is_size(array: Array) -> bool:
    """Whether elements are taken for sizes rather than for data."""
    return array.dtype.kind not in "fc" and array.size <= MOST_SIZES
