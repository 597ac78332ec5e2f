"""Graphs on a GPU: arrays of every library, streams, CUDA graphs and raw memory. Skipped without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

pytestmark = pytest.mark.check_bounds

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU here", allow_module_level=True)

from libraries import Cupy, Torch  # noqa: E402 - it needs PyTorch

if TYPE_CHECKING:
    from libraries import Library

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6)
SUM = np.cumsum(X[:, ::-1], axis=1)


@pytest.fixture(params=[Torch, Cupy], ids=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(params=[True, False], ids=["simplified", "plain"])
def model(request: pytest.FixtureRequest) -> dml.CompiledGraph:
    """A reversed running sum, rows of it that indices choose, and the running sum of a constant."""
    g = dml.Graph("cuda")
    x, i = g.input(T("float32", (4, 6)), "x"), g.input(T("int64", (2, 1)), "i")
    total = dml.cumulative_summation(dml.slice1(x, (0, 0), (4, 6), (1, -1)), 1)
    constant = dml.cumulative_summation(g.constant(X), 0)
    return g.compile([total, dml.gather_nd(total, i).named("pick"), constant], optimise=request.param)


def test_results_are_of_the_callers_library(library: Library, model: dml.CompiledGraph) -> None:
    for rows in ([[3], [0]], [[1], [-1]]):
        results = model(library.put(X), library.put(np.array(rows)))
        assert all(isinstance(result, library.array) for result in results)
        total, picked, constant = (library.get(result) for result in results)
        np.testing.assert_array_equal(total, SUM)
        np.testing.assert_array_equal(picked, SUM[np.array(rows)[:, 0]])
        np.testing.assert_array_equal(constant, np.cumsum(X, axis=0))


def test_an_index_outside_leaves_every_output_as_it_was(library: Library, model: dml.CompiledGraph) -> None:
    outputs = [library.put(np.full(desc.sizes, -1, "float32")) for desc in model.outputs.values()]
    bound = model.bind(library.put(X), library.put(np.array([[0], [7]])), out=outputs)
    with pytest.raises(dml.IndexRangeError, match=r"'pick': GATHER_ND: indices\[1\] = \(7,\) is outside"):
        bound.dispatch()
    assert all((library.get(output) == -1).all() for output in outputs)


def test_arrays_of_the_host_are_refused(model: dml.CompiledGraph) -> None:
    with pytest.raises(dml.BindingError, match="cuda"):
        model(X, np.zeros((2, 1), "int64"))


def test_every_step_runs_on_the_callers_stream(library: Library, model: dml.CompiledGraph) -> None:
    x, i = library.put(np.zeros((4, 6), "float32")), library.put(np.zeros((2, 1), "int64"))
    outputs = [library.put(np.zeros(desc.sizes, "float32")) for desc in model.outputs.values()]
    bound, new = model.bind(x, i, out=outputs), library.put(X)
    bound.dispatch()
    torch.cuda.synchronize()
    for _ in range(2):
        with library.stream() as stream:
            x[...] = new
            bound.dispatch()
            stream.synchronize()
            np.testing.assert_array_equal(library.get(outputs[0]), SUM)
            np.testing.assert_array_equal(library.get(outputs[1]), SUM[[0, 0]])


@pytest.mark.parametrize("optimise", [True, False])
def test_a_bound_graph_in_a_cuda_graph(optimise: bool) -> None:
    g = dml.Graph("cuda")
    x = g.input(T("float32", (4, 6)))
    flipped = dml.slice1(x, (0, 0), (4, 6), (1, -1))
    y = dml.slice1(dml.cumulative_product(dml.cumulative_summation(flipped, 1), 0), (0, 1), (4, 3))
    there, out = torch.zeros(4, 6, device="cuda"), torch.zeros(4, 3, device="cuda")
    bound = g.compile(y, optimise=optimise).bind(there, out=out)
    bound.dispatch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.dispatch()
    for times in (1, 2):
        there.copy_(torch.from_numpy(X * times))
        out.zero_()
        graph.replay()
        wanted = np.cumprod(np.cumsum(X[:, ::-1] * times, axis=1), axis=0)[:, 1:4]
        np.testing.assert_allclose(out.cpu().numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("way", ["bound", "called"])
def test_a_graph_that_is_run_again_and_again(way: str) -> None:
    """The third run is captured, and all after it are replays, on other streams and of other addresses too."""
    g = dml.Graph("cuda")
    x = g.input(T("float32", (64, 300)), "x")
    y = dml.gemm(dml.softmax(x), g.constant(np.ones((300, 80), "float32")))
    model = g.compile(dml.cumulative_summation(y, 1))
    there, out = torch.zeros(64, 300, device="cuda"), torch.zeros(64, 80, device="cuda")
    bound = model.bind(there, out=out)
    for time in range(9):
        with torch.cuda.stream(torch.cuda.Stream() if time % 3 == 2 else torch.cuda.default_stream()):
            there.copy_(torch.randn(64, 300, device="cuda"))
            if way == "called":
                out = model(there)
            else:
                out.zero_()
                bound.dispatch()
            wanted = (torch.softmax(there.double(), 1) @ torch.ones(300, 80, device="cuda").double()).cumsum(1)
            assert float((out - wanted).abs().max()) < 1e-3
        torch.cuda.synchronize()


def test_raw_memory_and_a_tensor_that_is_owned() -> None:
    device = dml.Device("cuda")
    g = dml.Graph(device)
    x, w = g.input(T("float32", (4,)), "x"), g.input(T("float32", (4,), flags="OWNED_BY_DML"), "w")
    total = dml.cumulative_summation(dml.cumulative_product(x, 0), 0)
    model = device.compile_graph(g.desc([dml.cumulative_summation(total, 0), dml.cumulative_product(w, 0)]))
    needs = model.binding_properties
    assert needs.temporary_resource_size == 256

    def raw(*values: float, size: int = 16) -> Any:
        data = torch.zeros(size, dtype=torch.uint8, device="cuda")
        if values:
            data.view(torch.float32)[: len(values)] = torch.tensor(values, device="cuda")
        return data

    persistent, first, second = raw(size=needs.persistent_resource_size), raw(), raw()
    initializer, recorder = device.create_operator_initializer([model]), device.create_command_recorder()
    commands, table = device.create_command_list(), device.create_binding_table(initializer)
    table.bind_inputs([[None, dml.BufferBinding(raw(1, 2, 3, 4))]])
    table.bind_outputs([dml.BufferBinding(persistent)])
    recorder.record_dispatch(commands, initializer, table)
    table.reset(model)
    table.bind_inputs([dml.BufferBinding(raw(1, 2, 3, 4)), None])
    table.bind_outputs([dml.BufferBinding(first), dml.BufferBinding(second)])
    table.bind_persistent_resource(dml.BufferBinding(persistent))
    table.bind_temporary_resource(dml.BufferBinding(raw(size=256)))
    recorder.record_dispatch(commands, model, table)
    device.execute(commands)
    wanted = np.cumsum(np.cumsum(np.cumprod([1, 2, 3, 4])))
    np.testing.assert_array_equal(first.cpu().numpy().view("float32"), wanted)
    np.testing.assert_array_equal(second.cpu().numpy().view("float32"), [1, 2, 6, 24])


def test_a_model_tells_an_index_outside_at_every_run() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from anydml.onnx import load  # which needs onnx

    rng, make = np.random.default_rng(0), onnx.helper
    table, weights = (rng.standard_normal((4, 4)).astype("float32") for _ in range(2))
    nodes = [make.make_node("Gather", ["table", "i"], ["rows"]), make.make_node("MatMul", ["rows", "w"], ["made"])]
    nodes += [make.make_node("Softmax", ["made"], ["y"]), make.make_node("MatMul", ["y", "w"], ["z"])]
    given = make.make_tensor_value_info("i", onnx.TensorProto.INT64, ["n"])
    results = [make.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", 4])]
    kept = [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(weights, "w")]
    graph = make.make_graph(nodes, "rows", [given], results, kept)
    model = load(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)]).SerializeToString(), device="cuda")
    indices = np.array([3, 0, -1])
    power = np.exp(table[indices] @ weights)
    want = power / power.sum(axis=-1, keepdims=True) @ weights
    for _ in range(5):  # the third captures what comes after the indices
        found = model.run({"i": torch.from_numpy(indices).cuda()})["z"]
        np.testing.assert_allclose(found.cpu().numpy(), want, rtol=1e-4, atol=1e-5)
        with pytest.raises(dml.IndexRangeError, match=r"indices\[1\] = 4 is outside"):
            model.run({"i": torch.tensor([0, 4, 1]).cuda()})
