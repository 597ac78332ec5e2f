"""Execution providers: ONNX Runtime's names for who runs a model, and the device that each is here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from anydml.core.errors import DmlError, show
from anydml.core.late_imports import import_alone
from anydml.engines.cuda import why_missing
from anydml.onnxruntime.ort_device import OrtDevice, count_gpus
from anydml.onnxruntime.ort_errors import EPFail, refuse
from anydml.runtime.device import Device, device_named

DML, CUDA, WEBGPU, CPU = (f"{name}ExecutionProvider" for name in ("Dml", "CUDA", "WebGpu", "CPU"))
_DEVICES = {DML: "dml", CUDA: "cuda", WEBGPU: "webgpu"}
Chosen: TypeAlias = dict[str, dict[str, str]]
"""Providers in the order of preference, with their options."""
_OPTIONS = {
    DML: {"device_id", "device", "performance_preference", "device_filter", "disable_metacommands"}
    | {"enable_graph_capture", "enable_graph_serialization", "enable_dynamic_graph_fusion", "disable_memory_arena"},
}
"""Options of DirectML's provider; device_id alone has a meaning here. `device` is `get_provider_options`'s word."""


def get_available_providers() -> list[str]:
    """Those that run here, best first: CUDA's where there is a GPU, DirectML's on it or on the CPU, and the CPU's.

    WebGPU's is among them where there is an adapter.
    """
    return [*([CUDA] if count_gpus() else ()), DML, *([WEBGPU] if _has_webgpu() else ()), CPU]


_OTHERS = (
    "NvTensorRTRTX",
    "Tensorrt",
    "MIGraphX",
    "ROCM",
    "OpenVINO",
    "Dnnl",
    "VitisAI",
    "QNN",
    "Nnapi",
    "VSINPU",
    "Js",
)
_MORE = ("CoreML", "ACL", "ArmNN", "Rknpu", "WebNN", "Xnnpack", "CANN", "TVM", "Azure")


def get_all_providers() -> list[str]:
    """Every provider whose name ONNX Runtime knows; most have no device here."""
    return [*(f"{name}ExecutionProvider" for name in (*_OTHERS, *_MORE)), CUDA, DML, WEBGPU, CPU]


def _has_webgpu() -> bool:
    """Whether there is an adapter; drivers are loaded to find out, for which only those wait who ask."""
    return not import_alone("anydml.engines.webgpu").why_missing()


def get_device() -> str:
    """The device of DirectML's provider, in ONNX Runtime's words: CPU-DML or GPU-DML."""
    return "GPU-DML" if count_gpus() else "CPU-DML"


def read_providers(given: Any, options: Any, *, may_fall_back: bool) -> Chosen:
    """Providers as they are given: names, or pairs of a name and options, or names and options beside them.

    One that is not available is passed over with a warning, as ONNX Runtime does, and so is a name that nobody has
    unless falling back is off; the CPU's comes last in any case.
    """
    if given is None:
        given = ()
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Sequence):
        raise refuse("InferenceSession", "providers", "providers must be a sequence", show(given))
    pairs = [read_pair(each) for each in given] if options is None else _read_beside(given, options)
    found: Chosen = {}
    for name, own in pairs:
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        elif _is_available(name):
            found[name] = own
            if name in _OPTIONS and (odd := sorted(own.keys() - _OPTIONS[name])):
                warnings.warn(f"{name} has no options {', '.join(map(repr, odd))}", stacklevel=4)
        elif name not in get_all_providers() and not may_fall_back:
            way_out = f"there are {', '.join(get_available_providers())}"
            raise refuse("InferenceSession", "providers", f"there is no provider {show(name)}", way_out=way_out)
        else:
            available = ", ".join(get_available_providers())
            message = f"Specified provider '{name}' is not in available provider names. Available: '{available}'"
            warnings.warn(message, stacklevel=4)
    return found or {DML: {}} if not pairs else {**found, CPU: found.get(CPU, {})}


def _is_available(name: str) -> bool:
    if name == WEBGPU:
        return _has_webgpu()
    # Kernels that are interpreted count for whoever asks for them by name.
    return name in (DML, CPU) or (name == CUDA and (count_gpus() > 0 or not why_missing()))


def read_pair(given: Any) -> tuple[str, dict[str, str]]:
    """A provider as it is given: by its name, or by that and its options."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], Mapping):
        return given[0], _read_options(given[1])
    rule = "providers must hold names, or pairs of a name and a dict of options"
    raise refuse("InferenceSession", "providers", rule, show(given))


def _read_beside(given: Any, options: Any) -> list[tuple[str, dict[str, str]]]:
    rule = "provider_options must be a sequence of dicts, one for each of providers, which are names then"
    if not isinstance(options, Sequence) or len(options) != len(given):
        raise refuse("InferenceSession", "provider_options", rule, show(options))
    if not all(isinstance(name, str) for name in given) or not all(isinstance(own, Mapping) for own in options):
        raise refuse("InferenceSession", "provider_options", rule, show(options))
    return [(name, _read_options(own)) for name, own in zip(given, options, strict=True)]


def _read_options(given: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in given.items()}


def find_device(chosen: Chosen, *, may_fall_back: bool) -> tuple[Device, Chosen]:
    """The device of the first provider, and the providers with the options that hold.

    One whose device is not there gives way to the CPU with a warning, unless that is off.
    """
    name, own = next(iter(chosen.items()))
    try:
        device = _device_of(name, own)
    except DmlError as error:
        if not may_fall_back:
            raise
        warnings.warn(f"EP Error: {error}; falling back to {CPU}", stacklevel=4)
        return device_named(None), {CPU: {}}
    if name == CPU:
        return device, {**chosen, CPU: {}}
    return device, {**chosen, name: {"device_id": "0", **own, "device": device.name}, CPU: {}}


def _device_of(name: str, options: Mapping[str, str]) -> Device:
    if name == CPU:
        return device_named(None)
    given = options.get("device_id", "0")
    if not given.isdecimal():
        raise refuse(name, "device_id", "device_id must be a number from 0 on", repr(given))
    try:
        memory = OrtDevice.make(_DEVICES[name], int(given)).memory
        return device_named(None if memory == "cpu" else memory)
    except DmlError as error:
        raise EPFail(name, error.faults) from None
