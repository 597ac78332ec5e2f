"""Graphs and ONNX models over the blocks of dask arrays: compiled once, and refused with what to rechunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")
import anydml.dask as lazily  # noqa: E402 - where Dask is
from lazies import lazy, near  # noqa: E402 - it needs Dask

X = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")
WEIGHTS = np.random.default_rng(2).normal(size=(4, 3)).astype("float32")


def graph(rows: int = 2) -> Any:
    """A product with weights of its own, and what is largest of it."""
    made = dml.Graph()
    x = made.input(np.zeros((rows, 4), "float32"))
    y = dml.relu(dml.gemm(x, made.constant(WEIGHTS)))
    return made.compile([y, dml.reduce(y, "max", axes=[1])])


def test_a_compiled_graph_on_every_block() -> None:
    product, largest = graph().map_blocks(lazy(X, 2, 4))
    assert product.chunks == ((2, 2, 2), (3,))
    whole = dml.relu(dml.gemm(X, WEIGHTS))
    near(product, whole, 4)
    near(largest, dml.reduce(whole, "max", axes=[1]), 4)


def test_blocks_of_other_sizes_are_refused() -> None:
    with pytest.raises(dml.DescriptionError, match=r"in blocks of \(2, 4\).*rechunk\(\(2, 4\)\)"):
        graph().map_blocks(lazy(X, 3, 4))
    with pytest.raises(dml.DescriptionError, match="an array for each input"):
        graph().map_blocks(lazy(X, 2, 4), lazy(X, 2, 4))


def test_weights_are_one_task_and_one_graph_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph()
    product, _ = model.map_blocks(lazy(X, 2, 4))
    held = [key for key in product.dask if isinstance(key, tuple) and str(key[0]).endswith("-model")]
    assert len(held) == 1
    count, compile_graph = [], dml.Device.compile_graph

    def counted(*args: Any, **named: Any) -> Any:
        count.append(1)
        return compile_graph(*args, **named)

    monkeypatch.setattr(dml.Device, "compile_graph", counted)
    from anydml.dask.models import _compiled

    _compiled.clear()
    product.compute(scheduler="threads")
    assert len(count) == 1


def _onnx_model() -> bytes:
    onnx = pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    inputs = [
        helper.make_tensor_value_info("x", float32, ["batch", 4]),
        helper.make_tensor_value_info("b", float32, [3]),
    ]
    outputs = [helper.make_tensor_value_info("y", float32, ["batch", 3])]
    weights = onnx.numpy_helper.from_array(WEIGHTS, "w")
    made = helper.make_graph(nodes, "product", inputs, outputs, [weights])
    opsets = [helper.make_opsetid("", 17)]
    found: bytes = helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString()
    return found


def test_an_onnx_model_on_every_batch(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_onnx_model())
    bias = np.array([1, 2, 3], "float32")
    found = lazily.run_model(path, {"x": lazy(X, 4, 4), "b": bias})
    assert found.chunks == ((4, 2), (3,))
    near(found, X @ WEIGHTS + bias, 4)
    with pytest.raises(dml.DescriptionError, match=r"axis 0 alone.*rechunk\(\{1: -1\}\)"):
        lazily.run_model(path, {"x": lazy(X, 4, 2), "b": bias})
    with pytest.raises(dml.DescriptionError, match="must have a dask array"):
        lazily.run_model(path, {"x": X, "b": bias})


def test_a_model_whose_weights_lie_beside_it(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")
    proto, path, bias = onnx.ModelProto.FromString(_onnx_model()), tmp_path / "model.onnx", np.zeros(3, "float32")
    options = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save_model(proto, path, **options)
    for given in (path, onnx.load(path)):
        near(lazily.run_model(given, {"x": lazy(X, 4, 4), "b": bias}), X @ WEIGHTS, 4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "missing.onnx"}, "missing.onnx: the file cannot be read"),
        ({"model": 3}, "must be a path, the bytes of one, or a ModelProto"),
        ({"inputs": {"z": X}}, "must be the model's: 'x', 'b'; got 'z'"),
        ({"inputs": {"x": X}}, "must have an array for 'b'"),
        ({"batch_axis": 2}, "batch_axis must .*1.*; got 2"),
        ({"batch_axis": "a"}, "batch_axis must be a whole number"),
        ({"device": "gpu"}, "no device 'gpu'.*did you mean 'cuda'"),
        ({"inputs": {"x": X.astype("float64"), "b": X[0, :3]}}, r"x must be of float32.*pass x.astype\('float32'\)"),
        ({"inputs": {"x": X[:0], "b": X[0, :3]}}, "x must have elements in every block"),
    ],
)
def test_a_model_that_cannot_be_run_says_why_at_once(change: dict[str, Any], told: str) -> None:
    """Before any block is computed."""
    pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")
    given: dict[str, Any] = {"model": _onnx_model(), "inputs": {"x": X, "b": X[0, :3]}, **change}
    given["inputs"] = {name: da.from_array(x) if name != "b" else x for name, x in given["inputs"].items()}
    with pytest.raises(dml.DmlError, match=told):
        lazily.run_model(**given)
