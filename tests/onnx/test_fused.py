"""Node types that ONNX Runtime's quantiser and optimiser write, against ONNX Runtime."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from onnx_answers import session_of
from onnx_models import onnx

from anydml.onnx import load  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.lower.fused_nodes import BODIES  # isort: skip

pytest.importorskip("onnxruntime", reason="ONNX Runtime is what its node types are compared with")

RNG = np.random.default_rng(19)


def _floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def _bytes(*shape: int, kind: Any = np.uint8, scale: float = 0.1, zero: int = 5) -> list[Any]:
    """Numbers of 8 bits, their scale and their zero point; signed ones, which weights are, have 7 bits.

    Of two products with larger weights ONNX Runtime cuts off the sum, on an x86 without dot instructions.
    """
    low, high = (-64, 64) if kind is np.int8 else (0, 256)
    numbers = RNG.integers(low, high, shape).astype(kind)
    return [numbers, np.float32(scale), np.array(zero, kind)]


def _scale(scale: float, zero: int = 3, kind: Any = np.uint8) -> list[Any]:
    return [np.float32(scale), np.array(zero, kind)]


def _products() -> list[Any]:
    return [*_bytes(3, 8), *_bytes(4, 8, kind=np.int8, scale=0.02, zero=0)]


ROWS = [*_bytes(3, 8), *_bytes(8, 4, kind=np.int8)]
WORDS = RNG.integers(0, 9, (2, 3)).astype(np.int32)
EMBEDDED = [WORDS, WORDS % 2, _floats(9, 8), _floats(6, 8), _floats(2, 8), _floats(8), _floats(8)]
FILTERS = _bytes(4, 3, 3, 3, kind=np.int8, scale=0.02, zero=0)
BIAS = RNG.integers(-99, 99, 4).astype(np.int32)
HEADS = _bytes(8, 24, kind=np.int8)[0]
SCALES, ZEROS = [np.float32(0.02), np.float32(0.01)], [np.uint8(7), np.int8(0)]
MASK = np.array([5, 3], np.int32)
TABLE = _bytes(9, 24)[0]
INT4 = RNG.integers(-8, 8, (9, 32)).astype("int4")
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("QLinearAdd", [*_bytes(2, 3, 8), *_bytes(3, 8, scale=0.07, zero=128), *_scale(0.2)], {}),
    ("QLinearAdd", [*_bytes(8, kind=np.int8), *_bytes(8, kind=np.int8, scale=0.07), *_scale(0.2, -4, np.int8)], {}),
    ("QLinearMul", [*_bytes(2, 3, 8), *_bytes(1), *_scale(1.5)], {}),
    ("QLinearSigmoid", [*_bytes(4, 8, scale=0.05, zero=128), *_scale(1 / 256, 0)], {}),
    ("QLinearLeakyRelu", [*_bytes(4, 8, zero=128), *_scale(0.1)], {"alpha": 0.3}),
    ("QLinearSoftmax", [*_bytes(4, 8, scale=0.02), *_scale(1 / 256, 0)], {"axis": -1, "opset": 13}),
    ("QLinearSoftmax", [*_bytes(4, 3, 2, scale=0.02), *_scale(1 / 256, 0)], {"axis": 1, "opset": 9}),
    ("QLinearGlobalAveragePool", [*_bytes(1, 3, 4, 5), *_scale(0.1)], {}),
    ("QLinearAveragePool", [*_bytes(1, 3, 6, 6), *_scale(0.1)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("QLinearGlobalAveragePool", [*_bytes(1, 4, 5, 3), *_scale(0.1)], {"channels_last": 1}),
    ("QLinearConv", [*_bytes(2, 6, 5, 3), *FILTERS, *_scale(0.4), BIAS], {"channels_last": 1, "pads": [1] * 4}),
    ("QLinearConv", [*_bytes(1, 3, 6, 6), *FILTERS, *_scale(0.4)], {"strides": [2, 2]}),
    ("NhwcMaxPool", _bytes(1, 7, 6, 4)[:1], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("QLinearConcat", [*_scale(0.1), *_bytes(2, 3), *_bytes(2, 5, scale=0.05)], {"axis": 1}),
    ("QLinearWhere", [RNG.random((4, 8)) < 0.5, *_bytes(4, 8), *_bytes(4, 8, scale=0.05), *_scale(0.1)], {}),
    ("QGemm", [*_products(), RNG.integers(-99, 99, 4).astype(np.int32), *_scale(0.3)], {"transB": 1}),
    ("QGemm", [*_products(), None], {"transB": 1, "alpha": 0.5}),
    ("MatMulIntegerToFloat", [*ROWS[::3], *ROWS[1::3], *ROWS[2::3], _floats(4)], {}),
    ("DynamicQuantizeMatMul", [_floats(3, 8), *_bytes(8, 4, kind=np.int8), _floats(4)], {}),
    ("FusedMatMul", [_floats(2, 8, 3), _floats(5, 8)], {"transA": 1, "transB": 1, "alpha": 0.3}),
    ("TransposeMatMul", [_floats(2, 8, 3), _floats(5, 8)], {"transA": 1, "transB": 1}),
    ("QAttention", [_bytes(2, 5, 8)[0], HEADS, _floats(24), *SCALES, MASK, *ZEROS], {"num_heads": 2}),
    ("QAttention", [_bytes(1, 5, 8)[0], HEADS, _floats(24), *SCALES], {"num_heads": 2, "unidirectional": 1}),
    ("GatherBlockQuantized", [TABLE, WORDS, _floats(9, 3)], {"block_size": 16, "quantize_axis": 1}),
    ("GatherBlockQuantized", [TABLE, WORDS, _floats(9, 3), TABLE[:, :2]], {"block_size": 16, "quantize_axis": 1}),
    ("GatherBlockQuantized", [TABLE[:, :8], WORDS, _floats(9, 1), TABLE[:, :1]], {"block_size": 16}),
    ("GatherBlockQuantized", [TABLE[:, :16], WORDS, _floats(9, 1)], {"block_size": 16, "bits": 8}),
    ("GatherBlockQuantized", [TABLE[:, :8], WORDS, _floats(9, 2)], {"block_size": 16, "bits": 2}),
    ("GatherBlockQuantized", [TABLE[:, :8], WORDS, _floats(9, 2), TABLE[:, :1]], {"block_size": 16, "bits": 2}),
    ("GatherBlockQuantized", [TABLE[:, :12], WORDS, _floats(9, 2), TABLE[:, :1]], {"block_size": 16}),
    ("GatherBlockQuantized", [INT4, WORDS, _floats(9, 2), INT4[:, :2]], {"block_size": 16}),
    ("GatherBlockQuantized", [(INT4.astype(int) + 8).astype("uint4"), WORDS, _floats(9, 2)], {"block_size": 16}),
    ("FusedConv", [_floats(1, 3, 6, 6), _floats(4, 3, 3, 3), _floats(4)], {"activation": "Relu", "pads": [1] * 4}),
    ("FusedConv", [_floats(1, 3, 6, 6), _floats(4, 3, 3, 3)], {"activation": "Clip", "activation_params": [-1.0, 2.0]}),
    ("FusedGemm", [_floats(3, 8), _floats(8, 4), _floats(4)], {"activation": "LeakyRelu", "activation_alpha": 0.3}),
    ("Gelu", [_floats(3, 8)], {}),
    ("BiasGelu", [_floats(3, 8), _floats(8)], {}),
    ("FastGelu", [_floats(3, 8), _floats(8)], {}),
    ("QuickGelu", [_floats(3, 8)], {"alpha": 1.5}),
    ("EmbedLayerNormalization", [*EMBEDDED, (WORDS > 2).astype(np.int32)], {"epsilon": 1e-5}),
    ("QuantizeLinear", [_floats(3, 8), *_scale(0.001, 900, np.uint16)], {}),
    ("DequantizeLinear", [RNG.integers(0, 999, (3, 8)).astype(np.int16), *_scale(0.1, 7, np.int16)], {}),
]  # fmt: skip


def _model(kind: str, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    helper = onnx.helper
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    feeds = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    outputs = ["y", "lengths"] if kind == "EmbedLayerNormalization" else ["y"]
    node = helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)
    carried = {name: feeds.pop(name) for name, value in [*feeds.items()] if value.dtype.name in ("int4", "uint4")}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in carried.items()]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "fused", infos, results, tensors)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


def test_each_type_has_a_case() -> None:
    assert set(BODIES) <= {kind for kind, *_ in (*CASES, *ELSEWHERE)}


@pytest.mark.parametrize(("kind", "inputs", "attributes"), CASES, ids=[f"{i} {one[0]}" for i, one in enumerate(CASES)])
def test_a_node_is_what_onnx_runtime_says(kind: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """Numbers of 8 bits may be the neighbour where a quotient lies between two."""
    model, feeds = _model(kind, inputs, attributes)
    session = session_of(model)
    for ours, theirs in zip(load(model, strict=True).run(feeds).values(), session.run(None, feeds), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        allowed = 4e-6 * np.abs(theirs).max() if theirs.dtype.kind == "f" else 1
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=0, atol=allowed)
        assert theirs.dtype.kind == "f" or (ours == theirs).mean() > 0.9


def _group_norm(x: Any, gamma: Any, beta: Any, *, is_last: bool, is_silu: bool) -> Any:
    """Of two groups of channels, an epsilon of 0.01."""
    images = np.moveaxis(x, -1, 1) if is_last else x
    rows = images.reshape(len(x), 2, -1)
    normed = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 0.01)
    found = normed.reshape(images.shape) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    found = found / (1 + np.exp(-found)) if is_silu else found
    return np.moveaxis(found, 1, -1) if is_last else found


def _gated(x: Any, bias: Any) -> Any:
    left, right = np.split((x + bias).astype(float), 2, -1)
    return left * right * (1 + np.vectorize(math.erf)(right / math.sqrt(2))) / 2


def _convolved(x: Any, w: Any, b: Any) -> Any:
    """Of windows of 3 x 3, two apart."""
    views = np.lib.stride_tricks.sliding_window_view(x, (1, 3, 3, 1))[:, ::2, ::2, :, 0, ..., 0]
    return np.einsum("nhwcij,ocij->nhwo", views, w) + b


GROUPED = {"groups": 2, "epsilon": 0.01}
ELSEWHERE: list[tuple[str, list[Any], dict[str, Any], Any]] = [
    ("BiasAdd", [_floats(2, 3, 8), _floats(8), _floats(2, 3, 8)], {}, lambda x, bias, skip: x + bias + skip),
    ("BiasSplitGelu", [_floats(2, 3, 8), _floats(8)], {}, _gated),
    ("FusedMatMulActivation", [_floats(3, 8), _floats(4, 8)], {"activation": "Relu", "transB": 1, "alpha": 0.5},
     lambda a, b: np.maximum(a @ b.T / 2, 0)),
    ("GroupNorm", [_floats(2, 5, 4, 6), _floats(6), _floats(6)], {**GROUPED, "activation": 1},
     functools.partial(_group_norm, is_last=True, is_silu=True)),
    ("GroupNorm", [_floats(2, 6, 5, 4), _floats(6), _floats(6)], {**GROUPED, "activation": 0, "channels_last": 0},
     functools.partial(_group_norm, is_last=False, is_silu=False)),
    ("NhwcConv", [_floats(2, 7, 9, 3), _floats(4, 3, 3, 3), _floats(4)], {"strides": [2, 2]}, _convolved),
]  # fmt: skip
"""Types of which ONNX Runtime has kernels for GPUs alone, DirectML's among them."""


@pytest.mark.parametrize(("kind", "inputs", "attributes", "says"), ELSEWHERE, ids=[one[0] for one in ELSEWHERE])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_node_that_onnx_runtime_has_on_gpus(
    kind: str, inputs: list[Any], attributes: dict[str, Any], says: Any, dtype: Any
) -> None:
    given = [value.astype(dtype) for value in inputs]
    model, feeds = _model(kind, given, attributes)
    found, wanted = load(model, strict=True).run(feeds)["y"], says(*(value.astype(float) for value in given))
    assert (found.dtype, found.shape) == (dtype, wanted.shape)
    room = 4e-6 if dtype is np.float32 else 4e-3
    np.testing.assert_allclose(found.astype(float), wanted, rtol=0, atol=room * np.abs(wanted).max())
