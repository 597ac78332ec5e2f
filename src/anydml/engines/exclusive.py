"""Launches that have memory of their own, or write over what they read: one at a time, from whatever threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from anydml.errors import BindingError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable


class _Exclusive:
    __slots__ = ("_launch", "_lock", "_owner", "_subject")

    def __init__(self, launch: Callable[[], Any], subject: str) -> None:
        self._launch, self._subject = launch, subject
        self._lock = threading.Lock()
        self._owner = 0

    def __call__(self) -> Any:
        me = threading.get_ident()
        if self._owner == me:  # which would wait for itself
            rule = "this binding is running already, on the same thread"
            way_out = "bind again for a signal's handler, a destructor or a callback that dispatches meanwhile"
            raise BindingError(self._subject, Fault(field="", rule=rule, way_out=way_out))
        with self._lock:
            self._owner = me
            try:
                return self._launch()
            finally:
                self._owner = 0


def one_at_a_time(launch: Callable[[], Any], subject: str) -> Callable[[], Any]:
    """The same launch, for which a second thread waits until the first is done."""
    return _Exclusive(launch, subject)
