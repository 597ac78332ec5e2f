"""Nodes that are several element-wise operators, or one of several by their attributes and types."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.enums import DataType, IsInfinityMode, RoundingMode
from anydml.onnx.lowerings.detours import is_negative, number, pair
from anydml.onnx.lowerings.elementwise import compute, operands
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.types import BOOL, DOUBLE, FLOAT, INT64
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node


# Choices by an attribute


def modulus(node: Node) -> list[Value]:
    """Mod: with the sign of the divisor, or with fmod that of the dividend."""
    is_fmod = bool(node.integer("fmod"))
    if node.version < 28 and node.input(0).element.data_type.is_float and not is_fmod:
        node.refuse("fmod", "fmod must be 1 for floats below opset 28", value=0, found="0")
    return [compute(node, dml.modulus_truncate if is_fmod else dml.modulus_floor, *node.inputs)]


def is_infinite(node: Node) -> list[Value]:
    """IsInf: of one sign, of either, or of none."""
    x, low, high = node.input(0), node.integer("detect_negative"), node.integer("detect_positive")
    if not (low or high):
        return [node.tracer.fill(dml.fill_value_constant, BOOL, x.shape, 0)]
    mode = IsInfinityMode.EITHER if low and high else IsInfinityMode.NEGATIVE if low else IsInfinityMode.POSITIVE
    return [compute(node, dml.is_infinity, x, element=BOOL, infinity_mode=mode)]


def rounded(node: Node) -> list[Value]:
    """Round: halves to even."""
    return [compute(node, dml.round, node.input(0), rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)]


def gelu(node: Node) -> list[Value]:
    """Gelu: by erf, or with approximate=tanh x·(1 + tanh t)/2 for t = √(2/π)·(x + 0.044715·x³).

    (1 + tanh t)/2 is sigmoid(2t), which has all of its digits where tanh t is near -1.
    """
    x, kind = node.input(0), node.text("approximate")
    if kind not in ("none", "tanh"):
        node.refuse("approximate", "approximate must be none or tanh", value=kind, found=kind)
    if kind == "none":
        return [compute(node, dml.gelu, x)]
    scale = 2 * math.sqrt(2 / math.pi)
    factor = compute(node, dml.identity, compute(node, dml.multiply, x, x), scale_bias=(0.044715 * scale, scale))
    share = compute(node, dml.sigmoid, compute(node, dml.multiply, x, factor))
    return [compute(node, dml.multiply, x, share)]


def scaled(node: Node) -> list[Value]:
    """Scale, of opsets before 10: x times a number."""
    return [compute(node, dml.identity, node.input(0), scale_bias=(node.real("scale"), 0.0))]


def image_scaler(node: Node) -> list[Value]:
    """ImageScaler, of opsets before 10: images times a number, plus one for each channel."""
    x, bias = node.input(0), node.reals("bias")
    if len(x.shape) != 4 or len(bias) != x.shape[1]:
        rule = "bias must have a number for each channel of input, which has 4 dimensions"
        node.refuse("bias", rule, value=bias, found=f"{len(bias)} and {x.shape}")
    # VALUE_SCALE_2D has one channel, or three.
    return [compute(node, dml.add, scaled(node)[0], Value.of(x.element, np.reshape(bias, (-1, 1, 1))))]


# Several operators


def mish(node: Node) -> list[Value]:
    """Mish: x·tanh(ln(1 + e^x))."""
    x = node.input(0)
    return [compute(node, dml.multiply, x, compute(node, dml.tanh, compute(node, dml.softplus, x, steepness=1.0)))]


def fold(function: str) -> Callable[[Node], list[Value]]:
    """A node of any number of inputs, of which a function takes two at a time."""

    def lower(node: Node) -> list[Value]:
        values = node.inputs
        if node.version < 8 and any(value.shape != values[0].shape for value in values):
            found = " and ".join(str(value.shape) for value in values)
            node.refuse("inputs", "the inputs must have one shape below opset 8", found=found)
        return [functools.reduce(lambda a, b: pair(node, function, a, b), values)]

    return lower


def mean(node: Node) -> list[Value]:
    """Mean: the sum, divided by how many there are."""
    (total,) = fold("add")(node)
    return [total if len(node.inputs) == 1 else compute(node, dml.divide, total, number(total, len(node.inputs)))]


def clip_by_attributes(node: Node) -> list[Value]:
    """Clip below opset 11: the bounds are attributes, of FLOAT whatever the type; opset 1 has no defaults."""
    x = node.input(0)
    given = {name for name in ("min", "max") if node.has(name) or name in node.rules.defaults}
    with np.errstate(over="ignore"):
        low, high = (Value.of(x.element, node.real(n)) if n in given else None for n in ("min", "max"))
    return [_clip(node, x, low, high)]


def clip(node: Node) -> list[Value]:
    """Clip from opset 11 on: the bounds are inputs, each of which may be left out."""
    bounds = [node.optional(i) for i in (1, 2)]
    for name, bound in zip(("min", "max"), bounds, strict=True):
        if bound is not None and bound.count != 1:
            node.refuse(name, f"{name} must be one number", value=bound.shape, found=str(bound.shape))
    scalars = [None if bound is None else node.tracer.reshape(bound, ()) for bound in bounds]
    return [_clip(node, node.input(0), *scalars)]


def _clip(node: Node, x: Value, low: Value | None, high: Value | None) -> Value:
    """Min(max, Max(x, min)), which is CLIP1 but where min > max: ONNX has the maximum then, DirectML the minimum."""
    if low is not None and high is not None and low.is_known and high.is_known and x.element is not DOUBLE:
        least, most = (bound.values("").item() for bound in (low, high))
        if least <= most:
            return compute(node, dml.clip1, x, min=least, max=most)
    found = x if low is None else pair(node, "max", x, low)
    return found if high is None else pair(node, "min", found, high)


# Powers


def power(node: Node) -> list[Value]:
    """Pow. POW lacks the types of 64 bits.

    An exponent of theirs is made a FLOAT where the base is one; other powers are computed by squaring, exactly. Of an
    INT64 base and a FLOAT exponent those are so whose exponent is a whole number, the others by way of FLOAT32.
    """
    base, exponent = operands(node)
    wide = (DataType.INT64, DataType.UINT64)
    is_wide = exponent.element.data_type in wide
    known = _one_number(exponent) if len(exponent.shape) <= len(base.shape) else None
    if known is not None and base.element is not DOUBLE and base.element.data_type.is_float:
        return [compute(node, dml.constant_pow, base, exponent=known)]
    if base.element.data_type.is_float:
        exponent = convert(node, exponent, FLOAT) if is_wide else exponent
        return [compute(node, dml.pow, base, exponent)]
    if base.element.data_type not in wide and not is_wide:
        return [compute(node, dml.pow, base, exponent)]
    whole = convert(node, exponent, INT64)
    exact = convert(node, _squared(node, convert(node, base, INT64), whole), base.element)
    if not exponent.element.data_type.is_float:
        return [exact]
    found = convert(node, compute(node, dml.pow, convert(node, base, FLOAT), exponent), base.element)
    is_whole = compute(node, dml.logical_equals, exponent, convert(node, whole, exponent.element), element=BOOL)
    return [compute(node, dml.if_, is_whole, exact, found, element=base.element)]


def _one_number(value: Value) -> float | None:
    """The number of a tensor of one finite number that is known; None for others."""
    if value.count != 1 or not value.is_known:
        return None
    number = float(value.values("").item())
    return number if math.isfinite(number) else None


_BITS = 6
"""Of an exponent: the powers of everything but -1, 0 and 1 leave INT64 before the 64th, and of those two are alike."""


def _squared(node: Node, base: Value, exponent: Value) -> Value:
    """base to the exponent, both INT64: for each bit the square of what the bit before had, multiplied where it is 1.

    A negative exponent gives 1 divided by the power.
    """

    def run(function: Callable[..., Any], a: Value, b: Value | int) -> Value:
        return compute(node, function, a, b if isinstance(b, Value) else number(a, b))

    negative = is_negative(node, exponent)
    size = compute(node, dml.abs, exponent)
    low = run(dml.min, size, run(dml.add, run(dml.bit_and, size, 1), 2**_BITS - 2))
    found: Value | None = None
    for k in range(_BITS):
        bit = run(dml.bit_and, low, 2**k)
        is_unset = compute(node, dml.logical_equals, bit, number(bit, 0), element=BOOL)
        factor = compute(node, dml.if_, is_unset, number(base, 1), base, element=base.element)
        found = factor if found is None else run(dml.multiply, found, factor)
        base = run(dml.multiply, base, base) if k < _BITS - 1 else base
    assert found is not None  # noqa: S101 - for type checkers: there are bits
    inverse = run(dml.divide, number(found, 1), found)
    return compute(node, dml.if_, negative, inverse, found, element=found.element)
