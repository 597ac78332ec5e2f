"""Bytes that several graphs read: held once on the host, and once in each memory that a graph reads them in."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import upload
from anydml.core.device_memory import identity
from anydml.core.locks import make_lock
from anydml.core.memory import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from anydml.core.memory import Buffer


def _nothing() -> None:
    pass


class SharedData:
    """The bytes of an array that nobody changes, asked for once. They are not copied; a GPU has a copy of its own.

    What is not held can be made again: the host's memory has it for as long as somebody has its buffer.
    """

    __slots__ = ("__weakref__", "_buffers", "_fill", "_lock", "_make", "_of_host", "_size", "derived", "was_read")

    def __init__(
        self,
        size: int,
        make: Callable[[], np.ndarray[Any, Any]],
        *,
        is_held: bool = True,
        fill: Callable[[np.ndarray[Any, Any]], object] | None = None,
    ) -> None:
        self._fill = fill
        self._size, self._make = size, functools.cache(make) if is_held else make
        self._of_host: Callable[[], np.ndarray[Any, Any] | None] | None = None if is_held else _nothing
        self._buffers: dict[object, Buffer] = {}
        self._lock = make_lock()
        self.was_read = False
        """Whether somebody looked at the bytes, so that what is planned may depend on them."""
        self.derived: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        """Results computed of them, for as long as a graph reads them."""

    def __len__(self) -> int:
        return self._size

    @property
    def size(self) -> int:
        """The bytes, which may be open."""
        return self._size

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The bytes on the host."""
        return np.ascontiguousarray(self._make()).reshape(-1).view(np.uint8)

    def look(self) -> np.ndarray[Any, Any]:
        """The bytes on the host, to be looked at."""
        self.was_read = True
        return self.array

    def can_fill(self) -> bool:
        """Whether the bytes can be read into memory of somebody's, which is quicker than to have them made."""
        return self._fill is not None and self._of_host is not None and self._of_host() is None

    def fill(self, memory: np.ndarray[Any, Any]) -> None:
        """Read the bytes into as many of memory."""
        assert self._fill is not None  # noqa: S101 - for type checkers: it was asked for
        self._fill(memory)

    def buffer(self, memory: str) -> Buffer:
        """The bytes in a memory."""
        with self._lock:
            if memory == HOST and self._of_host is not None:
                found = self._of_host()
                if found is None:
                    found = self.array
                    self._of_host = weakref.ref(found)
                return upload(found, memory)
            if (place := identity(memory)) not in self._buffers:
                array = self.array
                # PyTorch warns of memory that may not be written to, whatever is done with it.
                is_plain = memory == HOST or array.flags.writeable
                self._buffers[place] = upload(array if is_plain else array.copy(), memory)
            return self._buffers[place]
