"""A call of a kernel on NumPy arrays, as Python makes it: their addresses are put into words, and the kernel is run.

`kernel(self, arrays, count)` is a built-in function's. `self` is a bytes object: where the kernel's entry is, how many
words there are, and how many addresses among them; for each of those the byte at which it stands, the number of its
array, and how far it is after the first element; then the words. They are copied: others may call at the same time.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.steps import Steps

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
