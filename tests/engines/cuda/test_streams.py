"""Calls on a GPU: the stream that they run on, CUDA graphs, and the memory of calls that are known. It needs a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml

pytestmark = pytest.mark.check_bounds

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU here", allow_module_level=True)

from libraries import LONG, Cupy, Library, Torch  # noqa: E402 - it needs PyTorch
from tests.engines.cuda.test_arrays import Interface, X, running_sum  # noqa: E402 - as above


@pytest.fixture(params=[Torch, Cupy], ids=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_a_dispatch_runs_on_the_callers_stream(library: Library) -> None:
    x, out = library.put(np.zeros((3, 4), "float32")), library.put(np.zeros((3, 4), "float32"))
    new, run = library.put(X), running_sum(X)
    bound = run.bind(x, out=out)
    for _ in range(2):  # compiled and known, so that the calls below take no longer than the stream is busy
        dml.slice1(x, (0, 0), (3, 4), (-1, 1))
        run(x)
    torch.cuda.synchronize()
    with library.stream() as stream:
        x[...] = new
        bound.dispatch()
        by_function = dml.slice1(x, (0, 0), (3, 4), (-1, 1))
        by_call = run(x)
        stream.synchronize()
        np.testing.assert_array_equal(library.get(out), np.cumsum(X, axis=0))
        np.testing.assert_array_equal(library.get(by_function), X[::-1])
        np.testing.assert_array_equal(library.get(by_call), np.cumsum(X, axis=0))


def test_a_producer_on_another_stream_is_waited_for() -> None:
    x, out = torch.zeros(3, 4, device="cuda"), torch.zeros(3, 4, device="cuda")
    new = torch.from_numpy(X).cuda()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        x.copy_(new)
    shown = Interface(x)
    shown.__cuda_array_interface__ = {**shown.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}
    dml.slice(shown, (0, 0), (3, 4), out=Interface(out))
    np.testing.assert_array_equal(out.cpu().numpy(), X)


@pytest.mark.parametrize("make", [
    lambda x, out: running_sum(x).bind(x, out=out),
    lambda x, out: dml.Device("cuda").compile(dml.Slice1.infer(
        input_tensor=dml.TensorDesc.of(x), input_window_offsets=(0, 0), input_window_sizes=(3, 4),
        input_window_strides=(-1, 1))).bind(x, out=out),
], ids=["running sum", "slice"])  # fmt: skip
def test_a_bound_operator_in_a_cuda_graph(make: Any) -> None:
    x, out = torch.zeros(3, 4, device="cuda"), torch.zeros(3, 4, device="cuda")
    bound = make(x, out)
    bound.dispatch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.dispatch()
    for times in (1, 2):
        x.copy_(torch.from_numpy(X * times))
        out.zero_()
        graph.replay()
        wanted = make(x, torch.zeros_like(out)).dispatch()
        assert wanted.any()
        assert torch.equal(out, wanted)


def test_a_known_call_uses_the_memory_of_the_moment() -> None:
    x, out, run = torch.from_numpy(X).cuda(), torch.zeros(3, 4, device="cuda"), running_sum(X)
    for _ in range(3):
        assert run(x, out=out) is out
    np.testing.assert_array_equal(out.cpu().numpy(), np.cumsum(X, axis=0))
    x.set_(torch.from_numpy(X * 2).cuda())
    out.set_(torch.zeros(3, 4, device="cuda"))
    run(x, out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), np.cumsum(X * 2, axis=0))
    x.requires_grad_(True)
    with pytest.raises(dml.DescriptionError, match="it requires a gradient"):
        run(x, out=out)
    with pytest.raises(dml.BindingError, match=r"must be an array of sizes|must have strides"):
        run(x.detach().T, out=out)


def test_results_of_known_calls_are_apart() -> None:
    results = []
    for times in range(100):  # more than an operator remembers
        x = torch.from_numpy(X * times).cuda()
        results.append(dml.cumulative_summation(x, 0))
    for times, result in enumerate(results):
        np.testing.assert_array_equal(result.cpu().numpy(), np.cumsum(X * times, axis=0))
    assert len({result.data_ptr() for result in results}) == len(results)


def test_a_bound_operator_keeps_its_memory() -> None:
    x, out = torch.from_numpy(X).cuda(), torch.zeros(3, 4, device="cuda")
    bound, kept = running_sum(X).bind(x, out=out), out.view(12)
    x.set_(torch.empty(0, device="cuda"))
    out.set_(torch.empty(0, device="cuda"))
    fill = [torch.full((3, 4), -1.0, device="cuda") for _ in range(100)]
    bound.dispatch()
    np.testing.assert_array_equal(kept.cpu().numpy().reshape(3, 4), np.cumsum(X, axis=0))
    assert all((f == -1).all() for f in fill)
