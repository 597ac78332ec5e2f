"""Constant, ConstantOfShape and Range: tensors made of numbers alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.onnx.types import FLOAT, INT64
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node


def constant(node: Node) -> list[Value]:
    """Constant: one attribute of several kinds."""
    given = [attribute.name for attribute in node.proto.attribute]
    if len(given) != 1:
        node.refuse("value", "a Constant must have one attribute", found=str(len(given)))
    match given[0]:
        case "value":
            found = node.tensor("value")
            assert found is not None  # noqa: S101 - for type checkers: it is given
            return [found]
        case "value_float":
            return [Value.known(FLOAT, node.real("value_float"))]
        case "value_floats":
            return [Value.known(FLOAT, node.reals("value_floats"))]
        case "value_int":
            return [Value.known(INT64, node.integer("value_int"))]
        case "value_ints":
            return [Value.known(INT64, node.integers("value_ints"))]
        case "value_string" | "value_strings":
            node.unsupported(given[0], f"{given[0]}: DirectML has no STRING")
        case "sparse_value":
            node.unsupported(given[0], "sparse_value: DirectML has no sparse tensors")
        case other:
            node.refuse(other, f"a Constant has no attribute {other!r}")


def constant_of_shape(node: Node) -> list[Value]:
    """ConstantOfShape: one number, 0.0 unless it is given, everywhere."""
    shape = node.input(0).ints("input")
    if any(size < 0 for size in shape):
        node.refuse("input", "input must have sizes of at least 0", value=shape, found=str(shape))
    value = node.tensor("value")
    value = Value.known(FLOAT, [0.0]) if value is None else value
    if value.count != 1:
        node.refuse("value", "value must have one element", found=str(value.count))
    number = value.values("value").reshape(-1)[0].item()
    return [node.tracer.fill(dml.fill_value_constant, value.element, tuple(shape), number)]


def range_of(node: Node) -> list[Value]:
    """Range: from a start up to a limit, a delta apart."""
    element = node.input(0).element
    start, limit, delta = (_number(node, i, name) for i, name in enumerate(("start", "limit", "delta")))
    if not (delta and all(map(math.isfinite, (start, limit, delta)))):
        node.refuse("delta", "start, limit and delta must be finite, and delta not 0", value=delta, found=str(delta))
    # Whole numbers exactly; others as the number of steps in the type's own arithmetic.
    steps = -(-(limit - start) // delta) if isinstance(start, int) else math.ceil((limit - start) / delta)
    return [node.tracer.fill(dml.fill_value_sequence, element, (max(int(steps), 0),), start, delta)]


def _number(node: Node, index: int, name: str) -> Any:
    value = node.input(index)
    if value.count != 1:
        node.refuse(name, f"{name} must be one number", found=str(value.shape))
    number: Any = value.values(name).reshape(-1)[0]
    return number.item() if isinstance(number, np.generic) else number
