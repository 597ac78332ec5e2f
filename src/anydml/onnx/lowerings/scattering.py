"""ScatterElements and ScatterND: elements that go where indices say. An index outside its dimension is an error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.enums import DataType, IndexMode, ReduceFunction
from anydml.memory import packed_strides
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.indexing import check_indices
from anydml.onnx.lowerings.moving import retyped, spread
from anydml.onnx.lowerings.running import within
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.types import BOOL, INT64, UINT64, element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.lowerings.fused import Maker
    from anydml.onnx.nodes import Node

_UINT32 = element_of(DataType.UINT32)


class _Reduction(NamedTuple):
    fold: ReduceFunction
    pair: Callable[..., Any]
    nothing: float
    """The neutral element; a type's own end stands for an infinity that it lacks."""


_REDUCTIONS = {
    "add": _Reduction(ReduceFunction.SUM, dml.add, 0),
    "mul": _Reduction(ReduceFunction.MULTIPLY, dml.multiply, 1),
    "max": _Reduction(ReduceFunction.MAX, dml.max, -math.inf),
    "min": _Reduction(ReduceFunction.MIN, dml.min, math.inf),
}


def scatter_elements(node: Node) -> list[Value]:
    """ScatterElements, and Scatter before it: single elements along an axis."""
    data, indices, updates = (node.input(i) for i in range(3))
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    if len(indices.shape) != len(data.shape):
        node.refuse("indices", f"indices must have {len(data.shape)} dimensions, as data has", found=str(indices.shape))
    if updates.shape != indices.shape:
        node.refuse("updates", f"updates must have the shape of indices, {indices.shape}", found=str(updates.shape))
    sizes = (*indices.shape[:axis], data.shape[axis], *indices.shape[axis + 1 :])
    if any(n > m for n, m in zip(sizes, data.shape, strict=True)):
        rule = f"indices must be no larger than data, {data.shape}, but along axis {axis}"
        node.refuse("indices", rule, value=indices.shape, found=str(indices.shape))
    mode = check_indices(node, indices, [data.shape[axis]], axis)
    reduction = _reduction(node)
    if not indices.count:
        return [data]
    # Where a corner of the data alone is written to, it is cut out, and put back.
    corner = data if sizes == data.shape else take(node, data, [0] * len(sizes), list(sizes), [1] * len(sizes))
    if reduction is None:
        made = node.tracer.apply(dml.scatter, [corner, indices, updates], sizes, axis)
    else:
        numbers = Value.of(_UINT32, np.arange(sizes[axis]))
        places = node.tracer.apply(dml.gather, [numbers, indices], indices.shape, 0, mode)
        rows = [_axis_last(node, value, axis) for value in (corner, places, updates)]
        folded = _folded(node, reduction, *rows)
        rest = (*sizes[:axis], *sizes[axis + 1 :])
        strides = list(packed_strides((*rest, sizes[axis])))
        made = node.tracer.restride(folded, sizes, (*strides[:axis], strides[-1], *strides[axis:-1]))
    if sizes == data.shape:
        return [made]
    ends = [whole - size for size, whole in zip(sizes, data.shape, strict=True)]
    padded = node.tracer.apply(dml.padding1, [made], data.shape, [0] * len(ends), ends)
    inside = Value.of(element_of(DataType.UINT8), np.pad(np.ones(sizes, np.uint8), [(0, end) for end in ends]))
    return [node.tracer.apply(dml.if_, [inside, padded, data], data.shape, element=data.element)]


def scatter_nd(node: Node) -> list[Value]:
    """ScatterND: elements or blocks at tuples of coordinates."""
    data, indices, updates = (node.input(i) for i in range(3))
    ranks = (len(data.shape), len(indices.shape))
    if min(ranks) < 1:
        node.refuse("indices", "data and indices must have at least 1 dimension each")
    length = indices.shape[-1]
    if length > ranks[0]:
        node.refuse("indices", f"indices must end in a size of at most {ranks[0]}", found=str(length))
    shape = (*indices.shape[:-1], *data.shape[length:])
    if updates.shape != shape:
        rule = f"updates must be {shape}: the shape of indices without the last, then what no tuple indexes of data"
        node.refuse("updates", rule, value=updates.shape, found=str(updates.shape))
    mode = check_indices(node, indices, data.shape[:length], 0) if length else IndexMode.CLAMP
    reduction, own = _reduction(node), data.shape
    if not updates.count:
        return [data]
    if not length:  # a tuple of no coordinates is the place of all the data: the first of one
        data, length = node.tracer.reshape(data, (1, *own)), 1
        indices = spread(node, Value.of(INT64, [0]), (*indices.shape[:-1], 1))
    if reduction is None:
        found = node.tracer.apply(dml.scatter_nd, [data, indices, updates], data.shape)
        return [node.tracer.reshape(found, own)]
    whole, block, tuples = (math.prod(part) for part in (data.shape[:length], data.shape[length:], indices.shape[:-1]))
    numbers = Value.of(_UINT32, np.arange(whole).reshape(data.shape[:length]))
    places = node.tracer.apply(dml.gather_nd, [numbers, indices], indices.shape[:-1], 0, mode)
    flat = [node.tracer.reshape(value, (n, block)) for value, n in ((data, whole), (updates, tuples))]
    rows = [_axis_last(node, value, 0) for value in flat]
    folded = _folded(node, reduction, rows[0], node.tracer.reshape(places, (1, tuples)), rows[1])
    found = node.tracer.restride(folded, (whole, block), (1, whole))
    return [node.tracer.reshape(found, own)]


