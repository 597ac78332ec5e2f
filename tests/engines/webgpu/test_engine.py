"""The webgpu engine itself: memory at made-up addresses, the probe of arithmetic, the bits of functions, errors."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.enums import DataType
from anydml.core.errors import MissingDependencyError
from anydml.engines import find_engine
from anydml.engines.webgpu import WebGpuEngine, why_missing
from anydml.ir.expressions import FUNCTIONS, call, load
from anydml.ir.verbs import Check, IndexFault, Map
from anydml.ir.views import View

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F32 = DataType.FLOAT32


@pytest.fixture(scope="module")
def gpu() -> WebGpuEngine:
    return WebGpuEngine()


def _run(gpu: WebGpuEngine, verb: Map, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    memory = gpu._memory
    buffers = {name: gpu.reserve(array.nbytes) for name, array in arrays.items()}
    for name, array in arrays.items():
        memory.write(buffers[name].address, array.view(np.uint8).reshape(-1))
    gpu.compile(verb).bind({name: buffer.address for name, buffer in buffers.items()})()
    return {name: memory.read(buffers[name].address, array.nbytes).view(array.dtype) for name, array in arrays.items()}


def _row(name: str, of: DataType, size: int) -> View:
    return View(name, of, (size,), (1,))


def test_bytes_come_back_from_any_address(gpu: WebGpuEngine) -> None:
    memory, data = gpu._memory, np.random.default_rng(0).integers(0, 256, 100_003).astype(np.uint8)
    buffer = gpu.reserve(data.size)
    memory.write(buffer.address, data)
    memory.write(buffer.address + 5, data[:3])
    data[5:8] = data[:3]
    assert (memory.read(buffer.address, data.size) == data).all()
    assert (memory.read(buffer.address + 7, 9) == data[7:16]).all()
    memory.read(buffer.address, 4)[:] = 0  # a new array


def test_engines_of_one_device_share_its_memory(gpu: WebGpuEngine) -> None:
    """Programs find it by its name."""
    buffer = gpu.reserve(16)
    assert WebGpuEngine()._memory.find(buffer.address)[2] == 0


_FIRST_USE = """
import threading, time
import anydml as dml
from anydml.engines.webgpu import memory
make = memory.Memory.__init__
memory.Memory.__init__ = lambda *given: (time.sleep(0.05), make(*given))[1]
wrong, start = [], threading.Barrier(4)
def use(k):
    start.wait()
    try:
        if dml.add([float(k)] * 1000, 1.0, device="webgpu")[999] != k + 1:
            wrong.append(k)
    except Exception as error:
        wrong.append(error)
threads = [threading.Thread(target=use, args=(k,)) for k in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(wrong)
"""


def test_threads_that_use_a_device_first_share_its_memory() -> None:
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_buffers_that_nobody_has_are_given_again(gpu: WebGpuEngine) -> None:
    memory = gpu._memory
    before = gpu.reserve(12_345_600)
    handle = memory.find(before.address)[1].handle
    del before
    gc.collect(0)
    again = gpu.reserve(12_345_600)
    assert memory.find(again.address)[1].handle is handle


def test_too_much_memory_is_an_error_that_names_sizes(gpu: WebGpuEngine) -> None:
    with pytest.raises(MemoryError, match=r"1 TiB in one piece: .* at most"):
        gpu.reserve(2**40)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_have_the_bits_of_the_cpu_engine(function: str, gpu: WebGpuEngine) -> None:
    """Numbers of all magnitudes; where one is denormal, sums may have been rounded twice."""
    random = np.random.default_rng(7)
    numbers = np.concatenate(
        [random.integers(0, 2**32, 8192, np.uint32).view(np.float32), (random.normal(size=8192) * 3).astype(np.float32)]
    )
    arrays = {"a": numbers, "b": numbers[::-1].copy(), "y": np.zeros_like(numbers)}
    count = FUNCTIONS[function]
    sources = tuple(_row(name, F32, numbers.size) for name in "ab"[:count])
    verb = Map(sources, _row("y", F32, numbers.size), call(function, *(load(k, F32) for k in range(count))))
    found = _run(gpu, verb, arrays)["y"]
    wanted = {name: array.copy() for name, array in arrays.items()}
    find_engine("cpu").compile(verb).bind({name: array.ctypes.data for name, array in wanted.items()})()
    least = 2e-38 if gpu._memory.gpu.arithmetic.has_denormals else 1e-30  # parts of a result are denormal sooner
    is_small = np.any(np.abs([numbers, arrays["b"], wanted["y"]]) < least, axis=0)
    is_nan = np.isnan(found) & np.isnan(wanted["y"])
    differs = (found.view(np.uint32) != wanted["y"].view(np.uint32)) & ~is_nan & ~is_small
    assert not differs.any(), (numbers[differs][:3], found[differs][:3], wanted["y"][differs][:3])


def test_an_index_outside_is_a_fault_and_nothing_is_written(gpu: WebGpuEngine) -> None:
    indices = np.array([0, 3, -5, 9], np.int64)
    check = Check(View("i", DataType.INT64, (4, 1), (1, 1)), (4,))
    verb = Map((_row("a", F32, 4),), _row("y", F32, 4), load(0, F32), checks=(check,))
    arrays: dict[str, np.ndarray] = {"a": np.ones(4, np.float32), "i": indices, "y": np.zeros(4, np.float32)}
    with pytest.raises(IndexFault) as raised:
        _run(gpu, verb, arrays)
    assert (raised.value.position, raised.value.indices, raised.value.size) == ((2,), (-5,), 4)
    arrays["i"] = np.array([0, 3, -4, 2])
    assert (_run(gpu, verb, arrays)["y"] == 1).all()


def _use_in_a_child(answers: Any) -> None:
    try:
        dml.relu([1.0], device="webgpu")
        answers.put("")
    except MissingDependencyError as error:
        answers.put(str(error))


def test_a_forked_child_is_told_that_it_has_no_device(gpu: WebGpuEngine) -> None:
    assert dml.relu([1.0], device="webgpu")[0] == 1
    context: Any = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_use_in_a_child, args=(answers,))
    child.start()
    assert answers.get().startswith("Device: a WebGPU device cannot be used in a child process")
    child.join()


@pytest.mark.parametrize("type", [np.float32, np.float16])
@pytest.mark.parametrize("batch", [1, 3, 4])
def test_steps_over_time_begin_within_words(type: type[np.generic], batch: int) -> None:
    """Whether a sequence goes on is a byte for each of a batch, and a step of FLOAT16 may be half a word."""
    rng = np.random.default_rng(batch)
    x = rng.normal(size=(1, 5, batch, 3)).astype(type)
    weight, recurrence = (rng.normal(size=(1, 4, n, 1)).swapaxes(2, 3).reshape(1, 1, 4, n).astype(type) for n in (3, 1))
    lengths = np.array([1, 4, 2, 5][:batch], np.uint32).reshape(1, 1, 1, batch)
    given: dict[str, Any] = {"sequence_lengths": lengths, "activation_descs": ["SIGMOID", "TANH", "TANH"]}
    found, wanted = (
        dml.lstm(x, weight, recurrence, output_single=True, device=name, **given) for name in ("webgpu", "reference")
    )
    tolerance = 1e-6 if type is np.float32 else 2e-3
    np.testing.assert_allclose(found.sequence, wanted.sequence, atol=tolerance)
    np.testing.assert_allclose(found.single, wanted.single, atol=tolerance)
