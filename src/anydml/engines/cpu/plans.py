"""Plans on disk, beside the kernels that they call: pickled, with kernels' names in the place of their addresses.

To pickle is to run what a file says. So is to load a kernel: the same folder, of this user's alone, has both, and the
same rules say which files are read. A file that is damaged, or was made by other code than this, is passed over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.late_imports import import_alone
from anydml.engines.common.cache import PLANS, UNFINISHED, Entry, source_digests
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import version
from anydml.ir.bounds import are_checked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SWITCH = "ANYDML_KEEP_PLANS"
"""The variable of the environment that turns plans on disk off, being 0."""
MOST = 256
"""Files of plans; the oldest goes first. That of a network has 50 to 400 KB."""


class CannotKeepError(Exception):
    """A plan that makes sense in this process alone."""


def read(key: str) -> bytes | None:
    """The plan kept by a key: all that it depends on, but this engine's own part, its threads included."""
    entry = _entry(key)
    return None if entry is None else entry.read()


def can_write() -> bool:
    """Whether there is a place for plans."""
    entry = _entry("")
    return entry is not None and entry.folder is not None


def write(key: str, data: bytes) -> None:
    """Keep a plan, in one step, and no more of them than there may be."""
    entry = _entry(key)
    if entry is not None and entry.folder is not None:
        _make_room(entry.folder)
        entry.write(data)


def _entry(key: str) -> Entry | None:
    if os.environ.get(SWITCH, "1") == "0":
        return None
    proved = " proved" if are_checked() else ""  # a plan that was made without proofs is no proof
    return Entry(f"plan {key} {get_num_threads()}{proved}", _version(), "any", within=PLANS)


def _make_room(folder: Path) -> None:
    """Remove the oldest plans where there are too many; another process may do so at the same time."""
    with contextlib.suppress(OSError):
        found = os.listdir(folder)  # noqa: PTH208 - a Path would make paths of all
        names = [name for name in found if name.startswith(("plan-", UNFINISHED))]  # others may keep files there
        if len(names) >= MOST:
            for name in sorted(names, key=lambda name: _age(folder / name))[: len(names) - MOST + 1]:
                (folder / name).unlink(missing_ok=True)


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@functools.cache
def _version() -> str:
    """Everything that a plan depends on beside its key: the kernels, the CPU, and all of the package's source."""
    parts = version(), source_digests().package, repr((sys.version_info[:3], np.__version__))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, name: Callable[[Any], Any]) -> None:
        super().__init__(file, 5)
        self._name = name

    def persistent_id(self, found: Any) -> Any:
        if type(found) is not int:
            return self._name(found)
        if _LOW <= found < _HIGH:
            raise CannotKeepError(f"{found} may be an address, and does not say of what")
        return None

    def reducer_override(self, found: Any) -> Any:
        kind = type(found)
        if getattr(getattr(kind, "__getstate__", None), "__module__", "") != "dataclasses":
            return NotImplemented  # no frozen dataclass with slots
        return _made, (kind, *(getattr(found, one.name) for one in dataclasses.fields(kind)))


def _made(kind: Any, *values: Any) -> Any:
    """A frozen dataclass of its fields, of which Python itself makes a new list for each object, 6 us of 8."""
    found = object.__new__(kind)
    for put, value in zip(_setters(kind), values, strict=True):
        put(found, value)
    return found


@functools.cache
def _setters(kind: Any) -> list[Callable[[Any, Any], None]]:
    return [getattr(kind, one.name).__set__ for one in dataclasses.fields(kind)]


_LOW, _HIGH = 2**36, 2**48
"""Where memory lies, on most systems: no size or stride is as large, and the bits of a float64 are larger."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._find = find

    def persistent_load(self, name: Any) -> Any:
        return self._find(name)

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("anydml.") and module not in sys.modules:
            import_alone(module)
        return super().find_class(module, name)


def dump(found: object, name: Callable[[Any], Any]) -> bytes:
    """Programs and what holds them as bytes; what `name` gives another name than None has that in its place."""
    file = io.BytesIO()
    _Pickler(file, name).dump(found)
    return file.getvalue()


def load(data: bytes, find: Callable[[Any], Any]) -> Any:
    """The object that was dumped, in whatever process; `find` gives named parts. A missing part may raise any error."""
    return _Unpickler(io.BytesIO(data), find).load()
