"""GenAI's functions for the whole process, and standing in for it under its own name."""

from __future__ import annotations

import importlib.util
import operator
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from anydml.core.errors import Fault, UnsupportedError, show
from anydml.onnxruntime.ort_device import count_gpus
from anydml.onnxruntime.ort_errors import refuse_type, renamed
from anydml.onnxruntime.providers import CUDA, DML, WEBGPU, get_available_providers

INTERFACE = "0.18.0"
"""The version of ONNX Runtime GenAI whose interface this is, for programs that ask."""
NAME = "onnxruntime_genai"
_current = [0]


def is_cuda_available() -> bool:
    """Whether provider `cuda` has a device here."""
    return CUDA in get_available_providers()


def is_dml_available() -> bool:
    """True: provider `dml` is the GPU where there is one, and the CPU else."""
    return DML in get_available_providers()


def is_webgpu_available() -> bool:
    """Whether provider `webgpu` has a device here."""
    return WEBGPU in get_available_providers()


def is_openvino_available() -> bool:
    """False: that provider is ONNX Runtime's alone."""
    return False


def is_qnn_available() -> bool:
    """False: that provider is ONNX Runtime's alone."""
    return False


def set_current_gpu_device_id(device_id: int) -> None:
    """Taken where there is such a GPU; the provider option device_id chooses a model's."""
    try:
        number = operator.index(device_id)
    except TypeError:
        raise refuse_type("set_current_gpu_device_id", "device_id", "a whole number", device_id) from None
    if number and number >= count_gpus():
        fault = Fault(field="device_id", rule=f"there is no GPU {number} on this machine", value=number)
        raise renamed(UnsupportedError("set_current_gpu_device_id", fault))
    _current[0] = number


def get_current_gpu_device_id() -> int:
    """The number that was set; 0 at first."""
    return _current[0]


def register_execution_provider_library(name: str, path: str) -> NoReturn:
    """Refused: code that is written for ONNX Runtime runs in ONNX Runtime alone."""
    rule = f"execution providers of ONNX Runtime ({show(name)}, {show(path)}) cannot run here"
    way_out = "append provider cpu, cuda, dml or webgpu to the Config"
    fault = Fault(field="path", rule=rule, way_out=way_out)
    raise renamed(UnsupportedError("register_execution_provider_library", fault))


def unregister_execution_provider_library(name: str) -> None:
    """Taken: none can be registered."""


def enable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""


def disable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""


def as_onnxruntime_genai() -> None:
    """Let `import onnxruntime_genai` find this interface, in this process and from now on.

    `python -m anydml.genai script.py` does so and runs a script. What GenAI has beside its interface, such as
    onnxruntime_genai.models, is GenAI's own where it is installed. Whoever holds names of GenAI's already keeps them.
    """
    if hasattr(sys.modules.get(NAME), "as_onnxruntime_genai"):
        return
    spec = ModuleSpec(NAME, None, is_package=True)
    installed = importlib.util.find_spec(NAME)
    if installed is not None:
        spec.submodule_search_locations = list(installed.submodule_search_locations or ())
    module: Any = ModuleType(NAME, __doc__)
    module.__spec__, module.__path__ = spec, spec.submodule_search_locations or []
    ours = sys.modules["anydml.genai"]
    vars(module).update({name: getattr(ours, name) for name in (*ours.__all__, "__version__")})
    sys.modules[NAME] = module
