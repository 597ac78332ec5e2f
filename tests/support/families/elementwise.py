# ruff: noqa: A006 - min and max are DirectML's names
"""The element-wise operators' table: attributes to try, values at which arithmetic goes wrong, and what comes out."""

from __future__ import annotations

import itertools
import math
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml.operators.elementwise import ElementWise
from anydml.operators.fused import attributes_of
from anydml.operators.schema.fields import dml_name
from drawing import Case, Operator, draw_sizes, draw_tensor, make_case, pick, special_values
from families.family import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml import DataType
    from drawing import Tensor

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


# The table


HIGHEST = dml.FeatureLevel.highest()
ELEMENT_WISE: list[type[ElementWise]] = [
    cls for cls in dml.OPERATORS.values() if issubclass(cls, ElementWise) and not cls.optional_inputs()
]
"""Those that take every input; the others are of the family of products."""
BOUNDS: list[dict[str, Any]] = [{"min": -2.5, "max": 2.5}, {"min": 3, "max": 1}, {"min": -math.inf, "max": 1e30}]
TYPED_BOUNDS: list[dict[str, Any]] = [{"min": 1, "max": 3}, {"min": 3, "max": 1}]
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "ELEMENT_WISE_CLIP": BOUNDS,
    "ELEMENT_WISE_CLIP1": TYPED_BOUNDS,
    "ELEMENT_WISE_CLIP_GRAD": BOUNDS,
    "ELEMENT_WISE_CLIP_GRAD1": TYPED_BOUNDS,
    "ELEMENT_WISE_THRESHOLD": [{"min": -0.5}, {"min": 1.5}, {"min": math.nan}],
    "ELEMENT_WISE_CONSTANT_POW": [{"exponent": one} for one in (2, 0.5, -1, 3, 0, math.inf)],
    "ELEMENT_WISE_ROUND": [{"rounding_mode": one} for one in dml.RoundingMode],
    "ELEMENT_WISE_IS_INFINITY": [{"infinity_mode": one} for one in dml.IsInfinityMode],
    "ELEMENT_WISE_ADD1": [{}, {"fused_activation": "RELU"}, {"fused_activation": {"Type": "ELU", "Alpha": 0.5}}],
    "ACTIVATION_CELU": [{}, {"alpha": 0.3}],
    "ACTIVATION_ELU": [{}, {"alpha": 0.3}],
    "ACTIVATION_HARD_SIGMOID": [{}, {"alpha": 0.7, "beta": -0.1}],
    "ACTIVATION_LEAKY_RELU": [{}, {"alpha": -2}],
    "ACTIVATION_LINEAR": [{"alpha": 1.5, "beta": 0.1}],
    "ACTIVATION_PARAMETRIC_SOFTPLUS": [{"alpha": 1.5, "beta": 0.1}],
    "ACTIVATION_SCALED_TANH": [{}, {"alpha": 1.7, "beta": 0.3}],
    "ACTIVATION_SHRINK": [{}, {"bias": 1.5, "threshold": 1.5}],
    "ACTIVATION_SOFTPLUS": [{}, {"steepness": 3.3}],
    "ACTIVATION_SWISH": [{}, {"sigmoid_input_scale": 1.3}],
    "ACTIVATION_THRESHOLDED_RELU": [{}, {"alpha": -2.5}],
    "VALUE_SCALE_2D": [{"scale": 1.3, "bias": (0.1,)}],
}  # fmt: skip
"""Those of the others are the defaults."""
STEPS = {
    **dict.fromkeys(("DIFFERENCE_SQUARE", "HARD_SWISH", "SOFTSIGN", "SOFTPLUS", "PARAMETRIC_SOFTPLUS", "SWISH"), 2),
    **dict.fromkeys(("CELU", "ELU", "SCALED_TANH"), 2),
    **dict.fromkeys(("SCALED_ELU", "ADD1"), 3),
    **dict.fromkeys(
        ("ACOS", "ACOSH", "ASIN", "ASINH", "ATAN", "ATANH", "ATAN_YX", "COS", "COSH", "ERF", "EXP", "LOG", "SIN",
         "SINH", "TAN", "TANH", "POW", "CONSTANT_POW", "GELU", "SIGMOID"), 1,
    ),
}  # fmt: skip
"""From one float to the next, that results may be off: operations that an operator rounds one after the other."""
EITHER_ZERO = {"MAX", "MIN", "CLIP", "CLIP1", "THRESHOLD", "RELU", "HARD_SIGMOID", "HARD_SWISH", "CELU", "MULTIPLY"}
"""The operators of which the sign of a zero is left open."""
_RAW = ("ELEMENT_WISE_BIT_COUNT", "ELEMENT_WISE_BIT_NOT", "ELEMENT_WISE_BIT_AND", "ELEMENT_WISE_BIT_OR",
        "ELEMENT_WISE_BIT_XOR", "ELEMENT_WISE_IF", "ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY")  # fmt: skip


