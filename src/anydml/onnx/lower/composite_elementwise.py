"""Element-wise nodes that are several operators, or one of several by their attributes and types.

Of types that an operator lacks, the same result comes by other operators, or by the bits.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.enums import DataType, IsInfinityMode, RoundingMode
from anydml.onnx.element_types import BOOL, DOUBLE, FLOAT, INT64, UINT64, element_of
from anydml.onnx.lower.data_movement import convert, retyped
from anydml.onnx.lower.elementwise import broadcast, compute, one_to_one, operands
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.lower.bound_node import BoundNode


# Types that an operator lacks


_MAGNITUDE = 2**63 - 1
_INFINITY = 0x7FF << 52
"""The bits of a DOUBLE."""


def absolute(node: BoundNode) -> list[Value]:
    """Abs: of unsigned numbers the numbers themselves."""
    return [node.input(0)] if is_unsigned(node.input(0)) else one_to_one(node)


def relu(node: BoundNode) -> list[Value]:
    """Relu: of INT64, which ACTIVATION_RELU lacks, the larger of it and 0."""
    x = node.input(0)
    return [compute(node, dml.max, x, number(x, 0))] if x.element is INT64 else one_to_one(node)


def prelu(node: BoundNode) -> list[Value]:
    """PRelu: where the operator lacks the type, which of x and slope·x is chosen by the sign."""
    x, slope = _with_slope(node)
    if is_unsigned(x):
        return [x]
    if x.element is not INT64:
        return [compute(node, dml.parameterized_relu, x, slope)]
    scaled = compute(node, dml.multiply, x, slope)
    return [compute(node, dml.if_, is_negative(node, x), scaled, x)]


def _with_slope(node: BoundNode) -> list[Value]:
    x, slope = node.inputs
    if node.version < 7 and len(slope.shape) == 1 and slope.count > 1 and len(x.shape) > 1:  # one for each channel
        slope = node.tracer.reshape(slope, (slope.count, *(1,) * (len(x.shape) - 2)))
    if broadcast(node, (x, slope)) != x.shape:
        node.refuse("slope", f"slope must have a shape that can be broadcast to X's, {x.shape}", value=slope.shape)
    return [x, slope]


def shift(node: BoundNode) -> list[Value]:
    """BitShift: of signed numbers their bits, those of negative ones turned round on the way to the right.

    A count below 0 is a large one without its sign, and from the type's width on nothing is left.
    """
    x, count = node.inputs
    direction = node.one_of("direction", ("LEFT", "RIGHT"))
    function = dml.bit_shift_left if direction == "LEFT" else dml.bit_shift_right
    if is_unsigned(x):
        return [compute(node, function, x, count)]
    unsigned = element_of(DataType[f"U{x.element.name}"])
    moved, by = x, retyped(node, count, unsigned)
    is_turned = direction == "RIGHT"
    negative = is_negative(node, x)

    def turn(value: Value) -> Value:
        other = compute(node, dml.bit_not, value)
        return compute(node, dml.if_, negative, other, value)

    if is_turned:
        moved = turn(x)
    found = retyped(node, compute(node, function, retyped(node, moved, unsigned), by), x.element)
    return [turn(found) if is_turned else found]


def shrink(node: BoundNode) -> list[Value]:
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
            node.refuse(name, f"{name} must be a number other than NaN, for {x.element.name}", value=value, found="nan")
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


def _moved(node: BoundNode, x: Value, by: float) -> Value:
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
    is_below = compute(node, dml.logical_less_than, x, number(x, -low))
    return compute(node, dml.if_, is_below, compute(node, dml.add, x, number(x, high)), found, element=x.element)


def choice(node: BoundNode) -> list[Value]:
    """Where."""
    return [chosen(node, *node.inputs)]


def chosen(node: BoundNode, test: Value, a: Value, b: Value) -> Value:
    """The elements of one tensor or another; of DOUBLE their bits."""
    if a.element is not DOUBLE:
        return compute(node, dml.if_, test, a, b)
    found = compute(node, dml.if_, test, retyped(node, a, UINT64), retyped(node, b, UINT64), element=UINT64)
    return retyped(node, found, DOUBLE)


def pair(node: BoundNode, function: str, a: Value, b: Value) -> Value:
    """The result of a function of two tensors; the larger and the smaller of DOUBLE by their order."""
    if a.element is not DOUBLE or function not in ("max", "min"):
        return compute(node, getattr(dml, function), a, b)
    nan = _MAGNITUDE if function == "max" else -(2**63)
    key = compute(node, getattr(dml, function), *(_in_order(node, value, nan) for value in (a, b)))
    return retyped(node, _turned(node, key), DOUBLE)


def _in_order(node: BoundNode, x: Value, nan: int) -> Value:
    """INT64 in the order of a DOUBLE's numbers: its bits, those below the sign turned round where that is set."""
    bits = retyped(node, x, INT64)
    size = compute(node, dml.bit_and, bits, number(bits, _MAGNITUDE))
    is_nan = compute(node, dml.logical_greater_than, size, number(bits, _INFINITY))
    return compute(node, dml.if_, is_nan, number(bits, nan), _turned(node, bits), element=INT64)


