"""The engines: each carries the primitives out in some kind of memory. Here they are found by name."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.core.device_memory import on_loss
from anydml.core.enum_parsing import suggest
from anydml.core.errors import DescriptionError, Fault, MissingDependencyError, show
from anydml.core.late_imports import import_alone, run_alone
from anydml.engines.common.threads import get_num_threads
from anydml.engines.reference import ReferenceEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.engines.common.engine import Engine
    from anydml.engines.webgpu import WebGpuEngine
    from anydml.engines.webgpu.device import AdapterInfo

_CPU_NEEDS = ("llvmlite",)


def _not_installed(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def _missing(name: object, rule: str, way_out: str = "") -> MissingDependencyError:
    return MissingDependencyError("Device", Fault(field="name", rule=rule, value=name, way_out=way_out))


@functools.cache
def _cpu() -> Engine:
    return run_alone(_load_cpu)


def _load_cpu() -> Engine:
    if missing := _not_installed(_CPU_NEEDS):
        rule = f"the cpu engine needs {' and '.join(missing)}"
        raise _missing("cpu", rule, f'pip install {" ".join(missing)}, or use Device("reference")')
    from anydml.engines.cpu import CpuEngine

    return CpuEngine()


@functools.cache
def _reference() -> Engine:
    return ReferenceEngine()


@functools.cache
def _cuda(index: int = 0) -> Engine:
    import_alone("anydml.engines.cuda")
    from anydml.engines.cuda import NEEDS, CudaEngine, device_count, why_missing

    name = f"cuda:{index}"
    if why := why_missing():
        raise _missing(name, why, "pip install 'anydml[cuda]'" if _not_installed(NEEDS) else 'use Device("cpu")')
    if index >= (count := device_count()):
        rule = f"there is no device {name!r} on this machine"
        raise _missing(name, rule, f"there {_counted(count)}")
    return CudaEngine(index)


def _counted(count: int) -> str:
    return "is 'cuda:0' alone" if count == 1 else f"are 'cuda:0' to 'cuda:{count - 1}'"


def _webgpu(index: int = 0, *, is_precise: bool = True) -> Engine:
    found = _webgpu_at(index, is_precise)  # 0 by name or not is one engine, which has the one memory of that name
    return found if found.is_alive() else _webgpu_at(index, is_precise)


@functools.cache
def _webgpu_at(index: int, is_precise: bool) -> WebGpuEngine:
    import_alone("anydml.engines.webgpu")
    from anydml.engines.webgpu import WebGpuEngine

    name = f"webgpu:{index}"
    _check_adapters(name)
    if index >= len(_adapters()):
        raise _missing(name, f"there is no device {name!r} on this machine", f"there are {_told_adapters()}")
    return WebGpuEngine(index, is_precise=is_precise)


on_loss.append(_webgpu_at.cache_clear)


def _check_adapters(name: str) -> None:
    """That there are any."""
    import_alone("anydml.engines.webgpu")
    from anydml.engines.webgpu import NEEDS, why_missing

    if why := why_missing():
        raise _missing(name, why, "pip install 'anydml[webgpu]'" if _not_installed(NEEDS) else 'use Device("cpu")')


def _adapters() -> tuple[AdapterInfo, ...]:
    import_alone("anydml.engines.webgpu")
    from anydml.engines.webgpu import adapters

    return adapters()


def _told_adapters() -> str:
    return "; ".join(f"'webgpu:{one.index}', {one}" for one in _adapters())


def _find_adapter(part: str) -> int:
    """The number of the first adapter that has a text in its name or its maker's; a number is itself."""
    if re.fullmatch("[0-9]{1,4}", part):
        return int(part)
    _check_adapters(f"webgpu:{part}")
    for one in _adapters():
        if part.lower() in f"{one.name} {one.vendor}".lower():
            return one.index
    name = f"webgpu:{part}"
    rule = f"there is no device {name!r} on this machine: no adapter has {part!r} in its name"
    raise _missing(name, rule, f"there are {_told_adapters()}")


def find_gpu() -> str | None:
    """The name of a GPU, for whoever asks for any: CUDA's, or what WebGPU reaches and is no CPU in a GPU's place."""
    try:
        ENGINES["cuda"]()
    except MissingDependencyError:
        pass
    else:
        return "cuda"
    try:
        _check_adapters("webgpu")
    except MissingDependencyError:
        return None
    return next((f"webgpu:{one.index}" for one in _adapters() if one.kind != "CPU"), None)


# Best first: but a device without a name, and a function given host arrays, take the best for its memory.
ENGINES: dict[str, Callable[..., Engine]] = {"cuda": _cuda, "webgpu": _webgpu, "cpu": _cpu, "reference": _reference}


def is_engine_name(name: str) -> bool:
    """Whether a name is an engine's: that of one, `cuda:` and the number of a GPU, or `webgpu:` and that or a name."""
    return name in ENGINES or re.fullmatch(r"cuda:[0-9]{1,4}|webgpu:.*\S.*", name) is not None


