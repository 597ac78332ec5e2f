"""An ONNX model as a page that a browser runs: `anydml export MODEL --html page.html`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.device_array import DeviceArray
from anydml.core.enums import DataType
from anydml.core.errors import Fault, UnsupportedError
from anydml.engines.webgpu import WebGpuEngine
from anydml.engines.webgpu.page import Page, Port, page_of
from anydml.engines.webgpu.recording import Recording
from anydml.onnx.model import load
from anydml.onnx.tools.random_inputs import make_up
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.onnx.read import Given


def export_page(
    model: Given,
    *,
    title: str = "",
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    told: Callable[[dict[str, int], dict[str, tuple[int, ...]]], object] = lambda _assumed, _shapes: None,
) -> Page:
    """The page of a model, whose dynamic sizes are set by `shapes`, and assumed else: `told` is told of those.

    All nodes must be DirectML's: a browser has no host to run others on.
    """
    with Recording() as recording:
        loaded = load(model, device=Device.over(WebGpuEngine.over(recording)), shapes=shapes, strict=True)
        sizes, assumed = loaded.assume_shapes({})
        if assumed:
            told(assumed, sizes)
        required = {name: info for name, info in loaded.inputs.items() if not info.is_optional}
        made = make_up(required, sizes, loaded.index_limits(sizes), 0, None)
        inputs = {name: DeviceArray.of(np.asarray(array), recording.name) for name, array in made.items()}
        outputs = recording.record(lambda: loaded.run(inputs))
        return page_of(recording, _ports(recording, inputs), _ports(recording, outputs), title or loaded.name)


def _ports(recording: Recording, arrays: Mapping[str, Any]) -> list[Port]:
    found = []
    for name, array in arrays.items():
        if not isinstance(array, DeviceArray) or not array.is_packed or not array.size:
            rule = f"{name} must be a tensor with elements, in one piece"
            raise UnsupportedError("export", Fault(field="model", rule=rule, value=name))
        of = DataType.UINT8 if array.dtype == np.bool_ else DataType(array.dtype)
        found.append(Port(name, of, array.shape, recording.place(array.address, array.nbytes)))
    return found
