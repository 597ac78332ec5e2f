"""The answer itself, every element of it, where that is not too much to read; and its recording for a browser."""

from __future__ import annotations

import base64
import functools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate
from anydml.arrays.device_array import DeviceArray
from anydml.arrays.nibbles import numbers_in, pack
from anydml.core.enums import DataType
from anydml.engines.webgpu import WebGpuEngine
from anydml.engines.webgpu.page import Port, page_of
from anydml.engines.webgpu.recording import Recording
from anydml.explain import shown_inputs
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.operators import OperatorDesc

MOST_ELEMENTS = 4096
"""Of all tensors together: more is neither read nor computed while somebody types."""


def answers_of(desc: OperatorDesc, arrays: Sequence[Any]) -> list[dict[str, str]]:
    """Every output as NumPy writes it; none where the tensors have too many elements."""
    if not is_small(desc):
        return []
    outputs = compute(reference(), desc, inputs_of(desc, arrays))
    return [
        {"name": name, "text": _written(output, tensor)}
        for (name, tensor), output in zip(desc.outputs().items(), outputs, strict=True)
    ]


def recording_of(desc: OperatorDesc, arrays: Sequence[Any]) -> dict[str, Any]:
    """What a browser carries out on its own GPU, with the inputs inside, and the bytes of each output from here."""
    inputs = inputs_of(desc, arrays)
    wanted = [np.ascontiguousarray(array) for array in compute(reference(), desc, inputs)]
    with Recording() as recording:
        device = Device.over(WebGpuEngine.over(recording))
        given = [DeviceArray.of(array, recording.name) for array in inputs]
        out = [
            allocate(one.data_type, one.sizes, one.strides, memory=recording.name) for one in desc.outputs().values()
        ]
        found = recording.record(lambda: compute(device, desc, given, out))
        ports = [
            Port(name, DataType(array.dtype), array.shape, recording.place(array.address, array.nbytes))
            for name, array in zip(desc.outputs(), found, strict=True)
        ]
        page = page_of(recording, [], ports, desc.type.name)
    answers = [base64.b64encode(array.tobytes()).decode() for array in wanted]
    return {"recording": page.recording, "weights": base64.b64encode(page.weights).decode(), "answers": answers}


def is_small(desc: OperatorDesc) -> bool:
    """Whether every element may be written out."""
    return sum(math.prod(tensor.sizes) for tensor in desc.tensors().values()) <= MOST_ELEMENTS


def inputs_of(desc: OperatorDesc, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The inputs that an answer is computed of: those given, and those made up."""
    pairs = zip(shown_inputs(desc, *arrays), desc.inputs().values(), strict=True)
    return [pack(array) if tensor.data_type.is_half_byte else _laid_out(array, tensor) for array, tensor in pairs]


def _laid_out(array: np.ndarray[Any, Any], tensor: TensorDesc) -> np.ndarray[Any, Any]:
    """Elements as a description has them lie, which nobody could type in."""
    if tensor.strides is None or array.shape != tensor.sizes:
        return array
    last = sum((size - 1) * stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True))
    steps = [stride * array.itemsize for stride in tensor.strides]
    made = np.lib.stride_tricks.as_strided(np.zeros(last + 1, array.dtype), tensor.sizes, steps)
    made[...] = array  # of elements that share a place, one
    return made


def compute(device: Device, desc: OperatorDesc, inputs: Sequence[Any], out: Sequence[Any] = ()) -> Sequence[Any]:
    """Every output, in `out` where that is given."""
    more = {"out": out if len(out) > 1 else out[0]} if out else {}
    found = device.compile(desc)(*inputs, **more)
    return found if isinstance(found, (list, tuple)) else [found]


@functools.cache
def reference() -> Device:
    """The engine that compiles nothing: every change of a size is a new operator."""
    return Device("reference")


def _written(output: Any, tensor: TensorDesc) -> str:
    array = np.asarray(output)
    if tensor.data_type.is_half_byte:
        array = numbers_in(array.reshape(-1), tensor.data_type)[: tensor.element_count].reshape(tensor.sizes)
    text = np.array2string(array, separator=", ", threshold=MOST_ELEMENTS, max_line_width=100)
    return re.sub(r"\n\n+", "\n", text)
