"""Constant, ConstantOfShape and Range: tensors made of numbers alone."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.errors import show
from anydml.onnx.types import FLOAT, INT32, INT64
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType

_MOST = 2**32
"""Elements, which is one more than a tensor may have."""


def constant(node: Node) -> list[Value]:
    """Constant: one attribute of several kinds."""
    given = [attribute.name for attribute in node.proto.attribute]
    kind = given[0] if len(given) == 1 else ""
    if kind in _REFUSED:
        node.unsupported(kind, f"{kind}: DirectML has no {_REFUSED[kind]}")
    if kind not in _CONSTANTS:
        node.refuse("value", f"a Constant must have one attribute, of {', '.join(_CONSTANTS)}", found=show(given))
    return [_CONSTANTS[kind](node)]


def _tensor(node: Node) -> Value:
    found = node.tensor("value")
    assert found is not None  # noqa: S101 - for type checkers: it is given
    return found


_CONSTANTS: dict[str, Callable[[Node], Value]] = {
    "value": _tensor,
    "value_float": lambda node: Value.of(FLOAT, node.real("value_float")),
    "value_floats": lambda node: Value.of(FLOAT, node.reals("value_floats")),
    "value_int": lambda node: Value.of(INT64, node.integer("value_int")),
    "value_ints": lambda node: Value.of(INT64, node.integers("value_ints")),
}
_REFUSED = {"value_string": "STRING", "value_strings": "STRING", "sparse_value": "sparse tensors"}


def constant_of_shape(node: Node) -> list[Value]:
    """ConstantOfShape: one number, 0.0 unless it is given, everywhere."""
    shape = node.sizes(0, "input")
    if any(size < 0 for size in shape):
        node.refuse("input", "input must have sizes of at least 0", value=shape, found=str(shape))
    value = node.tensor("value")
    value = Value.of(FLOAT, [0.0]) if value is None else value
    if value.count != 1:
        node.refuse("value", "value must have one element", found=str(value.count))
    number = value.values("value").reshape(-1)[0].item()
    return [node.tracer.fill(dml.fill_value_constant, value.element, tuple(shape), number)]


def range_of(node: Node) -> list[Value]:
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


def _range_of_whole(node: Node, element: ElementType) -> Value:
    start, limit, delta = (_one(node, i, name).ints(name)[0] for i, name in enumerate(("start", "limit", "delta")))
    if not delta:
        node.refuse("delta", "delta must not be 0", found="0")
    count = -((start - limit) // delta)
    return node.tracer.fill(dml.fill_value_sequence, element, (max(count, 0),), start, delta)


def _number(node: Node, index: int, name: str) -> Any:
    return _one(node, index, name).values(name).reshape(-1)[0]


def _one(node: Node, index: int, name: str) -> Value:
    value = node.input(index)
    if value.count != 1:
        node.refuse(name, f"{name} must be one number", found=str(value.shape))
    return value
