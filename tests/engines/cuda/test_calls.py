"""Calls on a GPU: on which stream they run, and how those that were made before are found. No GPU takes part."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import anydml as dml
from gpu import FakeTorch, Gpu, OnGpu, Tensor

pytestmark = pytest.mark.check_bounds

PAIR = dml.TensorDesc("float32", (2, 4))
SUM = dml.CumulativeSummation(input_tensor=PAIR, output_tensor=PAIR, axis=1)
HERE, FAR = 1 << 40, 2 << 40


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


# Streams


class CupyArray(OnGpu):
    """An array that Python takes for CuPy's."""


CupyArray.__module__ = "cupy"


def test_a_dispatch_runs_on_cupys_stream_of_the_moment(
    gpus: list[Gpu], torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(ptr=0)
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda index: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    bound = dml.Device("cuda").compile(SUM).bind(CupyArray((2, 4), stream=5), out=CupyArray((2, 4), FAR))
    bound.dispatch()
    assert (torch.entered, torch.waited) == ([], [])
    stream.ptr = 77
    bound.dispatch()
    torch.current = 77
    bound.dispatch()
    stream.ptr = 0
    bound.dispatch()
    assert (torch.entered, torch.current) == ([77, 0], 77)
    assert len(gpus[0].ran) == 4


@pytest.mark.parametrize(
    ("stream", "waited"),
    [(None, []), (1, []), (2, [(0, 2)]), (4096, [(0, 4096)])],
    ids=["none", "legacy", "per thread", "another"],
)
def test_what_a_producer_still_writes_is_waited_for(
    gpus: list[Gpu], torch: Any, stream: int | None, waited: list[tuple[int, int]]
) -> None:
    bound = dml.Device("cuda").compile(SUM).bind(OnGpu((2, 4), stream=stream), out=OnGpu((2, 4), FAR))
    assert torch.waited == waited
    bound.dispatch()
    bound.dispatch()
    assert (torch.waited, torch.entered) == (waited, [])


# PyTorch's tensors


def test_a_tensor_is_seen_as_it_is(torch: Any) -> None:
    x = Tensor(torch.float32, (2, 4), HERE)
    x.strides = (1, 2)
    assert dml.TensorDesc.of(x) == dml.TensorDesc("float32", (2, 4), strides=(1, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requires_grad": True}, r"could not be read in place \(it requires a gradient\); .*pass x\.detach\(\)"),
        ({"negated": True}, r"its memory holds the negatives\); .*pass its \.resolve_neg\(\)"),
        ({"layout": "sparse"}, r"could not be read in place \(it is sparse\); .*pass its \.to_dense\(\)"),
    ],
    ids=["gradient", "negated", "sparse"],
)
def test_tensors_that_cannot_be_taken(gpus: list[Gpu], torch: Any, change: dict[str, Any], message: str) -> None:
    x, out = Tensor(torch.float32, (2, 4), HERE), Tensor(torch.float32, (2, 4), FAR)
    run = dml.Device("cuda").compile(SUM)
    for _ in range(2):  # known by then
        run(x, out=out)
        dml.cumulative_summation(x, 1, out=out)
    ran = len(gpus[0].ran)
    vars(x).update(change)
    with pytest.raises(dml.DescriptionError, match=message):
        run(x, out=out)
    with pytest.raises(dml.DescriptionError, match=message):
        dml.cumulative_summation(x, 1, out=out)
    assert len(gpus[0].ran) == ran


def test_a_known_call_is_bound_once_for_the_same_memory(gpus: list[Gpu], torch: Any) -> None:
    x, out, run = (
        Tensor(torch.float32, (2, 4), HERE),
        Tensor(torch.float32, (2, 4), FAR),
        dml.Device("cuda").compile(SUM),
    )
    for _ in range(3):
        assert run(x, out=out) is out
    assert (len(gpus[0].bound), len(gpus[0].ran)) == (1, 3)
    x.address += 4096
    run(x, out=out)
    assert gpus[0].ran[-1] == {"InputTensor": HERE + 4096, "OutputTensor": FAR}
    bound = run.bind(x, out=out)
    assert len(gpus[0].bound) == 2
    assert bound.dispatch() is out
    out.address = x.address + 4
    with pytest.raises(dml.BindingError, match="may overlap InputTensor only where both are the very same range"):
        run(x, out=out)
    out.address, out.strides = FAR, (1, 2)
    with pytest.raises(dml.BindingError, match=r"OutputTensor must have strides \(4, 1\), as described"):
        run(x, out=out)


def test_results_are_of_the_callers_library_and_device(gpus: list[Gpu], torch: Any) -> None:
    for index in (0, 1):
        x = Tensor(torch.float32, (2, 4), HERE, index)
        results = [dml.slice1(x, (0, 0), (2, 4), (1, -2)) for _ in range(3)]
        assert {(type(r), r.index, r.shape) for r in results} == {(Tensor, index, (2, 2))}
        assert [ran["OutputTensor"] for ran in gpus[index].ran] == [r.address for r in results]
    result = dml.Device("cuda").compile(SUM)(Tensor(torch.float32, (2, 4), HERE))
    assert (type(result), result.index) == (Tensor, 0)


def test_what_is_bound_for_a_cuda_graph_is_not_kept(gpus: list[Gpu], torch: Any) -> None:
    x, out = Tensor(torch.float32, (2, 4), HERE), Tensor(torch.float32, (2, 4), FAR)
    run, torch.is_capturing = dml.Device("cuda").compile(SUM), True
    run(x, out=out)
    torch.is_capturing = False
    run(x, out=out)
    run(x, out=out)
    assert (len(gpus[0].bound), len(gpus[0].ran)) == (2, 3)


def test_the_launches_that_are_remembered_are_bounded(gpus: list[Gpu], torch: Any) -> None:
    x, run = Tensor(torch.float32, (2, 4), HERE), dml.Device("cuda").compile(SUM)
    for _ in range(200):
        run(x)
    assert len(run._launches) <= 64
