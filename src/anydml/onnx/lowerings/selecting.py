"""ScatterElements, ScatterND, OneHot and TopK: places that are chosen. An index outside its dimension is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.enums import AxisDirection, DataType
from anydml.onnx.lowerings.gathering import check_indices
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.types import INT64, element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node


def scatter_elements(node: Node) -> list[Value]:
    """ScatterElements, and Scatter before it: single elements along an axis."""
    data, indices, updates = _scattered(node)
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    if len(indices.shape) != len(data.shape):
        node.refuse("indices", f"indices must have {len(data.shape)} dimensions, as data has", found=str(indices.shape))
    if updates.shape != indices.shape:
        node.refuse("updates", f"updates must have the shape of indices, {indices.shape}", found=str(updates.shape))
    sizes = [*indices.shape[:axis], data.shape[axis], *indices.shape[axis + 1 :]]
    if any(n > m for n, m in zip(sizes, data.shape, strict=True)):
        rule = f"indices must be no larger than data, {data.shape}, but along axis {axis}"
        node.refuse("indices", rule, value=indices.shape, found=str(indices.shape))
    check_indices(node, indices, [data.shape[axis]], axis)
    if not indices.count:
        return [data]
    if tuple(sizes) == data.shape:
        return [node.tracer.apply(dml.scatter, [data, indices, updates], data.shape, axis)]
    # A corner of the data alone is written to: it is cut out, and put back.
    corner = take(node, data, [0] * len(sizes), sizes, [1] * len(sizes))
    made = node.tracer.apply(dml.scatter, [corner, indices, updates], tuple(sizes), axis)
    ends = [whole - size for size, whole in zip(sizes, data.shape, strict=True)]
    padded = node.tracer.apply(dml.padding1, [made], data.shape, [0] * len(ends), ends)
    inside = Value.of(element_of(DataType.UINT8), np.pad(np.ones(sizes, np.uint8), [(0, end) for end in ends]))
    return [node.tracer.apply(dml.if_, [inside, padded, data], data.shape, element=data.element)]


def scatter_nd(node: Node) -> list[Value]:
    """ScatterND: elements or blocks at tuples of coordinates."""
    data, indices, updates = _scattered(node)
    ranks = (len(data.shape), len(indices.shape))
    if min(ranks) < 1:
        node.refuse("indices", "data and indices must have at least 1 dimension each")
    length = indices.shape[-1]
    if not 1 <= length <= ranks[0]:
        node.refuse("indices", f"indices must end in a size of 1 .. {ranks[0]}", found=str(length))
    shape = (*indices.shape[:-1], *data.shape[length:])
    if updates.shape != shape:
        rule = f"updates must be {shape}: the shape of indices without the last, then what no tuple indexes of data"
        node.refuse("updates", rule, value=updates.shape, found=str(updates.shape))
    check_indices(node, indices, data.shape[:length], 0)
    if not updates.count:
        return [data]
    return [node.tracer.apply(dml.scatter_nd, [data, indices, updates], data.shape)]


def _scattered(node: Node) -> tuple[Value, Value, Value]:
    reduction = node.text("reduction") if "reduction" in node.rules.defaults else "none"
    if reduction != "none":
        node.unsupported("reduction", f"reduction {reduction} is not supported: DirectML's scatters write over")
    return node.input(0), node.input(1), node.input(2)


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
    axis = node.axis(node.integer("axis", -1), len(indices.shape) + 1)
    lead, rest = indices.shape[:axis], indices.shape[axis:]
    shape = (*lead, depth[0], *rest)
    tensors = [node.tracer.reshape(indices, (*lead, 1, *rest)), values]
    return [node.tracer.apply(dml.one_hot, tensors, shape, shape, axis, element=values.element)]
