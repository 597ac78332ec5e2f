"""The number of threads for the runs of one session, where others have another number."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from anydml.engines.threads import get_num_threads, set_num_threads
from anydml.locks import make_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = make_lock()
_running: list[tuple[object, int]] = []
"""What is running with a number of its own: of several at once the last to begin decides, answers being the same."""
_before = 0


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Run with so many threads, and with as many as before when all that did so have ended."""
    global _before
    mark = (object(), number)
    with _lock:
        if not _running:
            _before = get_num_threads()
        _running.append(mark)
        set_num_threads(number)
    try:
        yield
    finally:
        with _lock:
            _running.remove(mark)
            set_num_threads(_running[-1][1] if _running else _before)