def short_name(cls: type[dml.OperatorDesc]) -> str:
    """`ADD` of ELEMENT_WISE_ADD."""
    return cls.type.name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")


# Descriptions


def describe(
    cls: type[dml.OperatorDesc],
    data_type: DataType,
    sizes: tuple[int, ...],
    attributes: dict[str, Any] | None = None,
    level: dml.FeatureLevel = HIGHEST,
    **others: DataType,
) -> dml.OperatorDesc:
    """An operator of tensors of one type, where they may be; the others are of the first that the level takes."""
    given = dict(ATTRIBUTES.get(cls.type.name, [{}])[0] if attributes is None else attributes)
    if "min_max_data_type" in cls.field_types():
        given["min_max_data_type"] = data_type
    row = cls.support.row_at(level)
    tensors = {}
    for name in (*cls.input_names(), *cls.output_names()):
        taken = row.tensors[dml_name(name)].data_types
        other = others.get(name, data_type if data_type in taken else max(taken))
        tensors[name] = dml.TensorDesc(other, sizes)
    return cls(**tensors, **given)


def data_types(cls: type[dml.OperatorDesc], level: dml.FeatureLevel = HIGHEST) -> list[DataType]:
    """The types that an operator takes at a level."""
    row = cls.support.row_at(level)
    return sorted(row.tensors["ATensor" if "ATensor" in row.tensors else "InputTensor"].data_types)


# Values


def values(data_type: DataType, count: int, seed: int) -> Array:
    """Random numbers of moderate size, and of every size."""
    rng = np.random.default_rng(seed)
    if not data_type.is_float:
        info = np.iinfo(data_type.dtype)
        wide = rng.integers(info.min, info.max, count, data_type.dtype, endpoint=True)
        near = rng.integers(max(info.min, -9), 10, count).astype(data_type.dtype)
        return np.where(np.arange(count) % 2 == 0, near, wide)
    found: Array = rng.standard_normal(count) * np.array([1, 10])[np.arange(count) % 2]
    return found.astype(data_type.dtype)


