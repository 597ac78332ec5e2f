"""Nodes that pick by indices, or indices by what elements are: gathers, scatters, NonZero, Compress, OneHot and TopK.

An index outside its dimension is an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.core.enums import AxisDirection, DataType, IndexMode, ReduceFunction
from anydml.core.errors import Fault, IndexRangeError
from anydml.core.guards import tape_on
from anydml.core.memory import packed_strides
from anydml.core.symbolic_sizes import as_numbers
from anydml.onnx.element_types import INT64, UINT64, element_of
from anydml.onnx.lower.cumulative import within
from anydml.onnx.lower.data_movement import convert, retyped, spread
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.fused_nodes import Maker


# Gather, GatherElements and GatherND: elements that indices point at


def gather(node: BoundNode) -> list[Value]:
    """Gather: blocks along an axis."""
    data, indices = node.input(0), node.input(1)
    return [take_blocks(node, data, indices, node.axis(node.integer("axis", 0), len(data.shape)))]


def take_blocks(node: BoundNode, data: Value, indices: Value, axis: int) -> Value:
    """The blocks along an axis that indices point at."""
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    mode = check_indices(node, indices, [data.shape[axis]], axis)
    return node.tracer.apply(dml.gather, [data, indices], shape, axis, mode)


def gather_elements(node: BoundNode) -> list[Value]:
    """GatherElements: single elements along an axis."""
    data, indices = node.input(0), node.input(1)
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    node.check_rank("indices", indices, len(data.shape), why=", as data has")
    sizes = list(indices.shape)
    sizes[axis] = data.shape[axis]
    if any(n > m for n, m in zip(sizes, data.shape, strict=True)):
        rule = f"indices must be no larger than data, {data.shape}, except along axis {axis}"
        node.refuse("indices", rule, value=indices.shape)
    mode = check_indices(node, indices, [data.shape[axis]], axis)
    if tuple(sizes) != data.shape:
        data = take(node, data, [0] * len(sizes), sizes, [1] * len(sizes))
    return [node.tracer.apply(dml.gather_elements, [data, indices], indices.shape, axis, mode)]


def gather_nd(node: BoundNode) -> list[Value]:
    """GatherND: elements or blocks at tuples of coordinates, batch by batch."""
    data, indices = node.input(0), node.input(1)
    batch, ranks = node.integer("batch_dims", 0), (len(data.shape), len(indices.shape))
    if min(ranks) < 1:
        node.refuse("indices", "data and indices must have at least 1 dimension each")
    if not 0 <= batch < min(ranks):
        node.refuse("batch_dims", f"batch_dims must lie in 0 .. {min(ranks) - 1}", value=batch)
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


def check_indices(node: BoundNode, indices: Value, sizes: Sequence[int], first: int) -> IndexMode:
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


# ScatterElements and ScatterND: elements that go where indices say


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


def scatter_elements(node: BoundNode) -> list[Value]:
    """ScatterElements, and Scatter before it: single elements along an axis."""
    data, indices, updates = (node.input(i) for i in range(3))
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    node.check_rank("indices", indices, len(data.shape), why=", as data has")
    node.check_shape("updates", updates, indices.shape, why=", that of indices")
    sizes = (*indices.shape[:axis], data.shape[axis], *indices.shape[axis + 1 :])
    if any(n > m for n, m in zip(sizes, data.shape, strict=True)):
        rule = f"indices must be no larger than data, {data.shape}, except along axis {axis}"
        node.refuse("indices", rule, value=indices.shape)
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


def scatter_nd(node: BoundNode) -> list[Value]:
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
        node.refuse("updates", rule, value=updates.shape)
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


def _reduction(node: BoundNode) -> _Reduction | None:
    """The reduction of an element and its updates; None where the last of them stays, as in DirectML."""
    name = node.text("reduction") if "reduction" in node.rules.defaults else "none"
    if name != "none" and name not in _REDUCTIONS:
        node.refuse("reduction", f"reduction must be none, {', '.join(_REDUCTIONS)}", found=repr(name))
    return _REDUCTIONS.get(name)


def _axis_last(node: BoundNode, value: Value, axis: int) -> Value:
    """Its rows along an axis, one below the other."""
    shape, strides = value.shape, packed_strides(value.shape)
    order = [*(k for k in range(len(shape)) if k != axis), axis]
    moved = node.tracer.restride(value, tuple(shape[k] for k in order), tuple(strides[k] for k in order))
    return node.tracer.reshape(moved, (value.count // shape[axis], shape[axis]))


def _folded(node: BoundNode, reduction: _Reduction, data: Value, places: Value, updates: Value) -> Value:
    """Rows of data, each element with the updates that are for its place: all of them are looked at for each."""
    (rows, size), count = data.shape, updates.shape[1]
    low, high = (-math.inf, math.inf) if data.element.data_type.is_float else data.element.limits
    nothing = Value.of(data.element, min(max(reduction.nothing, low), high))
    where = node.tracer.reshape(places, (places.shape[0], 1, count))
    numbers = Value.of(_UINT32, np.arange(size).reshape(1, size, 1))
    here = compute(node, dml.logical_equals, where, numbers)
    new = compute(node, dml.if_, here, node.tracer.reshape(updates, (rows, 1, count)), nothing, element=data.element)
    folded = node.tracer.apply(dml.reduce, [new], (rows, size, 1), reduction.fold, -1)
    return compute(node, reduction.pair, data, node.tracer.reshape(folded, (rows, size)))


def tensor_scatter(node: BoundNode, make: Maker) -> list[Value]:
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
        node.refuse("update", rule, value=update.shape)
    steps = Value.of(INT64, np.arange(update.shape[axis]).reshape(-1, *(1,) * (rank - axis - 1)))
    places = steps
    if starts is not None:
        node.check_shape("write_indices", starts, cache.shape[:1], why=", one for each batch")
        starts = _starts(node, make, starts, None if mode == "circular" else cache.shape[axis] - update.shape[axis])
        places = make("Add", node.tracer.reshape(starts, (*starts.shape, *(1,) * (rank - 1))), steps)
    if mode == "circular":
        places = make("Mod", places, Value.of(INT64, cache.shape[axis]))
    return [make("ScatterElements", cache, spread(node, places, update.shape), update, axis=axis)]


def _starts(node: BoundNode, make: Maker, starts: Value, most: int | None) -> Value:
    """Places to write from, checked: from 0 on, and up to where an update still fits, unless it goes around the end."""
    field, none = "write_indices", Value.of(INT64, 0)
    if most is not None:
        return retyped(node, within(node, starts, most, UINT64, field), INT64)
    below = within(node, make("Min", starts, none), 0, UINT64, field, "what of write_indices is below 0")
    return make("Add", starts, retyped(node, below, INT64))


# NonZero, Compress, OneHot and TopK: places that are chosen


def nonzero(node: BoundNode) -> list[Value]:
    """NonZero: how many coordinates there are depends on the elements, which must be known."""
    data = node.input(0)
    return [Value.of(INT64, np.array(np.nonzero(np.atleast_1d(data.values("X")))))]


def compress(node: BoundNode) -> list[Value]:
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
        node.refuse("condition", rule, value=condition.count)
    places = np.flatnonzero(condition.values("condition"))
    return [take_blocks(node, data, Value.of(INT64, places), axis)]


def top_k(node: BoundNode) -> list[Value]:
    """TopK from opset 10 on: how many are wanted must be known."""
    wanted = node.numbers(1, "K", may_be_scalar=True)
    if len(wanted) != 1:
        node.refuse("K", "K must be one number", value=wanted)
    largest = node.integer("largest", 1) if "largest" in node.rules.defaults else 1
    return _top(node, wanted[0], bool(largest))


def top_k_by_attribute(node: BoundNode) -> list[Value]:
    """TopK before: how many are wanted is an attribute."""
    return _top(node, node.integer("k"), largest=True)


def _top(node: BoundNode, count: int, largest: bool) -> list[Value]:
    data = node.input(0)
    axis = node.axis(node.integer("axis", -1), len(data.shape))
    if not 0 <= count <= data.shape[axis]:
        node.refuse("K", f"K must lie in 0 .. {data.shape[axis]}, the size of the axis", value=count)
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


def one_hot(node: BoundNode) -> list[Value]:
    """OneHot: the depth must be known."""
    indices, values = convert(node, node.input(0), INT64), node.input(2)
    depth = node.numbers(1, "depth", may_be_scalar=True)
    if len(depth) != 1 or depth[0] < 1:
        node.refuse("depth", "depth must be a number of at least 1", value=depth)
    if values.shape != (2,):
        node.refuse("values", "values must be 2 numbers, off and on", value=values.shape)
    if not indices.shape:
        node.refuse("indices", "indices must have at least 1 dimension", value=(), found="()")
    axis = node.axis(node.integer("axis", -1), len(indices.shape) + 1)
    lead, rest = indices.shape[:axis], indices.shape[axis:]
    shape = (*lead, depth[0], *rest)
    tensors = [node.tracer.reshape(indices, (*lead, 1, *rest)), values]
    return [node.tracer.apply(dml.one_hot, tensors, shape, shape, axis, element=values.element)]
