"""Locks that a child process finds free: the thread that held one when it forked is not there to let go of it."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> Any:
    """A lock that its holder may take again, and that no child waits for where the holder is a thread of its parent."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _after_in_child() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # noqa: SLF001 - by a signal's handler that forked, and goes on in the child
            lock._at_fork_reinit()  # noqa: SLF001 - as Python's own modules do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)


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