def inputs(desc: dml.OperatorDesc) -> list[Array]:
    """Every special value with every other, then random ones."""
    types = [tensor.data_type for tensor in desc.inputs().values()]
    special = list(zip(*itertools.product(*[special_values(kind) for kind in types[-2:]]), strict=True))
    if len(types) == 3:
        special.insert(0, (1, 0) * (len(special[0]) // 2) + (1,) * (len(special[0]) % 2))  # a condition
    found = []
    (count,) = {math.prod(tensor.sizes) for tensor in desc.inputs().values()}
    for number, (kind, first) in enumerate(zip(types, special, strict=True)):
        both = np.concatenate([np.array(first, kind.dtype), values(kind, count, number)])
        if isinstance(desc, dml.ElementWisePow) and kind.is_float and not types[0].is_float:
            both = np.where(np.abs(both) > 1, np.rint(both), both)  # a fraction is cut off: one step is one too many
        found.append(both[:count].reshape(next(iter(desc.inputs().values())).sizes))
    return found


def examples(cls: type[dml.OperatorDesc]) -> Iterator[tuple[dml.OperatorDesc, list[Array]]]:
    """Every type that the highest level takes, with all attributes."""
    sizes = (2, 1, 12, 12) if cls is dml.ValueScale2D else (288,)
    for data_type in data_types(cls):
        exponents: list[Any] = [{}]
        if cls is dml.ElementWisePow:
            others = {data_type, dml.DataType.FLOAT32, dml.DataType.INT8, dml.DataType.UINT32}
            exponents = [{"exponent_tensor": other} for other in sorted(others)]
        for attributes in ATTRIBUTES.get(cls.type.name, [{}]):
            for other in exponents:
                desc = describe(cls, data_type, sizes, attributes, **other)
                yield desc, inputs(desc)
    if "scale_bias" in cls.field_types():
        for data_type in data_types(cls):
            attributes = {**ATTRIBUTES.get(cls.type.name, [{}])[0], "scale_bias": (0.5, 0.25)}
            desc = describe(cls, data_type, sizes, attributes)
            yield desc, [values(tensor.data_type, 288, 3) for tensor in desc.inputs().values()]


# What comes out


def expected(desc: dml.OperatorDesc, arrays: list[Array]) -> Array:
    """The oracle's answer, in the output's type."""
    (output,) = desc.outputs().values()
    dtype = output.data_type.dtype
    if desc.type.name in _RAW and getattr(desc, "scale_bias", None) is None:
        words = [array.view(f"u{array.itemsize}").astype(object) for array in arrays]
        found = ORACLE[desc.type.name](*words)
        return wrapped(found, np.dtype(f"u{dtype.itemsize}")).view(dtype)
    numbers = [array.astype(np.float64 if array.dtype.kind == "f" else object) for array in arrays]
    attributes = {}
    first = arrays[0].dtype
    for name in attributes_of(type(desc)):
        value = getattr(desc, name)
        if name == "scale_bias":
            if value is not None:
                with np.errstate(all="ignore"):
                    scaled = arrays[0].astype(np.float64) * value.scale + value.bias
                    wide = scaled if first == np.float64 else f32(scaled)
                    numbers[0] = wide if first.kind == "f" else saturated(scaled, first).astype(object)
        elif name in ("min", "max") and first.kind != "f":
            attributes[name] = saturated(np.array([value], object), first).astype(object)[0]
        elif name in ("min", "max"):
            with np.errstate(over="ignore"):
                attributes[name] = float(first.type(value))
        elif name != "min_max_data_type":
            attributes[name] = value
    with np.errstate(all="ignore"):
        found = np.asarray(ORACLE[desc.type.name](*numbers, **attributes))
        if dtype.kind == "f":
            return found.astype(np.float64).astype(dtype).reshape(output.sizes)
    whole = [isinstance(one, int) for one in found.astype(object).ravel()]
    ends = [
        one if is_whole else saturated(np.array([one]), dtype)[0]
        for one, is_whole in zip(found.ravel(), whole, strict=True)
    ]
    return wrapped(np.array(ends, object).reshape(found.shape), dtype)


def wrapped(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Integers without width as a type has them."""
    bits = 8 * dtype.itemsize
    words = [int(number) % 2**bits for number in numbers.ravel()]
    return np.array(words, f"u{dtype.itemsize}").view(dtype).reshape(numbers.shape)


def saturated(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as CAST converts them."""
    info = np.iinfo(dtype)
    found = [
        0 if math.isnan(one) else int(min(max(one, int(info.min)), int(info.max))) for one in numbers.ravel().tolist()
    ]
    return np.array(found, dtype).reshape(numbers.shape)


def assert_computed(got: Array, wanted: Array, desc: dml.OperatorDesc, engine: str) -> None:
    """Compare within the steps of an operator: the reference engine computes in float64, the others one step off."""
    name = short_name(type(desc))
    steps = STEPS.get(name, 0) + (engine != "reference" and name in STEPS)
    assert_within(got, wanted, steps, either_zero=name in EITHER_ZERO, about=desc)


def assert_within(got: Array, wanted: Array, steps: int, *, either_zero: bool = False, about: object = "") -> None:
    """Compare within steps from one float to the next, infinity being past the largest; NaN is NaN."""
    assert got.dtype == wanted.dtype, about
    assert got.shape == wanted.shape, about
    if got.dtype.kind != "f":
        wrong = got != wanted
    else:
        first, second = (ordered(array) for array in (got, wanted))
        apart = np.abs(first - second)
        if not either_zero:
            apart[(got == 0) & (wanted == 0) & (np.signbit(got) != np.signbit(wanted))] = steps + 1
        wrong = (apart > steps) & ~(np.isnan(got) & np.isnan(wanted)) | (np.isnan(got) ^ np.isnan(wanted))
    places = np.argwhere(wrong)[:5]
    assert not wrong.any(), (about, places.tolist(), got[wrong][:5], wanted[wrong][:5])


def ordered(array: Array) -> Array:
    """Numbers of floats in their order, one apart from one to the next."""
    bits = array.view(f"i{array.itemsize}").astype(np.int64)
    lowest = -(2 ** (8 * array.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits)


def missing_attributes(cls: type[dml.OperatorDesc]) -> list[str]:
    """Those without a default."""
    return [name for name, default in attributes_of(cls).items() if default is MISSING]


# Examples of small whole numbers, which every type can hold, with results that every engine has exactly

GRID = np.arange(1, 17).reshape(1, 1, 4, 4)
_AT_ZERO = ("ASIN", "ASINH", "ATAN", "ATANH", "COS", "COSH", "ERF", "EXP", "SIN", "SINH", "TAN", "TANH", "ATAN_YX",
            "ELU", "CELU", "GELU", "SCALED_ELU", "SCALED_TANH", "SIGMOID", "SWISH", "HARD_SWISH")  # fmt: skip
_AT_ONE = ("ACOS", "ACOSH", "LOG", "RECIP", "POW", "CONSTANT_POW", "SOFTSIGN")
_SOURCES: dict[str, tuple[Array, ...]] = {
    "SQRT": (GRID**2,),
    "SUBTRACT": (GRID * 2, GRID),
    "DIVIDE": (GRID * 2, GRID),
    "MODULUS_TRUNCATE": (GRID, GRID % 5 + 1),
    "MODULUS_FLOOR": (GRID, GRID % 5 + 1),
    "BIT_SHIFT_LEFT": (GRID % 4, GRID % 4),
    "PARAMETRIC_SOFTPLUS": (GRID + 40,),  # ln(1 + e^x) is x there
    "SOFTPLUS": (GRID + 40,),
    "IF": (GRID % 2, GRID, GRID * 2),
}
_BOUNDS = {"min": 3, "max": 9}
_SMALL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("CLIP", "CLIP1", "CLIP_GRAD", "CLIP_GRAD1"), _BOUNDS), "THRESHOLD": {"min": 5},
    "CONSTANT_POW": {"exponent": 3}, "LINEAR": {"alpha": 2, "beta": 3}, "PARAMETRIC_SOFTPLUS": {"alpha": 2, "beta": 1},
    "SHRINK": {"bias": 1, "threshold": 4}, "HARD_SIGMOID": {"alpha": 0.25, "beta": 0},
    "VALUE_SCALE_2D": {"scale": 2, "bias": [3]}, "ADD1": {"fused_activation": "RELU"},
}  # fmt: skip


def small_example(cls: type[dml.OperatorDesc]) -> tuple[tuple[Array, ...], dict[str, Any]]:
    """Inputs and attributes."""
    name, count = short_name(cls), len(cls.input_names())
    usual = (GRID * 0 + (name in _AT_ONE),) * count if name in (*_AT_ZERO, *_AT_ONE) else (GRID, GRID % 5)[:count]
    return _SOURCES.get(name, usual), _SMALL.get(name, {})


# Random descriptions: every level, type, layout and attribute


STYLES = ("small", "normal", "special", "zeros")
FACTORS, TERMS = (1.0, -1.0, 0.5, 3.0, 2.0**30, 0.1, 0.0), (0.0, 1.0, -0.0, 0.25, -300.0, 0.7, math.inf)
LEVELS = tuple(reversed(dml.FeatureLevel))


@st.composite
def element_wise_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    row = cls.support.row_at(level)
    data_type = pick(draw, data_types(cls, level))
    count = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    attributes: dict[str, Any] = dict(pick(draw, ATTRIBUTES.get(cls.type.name, [{}])))
    if "min_max_data_type" in cls.field_types():
        attributes["min_max_data_type"] = data_type
    if cls is dml.ValueScale2D:
        channels = pick(draw, (1, 3))
        sizes = (sizes[0], channels, *sizes[2:])
        attributes["bias"] = [0.1, -3, 7][:channels]
    if "scale_bias" in cls.field_types():
        pair = (pick(draw, FACTORS), pick(draw, TERMS)) if cls is dml.ElementWiseIdentity else (0.5, 0.25)
        attributes["scale_bias"] = pick(draw, (None, pair))
    if level < dml.FeatureLevel.LEVEL_5_1:
        attributes.pop("fused_activation", None)
    tensors: dict[str, Tensor] = {}
    for name in (*cls.input_names(), *cls.output_names()):
        taken = row.tensors[dml_name(name)].data_types
        own = data_type if data_type in taken else pick(draw, sorted(taken))
        tensors[name] = draw_tensor(draw, own, sizes, is_output=name in cls.output_names())
    first, output = cls.input_names()[0], cls.output_names()[0]
    is_in_place = cls.in_place and pick(draw, (False, True))
    if is_in_place:
        tensors[first] = tensors[output]
    return make_case(draw, cls, level, tensors, attributes, is_in_place=is_in_place, styles=STYLES)


def check(desc: dml.OperatorDesc, got: list[Array], wanted: Array, engine: str) -> None:
    """The reference engine computes in float64, the others one step off."""
    assert_computed(got[0], wanted.reshape(got[0].shape), desc, engine)


FAMILY = Family(
    [cls for cls in ELEMENT_WISE if cls.type.name in ORACLE],
    element_wise_cases,
    expected,
    check,
    examples,
    is_drawn_on_cuda=True,
)
