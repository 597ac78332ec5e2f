"""Products of matrices, what quantises, and what has windows or steps: what they give in NumPy, and small examples.

Products of small numbers are exact, and what follows them is rounded in FLOAT32 operation by operation: results are the
same bits, but for the functions of fused activations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.operators.attention import Attention
from anydml.operators.convolution import Windowed
from anydml.operators.products import Product
from anydml.operators.schema.fields import dml_name
from drawing import SEEDS, Case, Operator, draw_sizes, draw_tensor, make_case, pick
from families import attention, broken_rules, recurrent, windows
from families.attention import draw_attention
from families.elementwise import STEPS, Array, activated, assert_within, saturated
from families.family import Family
from families.recurrent import GATES as RECURRENT
from families.recurrent import recurrent_sizes
from families.windows import window_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.operators.schema.facts import LevelSupport
    from drawing import Tensor

F32 = np.float32
Arrays = dict[str, Array]
"""By DirectML's names, those that are there."""


def matrices(desc: Any, arrays: Arrays) -> Array:
    """The product, of float64 or of whole numbers of any size."""
    wide = [arrays[f"{x}Tensor"].astype(np.float64 if desc.type.name == "GEMM" else object) for x in "AB"]
    for i, x in enumerate("AB"):
        if f"{x}ZeroPointTensor" in arrays:
            wide[i] = wide[i] - numbers(desc, arrays, f"{x}ZeroPointTensor", x != "B").astype(object)
        if getattr(desc, f"trans_{x.lower()}", None) is dml.MatrixTransform.TRANSPOSE:
            wide[i] = np.swapaxes(wide[i], -1, -2)
    return np.asarray(wide[0] @ wide[1])


def numbers(desc: Any, arrays: Arrays, field: str, by_row: bool) -> Array:
    """Scales or zero points, as a column or a row of matrices."""
    flat = arrays[field].reshape(-1)
    return flat[:, None] if by_row else flat[None, :]


def gemm(desc: Any, arrays: Arrays) -> Array:
    total = matrices(desc, arrays) * desc.alpha
    if "CTensor" in arrays and desc.beta:
        total = total + arrays["CTensor"].astype(np.float64) * desc.beta
    return softmax_or_other(total, desc.fused_activation)


def softmax_or_other(x: Array, activation: dml.FusedActivation | None) -> Array:
    if activation is None or not activation.type.name.startswith("ACTIVATION_SOFTMAX"):
        return activated(x, activation)
    axes = tuple(activation.attributes.get("axes", (x.ndim - 1,)))
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axes, keepdims=True))


def integers(desc: Any, arrays: Arrays) -> Array:
    return wrapped32(matrices(desc, arrays))


def wrapped32(total: Array) -> Array:
    return np.array([(int(x) + 2**31) % 2**32 - 2**31 for x in total.ravel()], np.int32).reshape(total.shape)


def scaled_sum(desc: Any, arrays: Arrays) -> tuple[Array, Array]:
    a, b = (numbers(desc, arrays, f"{x}ScaleTensor", x == "A").astype(F32) for x in "AB")
    return matrices(desc, arrays).astype(np.float64).astype(F32), a * b


def integers_to_float(desc: Any, arrays: Arrays) -> Array:
    total, scale = scaled_sum(desc, arrays)
    bias = arrays.get("BiasTensor")
    return total * scale if bias is None else total * scale + bias.astype(F32)


def quantised(x: Array, zero_point: Array | None, dtype: np.dtype[Any]) -> Array:
    """Rounded, halves to even, and at the nearest end of the range."""
    rounded = np.rint(x).astype(np.float64)
    return saturated(rounded if zero_point is None else rounded + zero_point.astype(np.float64), dtype)


def quantised_product(desc: Any, arrays: Arrays) -> Array:
    total, scale = scaled_sum(desc, arrays)
    scale = scale / numbers(desc, arrays, "OutputScaleTensor", True)
    zero = "OutputZeroPointTensor"
    zero_point = numbers(desc, arrays, zero, True) if zero in arrays else None
    return quantised(total * scale, zero_point, desc.output_tensor.data_type.dtype)


def dequantised(x: Array, scale: Array, zero_point: Array | None) -> Array:
    wide = x.astype(np.int64) if zero_point is None else x.astype(np.int64) - zero_point.astype(np.int64)
    return np.asarray(wide.astype(F32) * scale.astype(F32))


def quantise(desc: Any, arrays: Arrays) -> Array:
    x, scale = (arrays[field].astype(F32) for field in ("InputTensor", "ScaleTensor"))
    return quantised(x / scale, arrays.get("ZeroPointTensor"), desc.output_tensor.data_type.dtype)


