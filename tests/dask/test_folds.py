"""Folds along cut dimensions: reductions, softmaxes, normalisations and products on dask arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")

import anydml.dask as lazily  # noqa: E402 - where Dask is
from lazies import lazy, near, same  # noqa: E402 - where Dask is

X = np.random.default_rng(1).normal(size=(4, 6, 8)).astype("float32")
ONES = np.ones((1, 4, 1, 1), "float32")


def cut(x: np.ndarray[Any, Any] = X) -> Any:
    return lazy(x, 2, 3, 4)


# What accumulates in FLOAT64, or in integers, or compares: the order of its blocks changes no bit of these.
EXACT: list[tuple[str, Callable[[Any], Any]]] = [
    *((name, lambda x, name=name: dml.reduce(x, name, axes=[1]))
      for name in ("l2", "log_sum_exp", "max", "min", "multiply", "sum_square", "argmax", "argmin")),
    ("all axes", lambda x: dml.reduce(x, "max")),
    ("two axes", lambda x: dml.argmin(x, axes=[0, 2])),
    ("the last of equals", lambda x: dml.argmax(dml.round(x), axes=[1], axis_direction="decreasing")),
    ("integers", lambda x: dml.reduce(dml.cast(dml.multiply(x, 9.0), "int32"), "sum", axes=[0, 1])),
    ("float16", lambda x: dml.reduce(dml.cast(x, "float16"), "sum", axes=[1])),
    ("hardmax", lambda x: dml.hardmax1(x, axes=[1])),
    ("lp", lambda x: dml.lp_normalization(x, 1)),
    ("quantised", lambda x: dml.dynamic_quantize_linear(x)),
]  # fmt: skip
NEAR: list[tuple[str, Callable[[Any], Any]]] = [
    ("sum", lambda x: dml.reduce(x, "sum", axes=[1])),
    ("average", lambda x: dml.reduce(x, "average")),
    ("softmax", lambda x: dml.softmax1(x, axes=[1])),
    ("log softmax", lambda x: dml.log_softmax1(x, axes=[0, 2])),
    ("layer norm", lambda x: dml.mean_variance_normalization1(x, [1, 2], x[:1], x[1:2])),
    ("gemm", lambda x: dml.gemm(x, x, x[:, :, :6], trans_b="transpose", alpha=0.5)),
    ("gemm, repeated", lambda x: dml.gemm(x[0], x, trans_b="transpose")),
]


@pytest.mark.parametrize("call", [call for _, call in EXACT], ids=[name for name, _ in EXACT])
def test_folds_whose_order_is_free_give_the_same_bits(call: Callable[[Any], Any]) -> None:
    same(call(cut()), call(X))


@pytest.mark.parametrize("call", [call for _, call in NEAR], ids=[name for name, _ in NEAR])
def test_sums_of_float32_are_as_near_as_their_rounding(call: Callable[[Any], Any]) -> None:
    near(call(cut()), call(X), 8)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_a_softmax_is_within_a_unit_of_its_exact_sum(scale: float) -> None:
    x = np.float32(scale) * np.random.default_rng(7).normal(size=(600, 9)).astype("float32")
    powers = dml.exp(x - x.max(axis=0)).astype(np.float64)
    found = dml.softmax1(lazy(x, 70, 4), axes=[0]).compute(scheduler="sync")
    np.testing.assert_array_max_ulp(found, (powers / powers.sum(axis=0)).astype("float32"), maxulp=1)


def test_products_of_halves_are_added_up_by_the_kernels_for_products() -> None:
    from anydml.core.enums import DataType
    from anydml.dask.folds import widened
    from anydml.ir.expressions import Expr, load

    a, b = (load(i, DataType.FLOAT16).to(DataType.FLOAT32) for i in (0, 1))
    product, square = (Expr("fold_sum", DataType.FLOAT32, (x,)) for x in (a * b, a * a))
    assert widened(product) is product
    assert widened(square).type is DataType.FLOAT64
    x, y = (np.random.default_rng(i).normal(size=(4, 64)).astype("float16") for i in (1, 2))
    found = dml.gemm(lazy(x, 4, 16), lazy(y, 4, 16), trans_b="transpose").compute(scheduler="sync")
    np.testing.assert_allclose(found, dml.gemm(x, y, trans_b="transpose"), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("call", [lambda x: dml.reduce(x, "sum", axes=[0]), lambda x: dml.softmax1(x, axes=[0])])
def test_a_mask_is_refused_by_the_name_of_the_field(call: Callable[[Any], Any]) -> None:
    masked = call(cut().map_blocks(np.ma.masked_array))
    with pytest.raises(dml.DescriptionError, match=r"^[A-Z0-9_]+: InputTensor is a masked array"):
        masked.compute(scheduler="sync")


def test_batches_are_normalised_across_blocks() -> None:
    x = X.reshape(2, 4, 3, 8)
    found = dml.batch_normalization_training(lazy(x, 1, 2, 2, 8), ONES, ONES)
    same(found, dml.batch_normalization_training(x, ONES, ONES))


def test_nan_infinities_and_zeros_across_blocks() -> None:
    x = np.array([[1, np.nan, 3, 4], [np.inf, 1, 2, -np.inf], [-np.inf] * 4, [0.0, -0.0, 0.0, -0.0],
                  [-np.inf, -np.inf, 90, 2]], "float32")  # fmt: skip
    for name in ("max", "min", "argmax", "argmin", "log_sum_exp", "sum"):
        np.testing.assert_array_equal(
            dml.reduce(lazy(x, 5, 2), name, axes=[1]).compute(), dml.reduce(x, name, axes=[1])
        )
    np.testing.assert_array_equal(dml.softmax(lazy(x, 5, 2)).compute(), dml.softmax(x))


class Store:
    """An array that counts how often it is read."""

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        self.x, self.reads = x, 0
        self.shape, self.dtype, self.ndim = x.shape, x.dtype, x.ndim

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return self.x[index]


@pytest.mark.parametrize(("kept", "reads"), [(0, 2), (X.nbytes, 1)])
def test_blocks_of_a_large_store_are_read_anew_for_every_pass(
    monkeypatch: pytest.MonkeyPatch, kept: int, reads: int
) -> None:
    from anydml.dask import arrays

    if da.array_expr_enabled():
        pytest.skip("blocks stay in memory with array.query-planning")
    monkeypatch.setattr(arrays, "_KEPT", kept)
    store = Store(X)
    softmax = dml.softmax1(da.from_array(store, chunks=(2, 6, 8)), axes=[0])
    store.reads = 0
    near(softmax, dml.softmax1(X, axes=[0]), 8)
    assert store.reads == 2 * reads


def test_a_running_sum_reads_few_blocks_of_a_large_store_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.dask import arrays

    if da.array_expr_enabled():
        pytest.skip("blocks are read as Dask orders them with array.query-planning")
    monkeypatch.setattr(arrays, "_KEPT", 0)
    x = np.random.default_rng(2).normal(size=(40, 3)).astype("float32")
    for direction in ("increasing", "decreasing"):
        total = dml.cumulative_summation(da.from_array(Store(x), chunks=(2, 2)), 0, direction)
        same(total, dml.cumulative_summation(x, 0, direction))
        waits = [task.dependencies for key, task in total.dask.items() if str(key[0]).endswith("-read")]
        assert len(waits) == 2 * 15
        assert all(any(str(key[0]).endswith("-carry") for key in keys) for keys in waits)


def test_many_blocks_are_put_together_in_a_tree() -> None:
    x = np.arange(100, dtype="int64")
    total = dml.reduce(lazy(x, 1), "sum")
    same(total, dml.reduce(x, "sum"))
    assert max(len(task.dependencies) for task in total.dask.values() if hasattr(task, "dependencies")) <= 8


ROWS = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")
WEIGHTS = np.random.default_rng(2).normal(size=(4, 3)).astype("float32")


def graph(rows: int = 2) -> Any:
    """A product with weights of its own, and what is largest of it."""
    made = dml.Graph()
    x = made.input(np.zeros((rows, 4), "float32"))
    y = dml.relu(dml.gemm(x, made.constant(WEIGHTS)))
    return made.compile([y, dml.reduce(y, "max", axes=[1])])


def test_a_compiled_graph_on_every_block() -> None:
    product, largest = graph().map_blocks(lazy(ROWS, 2, 4))
    assert product.chunks == ((2, 2, 2), (3,))
    whole = dml.relu(dml.gemm(ROWS, WEIGHTS))
    near(product, whole, 4)
    near(largest, dml.reduce(whole, "max", axes=[1]), 4)


def test_blocks_of_other_sizes_are_refused() -> None:
    with pytest.raises(dml.DescriptionError, match=r"in blocks of \(2, 4\).*rechunk\(\(2, 4\)\)"):
        graph().map_blocks(lazy(ROWS, 3, 4))
    with pytest.raises(dml.DescriptionError, match="an array for each input"):
        graph().map_blocks(lazy(ROWS, 2, 4), lazy(ROWS, 2, 4))


def test_weights_are_one_task_and_one_graph_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph()
    product, _ = model.map_blocks(lazy(ROWS, 2, 4))
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
    found = lazily.run_model(path, {"x": lazy(ROWS, 4, 4), "b": bias})
    assert found.chunks == ((4, 2), (3,))
    near(found, ROWS @ WEIGHTS + bias, 4)
    with pytest.raises(dml.DescriptionError, match=r"axis 0 alone.*rechunk\(\{1: -1\}\)"):
        lazily.run_model(path, {"x": lazy(ROWS, 4, 2), "b": bias})
    with pytest.raises(dml.DescriptionError, match="must have a dask array"):
        lazily.run_model(path, {"x": ROWS, "b": bias})


def test_a_model_whose_weights_lie_beside_it(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")
    proto, path, bias = onnx.ModelProto.FromString(_onnx_model()), tmp_path / "model.onnx", np.zeros(3, "float32")
    options = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save_model(proto, path, **options)
    for given in (path, onnx.load(path)):
        near(lazily.run_model(given, {"x": lazy(ROWS, 4, 4), "b": bias}), ROWS @ WEIGHTS, 4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "missing.onnx"}, "missing.onnx: the file cannot be read"),
        ({"model": 3}, "must be a path, the bytes of one, or a ModelProto"),
        ({"inputs": {"z": ROWS}}, "must be the model's: 'x', 'b'; got 'z'"),
        ({"inputs": {"x": ROWS}}, "must have an array for 'b'"),
        ({"batch_axis": 2}, "batch_axis must .*1.*; got 2"),
        ({"batch_axis": "a"}, "batch_axis must be a whole number"),
        ({"device": "gpu"}, "no device 'gpu'.*did you mean 'webgpu'"),
        (
            {"inputs": {"x": ROWS.astype("float64"), "b": ROWS[0, :3]}},
            r"x must be of float32.*pass x.astype\('float32'\)",
        ),
        ({"inputs": {"x": ROWS[:0], "b": ROWS[0, :3]}}, "x must have elements in every block"),
    ],
)
def test_a_model_that_cannot_be_run_says_why_at_once(change: dict[str, Any], told: str) -> None:
    """Before any block is computed."""
    pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")
    given: dict[str, Any] = {"model": _onnx_model(), "inputs": {"x": ROWS, "b": ROWS[0, :3]}, **change}
    given["inputs"] = {name: da.from_array(x) if name != "b" else x for name, x in given["inputs"].items()}
    with pytest.raises(dml.DmlError, match=told):
        lazily.run_model(**given)
