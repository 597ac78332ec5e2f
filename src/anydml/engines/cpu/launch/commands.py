"""Command lists: kernels one after the other as one built-in function of NumPy arrays, whose addresses are put into the
records of each. One kernel alone is such a list, too.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.launch.call import (
    BYTES_HEAD,
    LONG,
    METH_FASTCALL,
    NO_STATUS,
    SMALL,
    STATUS,
    make_builtin,
)
from anydml.engines.cpu.launch.record import WORD
from anydml.engines.cpu.threads import team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Kernels one after the other on NumPy arrays, in one call of Python's: addresses are put into the record of each.
#
# `kernel(self, arrays, count)` is a built-in function's. `self` is a bytes object: how many steps there are, the most
# words of one, and None and False. Then for each step the team's entry, or 0 where the kernel itself is called, how
# many words there are, and how many relocations: for each of those the byte at which an address stands, the number of
# its array, and how far it is after the first element; then the words. They are copied: others may call at the same
# time. A step with a status ends it, and gives False; so does an exception of Python's, which is passed on.


HEAD = ("steps", "most", "none", "false")
STEP = ("team", "words", "places")
PLACE = 24
"""Bytes of a relocation."""
_IS_COUNTED = sys.version_info < (3, 12)
"""Whether None and False are counted like any object."""


def make_command_driver() -> str:
    """The text of the kernel."""
    text = Steps()
    text.let("own", f"self + {BYTES_HEAD}")
    for i, name in enumerate(HEAD):
        text.read(name, f"own + {8 * i}")
    text.add("%room.all = add i64 %most, 16", "%room.at = alloca i64, i64 %room.all, align 64")
    text.add("%room = ptrtoint ptr %room.at to i64")
    text.let("copied", f"room + {BYTES_HEAD}")
    text.room("next", 1)
    text.put("next", f"own + {8 * len(HEAD)}")
    with text.loop("step", 0, "steps"):
        text.read("at", "next")
        for i, name in enumerate(STEP):
            text.read(name, f"at + {8 * i}")
        text.let("first", f"at + {8 * len(STEP)} + places * {PLACE}")
        text.put("next", "first + words * 8")
        _put_words(text, f"at + {8 * len(STEP)}")
        with text.when("team == 0"):
            text.read("units", "copied")
            text.read("kernel", "copied + 24")
            text.add(f"%status = call i64 {text.place('kernel')}(i64 %copied, i64 0, i64 %units)")
            with text.when("status != 0"):
                _give(text, "false")
        with text.when("team != 0"):
            text.add(f"%found = call i64 {text.place('team')}(i64 %room, i64 0)")
            with text.when("found != none"):
                leave(text, "found")
            count(text, "none", -1)
    count(text, "none", 1)
    text.add("ret i64 %none")
    return text.define("i64 @kernel(i64 %self, i64 %arrays, i64 %count)")


def _put_words(text: Steps, table: str) -> None:
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


def _give(text: Steps, name: str) -> None:
    count(text, name, 1)
    leave(text, name)


def leave(text: Steps, name: str) -> None:
    """Return from within a block, whose end nothing comes to then."""
    text.add(f"ret i64 %{name}", f"{text.label('never')}:")


def count(text: Steps, name: str, by: int) -> None:
    """Count a reference to an object, or one less."""
    if _IS_COUNTED:
        before = text.label("count")
        text.read(before, name)
        text.add(f"%{before}.now = add i64 %{before}, {by}", f"store i64 %{before}.now, ptr {text.place(name)}")


_MOST_WORDS = 4096
"""Of one step: they lie on the stack."""


class Command(NamedTuple):
    """A kernel to run."""

    record: bytes
    """As a kernel reads it, without the addresses of arrays."""
    size: int
    relocations: Sequence[tuple[int, int, int]]
    """Bytes from the record's first, the number of an array, and bytes after its first element."""


def make_command_list(commands: Sequence[Command]) -> Callable[..., Any] | None:
    """A function of NumPy arrays that runs kernels: 0.2 us and their time.

    It gives None, or something else where a step has a status: it has then run no further. There is no such function
    for large records, for work that takes so long that Ctrl-C is looked for, nor for large work without a team.
    """
    most = max((len(one.record) // WORD for one in commands), default=0)
    largest = max((one.size for one in commands), default=0)
    if most > _MOST_WORDS or sum(one.size for one in commands) >= LONG:
        return None
    if largest >= SMALL and not team.is_available():
        return None
    packed = [struct.pack(f"{len(HEAD)}q", len(commands), most, NO_STATUS, STATUS)]
    for record, size, relocations in commands:
        entry = 0 if size < SMALL else team.get_team().entry
        words = [entry, len(record) // WORD, len(relocations), *(word for one in relocations for word in one)]
        packed += [struct.pack(f"{len(words)}q", *words), record]
    return make_builtin(get_kernel("commands", make_command_driver).address, b"".join(packed), METH_FASTCALL)
