"""Kernels one after the other on NumPy arrays, in one call of Python's: addresses are put into the words of each.

`kernel(self, arrays, count)` is a built-in function's. `self` is a bytes object: how many steps there are, the most
words of one, and None and False. Then for each step the team's entry, or 0 where the kernel itself is called, how many
words there are, and how many addresses among them; for each of those the byte at which it stands, the number of its
array, and how far it is after the first element; then the words. They are copied: others may call at the same time. A
step with a status ends it, and gives False; so does an exception of Python's, which is passed on.
"""

from __future__ import annotations

import sys

from anydml.engines.cpu.kernels.direct import BYTES_HEAD, PLACE, put_words
from anydml.engines.cpu.kernels.steps import Steps

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