def find_engine(name: str | None, *, is_precise: bool = True) -> Engine:
    """The engine of a name, `cuda:1` being the second GPU's; for None the best one for the host's memory.

    One that is not precise trades bits for speed, which webgpu alone does.
    """
    if not is_precise:
        engine, _, index = name.partition(":") if isinstance(name, str) and is_engine_name(name) else ("", "", "")
        if engine == "webgpu":
            return _webgpu(_find_adapter(index) if index else 0, is_precise=False)
        rule = f"precise must be True for {show(name)}: the webgpu engine alone trades bits for speed"
        fault = Fault(field="precise", rule=rule, value=False, way_out='Device("webgpu", precise=False)')
        raise DescriptionError("Device", fault)
    if name is None:
        try:
            return _cpu()
        except MissingDependencyError:
            return _reference()
    if isinstance(name, str) and is_engine_name(name):
        engine, _, index = name.partition(":")
        if not index:
            return ENGINES[engine]()
        return ENGINES[engine](_find_adapter(index) if engine == "webgpu" else int(index))
    rule = f"there is no device {show(name)} in this version; there are {', '.join(map(repr, ENGINES))}"
    way_out = suggest(name, map(repr, ENGINES))
    if isinstance(name, str) and name.startswith(("cuda", "webgpu")):
        way_out = "a number says which GPU, as in 'cuda:1', or of webgpu a part of its name, as in 'webgpu:intel'"
    raise _missing(name, rule, way_out)


# The engines and devices that there are


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DeviceInfo:
    """A device of this machine, as `dml.devices()` lists it."""

    name: str
    """What `Device` takes: `cpu`, `cuda:1`, `webgpu:0`."""
    engine: str
    what: str
    """The device in words: its model."""
    vendor: str
    """Its maker; nothing where that is not known."""
    backend: str
    """What runs its kernels: `LLVM`, `CUDA`, `Vulkan`, `Metal`, `D3D12`, `NumPy`."""
    memory: int
    """Bytes: a GPU's or the host's, of a WebGPU device the largest buffer; 0 where it is not known."""
    features: tuple[str, ...]
    """What kernels may use beyond the least that every device has."""
    driver: str = ""
    """A GPU's driver with its version; nothing where that is not known."""

    def __str__(self) -> str:
        return self.what if self.name == self.engine else f"{self.name}: {self.what}"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """An engine as this machine has it, or lacks it."""

    name: str
    what: str
    is_present: bool
    infos: tuple[DeviceInfo, ...] = ()
    way_out: str = ""
    """For one that is missing: what to install."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Its devices in words, those of an engine of several by their names."""
        return tuple(map(str, self.infos))


_WHAT = {
    "cuda": "Triton kernels, for arrays in the memory of a GPU",
    "webgpu": "WGSL kernels, for any GPU that Vulkan, Metal or Direct3D 12 reaches",
    "cpu": "LLVM kernels, compiled for this CPU and cached: the default",
    "reference": "plain NumPy: the oracle that the others are checked against",
}


def list_engines() -> list[EngineInfo]:
    """Every engine of this version, best first, and whether it can run here."""
    found = []
    for name in ENGINES:
        try:
            infos = tuple(_DEVICES[name]())
        except MissingDependencyError as error:
            found.append(EngineInfo(name, _WHAT[name], is_present=False, way_out=str(error.faults[0])))
        else:
            found.append(EngineInfo(name, _WHAT[name], is_present=True, infos=infos))
    return found


def devices() -> list[DeviceInfo]:
    """Every device that is here, of all engines, best first: `Device(one.name)` is it.

    >>> [one.name for one in devices()][-2:]
    ['cpu', 'reference']
    """
    return [info for engine in list_engines() for info in engine.infos]


def _cuda_devices() -> Iterator[DeviceInfo]:
    ENGINES["cuda"]()  # which says what is missing
    import_alone("anydml.engines.cuda")
    from anydml.engines.cuda import device_count, device_label, is_interpreted

    torch = import_alone("torch")
    nvidia = None if is_interpreted() else import_alone("anydml.engines.common.nvidia").find_nvidia()
    driver = "" if nvidia is None else nvidia.driver
    for index in range(device_count()):
        size, features = 0, tuple[str, ...]()
        if not is_interpreted():
            found = torch.cuda.get_device_properties(index)
            size, features = int(found.total_memory), (f"sm_{found.major}{found.minor}",)
        label = device_label(index)
        yield DeviceInfo(f"cuda:{index}", "cuda", label, "NVIDIA", "CUDA", size, features, driver)


def _webgpu_devices() -> Iterator[DeviceInfo]:
    _check_adapters("webgpu")  # no device is opened, which takes half a second
    for one in _adapters():
        name = f"webgpu:{one.index}"
        yield DeviceInfo(name, "webgpu", str(one), one.vendor, one.backend, one.memory, one.features, one.driver)


def _cpu_devices() -> Iterator[DeviceInfo]:
    engine = ENGINES["cpu"]()
    features = import_alone("anydml.engines.cpu.features").find_cpu()[1].split(",")
    own = tuple(one[1:] for one in features if one.startswith("+"))
    yield DeviceInfo("cpu", "cpu", describe_engine(engine), "", "LLVM", _host_memory(), own)


def _reference_devices() -> Iterator[DeviceInfo]:
    yield DeviceInfo("reference", "reference", describe_engine(_reference()), "", "NumPy", _host_memory(), ())


_DEVICES: dict[str, Callable[[], Iterator[DeviceInfo]]] = {
    "cuda": _cuda_devices,
    "webgpu": _webgpu_devices,
    "cpu": _cpu_devices,
    "reference": _reference_devices,
}


def _host_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return 0


def describe_engine(engine: Engine) -> str:
    """The device of an engine, in words."""
    index = int(engine.memory.partition(":")[2] or 0)
    if engine.name == "cuda":
        import_alone("anydml.engines.cuda")
        from anydml.engines.cuda import device_label

        return device_label(index)
    if engine.name == "webgpu":
        return str(_adapters()[index])
    if engine.name == "cpu":
        import_alone("anydml.engines.cpu.launch.call")
        from anydml.engines.cpu.launch.call import describe_threads

        return f"{platform.machine()}, {get_num_threads()} {describe_threads()}"
    return platform.machine()