def _turned(node: BoundNode, bits: Value) -> Value:
    other = compute(node, dml.bit_xor, bits, number(bits, _MAGNITUDE))
    return compute(node, dml.if_, is_negative(node, bits), other, bits, element=INT64)


def number(like: Value, number: float) -> Value:
    """A number of a value's type."""
    return Value.of(like.element, number)


def is_negative(node: BoundNode, x: Value) -> Value:
    """Whether elements are below 0."""
    return compute(node, dml.logical_less_than, x, number(x, 0))


def is_unsigned(x: Value) -> bool:
    """Whether a value is of a type without a sign."""
    return x.element.name.startswith("UINT")


# Several operators


# Choices by an attribute


def modulus(node: BoundNode) -> list[Value]:
    """Mod: with the sign of the divisor, or with fmod that of the dividend."""
    is_fmod = bool(node.integer("fmod"))
    if node.version < 28 and node.input(0).element.data_type.is_float and not is_fmod:
        node.refuse("fmod", "fmod must be 1 for floats below opset 28", value=0, found="0")
    return [compute(node, dml.modulus_truncate if is_fmod else dml.modulus_floor, *node.inputs)]


def is_infinite(node: BoundNode) -> list[Value]:
    """IsInf: of one sign, of either, or of none."""
    x, low, high = node.input(0), node.integer("detect_negative"), node.integer("detect_positive")
    if not (low or high):
        return [node.tracer.fill(dml.fill_value_constant, BOOL, x.shape, 0)]
    mode = IsInfinityMode.EITHER if low and high else IsInfinityMode.NEGATIVE if low else IsInfinityMode.POSITIVE
    return [compute(node, dml.is_infinity, x, element=BOOL, infinity_mode=mode)]


def rounded(node: BoundNode) -> list[Value]:
    """Round: halves to even."""
    return [compute(node, dml.round, node.input(0), rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)]


def gelu(node: BoundNode) -> list[Value]:
    """Gelu: by erf, or with approximate=tanh x·(1 + tanh t)/2 for t = √(2/π)·(x + 0.044715·x³).

    (1 + tanh t)/2 is sigmoid(2t), which has all of its digits where tanh t is near -1.
    """
    x = node.input(0)
    if node.one_of("approximate", ("none", "tanh")) == "none":
        return [compute(node, dml.gelu, x)]
    wide, scale = widened(node, x), 2 * math.sqrt(2 / math.pi)
    factor = compute(node, dml.identity, compute(node, dml.multiply, wide, wide), scale_bias=(0.044715 * scale, scale))
    share = compute(node, dml.sigmoid, compute(node, dml.multiply, wide, factor))
    return [convert(node, compute(node, dml.multiply, wide, share), x.element)]


def widened(node: BoundNode, x: Value) -> Value:
    """FLOAT16 as FLOAT32, for what is rounded once: each step's rounding would add to the error."""
    return convert(node, x, FLOAT) if x.element.name == "FLOAT16" else x


def scaled(node: BoundNode) -> list[Value]:
    """Scale, of opsets before 10: x times a number."""
    return [compute(node, dml.identity, node.input(0), scale_bias=(node.real("scale"), 0.0))]


