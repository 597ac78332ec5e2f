"""Gather, GatherElements and GatherND: elements that indices point at. An index outside its dimension is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.errors import Fault, IndexRangeError
from anydml.onnx.lowerings.slicing import take

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def gather(node: Node) -> list[Value]:
    """Gather: blocks along an axis."""
    data, indices = node.input(0), node.input(1)
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if indices.count:
        _check_not_empty(node, axis, data.shape[axis])
    return [node.tracer.apply(dml.gather, [data, indices], shape, axis)]


def gather_elements(node: Node) -> list[Value]:
    """GatherElements: single elements along an axis."""
    data, indices = node.input(0), node.input(1)
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    if len(indices.shape) != len(data.shape):
        node.refuse("indices", f"indices must have {len(data.shape)} dimensions, as data has", found=str(indices.shape))
    sizes = list(indices.shape)
    sizes[axis] = data.shape[axis]
    if any(n > m for n, m in zip(sizes, data.shape, strict=True)):
        rule = f"indices must be no larger than data, {data.shape}, but along axis {axis}"
        node.refuse("indices", rule, value=indices.shape, found=str(indices.shape))
    if indices.count:
        _check_not_empty(node, axis, data.shape[axis])
    if tuple(sizes) != data.shape:
        data = take(node, data, [0] * len(sizes), sizes, [1] * len(sizes))
    return [node.tracer.apply(dml.gather_elements, [data, indices], indices.shape, axis)]


def gather_nd(node: Node) -> list[Value]:
    """GatherND: elements or blocks at tuples of coordinates, batch by batch."""
    data, indices = node.input(0), node.input(1)
    batch, ranks = node.integer("batch_dims", 0), (len(data.shape), len(indices.shape))
    if min(ranks) < 1:
        node.refuse("indices", "data and indices must have at least 1 dimension each")
    if not 0 <= batch < min(ranks):
        node.refuse("batch_dims", f"batch_dims must lie in 0 .. {min(ranks) - 1}", value=batch, found=str(batch))
    if data.shape[:batch] != indices.shape[:batch]:
        rule = f"the first {batch} dimensions of data and indices must be the same"
        node.refuse("batch_dims", rule, found=f"{data.shape} and {indices.shape}")
    length = indices.shape[-1]
    if not 1 <= length <= ranks[0] - batch:
        node.refuse("indices", f"indices must end in a size of 1 .. {ranks[0] - batch}", found=str(length))
    shape = (*indices.shape[:-1], *data.shape[batch + length :])
    if indices.count:
        for axis in range(batch, batch + length):
            _check_not_empty(node, axis, data.shape[axis])
    return [node.tracer.apply(dml.gather_nd, [data, indices], shape, batch)]


def _check_not_empty(node: Node, axis: int, size: int) -> None:
    """No index lies in a dimension of size 0."""
    if size == 0:
        rule = f"indices must be empty, as dimension {axis} of data has size 0"
        raise IndexRangeError(node.label, Fault(field="indices", rule=rule))
