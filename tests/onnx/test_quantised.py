"""Networks that ONNX Runtime's quantiser made, in each form that it writes, and files as other converters have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_answers import session_of
from onnx_models import model as make_model
from onnx_models import onnx

from anydml.onnx import check, load  # isort: skip - after the models, which leave this out where onnx is missing

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime", reason="ONNX Runtime is what answers are compared with")
SHAPE = (1, 3, 12, 12)


def _network() -> Any:
    """A convolution, a depthwise one, a sum, pools and products, as image networks have them."""
    rng, make = np.random.default_rng(3), onnx.helper.make_node
    weights = {
        "w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (8, 8, 1, 1), "w4": (5, 8), "b4": (5,),
        "w5": (5, 4),
    }  # fmt: skip
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], strides=[2, 2], pads=[1, 1, 1, 1]),
        make("Relu", ["c1"], ["r1"]),
        make("Conv", ["r1", "w2", "b2"], ["c2"], group=8, pads=[1, 1, 1, 1]),
        make("Conv", ["c2", "w3"], ["c3"]),
        make("Add", ["c3", "r1"], ["s"]),
        make("MaxPool", ["s"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make("GlobalAveragePool", ["p"], ["g"]),
        make("Flatten", ["g"], ["f"]),
        make("Gemm", ["f", "w4", "b4"], ["m"], transB=1),
        make("MatMul", ["m", "w5"], ["y"]),
    ]
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    return make_model(nodes, {"x": ("float32", SHAPE)}, "y", values, dtypes={"y": "float32"})


def _images(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [{"x": rng.standard_normal(SHAPE).astype(np.float32)} for _ in range(count)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("dynamic", "QUInt8 QInt8 by channel"), ("QDQ", "QUInt8 QInt8 by channel"), ("QDQ", "QInt8 QInt8"),
        ("QOperator", "QUInt8 QUInt8"),
    ],
)  # fmt: skip
def test_a_quantised_network_gives_onnx_runtimes_answers(form: str, kinds: str, tmp_path: Path) -> None:
    """Within two steps of the result, as the two may round a number between two steps apart; nothing is the host's."""
    quantising = pytest.importorskip("onnxruntime.quantization", reason="it comes with ONNX Runtime, and needs sympy")
    source, made = tmp_path / "float.onnx", tmp_path / "made.onnx"
    onnx.save(_network(), source)
    images, by = _images(4), kinds.endswith("channel")
    inside, outside = (getattr(quantising.QuantType, name) for name in kinds.split()[:2])
    if form == "dynamic":
        quantising.quantize_dynamic(source, made, weight_type=outside, per_channel=by)
    else:
        left = [*images]

        class Reader(quantising.CalibrationDataReader):  # type: ignore[misc, name-defined]  # a class of a package
            def get_next(self) -> Any:
                return left.pop() if left else None

        quantising.quantize_static(
            source, made, Reader(), quant_format=quantising.QuantFormat[form], per_channel=by, activation_type=inside,
            weight_type=outside,
        )  # fmt: skip
    session = session_of(made)
    model = load(made, strict=True)
    whole = load(source).run(images[0])["y"]
    for image in images:
        ours, theirs = model.run(image)["y"], session.run(None, image)[0]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2 / 255 * np.abs(theirs).max())
    assert np.abs(model.run(images[0])["y"] - whole).max() < 0.2 * np.abs(whole).max()


