"""The buffer pool: memory of large results, used again once nobody has them; new memory takes as long as to fill it."""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


Array: TypeAlias = np.ndarray[Any, Any]

LARGE = 4 * 1024 * 1024
"""Bytes from which on memory comes from the system anew, page by page: 256 MiB took 25 ms of a gather's 59."""


def _references(kept: list[Array], i: int) -> int:
    """How many references there are to one of a list, the list's and Python's own among them."""
    return sys.getrefcount(kept[i])


_FREE = _references([np.empty(1, np.uint8)], 0)
"""The count of references to memory that nothing but the list has."""


class SpareMemory:
    """The memory of the last large results: one whose array is gone serves the next of its size."""

    def __init__(self, most: int = 2, most_bytes: float = math.inf) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: list[Array] = []
        self._lock = threading.Lock()

    def make(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> Array:
        """An array of so many bytes, whatever is in it."""
        if not self._lock.locked():  # for ever, by who is under a signal's handler or in the parent process
            with self._lock:
                kept = self._kept
                for i in range(len(kept)):
                    if kept[i].nbytes == size and _references(kept, i) == _FREE:
                        return _seen(kept[i], shape, dtype)
        memory = np.empty(size, np.uint8)
        result = _seen(memory, shape, dtype)
        if size <= self._most_bytes and not self._lock.locked():
            kept = [*self._kept[1 - self._most :], memory]
            while sum(one.nbytes for one in kept) > self._most_bytes:
                del kept[0]
            self._kept = kept
        return result


def _seen(memory: Array, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Memory as an array, which keeps it: so does whatever is made of the array and shares it."""
    return memory.view(dtype).reshape(shape)
