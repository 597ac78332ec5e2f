"""Kernels as Python calls them: a built-in function for small work, the threads for large."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from anydml.engines.threads import get_num_threads, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.build import Kernel

SMALL = 128 * 1024
"""Bytes up to which work stays on the caller's thread, and keeps Python's lock: a few microseconds."""
CHUNK = 512 * 1024
"""The least bytes of work that a thread takes at a time."""
TURNS = 4
"""Turns that each thread takes, so that one that is held up leaves its share to the others."""

# Calls a kernel with Python's lock released: other Python threads run meanwhile.
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_SHARED = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)
_METH_NOARGS = 0x0004
_NONE, _FALSE = id(None), id(False)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: dict[int, _MethodDef] = {}
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def make_words(words: Sequence[int], units: int) -> bytes:
    """The words of a kernel behind their header: the units of work, and what its entry returns."""
    return struct.pack(f"{len(words) + 3}q", units, _NONE, _FALSE, *words)


def make_builtin(kernel: Kernel, words: bytes) -> Callable[[], Any]:
    """A built-in function that runs a kernel on its words: 25 ns a call, where ctypes takes 500."""
    definition = _definitions.get(kernel.entry)
    if definition is None:
        definition = _definitions[kernel.entry] = _MethodDef(b"dispatch", kernel.entry, _METH_NOARGS, None)
    function: Callable[[], Any] = _new_function(ctypes.addressof(definition), words, None)
    return function


def address_of(words: bytes) -> int:
    """Where the words of a bytes object lie."""
    return id(words) + bytes.__basicsize__ - 1


def make_dispatch(kernel: Kernel, words: bytes, units: int, size: int) -> Callable[[], Any]:
    """What runs `units` units of a kernel that together move `size` bytes. Returns None, or the smallest status."""
    if size <= SMALL or units == 1:
        if size <= SMALL:
            return make_builtin(kernel, words)
        return _Whole(kernel, words)
    return _Shared(kernel, words, units, size)


class _Whole:
    """Work that cannot be shared: on the caller's thread, with Python's lock released."""

    __slots__ = ("_call", "_words")

    def __init__(self, kernel: Kernel, words: bytes) -> None:
        self._call, self._words = KERNEL(kernel.address), words

    def __call__(self) -> int | None:
        return self._call(address_of(self._words), 0, 1) or None


class _Shared:
    """Work in turns, which each thread takes by itself once it is at work, without Python."""

    __slots__ = ("_call", "_size", "_units", "_words")

    def __init__(self, kernel: Kernel, words: bytes, units: int, size: int) -> None:
        self._call, self._words, self._units, self._size = _SHARED(kernel.shared), words, units, size

    def __call__(self) -> int | None:
        units, call, words = self._units, self._call, address_of(self._words)
        threads = get_num_threads()
        turns = min(units, max(self._size // CHUNK, 1), TURNS * threads)
        counter = ctypes.c_int64(0)
        place = ctypes.addressof(counter)
        if threads == 1 or turns == 1:
            return call(words, place, units, 1) or None
        found: list[int] = []

        def work(_number: int) -> None:
            if status := call(words, place, units, turns):
                found.append(status)

        run(work, min(threads, turns))
        return min(found) if found else None
