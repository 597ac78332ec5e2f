"""Nodes on shapes whose sizes are open: a few whole numbers, one by one."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.types import BOOL, INT32, INT64
from anydml.onnx.values import Known, Value
from anydml.opened import OpenSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node

    Array = np.ndarray[Any, Any]

_MOST = 64
"""Elements of a tensor that are computed one by one."""
_WHOLE = (INT32, INT64)


def compute_sizes(node: Node, inputs: Sequence[Value | None]) -> list[Value | None] | None:
    """The results of a node for open sizes; None where that is another's task, or no list of sizes."""
    compute, given = _COMPUTED.get(node.kind), [one for one in inputs if one is not None]
    opened = [one for one in given if one.known is not None and one.known.opened is not None]
    if compute is None or not opened or len(given) < len(inputs):
        return None
    arrays, element = [_array(one) for one in given], opened[0].element
    made = None if any(array is None for array in arrays) else compute(node, *arrays)
    if made is None:
        return None
    made = np.asarray(made)
    if made.dtype == bool:
        return [Value.of(BOOL, made)]
    if not any(type(one) is OpenSize for one in made.flat):
        return [Value.of(element, made.astype(np.int64))]
    return [Value(element, made.shape, Known(made.reshape(-1)))]


def _array(value: Value) -> Array | None:
    """A few whole numbers or truths that are known."""
    known = value.known
    if known is None or value.element not in (*_WHOLE, BOOL):
        return None
    if known.opened is not None:
        return known.opened.reshape(value.shape)
    if known.is_open or value.count > _MOST:
        return None
    found = known.flat().reshape(value.shape)
    return found.astype(bool) if value.element == BOOL else np.array(found.tolist(), object).reshape(value.shape)


def _plain(array: Array) -> list[int] | None:
    """Whole numbers that none is open of."""
    return None if any(type(one) is OpenSize for one in array.flat) else [int(one) for one in array.flat]


def _gather(node: Node, data: Array, indices: Array) -> Array | None:
    plain, rank = _plain(indices), data.ndim
    if plain is None or not rank:
        return None
    axis = node.axis(node.integer("axis", 0), rank)
    if not all(-data.shape[axis] <= index < data.shape[axis] for index in plain):
        return None
    return np.take(data, np.array(plain, np.int64).reshape(indices.shape), axis)


def _slice(_node: Node, data: Array, *bounds: Array) -> Array | None:
    plain = [_plain(one) for one in bounds]
    if len(plain) < 2 or any(one is None for one in plain):
        return None
    starts, ends, *more = (one or [] for one in plain)
    axes = more[0] if more else list(range(len(starts)))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    taken = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            return None
        taken[axis] = slice(start, end, step)
    return data[tuple(taken)]


def _concat(node: Node, *parts: Array) -> Array | None:
    return np.concatenate(parts, node.axis(node.integer("axis"), parts[0].ndim)) if parts[0].ndim else None


def _cast(node: Node, data: Array) -> Array | None:
    return data if node.integer("to") in (6, 7) and node.input(0).element in _WHOLE else None


def _each(compute: Callable[..., Any]) -> Callable[..., Array | None]:
    def computed(_node: Node, *arrays: Array) -> Array | None:
        whole = np.broadcast_arrays(*arrays)
        made = [compute(*several) for several in zip(*(one.flat for one in whole), strict=True)]
        if any(one is None for one in made):
            return None
        found = np.empty(len(made), bool if made and type(made[0]) is bool else object)
        found[:] = made
        return found.reshape(whole[0].shape)

    return computed


def _quotient(a: Any, b: Any) -> Any:
    return a // b if a >= 0 and b > 0 else None


def _remainder(a: Any, b: Any) -> Any:
    return a % b if a >= 0 and b > 0 else None


def _where(is_first: Any, a: Any, b: Any) -> Any:
    return a if is_first else b


def _product(node: Node, data: Array, *axes: Array) -> Array | None:
    if axes or node.has("axes") or data.ndim != 1:
        return None
    made = np.empty((1,) if node.integer("keepdims", 1) else (), object)
    made[...] = math.prod(data)
    return made


_COMPUTED: dict[str, Callable[..., Any]] = {
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Cast": _cast,
    "Add": _each(operator.add),
    "Sub": _each(operator.sub),
    "Mul": _each(operator.mul),
    "Div": _each(_quotient),
    "Mod": _each(_remainder),
    "Min": _each(min),
    "Max": _each(max),
    "Equal": _each(operator.eq),
    "Less": _each(operator.lt),
    "LessOrEqual": _each(operator.le),
    "Greater": _each(operator.gt),
    "GreaterOrEqual": _each(operator.ge),
    "Where": _each(_where),
    "ReduceProd": _product,
}
