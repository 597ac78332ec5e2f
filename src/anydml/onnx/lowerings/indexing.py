"""Gather, GatherElements and GatherND: elements that indices point at. An index outside its dimension is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.enums import IndexMode
from anydml.errors import Fault, IndexRangeError
from anydml.onnx.lowerings.moving import spread
from anydml.onnx.lowerings.slicing import take
from anydml.opened import as_numbers
from anydml.tapes import tape_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def gather(node: Node) -> list[Value]:
    """Gather: blocks along an axis."""
    data, indices = node.input(0), node.input(1)
    return [take_blocks(node, data, indices, node.axis(node.integer("axis", 0), len(data.shape)))]


def take_blocks(node: Node, data: Value, indices: Value, axis: int) -> Value:
    """The blocks along an axis that indices point at."""
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    mode = check_indices(node, indices, [data.shape[axis]], axis)
    return node.tracer.apply(dml.gather, [data, indices], shape, axis, mode)


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
    mode = check_indices(node, indices, [data.shape[axis]], axis)
    if tuple(sizes) != data.shape:
        data = take(node, data, [0] * len(sizes), sizes, [1] * len(sizes))
    return [node.tracer.apply(dml.gather_elements, [data, indices], indices.shape, axis, mode)]


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
    if length > ranks[0] - batch:
        node.refuse("indices", f"indices must end in a size of at most {ranks[0] - batch}", found=str(length))
    shape = (*indices.shape[:-1], *data.shape[batch + length :])
    if not length:  # a tuple of no coordinates is the place of all the data
        column = (*data.shape[:batch], *(1,) * (ranks[1] - 1 - batch), *data.shape[batch:])
        return [spread(node, node.tracer.reshape(data, column), shape)]
    mode = check_indices(node, indices, data.shape[batch : batch + length], batch)
    return [node.tracer.apply(dml.gather_nd, [data, indices], shape, batch, mode)]


def check_indices(node: Node, indices: Value, sizes: Sequence[int], first: int) -> IndexMode:
    """Check indices that are known, of dimensions from the first on; gives how the others are to be met with.

    What was checked here need not be checked again at every run.
    """
    if indices.count and 0 in sizes:
        rule = f"indices must be empty, as dimension {first + list(sizes).index(0)} of data has size 0"
        raise IndexRangeError(node.label, Fault(field="indices", rule=rule))
    if indices.known is None or not indices.count:
        return IndexMode.RAISE
    tape = tape_on()
    if indices.known.is_open and tape is not None and tape.expect(lambda: _are_inside(indices, sizes)):
        return IndexMode.CLAMP
    tuples = indices.known.flat().reshape(-1, len(sizes))
    outside = (tuples < np.negative(sizes)) | (tuples >= sizes)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        found, size = int(tuples[row, column]), sizes[column]
        where = [int(i) for i in np.unravel_index(row * len(sizes) + column, indices.shape)]
        rule = f"indices{where} = {found} is outside dimension {first + column} of size {size}"
        fault = Fault(field="indices", rule=rule, value=found, way_out=f"take {-size} .. {size - 1}")
        raise IndexRangeError(node.label, fault)
    return IndexMode.CLAMP


def _are_inside(indices: Value, sizes: Sequence[int]) -> bool:
    tuples, most = indices.values("indices").reshape(-1, len(sizes)), np.array(as_numbers(list(sizes)))
    return bool(((tuples >= -most) & (tuples < most)).all())
