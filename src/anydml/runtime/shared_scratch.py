"""Scratch memory that several bindings of one graph share, on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.streams import Turns
from anydml.engines.common.program import one_at_a_time
from anydml.locks import make_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.memory import Buffer


class Common:
    """Memory, and the turns that launches take with it: from whatever threads, on whatever streams."""

    def __init__(self, memory: Buffer, subject: str) -> None:
        self.memory = memory
        self._turns = Turns(memory.owner, memory.device)
        self._subject, self._lock = subject, make_lock()

    def taken_by(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """A launch that has the memory to itself."""
        turns = self._turns

        def run() -> Any:
            turns.enter()
            try:
                return launch()
            finally:
                turns.leave()

        return one_at_a_time(run, self._subject, self._lock)