def test_products_of_dequantised_numbers_are_of_bytes() -> None:
    """What QDQ files say is computed as QLinearConv and MatMulInteger would: no number is dequantised before."""
    rng, make = np.random.default_rng(7), onnx.helper.make_node
    values: dict[str, Any] = {
        "w": rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), "v": rng.integers(-9, 9, 4).astype(np.int32),
        "s": np.float32(0.03), "z": np.uint8(120), "ws": np.array([0.01, 0.02, 0.005, 0.01], np.float32),
        "wz": np.zeros(4, np.int8), "m": rng.integers(0, 255, (6, 5)).astype(np.uint8),
    }  # fmt: skip
    values["vs"] = values["s"] * values["ws"]
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("DequantizeLinear", ["q", "s", "z"], ["d"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        make("DequantizeLinear", ["v", "vs"], ["dv"], axis=0),
        make("Conv", ["d", "dw", "dv"], ["c"]),
        make("DequantizeLinear", ["m", "s", "z"], ["dm"]),
        make("MatMul", ["d", "dm"], ["p"]),
    ]
    proto = make_model(nodes, {"x": ("float32", (1, 3, 6, 6))}, "c p", values)
    feeds = {"x": rng.standard_normal((1, 3, 6, 6)).astype(np.float32)}
    found, told = load(proto, strict=True).run(feeds), {one.kind: one.operators[:1] for one in check(proto).nodes}
    assert (told["Conv"], told["MatMul"]) == (("CONVOLUTION_INTEGER",), ("MATRIX_MULTIPLY_INTEGER",))
    session = session_of(proto)
    for ours, theirs in zip(found.values(), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max())
    for name, plain in load(proto, strict=True, disable_passes="qdq_to_int8").run(feeds).items():
        assert not np.array_equal(plain, found[name])  # sums of FLOAT32 are rounded
        np.testing.assert_allclose(plain, found[name], rtol=0, atol=2e-5 * np.abs(plain).max())


def test_a_quantised_chain_has_onnx_runtimes_bytes() -> None:
    """Convolutions, one of them depthwise, an activation and a sum: scales and zero points are settled as it does."""
    rng, make = np.random.default_rng(11), onnx.helper.make_node
    values: dict[str, Any] = {"s": np.float32(0.03), "z": np.uint8(117), "u": np.uint8(131)}
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q0"])]

    def quantised(kind: str, given: list[str], number: int, **attributes: Any) -> None:
        values[f"t{number}"] = np.float32(rng.uniform(0.01, 0.03))
        nodes.append(make(kind, given, [f"f{number}"], **attributes))
        nodes.append(make("QuantizeLinear", [f"f{number}", f"t{number}", "u"], [f"q{number}"]))
        nodes.append(make("DequantizeLinear", [f"q{number}", f"t{number}", "u"], [f"d{number}"]))

    nodes.append(make("DequantizeLinear", ["q0", "s", "z"], ["d0"]))
    for number, sizes, group, scale in ((1, (32, 8, 1, 1), 1, "s"), (3, (32, 1, 3, 3), 32, "t2")):
        values[f"w{number}"] = rng.integers(-127, 128, sizes).astype(np.int8)
        values[f"ws{number}"] = rng.uniform(0.0001, 0.001, 32).astype(np.float32)
        values[f"wz{number}"], values[f"bz{number}"] = np.zeros(32, np.int8), np.zeros(32, np.int32)
        values[f"b{number}"] = rng.integers(-900, 900, 32).astype(np.int32)
        values[f"bs{number}"] = values[scale] * values[f"ws{number}"]
        for one in ("w", "b"):
            parts = [f"{one}{number}", f"{one}s{number}", f"{one}z{number}"]
            nodes.append(make("DequantizeLinear", parts, [f"d{one}{number}"], axis=0))
        before = "d0" if number == 1 else "d2"
        pads = [sizes[-1] // 2] * 4
        quantised("Conv", [before, f"dw{number}", f"db{number}"], number, group=group, pads=pads)
        if number == 1:
            quantised("Sigmoid", ["d1"], 9)
            quantised("Mul", ["d1", "d9"], 2)
    quantised("Add", ["d2", "d3"], 4)
    proto = make_model(nodes, {"x": ("float32", (1, 8, 14, 14))}, "q4", values, dtypes={"q4": "uint8"})
    feeds = {"x": rng.standard_normal((1, 8, 14, 14)).astype(np.float32)}
    session = session_of(proto)
    ours, theirs = load(proto, strict=True).run(feeds)["q4"], session.run(None, feeds)[0]
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    plain = load(proto, disable_passes=["scale_folding", "lookup_tables", "zero_points"]).run(feeds)["q4"]
    assert np.abs(ours.astype(int) - plain).max() <= 1
    assert np.array_equal(load(proto, disable_passes=["lookup_tables", "zero_points"]).run(feeds)["q4"], ours)


def test_nodes_in_any_order_and_a_domain_said_twice() -> None:
    """As converters to FLOAT16 and from scikit-learn write them, in the bodies of a Loop too; a circle is refused."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [make("Add", ["t", "k"], ["y"]), make("Identity", ["c"], ["d"]), make("Mul", ["a", "a"], ["t"])],
        "body",
        [info("i", 7, []), info("c", 9, []), info("a", 1, [2])],
        [info("d", 9, []), info("y", 1, [2])],
    )
    nodes = [make("Loop", ["n", "", "e"], ["r"], body=body), make("Neg", ["x"], ["e"]), make("Exp", ["e"], ["k"])]
    tensors = [onnx.numpy_helper.from_array(np.array(2), "n")]
    graph = onnx.helper.make_graph(nodes, "turned", [info("x", 1, [2])], [info("r", 1, [2])], tensors)
    opsets = [onnx.helper.make_opsetid(domain, 17) for domain in ("", "ai.onnx", "")]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    before, x = proto.SerializeToString(), np.array([0.5, 2], np.float32)
    k = np.exp(-x)
    np.testing.assert_allclose(load(proto).run({"x": x})["r"], (x**2 + k) ** 2 + k, rtol=1e-6)
    assert proto.SerializeToString() == before
    proto.graph.node[1].input[0] = "k"
    with pytest.raises(ValueError, match="must be produced by an earlier node; a later node produces it"):
        load(proto)
