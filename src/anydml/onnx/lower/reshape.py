"""Nodes that read no element: other shapes of the same memory, shapes themselves, and tensors made of numbers alone."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.errors import show
from anydml.onnx.element_types import FLOAT, INT32, INT64
from anydml.onnx.lower.values import Value, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode


# Shapes


def identity(node: BoundNode) -> list[Value]:
    """Identity."""
    return [node.input(0)]


def reshape_by_attribute(node: BoundNode) -> list[Value]:
    """Reshape of opset 1: the shape is an attribute."""
    shape = node.integers("shape") or []
    check_dimensions(len(shape), node.label, "shape")
    return [_reshape(node, shape, zero_is_zero=False)]


def reshape(node: BoundNode) -> list[Value]:
    """Reshape from opset 5 on: the shape is an input."""
    return [_reshape(node, node.sizes(1, "shape"), zero_is_zero=bool(node.integer("allowzero", 0)))]


def _reshape(node: BoundNode, wanted: Sequence[int], *, zero_is_zero: bool) -> Value:
    data = node.input(0)
    shape = list(wanted)
    if any(size < -1 for size in shape) or shape.count(-1) > 1 or (zero_is_zero and 0 in shape and -1 in shape):
        rule = "shape must have sizes of at least 0, and -1 once at most; with allowzero no 0 beside it"
        node.refuse("shape", rule, value=shape)
    for i, size in enumerate(shape):
        if size == 0 and not zero_is_zero:
            if i >= len(data.shape):
                node.refuse(f"shape[{i}]", f"shape[{i}] must not be 0: data has {len(data.shape)} dimensions")
            shape[i] = data.shape[i]
    if -1 in shape:
        others = math.prod(size for size in shape if size != -1)
        if others == 0:
            node.refuse("shape", "shape must not have -1 beside a size of 0, which any size would go with")
        shape[shape.index(-1)] = data.count // others
    if math.prod(shape) != data.count:
        rule = f"shape must have the {data.count} elements of data, {data.shape}"
        node.refuse("shape", rule, value=shape, found=show(list(wanted)))
    return node.tracer.reshape(data, tuple(shape))


def squeeze(node: BoundNode) -> list[Value]:
    """Squeeze: dimensions of size 1 left out; axes are an attribute, and an input from opset 13 on."""
    data = node.input(0)
    axes = _axes(node)
    if not axes:  # none at all are all of them, in ONNX Runtime too
        return [node.tracer.reshape(data, tuple(size for size in data.shape if size != 1))]
    out = set(node.axes(axes, len(data.shape)))
    for axis in out:
        if data.shape[axis] != 1:
            node.refuse("axes", f"dimension {axis} must be of size 1 to be left out", found=str(data.shape[axis]))
    return [node.tracer.reshape(data, tuple(size for k, size in enumerate(data.shape) if k not in out))]


def unsqueeze(node: BoundNode) -> list[Value]:
    """Unsqueeze: dimensions of size 1 put in; axes are an attribute, and an input from opset 13 on."""
    data = node.input(0)
    axes = _axes(node)
    if axes is None:
        node.refuse("axes", "axes must be given")
    rank = len(data.shape) + len(axes)
    check_dimensions(rank, node.label, "expanded")
    ones, sizes = set(node.axes(axes, rank)), iter(data.shape)
    return [node.tracer.reshape(data, tuple(1 if k in ones else next(sizes) for k in range(rank)))]


def _axes(node: BoundNode) -> list[int] | None:
    return node.integers("axes") if node.optional(1) is None else node.numbers(1, "axes", may_be_scalar=True)


def flatten(node: BoundNode) -> list[Value]:
    """Flatten: a matrix, cut at an axis."""
    data = node.input(0)
    rank, axis = len(data.shape), node.integer("axis", 1)
    if not -rank <= axis <= rank:
        node.refuse("axis", f"axis must lie in {-rank} .. {rank}", value=axis)
    axis = axis + rank if axis < 0 else axis
    return [node.tracer.reshape(data, (math.prod(data.shape[:axis]), math.prod(data.shape[axis:])))]


def shape(node: BoundNode) -> list[Value]:
    """Shape, from opset 15 on from a dimension to another."""
    sizes = node.input(0).shape
    rank = len(sizes)
    start, end = (_bound(node.integer(name, default), rank) for name, default in (("start", 0), ("end", rank)))
    return [Value.of(INT64, list(sizes[start:end]))]


def _bound(axis: int, rank: int) -> int:
    return min(max(axis + rank if axis < 0 else axis, 0), rank)


def size(node: BoundNode) -> list[Value]:
    """Size: the number of elements."""
    return [Value.of(INT64, node.input(0).count)]


# Constant, ConstantOfShape and Range


_MOST = 2**32
"""Elements, which is one more than a tensor may have."""


def constant(node: BoundNode) -> list[Value]:
    """Constant: one attribute of several kinds."""
    given = list(node.attributes)
    kind = given[0] if len(given) == 1 else ""
    if kind in _REFUSED:
        node.unsupported(kind, f"{kind}: DirectML has no {_REFUSED[kind]}")
    if kind not in _CONSTANTS:
        node.refuse("value", f"a Constant must have one attribute, of {', '.join(_CONSTANTS)}", value=given)
    return [_CONSTANTS[kind](node)]


def _tensor(node: BoundNode) -> Value:
    found = node.tensor("value")
    assert found is not None  # noqa: S101 - for type checkers: it is given
    return found


_CONSTANTS: dict[str, Callable[[BoundNode], Value]] = {
    "value": _tensor,
    "value_float": lambda node: Value.of(FLOAT, node.real("value_float")),
    "value_floats": lambda node: Value.of(FLOAT, node.reals("value_floats")),
    "value_int": lambda node: Value.of(INT64, node.integer("value_int")),
    "value_ints": lambda node: Value.of(INT64, node.integers("value_ints")),
}
_REFUSED = {"value_string": "STRING", "value_strings": "STRING", "sparse_value": "sparse tensors"}


def constant_of_shape(node: BoundNode) -> list[Value]:
    """ConstantOfShape: one number, 0.0 unless it is given, everywhere."""
    shape = node.sizes(0, "input")
    if any(size < 0 for size in shape):
        node.refuse("input", "input must have sizes of at least 0", value=shape)
    value = node.tensor("value")
    value = Value.of(FLOAT, [0.0]) if value is None else value
    if value.count != 1:
        node.refuse("value", "value must have one element", value=value.count)
    number = value.values("value").reshape(-1)[0].item()
    return [node.tracer.fill(dml.fill_value_constant, value.element, tuple(shape), number)]


def range_of(node: BoundNode) -> list[Value]:
    """Range: from a start up to a limit, a delta apart."""
    element = node.input(0).element
    if element in (INT32, INT64):
        return [_range_of_whole(node, element)]
    start, limit, delta = (_number(node, i, name) for i, name in enumerate(("start", "limit", "delta")))
    if not (delta and np.isfinite([start, limit, delta]).all()):
        found = ", ".join(str(one.item()) for one in (start, limit, delta))
        node.refuse("delta", "start, limit and delta must be finite, and delta not 0", found=found)
    if element.data_type.is_float:  # the way is of the type's own precision, the steps are not
        with np.errstate(over="ignore"):
            steps = float(element.held.type(limit - start)) / float(delta)
        count = math.ceil(steps) if math.isfinite(steps) else _MOST
    else:
        count = -((int(start) - int(limit)) // int(delta))
    counted = functools.partial(dml.fill_value_sequence, allow_float64=True)  # which ONNX has
    return [node.tracer.fill(counted, element, (max(count, 0),), start.item(), delta.item())]


def _range_of_whole(node: BoundNode, element: ElementType) -> Value:
    start, limit, delta = (_one(node, i, name).ints(name)[0] for i, name in enumerate(("start", "limit", "delta")))
    if not delta:
        node.refuse("delta", "delta must not be 0", found="0")
    count = -((start - limit) // delta)
    return node.tracer.fill(dml.fill_value_sequence, element, (max(count, 0),), start, delta)


def _number(node: BoundNode, index: int, name: str) -> Any:
    return _one(node, index, name).values(name).reshape(-1)[0]


def _one(node: BoundNode, index: int, name: str) -> Value:
    node.one_number(index, name)
    return node.input(index)