def _reduction(node: Node) -> _Reduction | None:
    """The reduction of an element and its updates; None where the last of them stays, as in DirectML."""
    name = node.text("reduction") if "reduction" in node.rules.defaults else "none"
    if name != "none" and name not in _REDUCTIONS:
        node.refuse("reduction", f"reduction must be none, {', '.join(_REDUCTIONS)}", found=repr(name))
    return _REDUCTIONS.get(name)


def _axis_last(node: Node, value: Value, axis: int) -> Value:
    """Its rows along an axis, one below the other."""
    shape, strides = value.shape, packed_strides(value.shape)
    order = [*(k for k in range(len(shape)) if k != axis), axis]
    moved = node.tracer.restride(value, tuple(shape[k] for k in order), tuple(strides[k] for k in order))
    return node.tracer.reshape(moved, (value.count // shape[axis], shape[axis]))


def _folded(node: Node, reduction: _Reduction, data: Value, places: Value, updates: Value) -> Value:
    """Rows of data, each element with the updates that are for its place: all of them are looked at for each."""
    (rows, size), count = data.shape, updates.shape[1]
    low, high = (-math.inf, math.inf) if data.element.data_type.is_float else data.element.limits
    nothing = Value.of(data.element, min(max(reduction.nothing, low), high))
    where = node.tracer.reshape(places, (places.shape[0], 1, count))
    numbers = Value.of(_UINT32, np.arange(size).reshape(1, size, 1))
    here = compute(node, dml.logical_equals, where, numbers, element=BOOL)
    new = compute(node, dml.if_, here, node.tracer.reshape(updates, (rows, 1, count)), nothing, element=data.element)
    folded = node.tracer.apply(dml.reduce, [new], (rows, size, 1), reduction.fold, -1)
    return compute(node, reduction.pair, data, node.tracer.reshape(folded, (rows, size)))


def tensor_scatter(node: Node, make: Maker) -> list[Value]:
    """TensorScatter: new keys or values put into a cache, in each batch from a place on, or around its end."""
    cache, update, starts = node.input(0), node.input(1), node.optional(2)
    rank, mode = len(cache.shape), node.text("mode")
    axis = node.axis(node.integer("axis"), rank)
    if axis == 0 or len(update.shape) != rank or mode not in ("linear", "circular"):
        rule = "axis must not be the batch's, update must have past_cache's dimensions, and mode be linear or circular"
        node.refuse("axis", rule, value=(axis, mode), found=f"{axis}, {update.shape}, {mode!r}")
    least = tuple(min(n, m) if k == axis else m for k, (n, m) in enumerate(zip(update.shape, cache.shape, strict=True)))
    if update.shape != least:
        rule = f"update must have past_cache's sizes, {cache.shape}, and no more along axis {axis}"
        node.refuse("update", rule, value=update.shape, found=str(update.shape))
    steps = Value.of(INT64, np.arange(update.shape[axis]).reshape(-1, *(1,) * (rank - axis - 1)))
    places = steps
    if starts is not None:
        if starts.shape != cache.shape[:1]:
            rule = f"write_indices must have the shape {cache.shape[:1]}, one for each batch"
            node.refuse("write_indices", rule, value=starts.shape, found=str(starts.shape))
        starts = _starts(node, make, starts, None if mode == "circular" else cache.shape[axis] - update.shape[axis])
        places = make("Add", node.tracer.reshape(starts, (*starts.shape, *(1,) * (rank - 1))), steps)
    if mode == "circular":
        places = make("Mod", places, Value.of(INT64, cache.shape[axis]))
    return [make("ScatterElements", cache, spread(node, places, update.shape), update, axis=axis)]


def _starts(node: Node, make: Maker, starts: Value, most: int | None) -> Value:
    """Places to write from, checked: from 0 on, and up to where an update still fits, unless it goes around the end."""
    field, none = "write_indices", Value.of(INT64, 0)
    if most is not None:
        return retyped(node, within(node, starts, most, UINT64, field), INT64)
    below = within(node, make("Min", starts, none), 0, UINT64, field, "what of write_indices is below 0")
    return make("Add", starts, retyped(node, below, INT64))
