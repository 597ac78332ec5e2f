"""Memory of large results, used again once nobody has them: to get it anew takes as long as to fill it."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anydml.runtime.rebound import Arenas

if TYPE_CHECKING:
    from anydml.onnx.program import Program

Array: TypeAlias = np.ndarray[Any, Any]

LARGE = 4 * 1024 * 1024
"""Bytes from which on memory comes from the system anew, page by page: 256 MiB took 25 ms of a gather's 59."""
_MOST = 2


def _references(kept: list[Array], i: int) -> int:
    """How many references there are to one of a list, the list's and Python's own among them."""
    return sys.getrefcount(kept[i])


_FREE = _references([np.empty(1, np.uint8)], 0)
"""What is counted of memory that nothing but the list has."""


class Spares:
    """The memory of the last large results, at most two of them: whose array is gone, serves the next of its size."""

    def __init__(self) -> None:
        self.arenas = Arenas()
        """The scratch memory of all programs."""
        self.programs: weakref.WeakSet[Program] = weakref.WeakSet()
        """Those of a model, of its parts and of their bodies."""
        self._kept: list[Array] = []
        self._lock = threading.Lock()

    def make(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        """An array of so many bytes, whatever is in it."""
        if not self._lock.locked():  # for ever, by who is under a signal's handler or in the parent process
            with self._lock:
                kept = self._kept
                for i in range(len(kept)):
                    if kept[i].nbytes == size and _references(kept, i) == _FREE:
                        return _seen(kept[i], shape, dtype)
        memory = np.empty(size, np.uint8)
        result = _seen(memory, shape, dtype)
        if not self._lock.locked():
            self._kept = [*self._kept[1 - _MOST :], memory]
        return result


def _seen(memory: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Memory as an array, which keeps it: so does whatever is made of the array and shares it."""
    return memory.view(dtype).reshape(shape)
