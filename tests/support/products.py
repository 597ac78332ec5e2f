"""Products of matrices, what quantises, and what has windows or steps: what they give in NumPy, and small examples.

Products of small numbers are exact, and what follows them is rounded in FLOAT32 operation by operation: results are the
same bits, but for the functions of fused activations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
import attention
import recurrent
import windows
from anydml.operators.schema.fields import dml_name
from elementwise import saturated
from elementwise_oracle import Array, activated

if TYPE_CHECKING:
    from collections.abc import Callable

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
