"""An operator as a recording that the reader's browser carries out on its own GPU, and the answers to compare."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate
from anydml.arrays.device_array import DeviceArray
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault
from anydml.engines.webgpu import WebGpuEngine
from anydml.engines.webgpu.page import Port, page_of
from anydml.engines.webgpu.recording import Recording
from anydml.explore.answer import compute, inputs_of, is_small, reference
from anydml.explore.form import read_form
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from anydml.explore.form import State
    from anydml.operators import OperatorDesc

_SUBJECT = "anydml explore"


def record(cls: type[OperatorDesc], state: State) -> dict[str, Any]:
    """The recording of a form, with its inputs inside, and the bytes of each output as the server computes it."""
    reading = read_form(cls, state)
    desc = reading.desc
    if desc is None or reading.faults or not is_small(desc):
        rule = "the form must be valid, and its tensors small enough to be written out"
        raise DescriptionError(_SUBJECT, Fault(field="state", rule=rule))
    inputs = inputs_of(desc, reading.arrays)
    wanted = [np.ascontiguousarray(array) for array in compute(reference(), desc, inputs)]
    with Recording() as recording:
        device = Device.over(WebGpuEngine.over(recording))
        given = [DeviceArray.of(array, recording.name) for array in inputs]
        out = [
            allocate(one.data_type, one.sizes, one.strides, memory=recording.name) for one in desc.outputs().values()
        ]
        compute(device, desc, given, out)  # what is done once: a run that nobody looks at
        recording.is_running = True
        found = compute(device, desc, given, out)
        ports = [
            Port(name, DataType(array.dtype), array.shape, recording.place(array.address, array.nbytes))
            for name, array in zip(desc.outputs(), found, strict=True)
        ]
        page = page_of(recording, [], ports, cls.type.name)
    answers = [base64.b64encode(array.tobytes()).decode() for array in wanted]
    return {"recording": page.recording, "weights": base64.b64encode(page.weights).decode(), "answers": answers}
