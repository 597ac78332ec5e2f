"""Cast, CastLike and BitCast: values and bits in other types."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_answers import assert_same
from onnx_models import helper, model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint8", "bool"])
def test_casts_between_the_types_there_are(dtype: str) -> None:
    x = np.array([0, 1, 0, 1]).astype(dtype) if dtype == "bool" else np.array([0, 1, 5, 100]).astype(dtype)
    for other in ["float32", "float64", "float16", "int32", "int64", "uint8"]:
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(other))
        proto = model(node("Cast", "x", "y", to=to), {"x": (dtype, [4])}, "y", dtypes={"y": other})
        assert_same(proto, {"x": x})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint8", "uint64"])
def test_a_cast_to_bool_is_whether_it_is_not_0(dtype: str) -> None:
    x = np.array([0, 1, 0, 100], dtype)
    if x.dtype.kind == "f":
        tiny = np.nextafter(np.array(0, dtype), np.array(1, dtype))  # FLOAT32 has none as small as FLOAT64's
        x = np.concatenate([x, [-0.0, np.nan, -np.inf, tiny, -tiny]]).astype(dtype)
    nodes = [node("Cast", "x", "y", to=onnx.TensorProto.BOOL), node("CastLike", "k b", "z")]
    proto = model(nodes, {"x": (dtype, x.shape)}, "y z", {"k": x, "b": np.array(True)})
    for found in dml.onnx.load(proto, device="reference").run({"x": x}).values():
        assert found.dtype == bool
        assert found.tolist() == (x != 0).tolist()


WIDTHS = (("float32", "int32", "uint32"), ("float64", "int64", "uint64"), ("float16", "uint16"), ("int8", "uint8"))
PAIRS = [(a, b) for several in WIDTHS for a in several for b in several]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_bits_are_read_as_another_type(one: str, other: str, engine: str) -> None:
    """An input, a constant and what a node makes, each as an output and as another node's input, beside themselves."""
    bits = np.dtype(one).itemsize * 8
    x = np.random.default_rng(3).integers(0, 2**bits, (3, 5), f"uint{bits}").view(one)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(other))
    nodes = [
        node("Transpose", "x", "t"),
        *(node("BitCast", name, f"{name}_bits", to=number) for name in ("x", "k", "t")),
        *(node("Slice", f"{name}_bits s e", f"{name}_part") for name in ("x", "k", "t")),
        node("Transpose", "t_bits", "back"),
    ]
    names = "t x_bits k_bits t_bits x_part k_part t_part back"
    constants = {"k": x[::-1].copy(), "s": np.array([1]), "e": np.array([3])}
    loaded = dml.onnx.load(model(nodes, {"x": (one, [3, 5])}, names, constants, opset=26), device=engine)
    found = loaded.run({"x": x})
    wanted = {name: array.copy().view(other) for name, array in (("x", x), ("k", x[::-1]), ("t", x.T))}
    assert found["t"].tobytes() == x.T.copy().tobytes()
    assert found["back"].tobytes() == x.view(other).tobytes()
    for name, array in wanted.items():
        assert found[f"{name}_bits"].dtype == found[f"{name}_part"].dtype == array.dtype
        assert found[f"{name}_bits"].tobytes() == array.tobytes()
        assert found[f"{name}_part"].tobytes() == array[1:3].tobytes()


def test_bits_of_another_count_are_refused() -> None:
    for to, name in ((7, "INT64"), (10, "FLOAT16")):
        proto = model(node("BitCast", "x", "y", to=to, name="b"), {"x": ("float32", [2])}, opset=26)
        with pytest.raises(dml.ModelError) as caught:
            dml.onnx.load(proto)
        assert str(caught.value) == f"node 'b' (BitCast): to must be a type of 32 bits, as FLOAT is; got {name}"


@pytest.mark.parametrize("opset", [15, 19, 21, 23, 24, 25])
def test_a_cast_to_the_type_of_another_tensor(opset: int) -> None:
    x = np.array([-1.5, 2.5, 300], "float32")
    for like in (np.zeros(7, "int16"), np.zeros((), "float16"), np.zeros((0, 3), "float64"), x):
        proto = model(node("CastLike", "x t", "y"), {"x": ("float32", [3])}, "y", {"t": like}, opset=opset)
        found = dml.onnx.load(proto)(x)
        assert (found.dtype, found.tolist()) == (like.dtype, x.astype(like.dtype).tolist())
        given = {"x": ("float32", [3]), "t": (like.dtype, like.shape)}
        assert dml.onnx.load(model(node("CastLike", "x t", "y"), given, opset=opset))(x, like).dtype == like.dtype
