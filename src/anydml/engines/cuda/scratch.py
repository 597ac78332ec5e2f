"""Memory of the engine's own: words on the device that programs speak through, and words that the host sees as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from anydml.engines.cuda.launch import IS_INTERPRETED, current_stream

Words = np.ndarray[Any, np.dtype[np.int64]]
_none = np.zeros(4, np.int64)
NO_WORDS: int = (_none.__array_interface__["data"][0] + 15) & -16
"""The address for a kernel that looks at no words."""


class DeviceWords:
    """Words of 64 bits on a device, all 0 at first. Launches that use them follow one another, on whatever streams."""

    __slots__ = ("_done", "_index", "_stream", "_words", "address")

    def __init__(self, count: int, index: int) -> None:
        where = torch.device("cpu") if IS_INTERPRETED else torch.device("cuda", index)
        self._words = torch.zeros(count, dtype=torch.int64, device=where)
        self.address: int = self._words.data_ptr()
        self._index = index
        self._stream = 0 if IS_INTERPRETED else current_stream(index)
        self._done: Any = None
        self.leave()

    def enter(self) -> None:
        """Before a launch: where it is on another stream than the last, it waits for that one."""
        if IS_INTERPRETED or (stream := current_stream(self._index)) == self._stream:
            return
        if torch.cuda.is_current_stream_capturing():  # what is captured is bound for the capture alone
            return
        here = torch.cuda.current_stream(self._index)
        here.wait_event(self._done or torch.cuda.default_stream(self._index).record_event())
        self._words.record_stream(here)
        self._stream = stream

    def leave(self) -> None:
        """After a launch: a stream of the caller's own may be gone by the next one, so its event is kept instead."""
        if self._stream and not torch.cuda.is_current_stream_capturing():
            self._done = torch.cuda.current_stream(self._index).record_event()
        else:
            self._done = None


def shared_words(count: int) -> tuple[int, Words]:
    """Words in the host's memory that a kernel writes to: their address for the kernel, and an array of them."""
    words = torch.zeros(count, dtype=torch.int64, pin_memory=not IS_INTERPRETED)
    array: Words = words.numpy()
    return words.data_ptr(), array
