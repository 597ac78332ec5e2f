"""The engines: each carries the primitives out in some kind of memory. Here they are found by name."""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING

from anydml.engines.reference import ReferenceEngine
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
