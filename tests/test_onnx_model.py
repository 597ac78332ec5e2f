"""A loaded model: names, shapes that are bound late, what run takes and gives, and what it refuses."""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_models import helper, info, model, node, onnx, slice_model

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

X = np.arange(16, dtype="float32").reshape(4, 4)


@pytest.fixture(params=[engine for engine in ENGINES if engine != "reference"])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def join_model() -> Any:
    """Two inputs that share an open size, put together."""
    inputs = {"a": ("float32", ["batch", 2]), "b": ("float32", ["batch", "width"])}
    return model(node("Concat", "a b", "y", axis=1), inputs, dtypes={"y": "float32"})


def test_a_model_says_what_it_takes_and_gives() -> None:
    loaded = dml.onnx.load(slice_model())
    (x,), (y,) = loaded.inputs.values(), loaded.outputs.values()
    assert (x.name, x.data_type, x.element_type, x.shape) == ("x", dml.DataType.FLOAT32, "FLOAT", (4, 4))
    assert (y.name, y.shape) == ("y", (2, 4))
    assert repr(loaded) == "Model('model': x: float[4,4] -> y: float[2,4], device='cpu')"
    assert loaded.device.name == "cpu"


def test_run_and_call(device: str) -> None:
    loaded = dml.onnx.load(slice_model(), device=device)
    for _ in range(2):  # the second run takes the short way
        found = loaded.run({"x": X})
        assert list(found) == ["y"]
        assert found["y"].tolist() == X[[3, 2]].tolist()
    assert loaded(X).tolist() == loaded(x=X).tolist() == X[[3, 2]].tolist()


def test_results_are_new_at_every_run(device: str) -> None:
    loaded = dml.onnx.load(slice_model(), device=device)
    kept = [loaded(X + i) for i in range(200)]
    for i, y in enumerate(kept):
        assert y[0, 0] == 12 + i


# Shapes


def test_open_sizes_are_bound_by_the_arrays_of_each_run() -> None:
    loaded = dml.onnx.load(join_model())
    assert loaded.inputs["b"].shape == ("batch", "width")
    for batch, width in ((1, 3), (2, 1), (1, 3)):
        a, b = np.zeros((batch, 2), "float32"), np.ones((batch, width), "float32")
        assert loaded.run({"b": b, "a": a})["y"].tolist() == np.concatenate([a, b], 1).tolist()
    assert len(loaded._programs) == 2


def test_a_size_of_one_name_is_one_size() -> None:
    a, b = np.zeros((2, 2), "float32"), np.ones((3, 1), "float32")
    with pytest.raises(
        dml.BindingError, match=r"input 'b' must have size 2 in dimension 0: 'batch' is 2; got \(3, 1\)"
    ):
        dml.onnx.load(join_model())(a, b)


def test_the_shape_of_one_input_binds_the_sizes_of_another() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"b": (2, 3)})
    assert loaded.outputs["y"].shape == (2, 5)
    with pytest.raises(dml.BindingError, match=r"'batch' is 2; got \(1, 2\)"):
        loaded(np.zeros((1, 2), "float32"), np.zeros((2, 3), "float32"))


