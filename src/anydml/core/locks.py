"""Locks that a child process finds free: the thread that held one when it forked is not there to let go of it.

Python has one for each module that a thread imports. A fork waits for those that are ours, or that our code imports
when first needed; a child that was forked all the same, in the moment between, imports those that are ours anew.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

PATIENCE = 30.0
"""Seconds that a fork waits for imports, which take some milliseconds each."""
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> Any:
    """A lock that its holder may take again, and that no child waits for where the holder is a thread of its parent."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _before_fork() -> None:
    deadline = time.monotonic() + PATIENCE
    while _are_others_importing() and time.monotonic() < deadline:
        time.sleep(0.001)


def _are_others_importing() -> bool:
    """Whether another thread is within the import of a module of ours, or of one that code of ours needs."""
    owners = _held_by_others()
    frames = sys._current_frames() if owners else {}  # noqa: SLF001 - as the documentation has it
    return any(_is_ours(name) or _imports_for_us(frames.get(owner)) for name, owner in owners.items())


def _held_by_others() -> dict[str, int]:
    """The modules that other threads import, and those threads."""
    known: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})  # noqa: SLF001 - no other way to them
    owners = {name: getattr(lock(), "owner", None) for name, lock in list(known.items())}
    return {name: owner for name, owner in owners.items() if owner is not None and owner != threading.get_ident()}


def _is_ours(name: str) -> bool:
    return name.startswith("anydml.")


def _imports_for_us(frame: FrameType | None) -> bool:
    """Whether a thread imports something because a function of ours does."""
    is_import = False
    while frame is not None and not (is_import and _is_ours(frame.f_globals.get("__name__", ""))):
        is_import = is_import or frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return frame is not None


def _after_in_child() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # noqa: SLF001 - by a signal's handler that forked, and goes on in the child
            lock._at_fork_reinit()  # noqa: SLF001 - as Python's own modules do
    for name in filter(_is_ours, _held_by_others()):
        del importlib._bootstrap._module_locks[name]  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        sys.modules.pop(name, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_in_child)


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property  # noqa: TID251 - it has no lock there
else:

    class cached_property:  # noqa: N801 - as functools calls it
        """The same without the lock, one for all objects of a class, that it has before Python 3.12."""

        def __init__(self, compute):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._compute(instance))
