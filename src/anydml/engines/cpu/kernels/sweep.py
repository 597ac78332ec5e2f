"""Steps of a loop in one call: what each reads is put in its place, kernels run, and what they give is put in a row.

`kernel(self, arrays, count)` is a built-in function's. The first array is the state, of whole numbers: the next step,
the end, whether the second row of kernels is next, whether a step was done before, the step of the first row of blocks,
and why it ended: 0 at the end, 1 where a condition says so, 2 for a status. Then arrays of which a step reads a row,
and those that take a row of each step.

`self` is a bytes object: None, the places of the step's number and of a condition, or 0, and the lengths of five
tables, which follow: what is read (place, bytes), given (place, bytes), put in place after the first step (place,
source, bytes), and two rows of kernels (the place of their words, the team's entry or 0 where the kernel itself is
called).
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.direct import BYTES_HEAD
from anydml.engines.cpu.kernels.series import count, leave
from anydml.engines.cpu.kernels.steps import Steps

HEAD = ("none", "number", "condition")
TABLES = {"reads": 2, "gives": 2, "ahead": 3, "there": 2, "back": 2}
"""By name, the words of an entry."""
STATE = ("at", "end", "turn", "is_begun", "first", "ended")
BY_CONDITION, BY_STATUS = 1, 2


def make_sweep() -> str:
    """The text of the kernel."""
    text = Steps()
    text.let("own", f"self + {BYTES_HEAD}")
    for i, name in enumerate((*HEAD, *TABLES)):
        text.read(name, f"own + {8 * i}")
    text.let("reads_at", f"own + {8 * len((*HEAD, *TABLES))}")
    for (name, width), after in zip(TABLES.items(), [*TABLES][1:], strict=False):
        text.let(f"{after}_at", f"{name}_at + {name} * {8 * width}")
    text.read("state_array", "arrays")
    text.read("state", f"state_array + {object.__basicsize__}")
    for name in ("at", "end", "first"):
        text.read(f"state_{name}", _state(name))
    with text.loop("at", "state_at", "state_end"):
        with text.when("number != 0"):
            text.put("number", "at")
        _read_rows(text)
        _run(text)
        text.read("is_begun", _state("is_begun"))
        with text.when("is_begun == 0"):
            with text.loop("k", 0, "ahead"):
                _entry(text, "ahead", "k", "put", "kept", "kept_size")
                _copy(text, "put", "kept", "kept_size")
            text.put(_state("is_begun"), 1)
        _give_rows(text)
        text.put(_state("at"), "at + 1")
        with text.when("condition != 0"):
            octet = text.new(f"load i8, ptr {text.place('condition')}")
            text.add(f"%goes_on = zext i8 {octet} to i64")
            with text.when("goes_on == 0"):
                _end(text, BY_CONDITION)
    count(text, "none", 1)
    text.add("ret i64 %none")
    return text.define("i64 @kernel(i64 %self, i64 %arrays, i64 %count)")


def _state(name: str) -> str:
    return f"state + {8 * STATE.index(name)}"


def _entry(text: Steps, table: str, number: str, *names: str) -> None:
    for i, name in enumerate(names):
        text.read(name, f"{table}_at + {number} * {8 * TABLES[table]} + {8 * i}")


def _read_rows(text: Steps) -> None:
    with text.loop("i", 0, "reads"):
        _entry(text, "reads", "i", "read_to", "read_size")
        text.read("read_array", "arrays + 8 + i * 8")
        text.read("read_first", f"read_array + {object.__basicsize__}")
        text.let("read_from", "read_first + at * read_size")
        _copy(text, "read_to", "read_from", "read_size")


def _give_rows(text: Steps) -> None:
    with text.loop("j", 0, "gives"):
        _entry(text, "gives", "j", "given_from", "given_size")
        text.read("given_array", "arrays + 8 + (reads + j) * 8")
        text.read("given_first", f"given_array + {object.__basicsize__}")
        text.let("given_to", "given_first + (at - state_first) * given_size")
        _copy(text, "given_to", "given_from", "given_size")


def _run(text: Steps) -> None:
    """Run the kernels whose turn it is."""
    text.read("turn", _state("turn"))
    text.let("steps", "back if turn != 0 else there")
    text.let("steps_at", "back_at if turn != 0 else there_at")
    with text.loop("s", 0, "steps"):
        text.read("words", "steps_at + s * 16")
        text.read("team", "steps_at + s * 16 + 8")
        with text.when("team == 0"):
            text.read("units", "words")
            text.read("kernel", "words + 24")
            text.add(f"%status = call i64 {text.place('kernel')}(i64 %words, i64 0, i64 %units)")
            with text.when("status != 0"):
                _end(text, BY_STATUS)
        with text.when("team != 0"):
            text.let("object", f"words - {BYTES_HEAD}")
            text.add(f"%found = call i64 {text.place('team')}(i64 %object, i64 0)")
            with text.when("found == 0"):  # an exception of Python's
                leave(text, "found")
            count(text, "found", -1)
            with text.when("found != none"):
                _end(text, BY_STATUS)
    text.put(_state("turn"), "1 - turn")


def _end(text: Steps, why: int) -> None:
    text.put(_state("ended"), why)
    count(text, "none", 1)
    leave(text, "none")


def _copy(text: Steps, to: str, source: str, size: str) -> None:
    """Copy bytes, wherever they lie, by words and the rest one by one."""
    text.let(f"{to}_whole", f"{size} // 8 * 8")
    for kind, first, last, width in (("i64", "0", f"{to}_whole", 8), ("i8", f"{to}_whole", size, 1)):
        name = f"{to}_{kind}"
        with text.loop(name, first, last, width):
            value = text.new(f"load {kind}, ptr {text.place(f'{source} + {name}')}, align 1")
            text.add(f"store {kind} {value}, ptr {text.place(f'{to} + {name}')}, align 1")
            text.add('call void asm sideeffect "", "~{memory}"()')  # or LLVM calls memcpy, which kernels have not
