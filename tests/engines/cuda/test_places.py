"""Arrays on a GPU: seen where they lie, on which stream calls run, how known calls are found. No GPU takes part."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind
from anydml import engines
from anydml.arrays import place_of, view
from gpu import FakeTorch, Gpu, OnGpu, OnSecondGpu, Tensor

pytestmark = pytest.mark.check_bounds

X = np.arange(8, dtype="float32").reshape(2, 4)
PAIR = dml.TensorDesc("float32", (2, 4))
SUM = dml.CumulativeSummation(input_tensor=PAIR, output_tensor=PAIR, axis=1)
FAR = 2 << 40


def seen(array: object) -> Any:
    return view(array, "TEST", "InputTensor", memory=None)


# Views


def test_an_array_is_seen_by_its_numbers() -> None:
    packed = seen(OnGpu((2, 4)))
    assert (packed.buffer.device, packed.buffer.address, packed.buffer.size) == ("cuda:0", 1 << 40, 32)
    assert (packed.offset, packed.sizes, packed.strides, packed.data_type.name) == (0, (2, 4), (4, 1), "FLOAT32")
    backwards = seen(OnGpu((2, 4), strides=(32, -8)))
    assert (backwards.strides, backwards.offset) == ((8, -2), 24)
    assert (backwards.buffer.address, backwards.buffer.size) == ((1 << 40) - 24, 60)
    assert seen(OnSecondGpu((2,))).buffer.device == "cuda:1"
    assert not seen(OnGpu((2,), data=(1 << 40, True))).buffer.writable
    assert seen(OnGpu((0, 4), data=(0, False))).buffer.size == 0
    assert dml.TensorDesc.of(OnGpu((2, 4), strides=(32, 8))).element_strides == (8, 2)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (OnGpu((2,), mask=X), "InputTensor is a masked array, and operators have no masks; got a OnGpu"),
        (OnGpu((2,), typestr="<c8"), r"InputTensor must have a data type that is one of FLOAT32, .*complex64"),
        (OnGpu((2,), typestr="|b1"), "DirectML has no booleans"),
        (OnGpu((2,), typestr=">f4"), "the byte order is not this machine's"),
        (OnGpu((2,), typestr="nonsense"), r"InputTensor could not be read"),
        (OnGpu((2,), strides=(6,)), "InputTensor must have strides of whole elements; 6 bytes in dimension 0"),
        (OnGpu((2,), data=None), "InputTensor could not be read"),
    ],
    ids=["mask", "complex", "booleans", "byte order", "no type", "strides", "no data"],
)
def test_arrays_that_cannot_be_taken(array: OnGpu, message: str) -> None:
    with pytest.raises(dml.DescriptionError, match=message):
        seen(array)


def test_where_things_lie() -> None:
    class Broken:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise ValueError("no")

    assert [place_of(x) for x in (X, [1, 2], 3, None, b"x", Broken())] == ["cpu"] * 6
    assert [place_of(OnGpu((2,))), place_of(OnSecondGpu((2,)))] == ["cuda:0", "cuda:1"]


# Binding


def test_the_host_does_not_reach_into_a_gpu() -> None:
    message = (
        r"InputTensor lies in the memory of cuda:1, and this device works in the host's; move it to the host first,"
        r" for instance with \.cpu\(\) or \.get\(\), or run on Device\('cuda:1'\)"
    )
    out = np.zeros((2, 4), "float32")
    for device in ("cpu", "reference"):
        run = dml.Device(device).compile(SUM)
        with pytest.raises(dml.BindingError, match=message) as caught:
            run(OnSecondGpu((2, 4)), out=out)
        assert caught.value.field == "InputTensor"
        with pytest.raises(dml.BindingError, match=message):
            dml.cumulative_summation(OnSecondGpu((2, 4)), 1, out=out, device=device)
        with pytest.raises(dml.BindingError, match=r"OutputTensor lies in the memory of cuda:0"):
            run.bind(X, out=OnGpu((2, 4)))
        table = run.device.create_binding_table(run)
        with pytest.raises(dml.BindingError, match=message):
            table.bind_inputs([Bind(OnSecondGpu((2, 4)))])
    assert not out.any()


@pytest.mark.parametrize("wrong", [X, OnSecondGpu((2, 4))], ids=["array", "cuda:1"])
def test_a_gpu_does_not_reach_elsewhere(gpus: list[Gpu], wrong: Any) -> None:
    there = "the memory of cuda:1" if isinstance(wrong, OnGpu) else "the host's memory"
    own = "cuda:1" if isinstance(wrong, OnGpu) else "cpu"
    message = (
        f"InputTensor lies in {there}, and this device works in that of cuda:0; move it there first, for instance"
        rf" with torch\.as_tensor\(x, device='cuda:0'\), or run on Device\('{own}'\)"
    )
    run = dml.Device("cuda").compile(SUM)
    out = OnGpu((2, 4), FAR)
    for act in (
        lambda: run(wrong, out=out),
        lambda: run.bind(wrong, out=out),
        lambda: dml.cumulative_summation(wrong, 1, out=out, device="cuda:0"),
    ):
        with pytest.raises(dml.BindingError, match=message):
            act()
    with pytest.raises(dml.BindingError, match="OutputTensor lies in the host's memory"):
        run(OnGpu((2, 4)), out=X)
    with pytest.raises(dml.DescriptionError, match="OutputTensor must be an array that can be written to"):
        run(OnGpu((2, 4)), out="y")
    with pytest.raises(dml.BindingError, match=r"InputTensor lies in the host's memory, and this device works in that"):
        run.device.create_binding_table(run).bind_inputs([Bind(bytearray(32))])
    assert gpus[0].ran == []


def test_the_first_array_picks_the_engine(gpus: list[Gpu]) -> None:
    x, out = OnGpu((2, 4)), OnGpu((2, 4), FAR)
    assert dml.cumulative_summation(x, 1, out=out) is out
    assert gpus[0].ran == [{"InputTensor": 1 << 40, "OutputTensor": FAR}]
    assert dml.slice1(OnSecondGpu((2, 4)), (0, 0), (2, 4), (1, -1), out=OnSecondGpu((2, 4), FAR)).shown
    assert (len(gpus[0].ran), len(gpus[1].ran)) == (1, 1)
    with pytest.raises(dml.BindingError, match="OutputTensor lies in the memory of cuda:1, and this device works in"):
        dml.cumulative_summation(x, 1, out=OnSecondGpu((2, 4)))
    with pytest.raises(dml.BindingError, match="IndicesTensor lies in the host's memory"):
        dml.gather_nd(x, np.array([[0], [1]]))
    with pytest.raises(dml.BindingError, match="IndicesTensor lies in the memory of cuda:0, and this device works in"):
        dml.gather_nd(X, OnGpu((2, 1), typestr="<i8"))
    assert (len(gpus[0].ran), len(gpus[1].ran)) == (1, 1)


def test_overlap_is_told_from_addresses(gpus: list[Gpu]) -> None:
    run = dml.Device("cuda").compile(SUM)
    x = OnGpu((2, 4))
    assert run(x, out=x) is x
    with pytest.raises(dml.BindingError, match="may overlap InputTensor only where both are the very same range"):
        run(x, out=OnGpu((2, 4), (1 << 40) + 16))
    rows = dml.TensorDesc("float32", (2, 4), strides=(8, 2))
    striped = dml.Device("cuda").compile(dml.CumulativeSummation(input_tensor=rows, output_tensor=rows, axis=1))
    even, odd = OnGpu((2, 4), strides=(32, 8)), OnGpu((2, 4), (1 << 40) + 4, strides=(32, 8))
    assert striped(even, out=odd) is odd
    assert dml.Device("cuda").compile(SUM).bind(OnGpu((2, 4)), out=OnGpu((2, 4), FAR)).dispatch()
    same_address_elsewhere = seen(OnSecondGpu((2, 4))).buffer
    assert not same_address_elsewhere.overlaps(seen(x).buffer)


def test_raw_buffers_and_owned_tensors(gpus: list[Gpu]) -> None:
    device = dml.Device("cuda")
    owned = dml.TensorDesc("float32", (2, 4), flags="OWNED_BY_DML")
    run = device.compile(dml.CumulativeSummation(input_tensor=owned, output_tensor=PAIR, axis=1))
    run.initialize(OnGpu((2, 4)))
    run.bind(out=OnGpu((2, 4), FAR)).dispatch()
    assert gpus[0].ran == [
        {"InputTensor": 1 << 40, "Persistent": 3 << 40},
        {"OutputTensor": FAR, "InputTensor": 3 << 40},
    ]
    plain = device.compile(SUM)
    table, commands = device.create_binding_table(plain), device.create_command_list()
    memory = OnGpu((64,), typestr="|u1")
    table.bind_inputs([Bind(memory, 0, 32)])
    table.bind_outputs([Bind(memory, 32)])
    device.create_command_recorder().record_dispatch(commands, plain, table)
    device.execute(commands)
    assert gpus[0].ran[-1] == {"InputTensor": 1 << 40, "OutputTensor": (1 << 40) + 32}
    with pytest.raises(dml.BindingError, match="InputTensor must be one piece of memory"):
        table.bind_inputs([Bind(OnGpu((2, 4), strides=(32, 4)))])


# Engines


def test_names(gpus: list[Gpu]) -> None:
    assert repr(dml.Device("cuda:1", feature_level="5_0")) == "Device('cuda:1', feature_level='5_0')"
    assert [dml.Device(name).name for name in ("cuda", "cuda:0", "cuda:1")] == ["cuda", "cuda", "cuda:1"]
    assert dml.Device().name == "cpu"
    for name in ("cuda:x", "cuda:", "cuda:-1", "cuda1"):
        with pytest.raises(
            dml.MissingDependencyError, match=rf"no device '{name}' .*a number says which GPU, as in 'cuda"
        ):
            dml.Device(name)


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.engines import cuda

    monkeypatch.setattr(cuda, "why_missing", lambda: "")
    monkeypatch.setattr(cuda, "device_count", lambda: 1)
    with pytest.raises(dml.MissingDependencyError, match="no device 'cuda:7' on this machine; there is 'cuda:0' alone"):
        dml.Device("cuda:7")
    monkeypatch.setattr(cuda, "device_count", lambda: 4)
    with pytest.raises(dml.MissingDependencyError, match="there are 'cuda:0' to 'cuda:3'"):
        dml.Device("cuda:7")


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.engines import cuda

    monkeypatch.setattr(cuda, "why_missing", lambda: "the cuda engine needs triton")
    engines._cuda.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(dml.MissingDependencyError, match=r"the cuda engine needs triton; pip install 'anydml\[cuda\]'"):
        dml.slice(OnGpu((2,)), 0, 1)
    monkeypatch.undo()
    engines._cuda.cache_clear()


def test_what_lies_askew_on_a_gpu_is_refused(gpus: list[Gpu]) -> None:
    """A GPU stops at an element that does not lie at a multiple of its size, and takes everything with it."""
    run = dml.Device("cuda").compile(SUM)
    rule = "InputTensor must start at a multiple of 4 bytes, the size of its elements, on cuda:0; got address 0x100000"
    with pytest.raises(dml.BindingError, match=rule):
        run.bind(OnGpu((2, 4), address=(1 << 40) + 2), out=OnGpu((2, 4), address=FAR))
    table = dml.Device("cuda").create_binding_table(run)
    with pytest.raises(dml.BindingError, match="the buffer must start at a multiple of 16 bytes; got address"):
        table.bind_outputs([Bind(OnGpu((8,), address=FAR + 4))])
    assert not gpus[0].bound


HERE = 1 << 40


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
