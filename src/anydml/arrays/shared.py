"""Bytes that several graphs read: held once on the host, and once in each memory that a graph reads them in."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import upload

if TYPE_CHECKING:
    from collections.abc import Hashable

    from anydml.memory import Buffer


class SharedData:
    """The bytes of an array that nobody changes. They are not copied; a GPU has a copy of its own, once."""

    __slots__ = ("__weakref__", "_array", "_buffers", "_lock", "derived")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._buffers: dict[str, Buffer] = {}
        self._lock = threading.Lock()
        self.derived: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        """What was computed of them, for as long as a graph reads it."""

    def __len__(self) -> int:
        return int(self._array.size)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The bytes on the host."""
        return self._array

    def buffer(self, memory: str) -> Buffer:
        """The bytes in a memory."""
        with self._lock:
            if memory not in self._buffers:
                self._buffers[memory] = upload(self._array, memory)
            return self._buffers[memory]
