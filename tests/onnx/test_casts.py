"""Cast, CastLike and BitCast: values and bits in other types."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_answers import assert_same
from onnx_models import helper, model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from typing import TYPE_CHECKING, Any

from anydml.ir.blocked_weights import match_weights

from anydml.onnx.arguments import hand_over  # isort: skip
from anydml.onnx.element_types import ELEMENT_TYPES  # isort: skip

if TYPE_CHECKING:
    from pathlib import Path

halves = pytest.importorskip("ml_dtypes", reason="onnx gives numbers of 4 bits as ml_dtypes has them")


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


NUMBERS = {"int4": np.arange(-8, 8), "uint4": np.arange(16)}


def _newer(proto: Any) -> Any:
    proto.ir_version = 10
    return proto


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_pass_through_a_model(kind: str, engine: str) -> None:
    dtype = getattr(halves, kind)
    numbers = NUMBERS[kind][:15]
    x = numbers.astype(np.uint8).view(dtype).reshape(3, 5)  # with whatever in the rest of their bytes
    own = numbers[::-1].astype(dtype).reshape(3, 5)
    nodes = [
        node("Transpose", "x", "t"),
        node("Cast", "own", "c", to=onnx.TensorProto.FLOAT),
        node("Cast", "x", "f", to=onnx.TensorProto.FLOAT),
        node("Cast", "c", "back", to=onnx.TensorProto.INT4 if kind == "int4" else onnx.TensorProto.UINT4),
    ]
    loaded = dml.onnx.load(
        _newer(model(nodes, {"x": (dtype, [3, 5])}, "t f back own", {"own": own}, opset=21)), device=engine
    )
    for _ in range(2):
        found = loaded.run({"x": x})
        assert [found[name].dtype for name in found] == [dtype, np.float32, dtype, dtype]
        assert found["t"].astype(int).tolist() == numbers.reshape(3, 5).T.tolist()
        assert found["f"].tolist() == numbers.reshape(3, 5).tolist()
        assert found["back"].astype(int).tolist() == found["own"].astype(int).tolist() == own.astype(int).tolist()


def test_arrays_of_another_type_are_refused() -> None:
    proto = _newer(model(node("Identity", "x", "y"), {"x": (halves.int4, [3])}, opset=21))
    loaded = dml.onnx.load(proto)
    message = r"input 'x': must be of int4, the model's INT4; got 'int8'; x\.astype\(ml_dtypes\.int4\) converts"
    with pytest.raises(dml.BindingError, match=message):
        loaded(np.zeros(3, np.int8))
    with pytest.raises(dml.BindingError, match="must be of int4"):
        loaded(np.zeros(3, halves.uint4))
    shown = type("Shown", (), {"__array__": lambda *_, **__: np.array([-8, 1, 7]).astype(halves.int4)})
    assert loaded(shown()).tolist() == [-8, 1, 7]
    out = np.zeros(3, halves.int4)
    loaded.run({"x": np.array([-8, 1, 7]).astype(halves.int4)}, out={"y": out})
    assert out.astype(int).tolist() == [-8, 1, 7]


@pytest.mark.parametrize("place", ["raw", "field", "file"])
def test_bytes_of_a_tensor_are_counted(place: str, tmp_path: Path) -> None:
    own = np.arange(-3, 4).astype(halves.int4)
    proto = _newer(model(node("Cast", "own", "y", to=1), {}, "y", {"own": own}, opset=21))
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    assert len(data) == 4
    if place == "field":
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(data)
    if place == "file":
        onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
        assert dml.onnx.load(tmp_path / "m.onnx")().tolist() == own.astype(int).tolist()
        (tmp_path / "m.bin").write_bytes(b"123")
        with pytest.raises(dml.ModelFileError, match="must lie within the 3 bytes"):
            dml.onnx.load(tmp_path / "m.onnx")()
        return
    assert dml.onnx.load(proto)().tolist() == own.astype(int).tolist()
    if place == "field":
        tensor.int32_data.append(0)
    else:
        tensor.raw_data = data + b"0"
    wanted = "4 elements in int32_data" if place == "field" else "4 bytes of raw_data, for 7 elements of INT4"
    with pytest.raises(dml.ModelFileError, match=f"initializer 'own' must have {wanted}"):
        dml.onnx.load(proto)()


@pytest.mark.parametrize("kind", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_are_read_as_they_lie(kind: str, axis: int) -> None:
    rng = np.random.default_rng(axis)
    dtype = np.dtype(getattr(halves, kind, kind))
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}[kind]
    length, columns, block = 128, 48, 32
    shape = (length, columns) if axis == 0 else (columns, length)
    blocks = tuple(size // block if k == axis else size for k, size in enumerate(shape))
    q, z = rng.integers(low, high, shape), rng.integers(low, high, blocks)
    s = rng.random(blocks, np.float32)
    nodes = [node("DequantizeLinear", "q s z", "w", axis=axis, block_size=block)]
    nodes += [node("Transpose", "w", "v"), node("MatMul", "x v", "y")] if axis else [node("MatMul", "x w", "y")]
    constants = {"q": q.astype(dtype), "s": s, "z": z.astype(dtype)}
    proto = _newer(model(nodes, {"x": ("float32", ["rows", length])}, "y", constants, opset=21))
    loaded = dml.onnx.load(proto)
    exact = (q - np.repeat(z, block, axis)) * np.repeat(s.astype(float), block, axis)
    exact = exact.T if axis else exact
    for rows in (1, 4, 33):
        x = rng.standard_normal((rows, length)).astype(np.float32)
        (y,) = loaded.run({"x": x}).values()
        assert (np.abs(y - x @ exact) <= 4e-7 * (np.abs(x) @ np.abs(exact))).all()
    held = {rows: program.compiled for (rows,), program in _programs(loaded).items()}
    for rows, compiled in held.items():
        product = compiled.recipe.steps[-1].primitive
        assert (match_weights(product) is not None) == (rows <= 32)
        bits = 4 if kind.endswith("4") else 8
        read = sum(store.size_in_bytes for store in compiled.recipe.stores.values() if store.kind == "constant")
        assert rows > 32 or read == length * columns * bits // 8 + 5 * columns * length // block


def _programs(loaded: Any) -> dict[Any, Any]:
    """By the rows of a run, what ran."""
    return {tuple(p.values[0].shape[:1]): p for p in loaded._programs.values()}


def test_quantised_activations_take_the_nearest_end() -> None:
    x = np.array([-100, -1.4, 0.5, 1.5, 100], np.float32)
    for kind, wanted in (("int4", [-8, -1, 0, 2, 7]), ("uint4", [0, 1, 2, 4, 15])):
        z = np.array([0 if kind == "int4" else 2]).astype(getattr(halves, kind))
        proto = _newer(model(node("QuantizeLinear", "x s z", "y"), {"x": ("float32", [5])}, "y",
                             {"s": np.ones(1, np.float32), "z": z}, opset=21))  # fmt: skip
        assert dml.onnx.load(proto)(x).astype(int).tolist() == wanted


def test_results_from_a_gpu_have_4_bits_again() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    element = next(each for each in ELEMENT_TYPES.values() if each.name == "INT4")
    there = torch.tensor([-8, 7], dtype=torch.int8)  # as a GPU's memory has them
    (found,) = hand_over([there], [element], "cuda:0", np.zeros(1))
    assert (found.dtype, found.astype(int).tolist()) == (halves.int4, [-8, 7])


def test_shapes_of_weights_are_checked() -> None:
    constants = {"q": np.zeros((64, 8), halves.int4), "s": np.ones((3, 8), np.float32)}
    proto = _newer(model([node("DequantizeLinear", "q s", "w", axis=0, block_size=32), node("MatMul", "x w", "y")],
                         {"x": ("float32", [1, 64])}, "y", constants, opset=21))  # fmt: skip
    with pytest.raises(dml.ModelError, match=r"x_scale must have the shape \(2, 8\), a number for each block of 32"):
        dml.onnx.load(proto)
    assert helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4) == halves.int4