def test_open_sizes_are_bound_at_load() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"batch": 2, "b": (2, 3)})
    assert loaded.outputs["y"].shape == (2, 5)
    assert len(loaded._programs) == 1
    with pytest.raises(
        dml.BindingError, match=r"input 'a' must have size 2 in dimension 0: 'batch' is 2; got \(3, 2\)"
    ):
        loaded(np.zeros((3, 2), "float32"), np.zeros((3, 3), "float32"))
    with pytest.raises(dml.BindingError, match=r"input 'b' must have size 3 in dimension 1; got \(2, 4\)"):
        loaded(np.zeros((2, 2), "float32"), np.zeros((2, 4), "float32"))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"height": 2}, r"there is no 'height'; there are 'a', 'b', 'batch', 'width'"),
        ({"batch": -1}, r"shapes\['batch'\] must be at least 0"),
        ({"batch": 2.5}, r"shapes\['batch'\] must be a whole number"),
        ({"a": (2, "x")}, r"shapes\['a'\]\[1\] must be a whole number"),
        ({"a": (2, 3)}, r"input 'a' must have size 2 in dimension 1; got \(2, 3\)"),
        ({"a": (2, 2, 1)}, r"input 'a' must have 2 dimensions, \(batch, 2\); got \(2, 2, 1\)"),
        ({"batch": 3, "a": (2, 2)}, r"'batch' is 3; got \(2, 2\)"),
        ([1], "shapes must be a mapping of the names of inputs and of open sizes .*; got a list; such as"),
        (5, "shapes must be a mapping"),
        ("ab", "shapes must be a mapping"),
        ("", "shapes must be a mapping"),
        (X, "shapes must be a mapping"),
    ],
)
def test_shapes_that_cannot_be(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(join_model(), shapes=shapes)
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.check(join_model(), shapes=shapes)


def test_sizes_that_are_bound_are_shown() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"batch": 3})
    assert [info.shape for info in loaded.inputs.values()] == [(3, 2), (3, "width")]
    assert loaded(np.zeros((3, 2), "float32"), np.zeros((3, 1), "float32")).shape == (3, 3)
    with pytest.raises(dml.BindingError, match="'batch' is 3"):
        loaded(np.zeros((2, 2), "float32"), np.zeros((2, 1), "float32"))
    assert loaded.assume_shapes({}) == ({"a": (3, 2), "b": (3, 2)}, {"width": 2})
    assert dml.onnx.load(join_model(), shapes={"b": (4, 5)}).inputs["a"].shape == (4, 2)


def test_open_outputs_have_the_models_names_alone() -> None:
    assert dml.onnx.load(join_model()).outputs["y"].shape == ("batch", None)
    declared = join_model()
    declared.graph.output[0].CopyFrom(info("y", "float32", ["batch", "both"]))
    assert dml.onnx.load(declared).outputs["y"].shape == ("batch", "both")
    assert dml.onnx.load(declared, shapes={"batch": 3}).outputs["y"].shape == (3, "both")


def test_a_size_may_be_a_number_of_numpys() -> None:
    proto = model(node("Identity", "n", "y"), {"n": ("float32", ["n", 6])}, dtypes={"y": "float32"})
    three: Any
    for three in (3, np.int64(3), np.array(3)):
        assert dml.onnx.load(proto, shapes={"n": three}).inputs["n"].shape == (3, 6)
    assert dml.onnx.load(proto, shapes={"n": [3, 6]}).inputs["n"].shape == (3, 6)


def test_the_programs_used_last_are_kept() -> None:
    loaded = dml.onnx.load(model(node("Identity", "x", "y"), {"x": ("float32", ["n"])}, dtypes={"y": "float32"}))
    for n in range(1, 70):
        assert loaded(np.ones(n, "float32")).shape == (n,)
    assert len(loaded._programs) == 64
    assert [dict(shapes)["x"] for shapes, _ in loaded._programs] == [(n,) for n in range(6, 70)]
    assert len(loaded._recall) <= 64
    assert loaded(np.ones(1, "float32")).shape == (1,)


def test_a_shape_may_hang_on_the_values_of_an_input() -> None:
    proto = model(
        node("Reshape", "x shape", "y", name="r"),
        {"x": ("float32", [4, 4]), "shape": ("int64", ["rank"])},
        dtypes={"y": "float32"},
    )
    loaded = dml.onnx.load(proto)
    for shape in ([2, 8], [16], [2, -1], [2, 8]):
        assert loaded(X, np.array(shape)).tolist() == X.reshape(shape).tolist()
    assert len(loaded._programs) == 3
    with pytest.raises(dml.ModelError, match=r"node 'r' \(Reshape\): shape must have the 16 elements"):
        loaded(X, np.array([3, 3]))


