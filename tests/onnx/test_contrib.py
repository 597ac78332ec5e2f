"""ONNX Runtime's own node types, against ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_answers import session_of
from onnx_models import helper, model, node, onnx

from anydml.onnx import load  # isort: skip - after the models, which leave this out where onnx is missing

pytest.importorskip("onnxruntime", reason="ONNX Runtime is what its node types are compared with")


def _model(kind: str, inputs: dict[str, Any], outputs: list[str], **attributes: Any) -> Any:
    domain, _, name = kind.rpartition(".")
    helper = onnx.helper
    node = helper.make_node(
        name, [key if value is not None else "" for key, value in inputs.items()], outputs, domain=domain, **attributes
    )
    given = {key: value for key, value in inputs.items() if value is not None}
    infos = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for key, value in given.items()
    ]
    results = [helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, None) for key in outputs if key]
    graph = helper.make_graph([node], "contrib", infos, results)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _compare(kind: str, inputs: dict[str, Any], outputs: list[str], **attributes: Any) -> None:
    model = _model(kind, inputs, outputs, **attributes)
    feeds = {key: value for key, value in inputs.items() if value is not None}
    session = session_of(model)
    found = load(model).run(feeds)
    for name, wanted in zip([key for key in outputs if key], session.run(None, feeds), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=4e-6 * np.abs(wanted).max(), err_msg=name)


def _random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_norms(kind: str, bias: bool) -> None:
    inputs = {"input": _random(2, 3, 8), "skip": -_random(2, 3, 8)[::-1], "gamma": _random(8)}
    if kind == "SkipLayerNormalization":
        inputs["beta"] = _random(8)
    if bias:
        inputs["bias"] = _random(8) / 2
    _compare(f"com.microsoft.{kind}", inputs, ["y", "", "", "total"], epsilon=1e-5)


def test_simplified_norm() -> None:
    _compare("SimplifiedLayerNormalization", {"X": _random(4, 8), "scale": _random(8)}, ["y"], epsilon=1e-5)


@pytest.mark.parametrize("zeros", ["", "packed", "floats"])
@pytest.mark.parametrize(("length", "block", "rows"), [(64, 32, 1), (96, 32, 5), (80, 16, 2), (50, 16, 3)])
def test_products_with_weights_of_4_bits(length: int, block: int, rows: int, zeros: str) -> None:
    rng = np.random.default_rng(length + rows)
    columns, count = 6, -(-length // block)
    inputs: dict[str, Any] = {
        "A": rng.standard_normal((2, rows, length)).astype(np.float32),
        "B": rng.integers(0, 256, (columns, count, block // 2)).astype(np.uint8),
        "scales": rng.random(columns * count).astype(np.float32),
    }
    if zeros:
        packed = rng.integers(0, 256, columns * -(-count // 2)).astype(np.uint8)
        numbers = rng.integers(0, 16, columns * count).astype(np.float32)
        inputs["zero_points"] = packed if zeros == "packed" else numbers
    _compare("com.microsoft.MatMulNBits", inputs, ["y"], K=length, N=columns, bits=4, block_size=block)


@pytest.mark.parametrize(
    ("rows", "zeros", "kind", "block"),
    [(1, False, "f4", 32), (7, True, "f4", 32), (32, False, "f2", 32), (33, False, "f4", 32), (3, True, "f4", 64)],
)
def test_products_that_may_round_their_rows(rows: int, zeros: bool, kind: str, block: int) -> None:
    """At the accuracy level 4 the error is not above ONNX Runtime's, which rounds rows to 8 bits."""
    rng = np.random.default_rng(rows)
    length, columns = 256, 64
    feeds: dict[str, Any] = {
        "A": rng.standard_normal((rows, length)).astype(kind),
        "B": rng.integers(0, 256, (columns, length // block, block // 2)).astype(np.uint8),
        "scales": rng.random(columns * length // block).astype(kind),
    }
    if zeros:
        feeds["zero_points"] = rng.integers(0, 256, columns * length // block // 2).astype(np.uint8)
    found = []
    for level in (0, 4):
        attributes = {"K": length, "N": columns, "bits": 4, "block_size": block, "accuracy_level": level}
        proto = _model("com.microsoft.MatMulNBits", feeds, ["y"], **attributes)
        del proto.graph.input[1:]
        proto.graph.output[0].CopyFrom(
            helper.make_tensor_value_info("y", proto.graph.input[0].type.tensor_type.elem_type, None)
        )
        proto.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in list(feeds)[1:])
        found.append(load(proto).run({"A": feeds["A"]})["y"])
    session = session_of(proto)
    exact, rounded = (y.astype(float) for y in found)
    mine, theirs = (np.sqrt(np.mean((y - exact) ** 2)) for y in (rounded, session.run(None, {"A": feeds["A"]})[0]))
    assert mine <= 1.02 * theirs
    # Some CPUs round no more rows than others are read as they lie.
    reads = dml.Device("cpu").engine.traits.weight_only_rows
    assert bool(mine) == (rows <= reads.get((dml.DataType.INT8, 4), reads[dml.DataType.FLOAT32, 4]))


@pytest.mark.parametrize("rows", [1, 4])
def test_a_gate_and_what_it_multiplies_stay_two_products(rows: int) -> None:
    """Together they are no product that an engine knows: they took 80 times as long."""
    rng, length = np.random.default_rng(rows), 64
    nodes, weights = [], {}
    for name in ("gate", "up"):
        given = ["x", f"{name}_weight", f"{name}_scales"]
        attributes = {"K": length, "N": length, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
        nodes.append(helper.make_node("MatMulNBits", given, [name], **attributes))
        weights[given[1]] = rng.integers(0, 256, (length, length // 32, 16)).astype(np.uint8)
        weights[given[2]] = rng.random(length * length // 32).astype(np.float32)
    nodes += [node("Sigmoid", "gate", "s"), node("Mul", "gate s", "silu"), node("Mul", "silu up", "y")]
    proto = model(nodes, {"x": ("float32", [rows, length])}, "y", weights, dtypes={"y": "float32"})
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    loaded, x = load(proto), _random(rows, length)
    (wanted,) = session_of(proto).run(None, {"x": x})
    np.testing.assert_allclose(loaded.run({"x": x})["y"], wanted, rtol=0, atol=4e-6 * np.abs(wanted).max())
    assert len(loaded.schedules) == 2, str(loaded.schedules)


@pytest.mark.parametrize("count", [4, 5])
def test_zero_points_of_an_odd_count_of_blocks_are_unpacked_once(count: int) -> None:
    """A row of them ends in half a byte. Unpacked in each run, one row by 2080 x 2048 took 0.40 ms, and takes 0.30."""
    rng, columns = np.random.default_rng(count), 64
    weights = {
        "w": rng.integers(0, 256, (columns, count, 16)).astype(np.uint8),
        "s": rng.random(columns * count).astype(np.float32),
        "z": rng.integers(0, 256, columns * -(-count // 2)).astype(np.uint8),
    }
    attributes = {"K": 32 * count, "N": columns, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    nodes = [helper.make_node("MatMulNBits", ["x", *weights], ["y"], **attributes)]
    proto = model(nodes, {"x": ("float32", [1, 32 * count])}, "y", weights, dtypes={"y": "float32"})
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    loaded, x = load(proto), _random(1, 32 * count)
    (wanted,) = session_of(proto).run(None, {"x": x})
    np.testing.assert_allclose(loaded.run({"x": x})["y"], wanted, rtol=0, atol=4e-6 * np.abs(wanted).max())
    assert len(loaded.schedules) == 1, str(loaded.schedules)


def test_what_is_not_there_is_refused() -> None:
    weights = {"A": _random(1, 32), "B": np.zeros((4, 1, 8), np.uint8), "scales": _random(4)}
    model = _model("com.microsoft.MatMulNBits", weights, ["y"], K=32, N=4, bits=3, block_size=32)
    with pytest.raises(dml.UnsupportedError, match="weights of 3 bits are not supported"):
        load(model, strict=True).run(weights)
    model = _model("com.microsoft.MatMulNBits", weights, ["y"], K=32, N=4, bits=4, block_size=32)
    with pytest.raises(dml.ModelError, match=r"B must have the shape \(4, 1, 16\), as K, N, bits and block_size say"):
        load(model).run(weights)
    model = _model("com.microsoft.Inverse", {"x": _random(2, 2)}, ["y"])
    with pytest.raises(dml.UnsupportedError, match=r"com\.microsoft\.Inverse is not supported"):
        load(model, strict=True)


_CURVES: dict[tuple[str, str], Any] = {
    ("", "Mish"): lambda x: x * np.tanh(np.log1p(np.exp(x))),
    ("", "Gelu"): lambda x: x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ("com.microsoft", "FastGelu"): lambda x: x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ("com.microsoft", "BiasGelu"): lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    ("com.microsoft", "QuickGelu"): lambda x: x / (1 + np.exp(-1.702 * x)),
}


@pytest.mark.parametrize(("domain", "kind"), _CURVES)
def test_curves_of_float16_are_rounded_once(domain: str, kind: str) -> None:
    """Each step's rounding made them 1.2 to 1.8 times as wrong as that of the result alone."""
    inputs = {"x": _random(64, 48).astype(np.float16)}
    whole = inputs["x"].astype(np.float64)
    if kind in ("FastGelu", "BiasGelu"):
        inputs["bias"] = _random(48).astype(np.float16)
        whole = whole + inputs["bias"]
    wanted = _CURVES[domain, kind](whole)
    options = {"approximate": "tanh"} if kind == "Gelu" else {}
    made = node(kind, " ".join(inputs), "y", domain=domain, **options)
    proto = model(made, {name: (value.dtype, value.shape) for name, value in inputs.items()}, opset=20)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = load(proto, strict=True).run(inputs)["y"]
    mine, least = (np.square(one.astype(np.float64) - wanted).mean() for one in (found, wanted.astype(np.float16)))
    assert found.dtype == np.float16
    assert mine < 1.1 * least


@pytest.mark.parametrize("kind", ["BiasAdd", "GroupNorm"])
def test_nodes_of_several_steps_round_float16_once(kind: str) -> None:
    """The same as of FLOAT32, rounded: without it GroupNorm was 2.1 times as wrong, and BiasAdd 1.5 times."""
    rng, half = np.random.default_rng(1), np.float16
    x, row = rng.standard_normal((2, 5, 6, 8)).astype(half), rng.standard_normal(8).astype(half)
    if kind == "BiasAdd":
        inputs = {"x": x[0], "bias": row, "skip": x[1]}
        options = {}
    else:
        inputs = {"x": x, "gamma": row.astype("f4"), "beta": row[::-1].astype("f4")}
        options = {"groups": 2, "activation": 1}
    found = []
    for dtype in (half, np.float32):
        feeds = {name: value.astype(dtype) if value.dtype == half else value for name, value in inputs.items()}
        made = node(kind, " ".join(feeds), "y", domain="com.microsoft", **options)
        proto = model(made, {name: (value.dtype, value.shape) for name, value in feeds.items()})
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        found.append(load(proto, strict=True).run(feeds)["y"])
    assert found[0].dtype == half
    mine, least = (np.square(one.astype(np.float64) - found[1]).mean() for one in (found[0], found[1].astype(half)))
    assert mine < 1.05 * least


MHA = "com.microsoft.MultiHeadAttention"
_OUTPUTS = ["y", "present_key", "present_value"]


@pytest.mark.parametrize(
    ("mask", "attributes"),
    [
        (None, {}),
        (np.array([5, 3], np.int32), {"scale": 0.3}),
        (np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0]], np.int32), {"mask_filter_value": -100.0}),
        (np.random.default_rng(1).integers(0, 2, (2, 5, 5)).astype(np.int32), {}),
        (None, {"unidirectional": 1}),
    ],
)
def test_multi_head_attention(mask: Any, attributes: dict[str, Any]) -> None:
    q, k, v = (_random(2, 5, 12) * scale for scale in (1, -1, 2))
    inputs = {"query": q, "key": k, "value": v, "bias": _random(36), "mask": mask, "bias2": _random(1, 3, 5, 5)}
    _compare(MHA, inputs, ["y"], num_heads=3, **attributes)


def test_multi_head_attention_of_a_past_and_stacked() -> None:
    q, past = _random(2, 2, 12), _random(2, 3, 4, 4)
    inputs = {"q": q, "k": -q, "v": q * 2, "b": None, "m": None, "a": None, "past_key": past, "past_value": -past}
    _compare(MHA, inputs, _OUTPUTS, num_heads=3)
    _compare(MHA, {**inputs, "past_key": past[:, :, :0], "past_value": past[:, :, :0]}, _OUTPUTS, num_heads=3)
    _compare(MHA, {"q": q, "k": past, "v": -past}, ["y"], num_heads=3)
    # ONNX Runtime's CPU has no stacked ones: they are what they are apart.
    whole = _random(2, 5, 3, 3, 4)
    query, key, value = (np.ascontiguousarray(whole[:, :, :, i]).reshape(2, 5, 12) for i in range(3))
    pair = np.ascontiguousarray(whole[:, :, :, 1:])
    ways: list[dict[str, Any]] = [{"q": query, "k": key, "v": value}, {"q": whole}, {"q": query, "kv": pair}]
    wanted, *others = (load(_model(MHA, way, ["y"], num_heads=3)).run(way)["y"] for way in ways)
    for other in others:
        np.testing.assert_allclose(other, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_of_keys_by_heads_after_a_past(unidirectional: int) -> None:
    """They come after it, with a bias for the queries alone, a mask and what is added to scores or without."""
    past, keys = _random(2, 3, 4, 4), _random(2, 3, 5, 4)[::-1]
    for length, bias, mask in ((5, None, None), (5, _random(36), np.array([9, 7], np.int32)), (2, _random(36), None)):
        if length != 5 and unidirectional:
            continue
        inputs = {
            "q": _random(2, length, 12), "k": keys, "v": -keys, "b": bias, "m": mask,
            "a": None if mask is None else _random(1, 3, length, 9), "past_key": -past, "past_value": past,
        }  # fmt: skip
        _compare(MHA, inputs, _OUTPUTS, num_heads=3, unidirectional=unidirectional)


def test_multi_head_attention_refuses_what_it_cannot_tell() -> None:
    q, keys = _random(2, 2, 12), _random(2, 3, 5, 4)
    model = _model(MHA, {"q": q, "k": keys, "v": keys}, ["y"], num_heads=3, unidirectional=1)
    with pytest.raises(
        dml.UnsupportedError, match="unidirectional is not supported where key has another length, 5, than"
    ):
        load(model, strict=True)
    past = _random(2, 3, 4, 3)
    inputs = {"q": q, "k": keys, "v": keys, "b": None, "m": None, "a": None, "past_key": past, "past_value": past}
    with pytest.raises(dml.DmlError, match="past_key and past_value must have the sizes of key and value, but for the"):
        load(_model(MHA, inputs, ["y"], num_heads=3), strict=True)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(unidirectional: int) -> None:
    inputs = {"x": _random(2, 4, 6), "w": _random(6, 36), "b": _random(36), "mask": np.array([4, 3], np.int32)}
    kind = "com.microsoft.Attention"
    _compare(kind, inputs, ["y"], num_heads=3, unidirectional=unidirectional)
    inputs |= {"mask": None, "past": _random(2, 2, 3, 5, 4)}
    _compare(kind, inputs, ["y", "present"], num_heads=3, unidirectional=unidirectional)
    sizes = {"w": _random(6, 30), "b": _random(30), "past": None}
    _compare(kind, {**inputs, **sizes}, ["y"], num_heads=3, qkv_hidden_sizes=[12, 12, 6])


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_group_query_attention(packed: bool, rotary: int) -> None:
    """The first of all, a step after it, and several steps at once."""
    for batch, length, kept in ((2, 4, 0), (2, 1, 6), (1, 3, 5)):
        q, k, v = (_random(batch, length, hidden) for hidden in (96, 32, 32))
        parts = {"q": np.concatenate([q, k, -v], 2), "k": None, "v": None} if packed else {"q": q, "k": k, "v": -v}
        past = _random(batch, 2, kept, 16)
        total = kept + length
        inputs = {
            **parts, "past_key": past, "past_value": -past, "seqlens_k": np.full(batch, total - 1, np.int32),
            "total": np.array(total, np.int32), "cos": _random(12, 8), "sin": _random(12, 8) * 2,
        }  # fmt: skip
        attributes = {"num_heads": 6, "kv_num_heads": 2, "do_rotary": rotary}
        _compare("com.microsoft.GroupQueryAttention", inputs, _OUTPUTS, **attributes)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    kind, caches = "com.microsoft.RotaryEmbedding", {"cos": _random(9, 2), "sin": _random(9, 2) * 2}
    for positions in (np.array([3]), np.array([[0, 1, 4], [8, 2, 2]])):
        inputs = {"x": _random(2, 3, 12), "positions": positions.astype(np.int64), **caches}
        _compare(kind, inputs, ["y"], interleaved=interleaved)
        _compare(kind, {**inputs, "x": _random(2, 4, 3, 4)}, ["y"], interleaved=interleaved)
    packed = {"num_heads": 3, "rotary_embedding_dim": 4, "is_packed_batching": 1}
    inputs = {"x": _random(1, 12, 18), "positions": np.arange(12)[None] % 5, **caches}  # longer than the caches
    _compare(kind, inputs, ["y"], interleaved=interleaved, **packed)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("layout", "sections"), [(0, [2, 3, 3]), (1, [3, 3, 2]), (1, [8, 0, 0]), (0, [0, 8, 0])])
def test_rotary_embedding_by_time_row_and_column(interleaved: int, layout: int, sections: list[int]) -> None:
    kind, caches = "com.microsoft.MRotaryEmbedding", {"cos": _random(9, 8), "sin": _random(9, 8) * 2}
    positions = np.random.default_rng(0).integers(0, 9, (3, 2, 4))
    attributes = {"mrope_section": sections, "mrope_layout": layout, "interleaved": interleaved}
    for shape, more in (
        ((2, 4, 32), {"num_heads": 2}),
        ((2, 2, 4, 16), {}),
        ((2, 4, 48), {"num_heads": 2, "rotary_embedding_dim": 16}),
    ):
        inputs = {"x": _random(*shape), "positions": positions, **caches}
        _compare(kind, inputs, ["y"], **attributes, **more)


def test_sections_of_positions_make_up_the_caches() -> None:
    inputs = {"x": _random(1, 2, 32), "p": np.zeros((3, 1, 2), np.int64), "cos": _random(9, 8), "sin": _random(9, 8)}
    for sections in ([2, 3, 4], [8, 0], [9, -1, 0]):
        with pytest.raises(dml.DmlError, match="mrope_section must have 3 counts, of together 8 pairs"):
            _compare("com.microsoft.MRotaryEmbedding", inputs, ["y"], mrope_section=sections)
    with pytest.raises(dml.DmlError, match="mrope_layout must be 0"):
        _compare("com.microsoft.MRotaryEmbedding", inputs, ["y"], mrope_section=[8, 0, 0], mrope_layout=2)
