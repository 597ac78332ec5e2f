"""Whether a NumPy array is as it was: its memory, shape, strides, type and flags, all of which its owner may change.

`x.shape = …`, `x.dtype = …`, `x.strides = …` and `x.flags.writeable = …` leave the object the same one.
To ask the array itself takes a microsecond; its head in C is looked at in a fifth of that.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

# PyArrayObject_fields, which NumPy's C interface fixes: the address of the memory, the number of dimensions, those of
# the sizes and strides, the base, the type and the flags.
_HEAD = 8 + 8 + 8 + 8 + 8 + 8 + 4
_FIRST = object.__basicsize__


class Glance:
    """An array's head as it was when first looked at. Whoever asks has the array."""

    __slots__ = ("_head", "_layout", "_seen_head", "_seen_layout", "_type")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        place = id(array) + _FIRST
        sizes = ctypes.c_size_t.from_address(place + 16).value or place
        strides = ctypes.c_size_t.from_address(place + 24).value or place
        self._head: Any = (ctypes.c_char * _HEAD).from_address(place)
        # NumPy keeps both in one piece; where it did not, the strides would lie elsewhere, and `_works` says so.
        low, high = min(sizes, strides), max(sizes, strides) + 8 * array.ndim
        self._layout: Any = (ctypes.c_char * (high - low)).from_address(low)
        self._type = array.dtype  # or another would be given its address
        self._seen_head, self._seen_layout = self._head.raw, self._layout.raw

    def is_same(self) -> bool:
        """Whether nothing has changed since."""
        return bool(self._head.raw == self._seen_head and self._layout.raw == self._seen_layout)


class _SlowGlance:
    """The same by asking, for a NumPy that lies otherwise."""

    __slots__ = ("_array", "_seen")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = weakref.ref(array)
        self._seen = self._ask(array)

    @staticmethod
    def _ask(array: Any) -> tuple[Any, ...]:
        return array.__array_interface__["data"], array.shape, array.strides, array.dtype, array.flags.num

    def is_same(self) -> bool:
        """Whether nothing has changed since."""
        array = self._array()
        return array is not None and self._ask(array) == self._seen


def _works() -> bool:
    """Whether NumPy's arrays lie as expected: address, sizes, strides and type are found where they should be."""
    probe = np.zeros((3, 5, 7), np.int16)[:, ::-1]
    place = id(probe) + _FIRST
    words = [ctypes.c_size_t.from_address(place + 8 * k).value for k in range(6)]
    if words[0] != probe.__array_interface__["data"][0] or words[1] & 0xFFFFFFFF != 3 or words[5] != id(probe.dtype):
        return False
    if not words[2] or words[3] != words[2] + 24:
        return False
    found = tuple((ctypes.c_ssize_t * 6).from_address(words[2]))
    return found == (*probe.shape, *probe.strides)


glance = Glance if _works() else _SlowGlance