def test_values_are_those_of_the_run() -> None:
    nodes = [node("Reshape", "x shape", "y"), node("Identity", "shape", "z")]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", [4, 4]), "shape": ("int64", [2])}, "y z"))
    shape = np.array([2, 8])
    assert loaded(X, shape)[1].tolist() == [2, 8]
    shape[:] = [8, 2]
    y, z = loaded(X, shape)
    assert (y.shape, z.tolist()) == ((8, 2), [8, 2])
    y, z = loaded(X, np.array([2, 8]))
    assert (y.shape, z.tolist()) == ((2, 8), [2, 8])


def test_a_shape_that_is_empty_is_known() -> None:
    proto = model(node("Reshape", "x shape", "y"), {"x": ("float32", [1]), "shape": ("int64", [0])})
    loaded = dml.onnx.load(proto)
    assert loaded.outputs["y"].shape == ()
    assert loaded(np.ones(1, "float32"), np.empty(0, "int64")) == 1


def test_a_shape_may_not_hang_on_a_large_input() -> None:
    nodes = [node("Gather", "x zero", "n"), node("Reshape", "x n", "y", name="r")]
    proto = model(nodes, {"x": ("int64", [70_000])}, "y", {"zero": np.array([0])})
    with pytest.raises(dml.ModelError, match="must hang on inputs of at most 65536 elements; input 'x' has 70000"):
        dml.onnx.load(proto)


def test_what_is_too_large_is_so_whatever_ran_before() -> None:
    nodes = [node("Gather", "x zero", "n"), node("Reshape", "x n", "y", name="r")]
    proto = model(nodes, {"x": ("int64", ["k"])}, "y", {"zero": np.array([0])}, dtypes={"y": "int64"})
    loaded = dml.onnx.load(proto)
    assert loaded(np.array([3, 1, 2])).tolist() == [3, 1, 2]
    large = np.full(70_000, 70_000)
    for one in (loaded, dml.onnx.load(proto), loaded):
        with pytest.raises(dml.ModelError, match="at most 65536 elements; input 'x' has 70000"):
            one(large)


def test_initializers_that_are_inputs_may_be_left_out() -> None:
    proto = slice_model()
    proto.graph.input.append(info("starts", "int64", [1]))
    loaded = dml.onnx.load(proto)
    assert [i.is_optional for i in loaded.inputs.values()] == [False, True]
    for _ in range(2):
        assert loaded(X).tolist() == X[[3, 2]].tolist()
        assert loaded(X, np.array([-2])).tolist() == X[[2]].tolist()
        assert loaded(X, [-2]).tolist() == X[[2]].tolist()


# What run takes


def test_arrays_of_any_layout(device: str) -> None:
    loaded = dml.onnx.load(slice_model(), device=device)
    wide = np.zeros((4, 8), "float32")
    wide[:, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + X.tobytes(), "float32", 16, 1).reshape(4, 4)
    for given in (
        wide[:, ::2],
        X.T.copy().T,
        X[::-1][::-1],
        read_only,
        unaligned,
        X.view(np.recarray),
        memoryview(X.data),
    ):
        for _ in range(2):
            assert np.asarray(loaded.run({"x": given})["y"]).tolist() == X[[3, 2]].tolist()


def test_scalars_and_empty_tensors(device: str) -> None:
    nodes = [node("Identity", "x", "y"), node("Unsqueeze", "x zero", "z"), node("Shape", "z", "s")]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", [])}, "y z s", {"zero": np.array([0])}), device=device)
    for given in (np.float32(3), np.array(3, "float32")):
        y, z, s = loaded(given)
        assert (y.shape, y, z.tolist(), s.tolist()) == ((), 3, [3], [1])
    empty = model([node("Concat", "x x", "y", axis=1), node("Transpose", "x", "z")], {"x": ("float32", [0, 3])}, "y z")
    y, z = dml.onnx.load(empty, device=device)(np.empty((0, 3), "float32"))
    assert (y.shape, z.shape) == ((0, 6), (3, 0))


