"""Command lists: kernels one after the other as one built-in function of NumPy arrays, whose addresses are put into the
records of each.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.launch.call import (
    BYTES_HEAD,
    LONG,
    METH_FASTCALL,
    NO_STATUS,
    PLACE,
    SMALL,
    STATUS,
    make_builtin,
    put_words,
)
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.cpu.threads import team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Kernels one after the other on NumPy arrays, in one call of Python's: addresses are put into the words of each.
#
# `kernel(self, arrays, count)` is a built-in function's. `self` is a bytes object: how many steps there are, the most
# words of one, and None and False. Then for each step the team's entry, or 0 where the kernel itself is called, how
# many words there are, and how many addresses among them; for each of those the byte at which it stands, the number of
# its array, and how far it is after the first element; then the words. They are copied: others may call at the same
# time. A step with a status ends it, and gives False; so does an exception of Python's, which is passed on.


HEAD = ("steps", "most", "none", "false")
STEP = ("team", "words", "places")
_IS_COUNTED = sys.version_info < (3, 12)
"""Whether None and False are counted like any object."""


def make_series() -> str:
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
        put_words(text, f"at + {8 * len(STEP)}")
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


# Launches one after the other as one built-in function of arrays: nothing is bound anew where those lie elsewhere.


_MOST_WORDS = 4096
"""Of one step: they lie on the stack."""
_APART = 2**36
"""Bytes between arrays that stand for others: no view reaches so far."""
_FAR, _ODD = (2**24, 36), (2**28, 1)
"""By how much the first array moves, the second twice as much, and all of them: the second figure is for programs whose
words depend on how an address is aligned."""
_BuiltIn = type(len)


def make_series_of(
    bind: Callable[[Sequence[int]], Sequence[Callable[[], Any]]], count: int
) -> Callable[..., Any] | None:
    """A function of `count` NumPy arrays, which runs the launches that `bind` gives for their addresses.

    It gives None, or something else where a step has a status: it has then run no further. Programs are bound to
    addresses that are none, to see which words move on with which of them; where words depend on addresses in another
    way, or a launch is no kernel's, there is no such function.
    """
    first, *others = (list(_addresses(count, *by)) for by in ((0, 0), _FAR, _ODD))
    steps, *moved = (_words(bind(addresses)) for addresses in (first, *others))
    if steps is None or max(map(len, steps), default=0) > _MOST_WORDS:
        return None
    if sum(words[HEADER - 1] for words in steps) >= LONG:  # Ctrl-C is looked for between them
        return None
    packed = [len(steps), max(map(len, steps), default=0), NO_STATUS, STATUS]
    for number, words in enumerate(steps):
        found = [_moves(words, several, number, first, to) for several, to in zip(moved, others, strict=True)]
        if (places := found[0]) is None or any(other != places for other in found):
            return None
        entry = 0 if words[HEADER - 1] < SMALL else team.get_team().entry
        packed += [entry, len(words), len(places)]
        packed += [word for k, (array, offset) in places.items() for word in (8 * k, array, offset)]
        packed += words
    kernel = get_kernel("series", make_series)
    return make_builtin(kernel.address, struct.pack(f"{len(packed)}q", *packed), METH_FASTCALL)


def _moves(
    words: tuple[int, ...], moved: list[tuple[int, ...]] | None, number: int, first: list[int], to: list[int]
) -> dict[int, tuple[int, int]] | None:
    """By the number of a word of a step, the array whose address moves it, and how far it is after that."""
    if moved is None or number >= len(moved) or len(moved[number]) != len(words):
        return None
    arrays = {b - a: i for i, (a, b) in enumerate(zip(first, to, strict=True))}
    found = {}
    for k, (before, after) in enumerate(zip(words, moved[number], strict=True)):
        if before != after:
            if (array := arrays.get(after - before)) is None:
                return None
            found[k] = (array, before - first[array])
    return found


def _addresses(count: int, far: int, all_: int) -> Iterator[int]:
    return ((i + 1) * _APART + (i + 1) * far + all_ for i in range(count))


def _words(launches: Sequence[Callable[[], Any]]) -> list[tuple[int, ...]] | None:
    """The words of each kernel; None where a launch is no kernel's."""
    found = kernels_of(launches)
    return None if found is None else [struct.unpack(f"{len(words) // 8}q", words) for words in found]


def kernels_of(launches: Sequence[Callable[[], Any]]) -> list[bytes] | None:
    """The words of the kernels that launches run, in order; None where one does something else."""
    found = list[bytes]()
    for launch in launches:
        if (several := getattr(launch, "launches", None)) is not None:
            if (own := kernels_of(several)) is None:
                return None
            found += own
            continue
        words = launch.__self__ if isinstance(launch, _BuiltIn) else None
        if not isinstance(words, bytes):
            return None
        found.append(words)
    return found