def dequantise(desc: Any, arrays: Arrays) -> Array:
    return dequantised(arrays["InputTensor"], arrays["ScaleTensor"], arrays.get("ZeroPointTensor"))


def quantised_sum(desc: Any, arrays: Arrays) -> Array:
    a, b = (
        dequantised(arrays[f"{x}Tensor"], arrays[f"{x}ScaleTensor"], arrays.get(f"{x}ZeroPointTensor")) for x in "AB"
    )
    zero_point = arrays.get("OutputZeroPointTensor")
    return quantised((a + b) / arrays["OutputScaleTensor"], zero_point, desc.output_tensor.data_type.dtype)


def in_blocks(desc: Any, arrays: Arrays, kind: dml.DataType) -> tuple[Array, Array, Array]:
    """The input, and a scale and a zero point for each of its elements."""
    x, *others = (arrays[slot] for slot in ("InputTensor", *_BLOCK_SLOTS) if slot in arrays)
    for i, one in enumerate(others):
        for axis, (size, own) in enumerate(zip(x.shape, one.shape, strict=True)):
            others[i] = np.repeat(others[i], size // own, axis)
    middle = 0 if kind.is_signed else (kind.limits[1] + 1) // 2
    scale, zero_point = (*others, np.full(x.shape, middle))[:2]
    return x, scale, zero_point


def quantise_blocks(desc: Any, arrays: Arrays) -> Array:
    kind = desc.output_tensor.data_type
    x, scale, zero_point = in_blocks(desc, arrays, kind)
    return quantised(x.astype(F32) / scale.astype(F32), zero_point, kind.dtype)


def dequantise_blocks(desc: Any, arrays: Arrays) -> Array:
    return dequantised(*in_blocks(desc, arrays, desc.input_tensor.data_type))


def quantise_dynamically(desc: Any, arrays: Arrays) -> list[Array]:
    x, dtype = arrays["InputTensor"].astype(F32), desc.output_tensor.data_type.dtype
    low = np.minimum(x.min(), F32(0))
    extent = np.maximum(x.max(), F32(0)) - low
    scale = F32(1) if extent == 0 else extent / F32(255)
    zero_point = saturated(np.rint(np.array(np.iinfo(dtype).min - low / scale)), dtype)
    one = (1,) * x.ndim
    return [quantised(x / scale, zero_point, dtype), np.full(one, scale, F32), zero_point.reshape(one)]


ORACLE: dict[str, Callable[[Any, Arrays], Any]] = {
    "GEMM": gemm,
    "MATRIX_MULTIPLY_INTEGER": integers,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": integers_to_float,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": quantised_product,
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantise,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": dequantise,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": quantised_sum,
    "DYNAMIC_QUANTIZE_LINEAR": quantise_dynamically,
    "QUANTIZE": quantise_blocks,
    "DEQUANTIZE": dequantise_blocks,
    **windows.ORACLE,
    **attention.ORACLE,
    **recurrent.ORACLE,
}
_BLOCK_SLOTS = ("QuantizationTensors[0]", "QuantizationTensors[1]")


def expected(desc: dml.OperatorDesc, arrays: Arrays) -> list[Array]:
    """What comes out, in the outputs' types."""
    with np.errstate(all="ignore"):
        found = ORACLE[desc.type.name](desc, arrays)
        results = found if isinstance(found, list) else [found]
        return [
            result.astype(output.data_type.dtype).reshape(output.sizes)
            for result, output in zip(results, desc.outputs().values(), strict=True)
        ]


# Small examples, by DirectML's names of the tensors; of one that is not in the documents the numbers are our own


def _array(data_type: str, values: Any, *sizes: int) -> Array:
    return np.array(values, data_type).reshape(sizes or (1, 1, 1, 1))


_BYTES = {"ATensor": _array("uint8", range(6), 1, 1, 2, 3), "BTensor": _array("uint8", range(12), 1, 1, 3, 4)}
_ZEROS = {"AZeroPointTensor": _array("uint8", [1, 2], 1, 1, 2, 1), "BZeroPointTensor": _array("uint8", 3)}
_SCALES = {"AScaleTensor": _array("float32", 0.5), "BScaleTensor": _array("float32", 0.25)}
_OUTPUT = {"OutputScaleTensor": _array("float32", 0.5), "OutputZeroPointTensor": _array("uint8", 100)}
_LINE = {"InputTensor": _array("float32", [-3, 0.25, 0.75, 1, 100, -90], 1, 1, 2, 3)}
_LINE_SCALES = {"ScaleTensor": _array("float32", [0.5] * 6, 1, 1, 2, 3)}
_LINE_ZEROS = {"ZeroPointTensor": _array("uint8", [128] * 6, 1, 1, 2, 3)}
_BLOCKS = (_array("float32", [0.5, 0.25], 1, 1, 2, 1), _array("uint8", [128, 100], 1, 1, 2, 1))
SMALL: dict[str, tuple[Arrays, dict[str, Any]]] = {
    # DxDispatch's dml_gemm
    "GEMM": (
        {
            "ATensor": _array("float32", [1, 2, 3], 1, 1, 3, 1),
            "BTensor": _array("float32", [4, 5, 6], 1, 1, 1, 3),
            "CTensor": _array("float32", [2] * 9, 1, 1, 3, 3),
        },
        {},
    ),
    "MATRIX_MULTIPLY_INTEGER": ({**_BYTES, **_ZEROS}, {}),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": (
        {**_BYTES, **_ZEROS, **_SCALES, "BiasTensor": _array("float32", range(8), 1, 1, 2, 4)},
        {},
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": (
        {**_BYTES, **_SCALES, **_ZEROS, **_OUTPUT, "BZeroPointTensor": _array("uint8", range(4), 1, 1, 1, 4)},
        {},
    ),
    "ELEMENT_WISE_QUANTIZE_LINEAR": ({**_LINE, **_LINE_SCALES, **_LINE_ZEROS}, {}),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": (
        {"InputTensor": _array("uint8", range(125, 131), 1, 1, 2, 3), **_LINE_SCALES, **_LINE_ZEROS},
        {},
    ),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": (
        {"ATensor": _BYTES["ATensor"], "BTensor": _BYTES["ATensor"] * 2, **_SCALES, **_OUTPUT},
        {},
    ),
    "QUANTIZE": (
        {**_LINE, **dict(zip(_BLOCK_SLOTS, _BLOCKS, strict=True))},
        {"quantization_type": "SCALE_ZERO_POINT"},
    ),
    "DEQUANTIZE": (
        {"InputTensor": _array("uint8", range(125, 131), 1, 1, 2, 3), _BLOCK_SLOTS[0]: _BLOCKS[0]},
        {"quantization_type": "SCALE"},
    ),
    "DYNAMIC_QUANTIZE_LINEAR": ({"InputTensor": _array("float32", [0, 2, -13.75, -2.5, 50, 0.5], 1, 1, 2, 3)}, {}),
    **windows.SMALL,
    **attention.SMALL,
    **recurrent.SMALL,
}