def test_booleans_are_booleans(device: str) -> None:
    proto = model([node("Transpose", "x", "y"), node("Identity", "x", "z")], {"x": ("bool", [2, 3])}, "y z")
    x = np.array([[True, False, True], [False, True, True]])
    for given in (x, x.T.copy().T):
        y, z = dml.onnx.load(proto, device=device)(given)
        assert y.dtype == z.dtype == np.bool_
        assert np.array_equal(y, x.T)
        assert np.array_equal(z, x)


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    nodes = [
        node("Identity", "x", "same"),
        node("Flatten", "x", "flat", axis=0),
        node("Transpose", "x", "t"),
        node("Identity", "t", "again"),
        node("Constant", "", "c", value_floats=[1.0, 2.0]),
        node("Split", "x", "half other", axis=0),
    ]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", [4, 4])}, "same flat t again c half other k x", {"k": X[0]}))
    for _ in range(2):
        found = loaded.run({"x": X})
        assert list(found) == ["same", "flat", "t", "again", "c", "half", "other", "k", "x"]
        expected = [X, X.reshape(1, 16), X.T, X.T, [1, 2], X[:2], X[2:], X[0], X]
        for (name, y), right in zip(found.items(), expected, strict=True):
            assert np.array_equal(y, right), name
            assert not np.shares_memory(y, X)
            y[...] = -1  # nobody else's memory: the next run is right


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'x' must be given; the model takes 'x'"),
        ({"x": X, "z": X}, r"there is no input 'z'; the model takes 'x'"),
        ({"x": X.astype("float64")}, r"input 'x': must be of float32, the model's FLOAT; got 'float64'; x.astype"),
        ({"x": X.astype(">f4")}, r"input 'x': must be of float32"),
        ({"x": X.astype("bool")}, r"input 'x': must be of float32"),
        ({"x": 3}, r"input 'x': must be an array of float32"),
        ({"x": X.tolist()}, r"input 'x': must be an array of float32, the model's FLOAT; got a list; np.array\("),
        (dict, "inputs must be a mapping"),
        ({"x": X[:3]}, r"input 'x' must have size 4 in dimension 0; got \(3, 4\)"),
        ({"x": X[0]}, r"input 'x' must have 2 dimensions, \(4, 4\); got \(4,\)"),
        ({"x": "text"}, r"input 'x'"),
        ({"x": None}, r"input 'x'"),
        ({"x": X.view(np.ma.MaskedArray)}, r"has a mask"),
        ([X], "inputs must be a mapping of names to arrays"),
        (X, "inputs must be a mapping"),
    ],
)
def test_inputs_that_run_refuses(inputs: Any, message: str) -> None:
    loaded = dml.onnx.load(slice_model())
    loaded.run({"x": X})
    with pytest.raises(dml.DmlError, match=message):
        loaded.run(inputs)


@pytest.mark.parametrize("out", [X.copy(), [X.copy()], [], "y", 5, False])
def test_out_is_a_mapping(out: Any) -> None:
    loaded = dml.onnx.load(slice_model())
    with pytest.raises(dml.BindingError, match=r"out must be a mapping of the names of outputs .*; such as \{'y': arr"):
        loaded.run({"x": X}, out=out)


def test_an_input_may_have_any_name() -> None:
    loaded = dml.onnx.load(model(node("Transpose", "self", "y"), {"self": ("float32", [4, 4])}))
    assert loaded(self=X).tolist() == X.T.tolist()


def test_a_model_is_not_copied() -> None:
    loaded = dml.onnx.load(slice_model())
    assert copy.copy(loaded) is copy.deepcopy(loaded) is loaded
    with pytest.raises(TypeError, match="a loaded model cannot be pickled; pickle its path or its bytes"):
        pickle.dumps(loaded)


def test_a_model_stays_as_it_was_loaded() -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", ["n"])}, dtypes={"y": "float32"})
    loaded = dml.onnx.load(proto)
    proto.graph.node[0].op_type = "Relu"
    proto.graph.input[0].name = "z"
    assert loaded(np.ones(3, "float32")).tolist() == [1, 1, 1]


