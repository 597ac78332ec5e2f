"""The most that a machine was seen to do: bytes copied and products summed in a second, measured when first asked."""

from __future__ import annotations

import functools
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from anydml.arrays import allocate
from anydml.engines.common.threads import get_num_threads
from anydml.enums import DataType
from anydml.memory import packed_strides
from anydml.operator_type import OperatorType
from anydml.operators import find_operator
from anydml.runtime.device import device_named
from anydml.runtime.profiler_hook import Recorder
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device

_SIZES = {"cpu": (2**23, 256), "cuda": (2**26, 4096)}
"""By engine, the elements of a copy, past the caches, and the rows of a product for each thread: a sample takes 3 ms at
most, or other programs that run meanwhile are part of every one."""
_SLOW = (2**14, 32)
"""For engines that are not meant to be fast."""
_SECONDS, _FEWEST = 0.2, 5
"""For each of the two: the best counts, and other programs take their share of time."""


class Peak(NamedTuple):
    """The most that a device does in a second."""

    bytes: float
    """Moved by a copy, read and written."""
    flops: float
    """Of a product of matrices."""


def peak_of(device: Device, data_type: DataType = DataType.FLOAT32) -> Peak:
    """The best of a few copies and products; of FLOAT16 on a GPU, and else of FLOAT32. Measured once a process."""
    is_half = device.engine.name == "cuda" and data_type is DataType.FLOAT16
    return _measure(device.name, get_num_threads(), DataType.FLOAT16 if is_half else DataType.FLOAT32)


@functools.lru_cache(maxsize=16)
def _measure(name: str, threads: int, data_type: DataType) -> Peak:
    device = device_named(name)
    count, rows = _SIZES.get(device.engine.name, _SLOW) if not _is_interpreted(device) else _SLOW
    rows = int(rows * threads ** (1 / 3)) // 32 * 32 if device.engine.name == "cpu" else rows
    flat, square = TensorDesc(data_type, (count,)), TensorDesc(data_type, (1, 1, rows, rows))
    copy = find_operator(OperatorType.ELEMENT_WISE_IDENTITY).infer(input_tensor=flat)
    product = find_operator(OperatorType.GEMM).infer(a_tensor=square, b_tensor=square)
    return Peak(2 * flat.total_tensor_size_in_bytes / _best(copy, device), 2 * rows**3 / _best(product, device))


def _is_interpreted(device: Device) -> bool:
    return device.engine.name == "cuda" and device.engine.memory == "cpu"


def _best(desc: OperatorDesc, device: Device) -> float:
    """The seconds of the quickest dispatch."""
    memory, compiled = device.engine.memory, device.compile(desc)
    arrays = [
        allocate(each.data_type, each.sizes, packed_strides(each.sizes), memory=memory, like=None)
        for each in (*desc.inputs().values(), *desc.outputs().values())
    ]
    for array in arrays:
        array[...] = 1  # new memory has no pages yet, and may hold numbers that are slow to compute with
    bound = compiled.bind(*arrays[:-1], out=arrays[-1])
    recorder, began, best = Recorder(memory), time.perf_counter(), math.inf
    while len(recorder.runs) < _FEWEST or time.perf_counter() - began < _SECONDS:
        with recorder.run():
            bound.dispatch()
        best = min(best, recorder.runs[-1])
    return best