def image_scaler(node: BoundNode) -> list[Value]:
    """ImageScaler, of opsets before 10: images times a number, plus one for each channel."""
    x, bias = node.input(0), node.reals("bias")
    if len(x.shape) != 4 or len(bias) != x.shape[1]:
        rule = "bias must have a number for each channel of input, which has 4 dimensions"
        node.refuse("bias", rule, value=bias, found=f"{len(bias)} and {x.shape}")
    # VALUE_SCALE_2D has one channel, or three.
    return [compute(node, dml.add, scaled(node)[0], Value.of(x.element, np.reshape(bias, (-1, 1, 1))))]


# Several operators


def mish(node: BoundNode) -> list[Value]:
    """Mish: x·tanh(ln(1 + e^x))."""
    x, wide = node.input(0), widened(node, node.input(0))
    curve = compute(node, dml.tanh, compute(node, dml.softplus, wide, steepness=1.0))
    return [convert(node, compute(node, dml.multiply, wide, curve), x.element)]


def fold(function: str) -> Callable[[BoundNode], list[Value]]:
    """A node of any number of inputs, of which a function takes two at a time."""

    def lower(node: BoundNode) -> list[Value]:
        values = node.inputs
        if node.version < 8 and any(value.shape != values[0].shape for value in values):
            found = " and ".join(str(value.shape) for value in values)
            node.refuse("inputs", "the inputs must have one shape below opset 8", found=found)
        return [functools.reduce(lambda a, b: pair(node, function, a, b), values)]

    return lower


def mean(node: BoundNode) -> list[Value]:
    """Mean: the sum, divided by how many there are."""
    (total,) = fold("add")(node)
    return [total if len(node.inputs) == 1 else compute(node, dml.divide, total, number(total, len(node.inputs)))]


def clip_by_attributes(node: BoundNode) -> list[Value]:
    """Clip below opset 11: the bounds are attributes, of FLOAT whatever the type; opset 1 has no defaults."""
    x = node.input(0)
    given = {name for name in ("min", "max") if node.has(name) or name in node.rules.defaults}
    with np.errstate(over="ignore"):
        low, high = (Value.of(x.element, node.real(n)) if n in given else None for n in ("min", "max"))
    return [_clip(node, x, low, high)]


def clip(node: BoundNode) -> list[Value]:
    """Clip from opset 11 on: the bounds are inputs, each of which may be left out."""
    bounds = [node.one_number(1, "min"), node.one_number(2, "max")]
    scalars = [None if bound is None else node.tracer.reshape(bound, ()) for bound in bounds]
    return [_clip(node, node.input(0), *scalars)]


def _clip(node: BoundNode, x: Value, low: Value | None, high: Value | None) -> Value:
    """Min(max, Max(x, min)), which is CLIP1 but where min > max: ONNX has the maximum then, DirectML the minimum."""
    if low is not None and high is not None and low.is_known and high.is_known and x.element is not DOUBLE:
        least, most = (bound.values("").item() for bound in (low, high))
        if least <= most:
            return compute(node, dml.clip1, x, min=least, max=most)
    found = x if low is None else pair(node, "max", x, low)
    return found if high is None else pair(node, "min", found, high)


# Powers


def power(node: BoundNode) -> list[Value]:
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
    is_whole = compute(node, dml.logical_equals, exponent, convert(node, whole, exponent.element))
    return [compute(node, dml.if_, is_whole, exact, found, element=base.element)]


def _one_number(value: Value) -> float | None:
    """The number of a tensor of one finite number that is known; None for others."""
    if value.count != 1 or not value.is_known:
        return None
    number = float(value.values("").item())
    return number if math.isfinite(number) else None


_BITS = 6
"""Of an exponent: the powers of everything but -1, 0 and 1 leave INT64 before the 64th, and of those two are alike."""


def _squared(node: BoundNode, base: Value, exponent: Value) -> Value:
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
        is_unset = compute(node, dml.logical_equals, bit, number(bit, 0))
        factor = compute(node, dml.if_, is_unset, number(base, 1), base)
        found = factor if found is None else run(dml.multiply, found, factor)
        base = run(dml.multiply, base, base) if k < _BITS - 1 else base
    assert found is not None  # noqa: S101 - for type checkers: there are bits
    inverse = run(dml.divide, number(found, 1), found)
    return compute(node, dml.if_, negative, inverse, found)