def test_inputs_that_are_made_up_as_indices() -> None:
    nodes = [
        node("ConstantOfShape", "sizes", "c"),
        node("Range", "start limit delta", "r"),
        node("Concat", "x x2", "both", axis=0),
        node("Gather", "both i", "g"),
    ]
    types: dict[str, Any] = {name: ("int64", []) for name in ("start", "limit", "delta")}
    inputs = {**types, "sizes": ("int64", [1]), "i": ("int64", [2]), "x": ("int64", [2]), "x2": ("int64", [2])}
    loaded = dml.onnx.load(model(nodes, inputs, "c r g", dtypes={"c": "float32", "r": "int64", "g": "int64"}))
    assert loaded.index_inputs == {"start", "limit", "delta", "sizes", "i"}


def test_calls_that_are_refused() -> None:
    loaded = dml.onnx.load(slice_model())
    with pytest.raises(dml.BindingError, match="a call takes 1 arrays, for x; got 2"):
        loaded(X, X)
    with pytest.raises(dml.BindingError, match="input 'x' was given by its place already"):
        loaded(X, x=X)


def test_an_index_outside_names_its_node(device: str) -> None:
    nodes = [node("Transpose", "x", "t"), node("Gather", "t i", "y", name="look up", axis=0)]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", [4, 4]), "i": ("int64", [2])}), device=device)
    assert loaded(X, np.array([-4, 3])).tolist() == X.T[[0, 3]].tolist()
    for _ in range(2):
        with pytest.raises(
            dml.IndexRangeError, match=r"^node 'look up' \(Gather\): GATHER: .* the axis of size 4; take -4 .. 3$"
        ):
            loaded(X, np.array([0, 4]))


# What run gives


def test_out_is_written() -> None:
    proto = model([node("Transpose", "x", "y"), node("Identity", "x", "z")], {"x": ("float32", [4, 4])}, "y z")
    loaded = dml.onnx.load(proto)
    y = np.empty((4, 4), "float32")
    found = loaded.run({"x": X}, out={"y": y})
    assert found["y"] is y
    assert np.array_equal(y, X.T)
    assert np.array_equal(found["z"], X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: {"w": x}, "there is no output 'w'; the model has y, z"),
        (lambda x: {"y": x}, "output 'y': must overlap no input and no other output"),
        (lambda x: (lambda y: {"y": y, "z": y})(x + 1), "output 'z': must overlap"),
        (lambda x: {"y": np.empty((4, 3), "float32")}, r"output 'y': must have the shape \(4, 4\); got \(4, 3\)"),
        (lambda x: {"y": np.empty((4, 4))}, "output 'y': must be of float32"),
        (lambda x: {"y": np.empty((4, 8), "float32")[:, ::2]}, "output 'y': must be packed and writable"),
        (lambda x: {"y": np.broadcast_to(np.float32(0), (4, 4))}, "output 'y': must be packed and writable"),
        (lambda x: {"y": np.frombuffer(bytes(64), "float32").reshape(4, 4)}, "output 'y': must be packed and writable"),
        (lambda x: {"y": [1]}, "output 'y': must be a NumPy array or a PyTorch tensor.*; got a list"),
        (lambda x: {"y": (x + 1).view(np.recarray)}, "output 'y': must be a plain NumPy array; got a recarray; x.view"),
    ],
)
def test_out_that_is_refused(make: Any, message: str) -> None:
    proto = model([node("Transpose", "x", "y"), node("Identity", "x", "z")], {"x": ("float32", [4, 4])}, "y z")
    x = X.copy()
    with pytest.raises(dml.BindingError, match=message):
        dml.onnx.load(proto).run({"x": x}, out=make(x))
    assert np.array_equal(x, X)


def test_tensors_for_out_that_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    loaded = dml.onnx.load(slice_model())
    for out, message in (
        (torch.empty((2, 4), dtype=torch.bfloat16), "must be of float32, the model's FLOAT; got bfloat16"),
        (torch.empty((2, 4), requires_grad=True), r"must be a tensor without a gradient; got .*; pass x.detach\(\)"),
        (torch.empty((2, 4)).to_sparse(), "must be a plain tensor"),
        (torch.empty((2, 4), device="meta"), "must be a plain tensor"),
    ):
        with pytest.raises(dml.BindingError, match=f"output 'y': {message}"):
            loaded.run({"x": X}, out={"y": out})


