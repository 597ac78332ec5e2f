# ruff: noqa: A006 - min and max are DirectML's names
"""The element-wise operators in plain NumPy, one line each.

Floats come as float64, and integers as Python's own, which have no width: what is given back is rounded or wrapped to
the output's type, and a float that is to be an integer is converted as CAST converts. Operators of bits, and the choice
by a condition, take bits. Attributes are those of the operator, with bounds made numbers of the tensors' type.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]


def f32(x: Any) -> Array:
    """Round to FLOAT32, where an operator's own formula does."""
    return np.asarray(x, np.float32).astype(np.float64)


def whole(function: Callable[..., int]) -> Callable[..., Array]:
    return np.vectorize(function, otypes=[object])


def is_whole(x: Array) -> bool:
    return bool(x.dtype == object)


@whole
def cut(a: int, b: int) -> int:
    """The quotient of integers, cut toward 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def cut_modulus(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a - b * cut(a, b))


@whole
def floor_modulus(a: int, b: int) -> int:
    return a % b if b else 0


@whole
def whole_power(x: int, y: int) -> int:
    """Of any width up to 64 bits."""
    if y >= 0:
        return pow(x, y, 2**64)
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


@whole
def half_sum(a: int, b: int) -> int:
    return int(math.copysign(abs(a + b) // 2, a + b))


def c_power(x: Array, y: Any) -> Array:
    """C's: given a number alone, or one number again and again, NumPy takes roots for an exponent of 0.5."""
    numbers, exponents = (np.append(both, [1.0, 2.0]) for both in np.broadcast_arrays(x, y))
    found: Array = np.power(numbers, exponents)[:-2]
    return found.reshape(x.shape)


def power(x: Array, y: Array) -> Array:
    if not is_whole(x):
        return c_power(x, f32(y.astype(np.float64)))
    if is_whole(y):
        return whole_power(x, y)
    return mixed_power(x, y)


@whole
def mixed_power(x: int, y: float) -> Any:
    return whole_power(x, int(y)).item() if abs(y) < 2**31 and y == int(y) else float(f32(np.power(f32(x), y)))


def shift(a: Array, b: Array, by: Callable[[int, int], int]) -> Array:
    return whole(lambda one, other: by(one, other) if other < 64 else 0)(a, b)


def soft(x: Array) -> Any:
    return np.logaddexp(0, x)


def sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def away(x: Array) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def between(x: Array, low: Any, high: Any) -> Any:
    return np.maximum(np.minimum(x, high), low)


ROUND: dict[str, Callable[..., Any]] = {
    "HALVES_TO_NEAREST_EVEN": np.rint,
    "TOWARD_ZERO": np.trunc,
    "TOWARD_INFINITY": away,
}
INFINITY: dict[str, Callable[..., Any]] = {"EITHER": np.isinf, "POSITIVE": np.isposinf, "NEGATIVE": np.isneginf}
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])

