"""NonZero, Compress, OneHot and TopK: places that are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.enums import AxisDirection, DataType
from anydml.onnx.lowerings.indexing import take_blocks
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.types import INT64, element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node


def nonzero(node: Node) -> list[Value]:
    """NonZero: how many coordinates there are depends on the elements, which must be known."""
    data = node.input(0)
    return [Value.of(INT64, np.array(np.nonzero(np.atleast_1d(data.values("X")))))]


def compress(node: Node) -> list[Value]:
    """Compress: the slices along an axis, or the elements, that a condition says; it must be known."""
    data, condition = node.input(0), node.input(1)
    if not condition.shape:
        node.refuse("condition", "condition must have 1 dimension", value=(), found="()")
    if not node.has(
        "axis"
    ):  # Paddle's exporter gives a condition of the data's shape, and ONNX Runtime takes its elements
        data = node.tracer.reshape(data, (data.count,))
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    if condition.count > data.shape[axis]:
        rule = f"condition must be no longer than the axis, {data.shape[axis]}"
        node.refuse("condition", rule, value=condition.count, found=str(condition.count))
    places = np.flatnonzero(condition.values("condition"))
    return [take_blocks(node, data, Value.of(INT64, places), axis)]


def top_k(node: Node) -> list[Value]:
    """TopK from opset 10 on: how many are wanted must be known."""
    wanted = node.numbers(1, "K", may_be_scalar=True)
    if len(wanted) != 1:
        node.refuse("K", "K must be one number", value=wanted, found=str(wanted))
    largest = node.integer("largest", 1) if "largest" in node.rules.defaults else 1
    return _top(node, wanted[0], bool(largest))


def top_k_by_attribute(node: Node) -> list[Value]:
    """TopK before: how many are wanted is an attribute."""
    return _top(node, node.integer("k"), largest=True)


def _top(node: Node, count: int, largest: bool) -> list[Value]:
    data = node.input(0)
    axis = node.axis(node.integer("axis", -1), len(data.shape))
    if not 0 <= count <= data.shape[axis]:
        node.refuse("K", f"K must lie in 0 .. {data.shape[axis]}, the size of the axis", value=count, found=str(count))
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    if 0 in shape:
        return [Value(data.element, shape), Value(INT64, shape)]
    direction = AxisDirection.DECREASING if largest else AxisDirection.INCREASING
    place = element_of(DataType.UINT32)

    def part(number: int) -> Any:
        return lambda x, *more, **options: dml.top_k1(x, *more, **options)[number]

    values, places = (
        node.tracer.apply(part(number), [data], shape, axis, count, direction, element=element)
        for number, element in enumerate((data.element, place))
    )
    return [values, convert(node, places, INT64)]


def one_hot(node: Node) -> list[Value]:
    """OneHot: the depth must be known."""
    indices, values = convert(node, node.input(0), INT64), node.input(2)
    depth = node.numbers(1, "depth", may_be_scalar=True)
    if len(depth) != 1 or depth[0] < 1:
        node.refuse("depth", "depth must be a number of at least 1", value=depth, found=str(depth))
    if values.shape != (2,):
        node.refuse("values", "values must be 2 numbers, off and on", value=values.shape, found=str(values.shape))
    if not indices.shape:
        node.refuse("indices", "indices must have at least 1 dimension", value=(), found="()")
    axis = node.axis(node.integer("axis", -1), len(indices.shape) + 1)
    lead, rest = indices.shape[:axis], indices.shape[axis:]
    shape = (*lead, depth[0], *rest)
    tensors = [node.tracer.reshape(indices, (*lead, 1, *rest)), values]
    return [node.tracer.apply(dml.one_hot, tensors, shape, shape, axis, element=values.element)]