def test_results_are_of_the_first_inputs_library() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    proto = model([node("Transpose", "x", "y"), node("Shape", "x", "z")], {"x": ("float32", [4, 4])}, "y z")
    for _ in range(2):
        y, z = dml.onnx.load(proto)(torch.from_numpy(X.copy()))
        assert isinstance(y, torch.Tensor)
        assert isinstance(z, torch.Tensor)
        assert y.tolist() == X.T.tolist()
    flags = model(node("Transpose", "x", "y"), {"x": ("bool", [1, 2])})
    found = dml.onnx.load(flags)(torch.tensor([[True, False]]))
    assert found.dtype is torch.bool
    assert found.tolist() == [[True], [False]]
    with pytest.raises(dml.BindingError, match="input 'x': must be of float32"):
        dml.onnx.load(proto)(torch.ones((4, 4), dtype=torch.float64))


def test_several_threads_may_run_a_model() -> None:
    nodes = [node("CumSum", "x a", "s"), node("Transpose", "s", "t"), node("Gather", "t i", "y")]
    inputs = {"x": ("int64", ["n", 300]), "i": ("int64", [200])}
    loaded = dml.onnx.load(model(nodes, inputs, "y t", {"a": np.array(1)}, dtypes={"y": "int64", "t": "int64"}))

    def work(seed: int) -> bool:
        random = np.random.default_rng(seed)
        is_right = True
        for _ in range(25):
            x, i = random.integers(-99, 99, (int(random.integers(1, 5)) * 50, 300)), random.integers(-300, 300, 200)
            y = loaded.run({"x": x, "i": i})["y"]
            is_right &= np.array_equal(y, np.cumsum(x, 1).T[i])
        return is_right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


# What load refuses


def test_everything_that_is_not_supported_is_told_at_once() -> None:
    nodes = [
        node("Relu", "x", "a", name="r1"),
        node("Relu", "a", "b"),
        helper.make_node("Fused", ["b"], ["c"], domain="com.example"),
        node("Identity", "c", "y"),
    ]
    with pytest.raises(dml.UnsupportedError) as caught:
        dml.onnx.load(model(nodes, {"x": ("float32", [2])}))
    message = str(caught.value)
    assert "node 'r1' (Relu) and 1 more: Relu is not supported" in message
    assert (
        "node of 'c' (com.example.Fused): com.example.Fused is not supported; anydml.onnx runs Cast, Concat," in message
    )
    assert [fault.value for fault in caught.value.faults] == [2, 1]


@pytest.mark.parametrize(
    ("number", "name"),
    [(8, "STRING"), (16, "BFLOAT16"), (14, "COMPLEX64"), (17, "FLOAT8E4M3FN"), (22, "INT4"), (999, "element type 999")],
)
def test_types_that_directml_lacks_are_refused_by_name(number: int, name: str) -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])})
    proto.graph.input[0].type.tensor_type.elem_type = number
    with pytest.raises(dml.UnsupportedError, match=f"input 'x': DirectML has no {name}"):
        dml.onnx.load(proto)


def test_an_output_is_of_the_type_that_it_is_declared_as() -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])}, dtypes={"y": "int64"})
    with pytest.raises(
        dml.ModelError, match=r"output 'y' must be of FLOAT, as the node that makes it has it; got INT64"
    ):
        dml.onnx.load(proto)


def test_kinds_that_directml_lacks_are_refused_by_name() -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])})
    proto.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])))
    with pytest.raises(dml.UnsupportedError, match="input 'x': DirectML has no sequences"):
        dml.onnx.load(proto)
    with pytest.raises(dml.UnsupportedError, match="value_string: DirectML has no STRING"):
        dml.onnx.load(model(node("Constant", "", "y", value_string="text"), {}))


