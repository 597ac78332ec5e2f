"""Launches that have memory of their own, or write over what they read: one at a time, from whatever threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.errors import BindingError, Fault
from anydml.locks import make_lock

if TYPE_CHECKING:
    from collections.abc import Callable


class _Exclusive:
    __slots__ = ("_launch", "_lock", "_subject")

    def __init__(self, launch: Callable[[], Any], subject: str, lock: Any) -> None:
        self._launch, self._subject, self._lock = launch, subject, lock

    def __call__(self) -> Any:
        lock = self._lock
        if lock._is_owned():  # noqa: SLF001 - no public question says by whom
            rule = "this binding is running already, on the same thread"
            way_out = "bind again for a signal's handler, a destructor or a callback that dispatches meanwhile"
            raise BindingError(self._subject, Fault(field="", rule=rule, way_out=way_out))
        with lock:
            return self._launch()


def one_at_a_time(launch: Callable[[], Any], subject: str, lock: Any = None) -> Callable[[], Any]:
    """The same launch, for which a second thread waits until the first is done; so does every launch with its lock."""
    return _Exclusive(launch, subject, lock or make_lock())
