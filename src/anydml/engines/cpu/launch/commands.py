"""Command lists: kernels one after the other as one built-in function of NumPy arrays, whose addresses are put into the
records of each. One kernel alone is such a list, too.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.symbolic_sizes import greatest, is_open
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.launch.call import LONG, METH_FASTCALL, NO_STATUS, SMALL, STATUS, make_builtin
from anydml.engines.cpu.launch.record import BYTES_HEAD, CALL, WORD, Layout, count_reference
from anydml.engines.cpu.threads import team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.launch.program import Command

# Kernels one after the other on NumPy arrays, in one call of Python's: addresses are put into the record of each.
#
# `kernel(self, arrays, count)` is a built-in function's; `self` is a bytes object, of a list, its steps, each with its
# relocations and its record. Records are copied: others may call at the same time. A step with a status ends it, and
# gives False; so does an exception of Python's, which is passed on.


LIST = Layout("steps", "most", "none", "false", header=0)
"""How many steps there are, the most words of one, None and False."""
STEP = Layout("team", "words", "places", header=0)
"""The team's entry, or 0 where the kernel itself is called, how many words there are, and how many relocations."""
PLACE = Layout("byte", "array", "offset", header=0)
"""A relocation: the byte at which an address stands, the number of its array, and how far after its first element."""


def make_command_driver() -> str:
    """The text of the kernel."""
    f = Function("kernel", "self arrays count", "i64")
    self, arrays, _ = f.args
    own = self + BYTES_HEAD
    commands = LIST.loaded(f, own)
    memory = f.address(f.made("ptr", f"alloca i64, {(commands.most + 16).typed}, align 64"))
    record, at = memory + BYTES_HEAD, [own + WORD * LIST.end]
    with f.loop(0, commands.steps, carry=at):
        step, places = STEP.loaded(f, at[0]), at[0] + WORD * STEP.end
        given = places + step.places * (WORD * PLACE.end)
        at[0] = given + step.words * WORD
        with f.loop(0, step.words) as i:
            f.store(f.load("i64", given + i * WORD), record + i * WORD)
            f.barrier()  # or LLVM calls memcpy, which kernels have not
        with f.loop(0, step.places) as i:
            place = PLACE.loaded(f, places + i * (WORD * PLACE.end))
            f.store(array_at(f, arrays + place.array * WORD) + place.offset, record + place.byte)
        with f.either(step.team.eq(0)) as (alone, shared):
            with alone, f.when(call_kernel(f, record).ne(0)):
                give(f, commands.false)
            with shared:
                found = f.invoke(step.team, memory, 0, result="i64")
                with f.when(found.ne(commands.none)):
                    f.ret(found)
                count_reference(f, commands.none, -1)
    give(f, commands.none)
    return f.end()


def array_at(f: Function, place: Value) -> Value:
    """The address of the first element of an array, whose own stands at a place."""
    return f.load("i64", f.load("i64", place) + object.__basicsize__)


def call_kernel(f: Function, record: Value) -> Value:
    """Call a kernel for all of its work; its status."""
    call = CALL.loaded(f, record, "units", "kernel")
    return f.invoke(call.kernel, record, 0, call.units, result="i64")


def give(f: Function, result: Value) -> None:
    """Return an object."""
    count_reference(f, result, 1)
    f.ret(result)


_MOST_WORDS = 4096
"""Of one step: they lie on the stack."""


def make_command_list(commands: Sequence[Command]) -> Callable[..., Any] | None:
    """A function of NumPy arrays that runs kernels: 0.2 us and their time.

    It gives None, or something else where a step has a status: it has then run no further. There is no such function
    for large records, for work that takes so long that Ctrl-C is looked for, nor for large work without a team.
    """
    words = _words_of(commands)
    return None if words is None else make_builtin(_driver(), struct.pack(f"{len(words)}q", *words), METH_FASTCALL)


def _words_of(commands: Sequence[Command]) -> list[int] | None:
    """The words of a list."""
    most = max((len(one.words) for one in commands), default=0)
    if most > _MOST_WORDS or sum(one.size for one in commands) >= LONG:
        return None
    is_large = [_is_large(one.size) for one in commands]
    if any(is_open(one) or one for one in is_large) and not team.is_available():
        return None
    words = [len(commands), most, NO_STATUS, STATUS]
    for (own, _, relocations), is_shared in zip(commands, is_large, strict=True):
        entry = is_shared * team.get_team().entry if is_open(is_shared) or is_shared else 0
        words += [entry, len(own), len(relocations), *(word for one in relocations for word in one), *own]
    return words


def _is_large(size: int) -> int:
    """1 for what the team takes, 0 for what the caller's thread takes itself; of an open size it is an open one too."""
    return 1 - greatest((0, 1 - size // SMALL)) if is_open(size) else int(size >= SMALL)


def _driver() -> int:
    return get_kernel("commands", make_command_driver).address


class OpenCommandList:
    """A command list with words that are open sizes: for other sizes it is the same with other numbers in it."""

    def __init__(self, words: Sequence[Any]) -> None:
        opened = {at: word.number for at, word in enumerate(words) if is_open(word)}
        self._at, self._numbers = np.array([*opened], np.int64), [*opened.values()]
        self._words = np.array([0 if at in opened else word for at, word in enumerate(words)], np.int64)

    @classmethod
    def of(cls, commands: Sequence[Command]) -> OpenCommandList | None:
        """That of some commands."""
        words = _words_of(commands)
        return None if words is None else cls(words)

    def at(self, numbers: Sequence[int | float]) -> Callable[..., Any]:
        """The function for some sizes."""
        words = self._words.copy()
        words[self._at] = [numbers[number] for number in self._numbers]
        return make_builtin(_driver(), words.tobytes(), METH_FASTCALL)

    def movable(self) -> Callable[[Sequence[int | float]], Callable[..., Any]]:
        """What gives the function for some sizes, the same each time, with other numbers in it.

        That of 22 layers has 200 KB of words, of which few are sizes and fewer change: to copy it took 50 us a step.
        """
        words = self._words.tobytes()
        function = make_builtin(_driver(), words, METH_FASTCALL)  # which keeps them alive
        own = (ctypes.c_int64 * len(self._words)).from_address(id(words) + BYTES_HEAD)
        places: dict[int, list[int]] = {}
        for place, number in zip(self._at.tolist(), self._numbers, strict=True):
            places.setdefault(number, []).append(place)
        there: dict[int, int | float | None] = dict.fromkeys(places)

        def at(numbers: Sequence[int | float]) -> Callable[..., Any]:
            for number, before in there.items():
                if (now := numbers[number]) != before:
                    there[number] = now
                    for place in places[number]:
                        own[place] = int(now)
            return function

        return at
