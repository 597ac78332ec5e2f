"""The engines: each carries the primitives out in some kind of memory. Here they are found by name."""

from __future__ import annotations

import functools
import importlib.util
import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.core.enum_parsing import suggest
from anydml.core.errors import Fault, MissingDependencyError, show
from anydml.core.late_imports import import_alone, run_alone
from anydml.engines.common.threads import get_num_threads
from anydml.engines.reference import ReferenceEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.common.engine import Engine

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


# Best first: but a device without a name, and a function given host arrays, take the best for its memory.
ENGINES: dict[str, Callable[..., Engine]] = {"cuda": _cuda, "cpu": _cpu, "reference": _reference}


def is_engine_name(name: str) -> bool:
    """Whether a name is an engine's: that of one, or `cuda:` and the number of a GPU."""
    return name in ENGINES or re.fullmatch(r"(cuda|webgpu):[0-9]{1,4}", name) is not None


def find_engine(name: str | None) -> Engine:
    """The engine of a name, `cuda:1` being the second GPU's; for None the best one for the host's memory."""
    if name is None:
        try:
            return _cpu()
        except MissingDependencyError:
            return _reference()
    if isinstance(name, str) and is_engine_name(name):
        engine, _, index = name.partition(":")
        return ENGINES[engine](*([int(index)] if index else []))
    rule = f"there is no device {show(name)} in this version; there are {', '.join(map(repr, ENGINES))}"
    is_numbered = isinstance(name, str) and name.startswith("cuda")
    raise _missing(
        name, rule, "a number says which GPU, as in 'cuda:1'" if is_numbered else suggest(name, map(repr, ENGINES))
    )


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """An engine as this machine has it, or lacks it."""

    name: str
    what: str
    is_present: bool
    devices: tuple[str, ...] = ()
    way_out: str = ""
    """For one that is missing: what to install."""


def list_engines() -> list[EngineInfo]:
    """Every engine of this version, best first, and whether it can run here."""
    what = {
        "cuda": "Triton kernels, for arrays in the memory of a GPU",
        "cpu": "LLVM kernels, compiled for this CPU and cached: the default",
        "reference": "plain NumPy: the oracle that the others are checked against",
    }
    found = []
    for name, make in ENGINES.items():
        try:
            engine = make()
        except MissingDependencyError as error:
            found.append(EngineInfo(name, what[name], is_present=False, way_out=str(error.faults[0])))
        else:
            found.append(EngineInfo(name, what[name], is_present=True, devices=_devices(engine)))
    return found


def _devices(engine: Engine) -> tuple[str, ...]:
    if engine.name != "cuda":
        return (describe_engine(engine),)
    import_alone("anydml.engines.cuda")
    from anydml.engines.cuda import device_count, device_label

    return tuple(f"cuda:{index}: {device_label(index)}" for index in range(device_count()))


def describe_engine(engine: Engine) -> str:
    """The device of an engine, in words."""
    if engine.name == "cuda":
        import_alone("anydml.engines.cuda")
        from anydml.engines.cuda import device_label

        return device_label(int(engine.memory.partition(":")[2] or 0))
    if engine.name == "cpu":
        import_alone("anydml.engines.cpu.launch.call")
        from anydml.engines.cpu.launch.call import describe_threads

        return f"{platform.machine()}, {get_num_threads()} {describe_threads()}"
    return platform.machine()
