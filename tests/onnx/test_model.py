"""A loaded model: its names, what run takes and gives, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_models import model, node, slice_model

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.program import Program  # isort: skip - likewise

X = np.arange(16, dtype="float32").reshape(4, 4)


@pytest.fixture(params=[engine for engine in ENGINES if engine != "reference"])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


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


def test_several_results_of_a_call_are_a_named_tuple(device: str) -> None:
    nodes = [node("TopK", "x k", "values which:0", axis=-1), node("Neg", "values", "less")]
    made = model(nodes, {"x": ("float32", (4, 4))}, "less which:0", constants={"k": np.array([2])})
    loaded = dml.onnx.load(made, device=device)
    for _ in range(2):
        found = loaded(X)
        assert found._fields == ("less", "which_0")
        less, which = found
        assert less is found.less
        assert which is found[1]
        ran = loaded.run({"x": X})
        assert list(ran) == ["less", "which:0"]
        np.testing.assert_array_equal(ran["which:0"], which)
        np.testing.assert_array_equal(ran["less"], less)


def test_results_are_new_at_every_run(device: str) -> None:
    loaded = dml.onnx.load(slice_model(), device=device)
    kept = [loaded(X + i) for i in range(200)]
    for i, y in enumerate(kept):
        assert y[0, 0] == 12 + i


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lists_of_floats_are_of_the_models_type(dtype: str) -> None:
    third = (X / 3).astype(dtype)
    found = dml.onnx.load(slice_model(dtype=dtype)).run({"x": third.tolist()})["y"]
    np.testing.assert_array_equal(found, third[[3, 2]], strict=True)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'x' must be given; the model takes 'x'"),
        ({"x": X, "z": X}, r"there is no input 'z'; the model takes 'x'"),
        (
            {"x": X.astype("float64")},
            r"input 'x': must be of float32, the model's FLOAT; got 'float64'; x.astype\('float32'\) ",
        ),
        ({"x": X.astype(">f4")}, r"input 'x': must be of float32"),
        ({"x": X.astype("bool")}, r"input 'x': must be of float32"),
        ({"x": 3}, r"input 'x': must be an array of float32"),
        ({"x": [[1, 2]]}, r"input 'x': must be an array of float32, the model's FLOAT; got a list; np.array\("),
        (dict, "inputs must be a mapping"),
        ({"x": X[:3]}, r"input 'x' must have size 4 in dimension 0; got \(3, 4\)"),
        ({"x": X[0]}, r"input 'x' must have 2 dimensions, \(4, 4\); got \(4,\)"),
        ({"x": "text"}, r"input 'x'"),
        ({"x": None}, r"input 'x'"),
        ({"x": X.view(np.ma.MaskedArray)}, r"is a masked array"),
        ([X], r"inputs must be a mapping of names to arrays; got a list; model\(array\) takes them in the order"),
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
    proto.graph.node[0].op_type = "Unique"
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
    shapes, _ = loaded.assume_shapes({})
    assert loaded.index_limits(shapes) == dict.fromkeys(("start", "limit", "delta", "sizes", "i"), 2)


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


@pytest.mark.parametrize("is_whole", [True, False], ids=["program", "parts"])
def test_a_program_that_does_not_hold_for_its_own_values_is_an_error(
    is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be, and would be a fault of ours: no bare traceback tells of it."""
    monkeypatch.setattr(Program, "run", lambda *_: None)
    nodes = [node("Neg", "x", "y"), *([] if is_whole else [node("Unique", "y", "z")])]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", ["n"])}, "y" if is_whole else "y z"))
    with pytest.raises(dml.ModelError, match="for the very values of a run must hold for them"):
        loaded(np.ones(4, "float32"))


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
