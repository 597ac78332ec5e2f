"""Kernels as Python calls them: built-in functions, alone for small work, through the team of threads for large."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.families import ThreadsFigures, figures
from anydml.engines.cpu.launch.record import BYTES_HEAD, HEADER
from anydml.engines.cpu.threads import pool, team
from anydml.engines.cpu.threads.scratch import PAGE, get_scratch, workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.kernel import Kernel


SMALL = 2 * ThreadsFigures.part
"""Bytes below which work stays on the caller's thread."""
LONG = 2**31
"""Bytes of one thread's work for which Ctrl-C does not wait: 0.2 s, and a second where each element takes long."""
MOST = 2**62
"""Bytes of work that a word is to hold."""

# Calls a kernel with Python's lock released: other Python threads run meanwhile.
_KERNEL = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 4)
_METH_NOARGS, METH_FASTCALL = 0x0004, 0x0080
NO_STATUS, STATUS = id(None), id(False)
"""What a call gives."""


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


def make_builtin(entry: int, words: bytes, flags: int = _METH_NOARGS) -> Callable[..., Any]:
    """A built-in function that runs a kernel on its words: 25 ns a call, where ctypes takes 500."""
    definition = _definitions.get(entry)
    if definition is None:  # one for all threads that ask at once: a function does not keep its definition alive
        definition = _definitions.setdefault(entry, _MethodDef(b"dispatch", entry, flags, None))
    function: Callable[..., Any] = _new_function(ctypes.addressof(definition), words, None)
    return function


def make_dispatch(kernel: Kernel, words: Sequence[int], units: int, size: int) -> Callable[[], Any]:
    """A function that runs `units` units of a kernel, which move `size` bytes; None, or more for a status."""
    return dispatch(kernel, lay_out(kernel, words, units, size), units, size)


def lay_out(kernel: Kernel, words: Sequence[int], units: int, size: int) -> bytes:
    """The words as a kernel reads them, after those of whoever calls."""
    return struct.pack(f"{len(words) + HEADER}q", *header_of(kernel, units, size), *words)


def header_of(kernel: Kernel, units: int, size: int) -> tuple[int, ...]:
    """The words of whoever calls."""
    return units, NO_STATUS, STATUS, kernel.address, min(size, MOST)


def dispatch(kernel: Kernel, laid_out: bytes, units: int, size: int) -> Callable[[], Any]:
    """A function that runs a kernel on a whole record: by itself, through the team, or so that it can be cancelled."""
    if size < SMALL:
        return make_builtin(kernel.entry, laid_out)
    if takes_long(units, size) and team.Cancellable.is_possible():
        return _Long(kernel, laid_out, units)
    if team.is_available():
        return make_builtin(team.get_team().entry, laid_out)
    return _Pooled(kernel, laid_out, units, size)


def takes_long(units: int, size: int) -> bool:
    """Whether work that moves `size` bytes takes so long that it must be possible to cancel it."""
    return size >= LONG and size // max(min(units, get_num_threads()), 1) >= LONG


def describe_threads() -> str:
    """Who does large work."""
    return team.NAME if team.is_available() else pool.NAME


class _Long:
    """Work on threads of its own, which an interrupt cancels."""

    __slots__ = ("_kernel", "_units", "_words")

    def __init__(self, kernel: Kernel, words: bytes, units: int) -> None:
        self._kernel, self._words, self._units = kernel.address, words, units

    @property
    def records(self) -> tuple[bytes, ...]:
        """The words that its kernel is given."""
        return (self._words,)

    def __call__(self) -> int | None:
        threads = min(get_num_threads(), self._units)
        words = np.frombuffer(bytearray(self._words), np.int64)
        shared = get_scratch()
        if tuple(words[HEADER : HEADER + 2]) == shared:  # who is cancelled does not give a block back
            own = np.zeros(threads * workspace().size + PAGE, np.uint8)
            words[HEADER : HEADER + 2] = -(-own.ctypes.data // PAGE) * PAGE, threads
        return team.Cancellable(self._kernel, words.ctypes.data, self._units, threads).run()


class _Pooled:
    """Work in turns, on Python's threads."""

    __slots__ = ("_address", "_call", "_size", "_units", "_words")

    def __init__(self, kernel: Kernel, words: bytes, units: int, size: int) -> None:
        self._call, self._words, self._units, self._size = _KERNEL(kernel.address), words, units, size
        self._address = id(words) + BYTES_HEAD

    @property
    def records(self) -> tuple[bytes, ...]:
        """The words that its kernel is given."""
        return (self._words,)

    def __call__(self) -> int | None:
        units, call, words, of = self._units, self._call, self._address, figures().threads
        turns = min(units, max(self._size // of.chunk, 1), max(of.turns * get_num_threads(), self._size // LONG))
        found: list[int] = []

        def work(turn: int) -> None:
            if status := call(words, units * turn // turns, units * (turn + 1) // turns):
                found.append(status)

        pool.run(work, turns)
        return min(found, default=None)
