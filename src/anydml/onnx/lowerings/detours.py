"""Nodes of types that an operator lacks: the same result by other operators, or by the bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.enums import DataType
from anydml.onnx.lowerings.elementwise import broadcast, compute, one_to_one
from anydml.onnx.lowerings.moving import convert, retyped
from anydml.onnx.types import BOOL, DOUBLE, INT64, UINT64, element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node

_MAGNITUDE = 2**63 - 1
_INFINITY = 0x7FF << 52
"""The bits of a DOUBLE."""


def absolute(node: Node) -> list[Value]:
    """Abs: of unsigned numbers the numbers themselves."""
    return [node.input(0)] if is_unsigned(node.input(0)) else one_to_one(node)


def relu(node: Node) -> list[Value]:
    """Relu: of INT64, which ACTIVATION_RELU lacks, the larger of it and 0."""
    x = node.input(0)
    return [compute(node, dml.max, x, number(x, 0))] if x.element is INT64 else one_to_one(node)


def prelu(node: Node) -> list[Value]:
    """PRelu: where the operator lacks the type, which of x and slope·x is chosen by the sign."""
    x, slope = _with_slope(node)
    if is_unsigned(x):
        return [x]
    if x.element is not INT64:
        return [compute(node, dml.parameterized_relu, x, slope)]
    scaled = compute(node, dml.multiply, x, slope)
    return [compute(node, dml.if_, is_negative(node, x), scaled, x, element=x.element)]


def _with_slope(node: Node) -> list[Value]:
    x, slope = node.inputs
    if node.version < 7 and len(slope.shape) == 1 and slope.count > 1 and len(x.shape) > 1:  # one for each channel
        slope = node.tracer.reshape(slope, (slope.count, *(1,) * (len(x.shape) - 2)))
    if broadcast(node, (x, slope)) != x.shape:
        rule = f"slope must have a shape that can be broadcast to X's, {x.shape}"
        node.refuse("slope", rule, value=slope.shape, found=str(slope.shape))
    return [x, slope]


def shift(node: Node) -> list[Value]:
    """BitShift: of signed numbers their bits, those of negative ones turned round on the way to the right.

    A count below 0 is a large one without its sign, and from the type's width on nothing is left.
    """
    x, count = node.inputs
    function = {"LEFT": dml.bit_shift_left, "RIGHT": dml.bit_shift_right}.get(node.text("direction"))
    if function is None:
        node.refuse("direction", "direction must be LEFT or RIGHT", found=node.text("direction"))
    if is_unsigned(x):
        return [compute(node, function, x, count)]
    unsigned = element_of(DataType[f"U{x.element.name}"])
    moved, by = x, retyped(node, count, unsigned)
    is_turned = node.text("direction") == "RIGHT"
    negative = is_negative(node, x)

    def turn(value: Value) -> Value:
        other = compute(node, dml.bit_not, value)
        return compute(node, dml.if_, negative, other, value, element=value.element)

    if is_turned:
        moved = turn(x)
    found = retyped(node, compute(node, function, retyped(node, moved, unsigned), by), x.element)
    return [turn(found) if is_turned else found]


def shrink(node: Node) -> list[Value]:
    """Shrink: x + bias where x < -lambd, else x - bias where x > lambd, else 0.

    ACTIVATION_SHRINK looks at x > lambd first, which is another thing where lambd is negative, and lacks types of 64
    bits. Integers are computed exactly then, and lose their fraction.
    """
    x, lambd, bias = node.input(0), node.real("lambd"), node.real("bias")
    is_wide = x.element in (INT64, UINT64)
    if x.element.data_type.is_float or not (is_wide or lambd < 0):
        if not lambd < 0:
            return one_to_one(node)
        turned = compute(node, dml.identity, x, scale_bias=(-1.0, -0.0))
        found = compute(node, dml.shrink, turned, bias=bias, threshold=lambd)
        return [compute(node, dml.identity, found, scale_bias=(-1.0, -0.0))]
    whole = x if is_wide else convert(node, x, INT64)
    limits = np.iinfo(whole.element.held)
    found = node.tracer.fill(dml.fill_value_constant, whole.element, x.shape, 0)
    for name, value in (("lambd", lambd), ("bias", bias)):
        if math.isnan(value):
            node.refuse(name, f"{name} must be a number, and no NaN, for {x.element.name}", value=value, found="nan")
    for function, bound, by in (
        (dml.logical_greater_than_or_equal, max(_whole(lambd, math.floor) + 1, limits.min), -bias),
        (dml.logical_less_than_or_equal, min(_whole(-lambd, math.ceil) - 1, limits.max), bias),
    ):
        if limits.min <= bound <= limits.max:
            is_past = compute(node, function, whole, number(whole, bound), element=BOOL)
            found = compute(node, dml.if_, is_past, _moved(node, whole, by), found, element=whole.element)
    return [convert(node, found, x.element)]


def _whole(value: float, rounded: Callable[[float], int]) -> int:
    """A number rounded; what lies beyond 64 bits is the first that does."""
    return rounded(max(min(value, 2.0**64), -(2.0**64)))


def _moved(node: Node, x: Value, by: float) -> Value:
    """x + by of 64 bits, without its fraction; without a sign it is at least 0."""
    low, high = _whole(by, math.floor), _whole(by, math.ceil)
    if is_unsigned(x):
        low = max(low, -(2**64 - 1))
        function = dml.add if low >= 0 else dml.subtract
        return compute(
            node, function, x if low >= 0 else compute(node, dml.max, x, number(x, -low)), number(x, abs(low))
        )
    low, high = (max(min(n, _MAGNITUDE), -_MAGNITUDE) for n in (low, high))
    found = compute(node, dml.add, x, number(x, low))
    if low == high:
        return found
    is_below = compute(node, dml.logical_less_than, x, number(x, -low), element=BOOL)
    return compute(node, dml.if_, is_below, compute(node, dml.add, x, number(x, high)), found, element=x.element)


def choice(node: Node) -> list[Value]:
    """Where."""
    return [chosen(node, *node.inputs)]


def chosen(node: Node, test: Value, a: Value, b: Value) -> Value:
    """The elements of one tensor or another; of DOUBLE their bits."""
    if a.element is not DOUBLE:
        return compute(node, dml.if_, test, a, b, element=a.element)
    found = compute(node, dml.if_, test, retyped(node, a, UINT64), retyped(node, b, UINT64), element=UINT64)
    return retyped(node, found, DOUBLE)


def pair(node: Node, function: str, a: Value, b: Value) -> Value:
    """The result of a function of two tensors; the larger and the smaller of DOUBLE by their order."""
    if a.element is not DOUBLE or function not in ("max", "min"):
        return compute(node, getattr(dml, function), a, b)
    nan = _MAGNITUDE if function == "max" else -(2**63)
    key = compute(node, getattr(dml, function), *(_in_order(node, value, nan) for value in (a, b)))
    return retyped(node, _turned(node, key), DOUBLE)


def _in_order(node: Node, x: Value, nan: int) -> Value:
    """INT64 in the order of a DOUBLE's numbers: its bits, those below the sign turned round where that is set."""
    bits = retyped(node, x, INT64)
    size = compute(node, dml.bit_and, bits, number(bits, _MAGNITUDE))
    is_nan = compute(node, dml.logical_greater_than, size, number(bits, _INFINITY), element=BOOL)
    return compute(node, dml.if_, is_nan, number(bits, nan), _turned(node, bits), element=INT64)


def _turned(node: Node, bits: Value) -> Value:
    other = compute(node, dml.bit_xor, bits, number(bits, _MAGNITUDE))
    return compute(node, dml.if_, is_negative(node, bits), other, bits, element=INT64)


def number(like: Value, number: float) -> Value:
    """A number of a value's type."""
    return Value.of(like.element, number)


def is_negative(node: Node, x: Value) -> Value:
    """Whether elements are below 0."""
    return compute(node, dml.logical_less_than, x, number(x, 0), element=BOOL)


def is_unsigned(x: Value) -> bool:
    """Whether a value is of a type without a sign."""
    return x.element.name.startswith("UINT")