def in_order(cls: type[dml.OperatorDesc], arrays: Arrays) -> dict[str, Array]:
    """Arrays by the slots' own names, in binding order."""
    slots = [slot for name in cls.input_names() for slot in (name, f"{name}[0]", f"{name}[1]")]
    return {slot: arrays[dml_name(slot)] for slot in slots if dml_name(slot) in arrays}


def infer(cls: type[dml.OperatorDesc], given: dict[str, Array], attributes: dict[str, Any]) -> dml.OperatorDesc:
    """The description of packed arrays, given by slots."""
    tensors: dict[str, Any] = {}
    for slot, array in given.items():
        name, several, _ = slot.partition("[")
        tensor = dml.TensorDesc(array.dtype, array.shape)
        tensors[name] = [*tensors.get(name, []), tensor] if several else tensor
    return cls.infer(**tensors, **attributes)


def small_example(cls: type[dml.OperatorDesc]) -> tuple[dml.OperatorDesc, list[Array], list[Array]]:
    """The description, the inputs in binding order, and what comes out."""
    arrays, attributes = SMALL[cls.type.name]
    given = in_order(cls, arrays)
    desc = infer(cls, given, attributes)
    return desc, list(given.values()), expected(desc, arrays)


PRODUCTS: list[type[dml.OperatorDesc]] = [cls for kind, cls in dml.OPERATORS.items() if kind.name in ORACLE]


# Random descriptions: every level, type, layout, transposition and epilogue


LEVELS = tuple(reversed(FeatureLevel))
SCALES = (0.5, 0.25, 1.0, 2.0, 0.1, 3.0, -0.5)
ACTIVATIONS: tuple[Any, ...] = (
    None, "RELU", {"Type": "LEAKY_RELU", "Alpha": 0.5}, {"Type": "CLIP", "Min": -3, "Max": 7.5},
    {"Type": "CLIP", "Min": 0, "Max": 9, "ScaleBias": (0.5, 1)}, {"Type": "LINEAR", "Alpha": 2, "Beta": -1}, "TANH",
    "SIGMOID", {"Type": "ELU", "Alpha": 0.5}, "SOFTPLUS", "GELU", "IDENTITY", {"Type": "SHRINK", "Bias": 1},
    "HARD_SIGMOID", "SOFTSIGN", "CELU", "SCALED_ELU", "SCALED_TANH", "THRESHOLDED_RELU",
    {"Type": "PARAMETRIC_SOFTPLUS", "Alpha": 2, "Beta": 0.5},
)  # fmt: skip


