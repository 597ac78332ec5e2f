"""The number of threads for the runs of one session, where others have another number."""

from __future__ import annotations

import os

from anydml.engines.common.threads import get_num_threads, number_cell
from anydml.locks import make_lock

_lock = make_lock()
_running: list[OwnThreads] = []
"""The sessions that run with a number of their own: of several the last to begin decides, answers being the same."""
_before = 0


class OwnThreads:
    """Within it runs have so many threads; when all that asked for a number have ended, as many as before."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        global _before
        with _lock:
            if not _running:
                _before = get_num_threads()
            _running.append(self)
            number_cell.value = self.number

    def __exit__(self, *_: object) -> None:
        with _lock:
            if self in _running:  # unless this process was forked meanwhile
                _running.remove(self)
            number_cell.value = _running[-1].number if _running else _before


def _after_fork() -> None:
    """A child has none of the threads that ran with a number of their own, but for the one that forked."""
    if _running:
        del _running[:]
        number_cell.value = _before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
