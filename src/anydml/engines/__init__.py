"""The engines: each carries the primitives out in some kind of memory. Here they are found by name."""

from __future__ import annotations

import functools
import importlib.util
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.engines.reference import ReferenceEngine
from anydml.engines.threads import get_num_threads
from anydml.errors import EngineMissingError, Fault, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.protocol import Engine

_CPU_NEEDS = ("llvmlite", "numba")


@functools.cache
def _cpu() -> Engine:
    missing = [name for name in _CPU_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        rule = f"the cpu engine needs {' and '.join(missing)}"
        way_out = f'pip install {" ".join(missing)}, or use Device("reference")'
        raise EngineMissingError("Device", Fault(field="name", rule=rule, value="cpu", way_out=way_out))
    from anydml.engines.cpu import CpuEngine  # imports llvmlite, which `import anydml` does not

    return CpuEngine()


@functools.cache
def _reference() -> Engine:
    return ReferenceEngine()


# Best first.
ENGINES: dict[str, Callable[[], Engine]] = {"cpu": _cpu, "reference": _reference}


def find_engine(name: str | None) -> Engine:
    """The engine of a name; for None the best whose dependencies are there."""
    if name is None:
        try:
            return _cpu()
        except EngineMissingError:
            return _reference()
    if isinstance(name, str) and name in ENGINES:
        return ENGINES[name]()
    rule = f"there is no device {show(name)} in this version; there are {', '.join(map(repr, ENGINES))}"
    raise EngineMissingError("Device", Fault(field="name", rule=rule, value=name))


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
    machine = f"{platform.machine()}, {get_num_threads()} threads"
    about = {
        "cpu": ("Numba kernels, compiled for this CPU and cached: the default", machine),
        "reference": ("plain NumPy: the oracle that the others are checked against", platform.machine()),
    }
    found = []
    for name, make in ENGINES.items():
        what, device = about[name]
        try:
            make()
        except EngineMissingError as error:
            found.append(EngineInfo(name, what, is_present=False, way_out=str(error.faults[0])))
        else:
            found.append(EngineInfo(name, what, is_present=True, devices=(device,)))
    return found