@st.composite
def product_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    if issubclass(cls, Attention):
        tensors, attributes, contents = draw_attention(draw, cls)
        return make_case(draw, cls, level, tensors, attributes, contents=contents)
    row = cls.support.row_at(level)
    fields = [name for name in (*cls.input_names(), *cls.output_names()) if _is_there(draw, cls, name, row)]
    make: Callable[..., dict[str, Tensor]] = _matrices if issubclass(cls, Product) else _elements
    make = _windows if issubclass(cls, Windowed) or cls.type.name in RECURRENT else make
    attributes = _attributes(draw, cls, level)
    types = _types(draw, cls, fields, row)
    tensors = make(draw, cls, fields, row, types, attributes)
    contents = {
        name: _content(draw, tensor, is_scale="scale" in name, below=_below(name, tensors))
        for name, tensor in tensors.items()
        if name in cls.input_names()
    }
    return make_case(draw, cls, level, tensors, attributes, contents=contents)


def _is_there(draw: st.DrawFn, cls: Operator, name: str, row: LevelSupport) -> bool:
    optional = (*cls.optional_inputs(), *cls.optional_outputs())
    return name not in optional or dml_name(name) in row.required or pick(draw, (True, False))


def _types(draw: st.DrawFn, cls: Operator, fields: Sequence[str], row: LevelSupport) -> dict[str, DataType]:
    """Of each tensor one that the level takes, or another tensor's."""
    like: Any = getattr(cls, "typed_alike")() if hasattr(cls, "typed_alike") else {}  # noqa: B009 - not of every one
    if cls is dml.DynamicQuantizeLinear:
        like = {"OutputZeroPointTensor": "OutputTensor"}
    found: dict[str, DataType] = {}
    for name in fields:
        taken = row.tensors[dml_name(name)].data_types
        other = found.get(like.get(dml_name(name), ""))
        found[dml_name(name)] = other if other in taken else pick(draw, sorted(taken))
    if cls is dml.ElementWiseQuantizeLinear and found["InputTensor"] is DataType.INT32:
        found["ScaleTensor"] = DataType.FLOAT32
    return found


def _attributes(draw: st.DrawFn, cls: Operator, level: FeatureLevel) -> dict[str, Any]:
    if cls not in (dml.Gemm, dml.Convolution):
        return {}
    activation = pick(draw, ACTIVATIONS if level >= FeatureLevel.LEVEL_6_0 else ACTIVATIONS[:3])
    if cls is dml.Convolution:
        return {"fused_activation": activation}
    turned = [pick(draw, tuple(dml.MatrixTransform)) for _ in range(2)]
    factors = [pick(draw, (1.0, 2.0, -0.5, 0.0)) for _ in range(2)]
    return {
        "trans_a": turned[0],
        "trans_b": turned[1],
        "alpha": factors[0],
        "beta": factors[1],
        "fused_activation": activation,
    }


def _matrices(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    attributes: dict[str, Any],
) -> dict[str, Tensor]:
    assert issubclass(cls, Product)
    rank = pick(draw, row.tensors["ATensor"].dimension_counts)
    batch = draw_sizes(draw, rank - 2, 6) if rank > 2 else ()
    rows, columns, length = (1 + draw(st.integers(0, most)) for most in (4, 4, 8))
    turned_a, turned_b = cls.turned(**attributes)
    sizes = {
        "ATensor": (*batch, *((length, rows) if turned_a else (rows, length))),
        "BTensor": (*batch, *((columns, length) if turned_b else (length, columns))),
        "OutputTensor": (*batch, rows, columns),
        **dict.fromkeys(cls.whole, (*batch, rows, columns)),
    }
    own = pick(draw, row.tensors.get("AScaleTensor", row.tensors["ATensor"]).dimension_counts)
    for name in map(dml_name, fields):
        if name not in sizes:
            place, count = (max(-2, -own), rows) if name in cls.by_row else (-1, columns)
            ones = [1] * own
            ones[place] = pick(draw, (1, count))
            sizes[name] = tuple(ones)
    return {
        name: draw_tensor(draw, types[dml_name(name)], sizes[dml_name(name)], is_output=name in cls.output_names())
        for name in fields
    }


