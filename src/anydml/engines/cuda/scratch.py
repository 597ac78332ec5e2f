"""Memory of the engine's own: words on the device that programs speak through, and words that the host sees as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.arrays.streams import Turns, at_home
from anydml.core.memory import HOST
from anydml.engines.common.program import one_at_a_time
from anydml.engines.cuda.launch import IS_INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Words = np.ndarray[Any, np.dtype[np.int64]]
_none = np.zeros(6, np.int64)
NO_WORDS: int = (_none.__array_interface__["data"][0] + 15) & -16
"""The address for a kernel that looks at no words."""
NO_TALLIES = NO_WORDS + 16
"""The same for what is of another type: interpreted, two arguments at one address have one type."""


class DeviceWords:
    """Words of 64 bits on a device, all 0 at first. Launches that use them follow one another, on whatever streams."""

    __slots__ = ("_words", "address", "enter", "leave")

    def __init__(self, count: int, index: int) -> None:
        place = HOST if IS_INTERPRETED else f"cuda:{index}"
        with at_home(place):
            self._words = torch.zeros(count, dtype=torch.int64, device=place)
        self.address: int = self._words.data_ptr()
        turns = None if IS_INTERPRETED else Turns(self._words, place)
        self.enter: Callable[[], None] = turns.enter if turns else _nothing
        """Before a launch."""
        self.leave: Callable[[], None] = turns.leave if turns else _nothing
        """After a launch."""

    def around(self, starts: Sequence[Callable[[], Any]], subject: str) -> Callable[[], Any]:
        """Launches that use them, one after the other; those of another thread come before or after."""

        def dispatch() -> None:
            self.enter()
            for start in starts:
                start()
            self.leave()

        return one_at_a_time(dispatch, subject)


def _nothing() -> None:
    """Interpreted launches are done when they return."""


def shared_words(count: int) -> tuple[int, Words]:
    """Words in the host's memory that a kernel writes to: their address for the kernel, and an array of them."""
    words = torch.zeros(count, dtype=torch.int64, pin_memory=not IS_INTERPRETED)
    array: Words = words.numpy()
    return words.data_ptr(), array
