"""OneHot: places that indices choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.types import INT64

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def one_hot(node: Node) -> list[Value]:
    """OneHot: the depth must be known."""
    indices, values = convert(node, node.input(0), INT64), node.input(2)
    depth = node.numbers(1, "depth", may_be_scalar=True)
    if len(depth) != 1 or depth[0] < 1:
        node.refuse("depth", "depth must be a number of at least 1", value=depth, found=str(depth))
    if values.shape != (2,):
        node.refuse("values", "values must be 2 numbers, off and on", value=values.shape, found=str(values.shape))
    axis = node.axis(node.integer("axis", -1), len(indices.shape) + 1)
    lead, rest = indices.shape[:axis], indices.shape[axis:]
    shape = (*lead, depth[0], *rest)
    tensors = [node.tracer.reshape(indices, (*lead, 1, *rest)), values]
    return [node.tracer.apply(dml.one_hot, tensors, shape, shape, axis, element=values.element)]