def _windows(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    attributes: dict[str, Any],
) -> dict[str, Tensor]:
    rank = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes, more = recurrent_sizes(draw, cls) if cls.type.name in RECURRENT else window_sizes(draw, cls, rank)
    attributes |= more
    return {
        name: draw_tensor(draw, types[dml_name(name)], sizes[dml_name(name)], is_output=name in cls.output_names())
        for name in fields
    }


def _elements(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    _: dict[str, Any],
) -> dict[str, Tensor]:
    count = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    repeated = getattr(cls, "repeated", ())
    found = {}
    for name in fields:
        is_output = name in cls.output_names()
        own = tuple(pick(draw, (size, 1)) for size in sizes) if dml_name(name) in repeated else sizes
        if cls is dml.DynamicQuantizeLinear and name.endswith(("scale_tensor", "point_tensor")):
            own = (1,) * count
        found[name] = draw_tensor(draw, types[dml_name(name)], own, is_output=is_output)
    return found


def _below(name: str, tensors: dict[str, Tensor]) -> int:
    """What an index lies below: a place in the output, or a length that may be too long; 0 for what is none."""
    if name == "indices_tensor":
        return math.prod(tensors["output_tensor"].sizes)
    return 2 * tensors[name].extent if name == "sequence_lengths_tensor" else 0


def _content(draw: st.DrawFn, tensor: Tensor, *, is_scale: bool, below: int) -> Array:
    """Small whole numbers and quarters, of which products are exact; of bytes any."""
    rng = np.random.default_rng(draw(SEEDS))
    kind = tensor.data_type
    if is_scale:
        return rng.choice(np.array(SCALES, kind.dtype), tensor.extent)
    if kind.is_float:
        return rng.choice(np.array([*range(-4, 5), 0.25, 1.5, -0.75], kind.dtype), tensor.extent)
    info = np.iinfo(kind.dtype)
    if below:
        return rng.integers(0, below, tensor.extent).astype(kind.dtype)
    few = 2**15 if kind.size_in_bytes > 1 else 2**8
    return rng.integers(max(info.min, -few), min(info.max, few), tensor.extent, endpoint=True).astype(kind.dtype)


# Answers to them, and how they are compared

AVERAGE = "AVERAGE_POOLING_GRAD"
"""Which adds up rounded parts of elements: of both signs they may leave as little as what was rounded."""


def steps_of(desc: dml.OperatorDesc) -> int:
    """From one float to the next, that results may be off: functions are not rounded correctly, and sums of e^x."""
    activation = getattr(desc, "fused_activation", None)
    if activation is None:
        return {AVERAGE: 4, "LP_POOLING": 4, "LP_POOLING1": 4}.get(desc.type.name, 0)
    return STEPS.get(activation.type.name.removeprefix("ACTIVATION_"), 0) + 2


def by_slot(desc: dml.OperatorDesc, arrays: Sequence[Array]) -> Arrays:
    """Inputs in binding order by DirectML's names."""
    return dict(zip(desc.inputs(), arrays, strict=True))


def assert_near(got: Array, want: Array, desc: dml.OperatorDesc) -> None:
    """States that went through functions again and again, where they are known: what a step rounds may grow."""
    last, known = 2e-4 if got.dtype == np.float32 else 4e-3, np.isfinite(want)
    largest = np.abs(want[known]).max(initial=0)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got[known].astype(np.float64), want[known], 0, last * (1 + largest), err_msg=str(desc))


def check(desc: dml.OperatorDesc, got: list[Array], arrays: Arrays, engine: str) -> None:
    """Bits where sums are exact; what goes through functions or loses digits within what that takes."""
    if desc.type.name.startswith("MULTIHEAD"):
        attention.assert_attended(desc, arrays, got, engine)
        return
    for one, want in zip(got, expected(desc, arrays), strict=True):
        want = want.reshape(one.shape)
        if desc.type.name in RECURRENT:
            assert_near(one, want, desc)
            continue
        if desc.type.name == AVERAGE:
            (sizes,) = expected(desc, {slot: np.abs(array) for slot, array in arrays.items()})
            room = steps_of(desc) * np.finfo(one.dtype).eps * sizes.reshape(one.shape).astype(np.float64)
            one = np.where(np.abs(one.astype(np.float64) - want) <= room, want, one)
        assert_within(one, want, steps_of(desc), either_zero=True, about=desc)


RULES = [*broken_rules.PRODUCTS, *broken_rules.WINDOWS, *broken_rules.ATTENTION]
FAMILY = Family(PRODUCTS, product_cases, by_slot, check, rules=RULES)