def test_a_models_own_functions_are_put_in_place() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [node("Transpose", "a", "b"), node("Transpose", "b", "c")]
    twice = helper.make_function("own", "Twice", ["a"], ["c"], body, opsets)
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="own"), {"x": ("float32", [4, 4])})
    proto.functions.append(twice)
    proto.opset_import.append(opsets[1])
    assert np.array_equal(dml.onnx.load(proto)(X), X)
    # Functions that call one another twice each would become 2^40 nodes
    for i in range(40):
        calls = [helper.make_node(f"F{i + 1}", ["a"], [name], domain="own") for name in ("b", "c")]
        proto.functions.append(helper.make_function("own", f"F{i}", ["a"], ["c"], calls, opsets))
    proto.functions.append(helper.make_function("own", "F40", ["a"], ["c"], body, opsets))
    proto.graph.node[0].op_type = "F0"
    with pytest.raises(dml.ModelFileError, match="functions must come to at most 100000 nodes"):
        dml.onnx.load(proto)
    proto.functions[-1].node[0].CopyFrom(helper.make_node("F0", ["a"], ["b"], domain="own"))
    with pytest.raises(dml.ModelFileError, match="function 'F0' must not call itself"):
        dml.onnx.load(proto)


def test_a_check_goes_on_to_the_end() -> None:
    nodes = [
        node("Slice", "x s e", "crop", name="crop"),
        node("Relu", "crop", "r"),
        node("Flatten", "r", "lost"),
        node("Reshape", "x t", "shaped"),
        node("Flatten", "x", "flat"),
        node("CumSum", "flat a", "y"),
    ]
    constants = {"s": np.array([0]), "e": np.array([2]), "a": np.array(1)}
    proto = model(nodes, {"x": ("float32", ["n", 4]), "t": ("int64", [1])}, "y lost shaped", constants)
    found = dml.onnx.check(proto, shapes={"n": 3})
    crop, relu, lost, shaped, flat, y = found.nodes
    assert crop.operators == ("SLICE",)
    assert isinstance(relu.error, dml.UnsupportedError)
    assert "Relu is not supported" in str(relu.error)
    assert (lost.error, lost.note) == (None, "not known: hangs on a node that is not")
    assert shaped.note == "known at a run: hangs on the values of 't'"
    assert flat.note == "a view, no pass"
    assert y.descs[0].check().lowest_level == dml.FeatureLevel("4_0")
    assert y.lowest_level == dml.FeatureLevel("2_1")  # with leading 1s
    assert dml.onnx.check(proto, shapes={"n": 3}, values={"t": np.array([12])}).nodes[3].note == "a view, no pass"


# The package


def test_without_onnx_the_package_says_what_to_install() -> None:
    attempt = "try: import anydml.onnx\nexcept Exception as e: print(type(e).__name__, e)"
    code = f"import sys; sys.modules['onnx'] = None\n{attempt}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    expected = "EngineMissingError anydml.onnx: reading ONNX models needs onnx; pip install 'anydml[onnx]'"
    assert found.stdout.strip() == expected


def test_onnx_enters_by_one_file() -> None:
    source = Path(dml.__file__).parent
    entries = set()
    for path in source.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in found.names] if isinstance(found, ast.Import) else []
            names += [found.module or ""] if isinstance(found, ast.ImportFrom) and not found.level else []
            entries |= {str(path.relative_to(source)) for name in names if name.partition(".")[0] == "onnx"}
    assert entries == {"onnx/library.py"}


def test_known_values_need_no_feature_level() -> None:
    """Shapes are of INT64, which GATHER takes from 4_1 on: what is computed at load is no operator."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Reshape", "x n", "y")]
    proto = model(nodes, {"x": ("float32", [1, 6])}, "y", {"one": np.array([1])})
    loaded = dml.onnx.load(proto, device=dml.Device("reference", feature_level="1_0"))
    assert loaded(np.ones((1, 6), "float32")).shape == (6,)


def test_what_the_package_shows() -> None:
    assert {"Backend", "Model", "TensorInfo", "check", "compare", "load"} <= set(dml.onnx.__all__)
    assert all(getattr(dml.onnx, name).__doc__ for name in dml.onnx.__all__)
    assert onnx.IR_VERSION >= 8
