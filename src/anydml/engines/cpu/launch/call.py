"""Kernels as Python calls them: built-in functions, alone for small work, through the team of threads for large."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.gemm.workspace import workspace
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.cpu.threads import pool, team
from anydml.engines.cpu.threads.scratch import PAGE, get_scratch
from anydml.engines.cpu.threads.team_kernel import CHUNK, PART

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel

# A call of a kernel on NumPy arrays, as Python makes it: their addresses are put into words, and the kernel is run.
#
# `kernel(self, arrays, count)` is a built-in function's. `self` is a bytes object: where the kernel's entry is, how
# many words there are, and how many addresses among them; for each of those the byte at which it stands, the number of
# its array, and how far it is after the first element; then the words. They are copied: others may call at the same
# time.


BYTES_HEAD = bytes.__basicsize__ - 1
"""Bytes before those of a bytes object."""
PLACE = 24
"""Bytes of a place."""


def make_direct() -> str:
    """The text of the kernel."""
    text = Steps()
    text.let("own", f"self + {BYTES_HEAD}")
    for i, name in enumerate(("called", "words", "places")):
        text.read(name, f"own + {8 * i}")
    text.let("first", f"own + 24 + places * {PLACE}")
    text.add("%room.all = add i64 %words, 16", "%room.at = alloca i64, i64 %room.all, align 64")
    text.add("%room = ptrtoint ptr %room.at to i64")
    text.let("copied", f"room + {BYTES_HEAD}")
    put_words(text, "own + 24")
    text.add("%called.at = inttoptr i64 %called to ptr", "%result = call i64 %called.at(i64 %room, i64 0)")
    text.add("ret i64 %result")
    return text.define("i64 @kernel(i64 %self, i64 %arrays, i64 %count)")


def put_words(text: Steps, table: str) -> None:
    """Copy `words` words from `first` to `copied`, and put into them the addresses of arrays that a table names."""
    with text.loop("i", 0, "words"):
        text.read("word", "first + i * 8")
        text.put("copied + i * 8", "word")
        text.add('call void asm sideeffect "", "~{memory}"()')  # or LLVM calls memcpy, which kernels have not
    with text.loop("p", 0, "places"):
        text.let("place", f"{table} + p * {PLACE}")
        for i, name in enumerate(("byte", "number", "offset")):
            text.read(name, f"place + {8 * i}")
        text.read("array", "arrays + number * 8")
        text.read("address", f"array + {object.__basicsize__}")
        text.put("copied + byte", "address + offset")


SMALL = 2 * PART
"""Bytes below which work stays on the caller's thread."""
LONG = 2**31
"""Bytes of one thread's work for which Ctrl-C does not wait: 0.2 s, and a second where each element takes long."""
MOST = 2**62
"""Bytes of work that a word is to hold."""
TURNS = 16
"""Turns for each of Python's threads, so that one that is held up leaves its share to the others."""

# Calls a kernel with Python's lock released: other Python threads run meanwhile.
_KERNEL = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 4)
_METH_NOARGS, METH_FASTCALL = 0x0004, 0x0080
_WORD = struct.Struct("q")
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
    return _dispatch(kernel, lay_out(kernel, words, units, size), units, size)


def lay_out(kernel: Kernel, words: Sequence[int], units: int, size: int) -> bytes:
    """The words as a kernel reads them, after those of whoever calls."""
    return struct.pack(f"{len(words) + HEADER}q", units, NO_STATUS, STATUS, kernel.address, min(size, MOST), *words)


def _dispatch(kernel: Kernel, laid_out: bytes, units: int, size: int) -> Callable[[], Any]:
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


class Template:
    """The words of a kernel that is bound again and again: each time addresses are put in, 5 us sooner."""

    __slots__ = ("_direct", "_kernel", "_laid_out", "_parts", "_places", "_size", "_units")

    def __init__(
        self, kernel: Kernel, words: Sequence[int], places: Mapping[int, tuple[str, int]], units: int, size: int
    ) -> None:
        """`places` are the tensors whose addresses stand in the words, and how far after each, by the word's number."""
        self._kernel, self._units, self._size = kernel, units, size
        self._laid_out = laid_out = lay_out(kernel, words, units, size)
        self._parts, self._places, self._direct = list[bytes](), list[Any](), list[tuple[int, str, int]]()
        done = 0
        for number, (tensor, offset) in sorted(places.items()):
            at = _WORD.size * (HEADER + number)
            self._direct.append((at, tensor, offset))
            self._parts += [laid_out[done:at], b""]
            self._places.append((len(self._parts) - 1, tensor, offset))
            done = at + _WORD.size
        self._parts.append(laid_out[done:])

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        parts = self._parts.copy()
        for number, tensor, offset in self._places:
            parts[number] = _WORD.pack(places[tensor] + offset)
        return _dispatch(self._kernel, b"".join(parts), self._units, self._size)

    def direct(self, tensors: Sequence[str]) -> Callable[..., Any] | None:
        """A built-in function of NumPy arrays, one for each tensor in order; None where there is no team for it.

        It looks at nothing but their addresses: a call of it takes 0.2 us and the kernel's time.
        """
        if (self._size >= SMALL and not team.is_available()) or takes_long(self._units, self._size):
            return None
        entry = self._kernel.entry if self._size < SMALL else team.get_team().entry
        count, places = (
            len(self._laid_out) // _WORD.size,
            [word for at, tensor, offset in self._direct for word in (at, tensors.index(tensor), offset)],
        )
        head = struct.pack(f"{3 + len(places)}q", entry, count, len(self._direct), *places)
        return make_builtin(get_kernel("direct", make_direct).address, head + self._laid_out, METH_FASTCALL)


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
        self._address = id(words) + bytes.__basicsize__ - 1

    @property
    def records(self) -> tuple[bytes, ...]:
        """The words that its kernel is given."""
        return (self._words,)

    def __call__(self) -> int | None:
        units, call, words = self._units, self._call, self._address
        turns = min(units, max(self._size // CHUNK, 1), max(TURNS * get_num_threads(), self._size // LONG))
        found: list[int] = []

        def work(turn: int) -> None:
            if status := call(words, units * turn // turns, units * (turn + 1) // turns):
                found.append(status)

        pool.run(work, turns)
        return min(found, default=None)
