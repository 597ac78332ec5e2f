"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.enums import DataType, RoundingMode
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert, spread
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.types import FLOAT, element_of, read_element_type
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node

UINT8 = element_of(DataType.UINT8)

_TAKEN = ("INT8", "UINT8")
"""What ELEMENT_WISE_QUANTIZE_LINEAR gives."""


def quantize(node: Node) -> list[Value]:
    """QuantizeLinear: round(x/scale) + zero point, halves to even, within the type's range."""
    x, zero = node.input(0), node.optional(2)
    element = zero.element if zero is not None else UINT8
    if zero is None and "output_dtype" in node.rules.attributes and node.integer("output_dtype", 0):
        element = read_element_type(node.integer("output_dtype"), node.label, "output_dtype")
    scale = _spread(node, node.input(1), x, "y_scale")
    point = _spread(node, zero, x, "y_zero_point") if zero is not None else Value.of(element, 0)
    if element.name in _TAKEN:
        scale = convert(node, scale, x.element) if scale.element != x.element else scale
        return [compute(node, dml.quantize_linear, x, scale, point, element=element)]
    limits = np.iinfo(element.held)
    quotient = compute(node, dml.divide, convert(node, x, FLOAT), convert(node, scale, FLOAT))
    whole = compute(node, dml.round, quotient, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)
    moved = compute(node, dml.add, whole, convert(node, point, FLOAT))
    return [convert(node, compute(node, dml.clip, moved, min=float(limits.min), max=float(limits.max)), element)]


def dequantize(node: Node) -> list[Value]:
    """DequantizeLinear: (x - zero point)·scale, of the scale's type."""
    x, zero = node.input(0), node.optional(2)
    scale = _spread(node, node.input(1), x, "x_scale")
    point = _spread(node, zero, x, "x_zero_point") if zero is not None else Value.of(x.element, 0)
    found = compute(node, dml.dequantize_linear, x, scale, point, element=scale.element)
    if "output_dtype" in node.rules.attributes and node.integer("output_dtype", 0):
        found = convert(node, found, read_element_type(node.integer("output_dtype"), node.label, "output_dtype"))
    return [found]


def _spread(node: Node, value: Value, x: Value, name: str) -> Value:
    """A scale or a zero point: one for all, one for each place along an axis, or one for each block along it."""
    if value.count == 1:
        return node.tracer.reshape(value, ())
    axis = node.axis(node.integer("axis", 1), len(x.shape))
    block = node.integer("block_size", 0) if "block_size" in node.rules.attributes else 0
    if not block:
        if value.shape != (x.shape[axis],):
            rule = f"{name} must be one number, or have one for each of the {x.shape[axis]} places along axis {axis}"
            node.refuse(name, rule, value=value.shape, found=str(value.shape))
        return node.tracer.reshape(value, (value.count, *(1,) * (len(x.shape) - axis - 1)))
    wanted = tuple(-(-size // block) if k == axis else size for k, size in enumerate(x.shape))
    if value.shape != wanted:
        rule = f"{name} must have the shape {wanted}, a number for each block of {block} along axis {axis}"
        node.refuse(name, rule, value=value.shape, found=str(value.shape))
    before, after = wanted[: axis + 1], wanted[axis + 1 :]
    column = node.tracer.reshape(value, (*before, 1, *after))
    whole = spread(node, column, (*before, block, *after))
    long = node.tracer.reshape(whole, (*before[:-1], before[-1] * block, *after))
    return take(node, long, [0] * len(x.shape), list(x.shape), [1] * len(x.shape)) if long.shape != x.shape else long