ORACLE: dict[str, Callable[..., Any]] = {
    "ELEMENT_WISE_IDENTITY": lambda x: x,
    "ELEMENT_WISE_ABS": np.abs,
    "ELEMENT_WISE_ACOS": np.arccos,
    "ELEMENT_WISE_ACOSH": np.arccosh,
    "ELEMENT_WISE_ASIN": np.arcsin,
    "ELEMENT_WISE_ASINH": np.arcsinh,
    "ELEMENT_WISE_ATAN": np.arctan,
    "ELEMENT_WISE_ATANH": np.arctanh,
    "ELEMENT_WISE_CEIL": np.ceil,
    "ELEMENT_WISE_COS": np.cos,
    "ELEMENT_WISE_COSH": np.cosh,
    "ELEMENT_WISE_ERF": erf,
    "ELEMENT_WISE_EXP": np.exp,
    "ELEMENT_WISE_FLOOR": np.floor,
    "ELEMENT_WISE_LOG": np.log,
    "ELEMENT_WISE_RECIP": lambda x: 1 / x,
    "ELEMENT_WISE_SIN": np.sin,
    "ELEMENT_WISE_SINH": np.sinh,
    "ELEMENT_WISE_SQRT": np.sqrt,
    "ELEMENT_WISE_TAN": np.tan,
    "ELEMENT_WISE_TANH": np.tanh,
    "ELEMENT_WISE_CLIP": lambda x, min, max: between(x, min, max),
    "ELEMENT_WISE_CLIP1": lambda x, min, max: between(x, min, max),
    "ELEMENT_WISE_CONSTANT_POW": lambda x, exponent: c_power(x, exponent),
    "ELEMENT_WISE_THRESHOLD": lambda x, min: np.maximum(x, min),
    "ELEMENT_WISE_BIT_COUNT": whole(lambda x: x.bit_count()),
    "ELEMENT_WISE_BIT_NOT": lambda x: ~x,
    "ELEMENT_WISE_IS_INFINITY": lambda x, infinity_mode: INFINITY[infinity_mode.name](x),
    "ELEMENT_WISE_IS_NAN": np.isnan,
    "ELEMENT_WISE_LOGICAL_NOT": lambda x: x == 0,
    "ELEMENT_WISE_NEGATE": lambda x: -x,
    "ELEMENT_WISE_ROUND": lambda x, rounding_mode: ROUND[rounding_mode.name](x),
    "ELEMENT_WISE_SIGN": np.sign,
    "ELEMENT_WISE_ADD": lambda a, b: a + b,
    "ELEMENT_WISE_ADD1": lambda a, b, fused_activation=None: activated(f32(a + b), fused_activation),
    "ELEMENT_WISE_ATAN_YX": np.arctan2,
    "ELEMENT_WISE_BIT_AND": lambda a, b: a & b,
    "ELEMENT_WISE_BIT_OR": lambda a, b: a | b,
    "ELEMENT_WISE_BIT_XOR": lambda a, b: a ^ b,
    "ELEMENT_WISE_BIT_SHIFT_LEFT": lambda a, b: shift(a, b, int.__lshift__),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": lambda a, b: shift(a, b, int.__rshift__),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda a, b: (a - b) ** 2,
    "ELEMENT_WISE_DIVIDE": lambda a, b: cut(a, b) if is_whole(a) else a / b,
    "ELEMENT_WISE_LOGICAL_AND": lambda a, b: (a != 0) & (b != 0),
    "ELEMENT_WISE_LOGICAL_OR": lambda a, b: (a != 0) | (b != 0),
    "ELEMENT_WISE_LOGICAL_XOR": lambda a, b: (a != 0) ^ (b != 0),
    "ELEMENT_WISE_LOGICAL_EQUALS": lambda a, b: a == b,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": lambda a, b: a > b,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": lambda a, b: a >= b,
    "ELEMENT_WISE_LOGICAL_LESS_THAN": lambda a, b: a < b,
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": lambda a, b: a <= b,
    "ELEMENT_WISE_MAX": np.maximum,
    "ELEMENT_WISE_MIN": np.minimum,
    "ELEMENT_WISE_MEAN": lambda a, b: half_sum(a, b) if is_whole(a) else f32(a + b) / 2,
    "ELEMENT_WISE_MODULUS_FLOOR": lambda a, b: floor_modulus(a, b) if is_whole(a) else np.mod(a, b),
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda a, b: cut_modulus(a, b) if is_whole(a) else np.fmod(a, b),
    "ELEMENT_WISE_MULTIPLY": lambda a, b: a * b,
    "ELEMENT_WISE_POW": power,
    "ELEMENT_WISE_SUBTRACT": lambda a, b: a - b,
    "ELEMENT_WISE_IF": lambda c, a, b: np.where(c != 0, a, b),
    "ACTIVATION_CELU": lambda x, alpha: np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "ACTIVATION_ELU": lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)),
    "ACTIVATION_GELU": lambda x: np.where(np.isneginf(x), -0.0, x * erfc(-x / math.sqrt(2)) / 2),
    "ACTIVATION_HARD_SIGMOID": lambda x, alpha, beta: between(f32(alpha * x + beta), 0, 1),
    "ACTIVATION_HARD_SWISH": lambda x, alpha, beta: x * between(f32(alpha * x + beta), 0, 1),
    "ACTIVATION_IDENTITY": lambda x: x,
    "ACTIVATION_LEAKY_RELU": lambda x, alpha: np.where(x >= 0, x, f32(alpha * x)),
    "ACTIVATION_LINEAR": lambda x, alpha, beta: f32(alpha * x + beta),
    "ACTIVATION_PARAMETERIZED_RELU": lambda x, slope: np.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda x, alpha, beta: alpha * soft(f32(beta * x)),
    "ACTIVATION_RELU": lambda x: np.where((x > 0) | (x != x), x, 0),  # of two zeros NumPy's has either
    "ACTIVATION_SCALED_ELU": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    "ACTIVATION_SCALED_TANH": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "ACTIVATION_SHRINK": lambda x, bias, threshold: np.where(np.abs(x) > threshold, x - bias * np.sign(x), 0),
    "ACTIVATION_SIGMOID": sigmoid,
    "ACTIVATION_SOFTPLUS": lambda x, steepness: soft(f32(steepness * x)) / steepness,
    "ACTIVATION_SOFTSIGN": lambda x: x / (1 + np.abs(x)),
    "ACTIVATION_SWISH": lambda x, sigmoid_input_scale: x * sigmoid(f32(sigmoid_input_scale * x)),
    "ACTIVATION_TANH": np.tanh,
    "ACTIVATION_THRESHOLDED_RELU": lambda x, alpha: np.where(x > alpha, x, 0),
    "VALUE_SCALE_2D": lambda x, scale, bias: f32(scale * x + np.reshape(bias, (1, -1, 1, 1))),
    "ACTIVATION_RELU_GRAD": lambda x, gradient: np.where(x > 0, gradient, 0),
    "ELEMENT_WISE_CLIP_GRAD": lambda x, gradient, min, max: np.where((min < x) & (x < max), gradient, 0),
    "ELEMENT_WISE_CLIP_GRAD1": lambda x, gradient, min, max: np.where((min < x) & (x < max), gradient, 0),
}  # fmt: skip


def activated(x: Array, activation: Any) -> Array:
    if activation is None:
        return x
    attributes = dict(activation.attributes)
    scale_bias = attributes.pop("scale_bias", None)
    x = x if scale_bias is None else x * scale_bias.scale + scale_bias.bias
    return np.asarray(ORACLE[activation.type.name](x, **attributes))
