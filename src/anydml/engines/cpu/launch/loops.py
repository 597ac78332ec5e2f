"""Command lists that repeat: the steps of a recurrent or ONNX loop in one call, their records moved on each time."""

from __future__ import annotations

import struct
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.common.repeat import RepeatProgram
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.launch.call import BYTES_HEAD, LONG, METH_FASTCALL, NO_STATUS, SMALL, make_builtin, takes_long
from anydml.engines.cpu.launch.commands import count, leave
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import HEADER, Layout, Record
from anydml.engines.cpu.threads import team
from anydml.memory import has_fast_address, numpy_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from anydml.engines.common.program import Place
    from anydml.engines.cpu.launch.record import Relocation

    Array = np.ndarray[Any, Any]

# Steps of a loop in one call: what each reads is put in its place, kernels run, and what they give is put in a row.
#
# `kernel(self, arrays, count)` is a built-in function's. The first array is the state, of whole numbers: the next step,
# the end, whether the second row of kernels is next, whether a step was done before, the step of the first row of
# blocks, and why it ended: 0 at the end, 1 where a condition says so, 2 for a status. Then arrays of which a step reads
# a row, and those that take a row of each step.
#
# `self` is a bytes object: None, the places of the step's number and of a condition, or 0, and the lengths of five
# tables, which follow: what is read (place, bytes), given (place, bytes), put in place after the first step (place,
# source, bytes), and two rows of kernels (the place of their words, the team's entry or 0 where the kernel itself is
# called).


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


# The steps of a loop as one built-in function: two rows of launches that take turns, and copies between them.


def make_sweep_of(
    launches: Sequence[Callable[[], Any]],
    number: Array | None,
    condition: Array | None,
    reads: Sequence[Array],
    gives: Sequence[Array],
    ahead: Sequence[tuple[Array, Array]],
    at_once: int,
) -> Callable[..., Any] | None:
    """A function that runs steps by launches which take turns, as the kernel has it; None where one is no kernel's.

    A call of it runs up to `at_once` steps; where those take long there is no such function either.
    The arrays, and the launches, are to be kept for as long as it is called, by one thread at a time.
    """
    rows = [_kernels_of([launch]) for launch in launches]
    if not has_fast_address or None in rows:
        return None
    sizes = [sum(struct.unpack_from("q", own, 8 * (HEADER - 1))[0] for own in row or ()) for row in rows]
    if at_once * max(sizes) >= LONG:  # Ctrl-C is looked for between launches
        return None
    lengths = [len(table) for table in (reads, gives, ahead, *rows) if table is not None]
    words = [NO_STATUS, *(0 if array is None else numpy_address(array) for array in (number, condition)), *lengths]
    for array in (*reads, *gives):
        words += [numpy_address(array), array.nbytes]
    for array, kept in ahead:
        words += [numpy_address(array), numpy_address(kept), array.nbytes]
    for row in rows:
        for own in row or ():
            (size,) = struct.unpack_from("q", own, 8 * (HEADER - 1))
            words += [id(own) + BYTES_HEAD, 0 if size < SMALL else team.get_team().entry]
    return make_builtin(get_kernel("sweep", make_sweep).address, struct.pack(f"{len(words)}q", *words), METH_FASTCALL)


def _kernels_of(launches: Sequence[Callable[[], Any]]) -> list[bytes] | None:
    """The records of the kernels that launches run, in order; None where one does something else."""
    found = list[bytes]()
    for launch in launches:
        if (several := getattr(launch, "launches", None)) is not None:
            if (own := _kernels_of(several)) is None:
                return None
            found += own
            continue
        record = launch.__self__ if isinstance(launch, BuiltinFunctionType) else None
        if not isinstance(record, bytes):
            return None
        found.append(record)
    return found


# Steps again and again, in one call: `kernel(words, begin, end)` calls kernels in turn, and moves their words on.
#
# After the header: how often, how many steps, the words of all steps together, and what shares a kernel out among
# threads. Then for each step its kernel, its units, whether threads share them, how many words it has and how many of
# them move; those words; and of each that moves its place among them, in bytes, and by how much.


REPEAT = Layout("times", "count", "total", "share")
STEP = ("kernel", "units", "is_shared", "length", "moves")
MOST_WORDS = 4096
"""Of all steps: they lie on the stack, since others may be at the same work with the same words."""


def make_repeat() -> str:
    """The text of the kernel."""
    text = Steps()
    REPEAT.load(text)
    text.let("first", f"words + {8 * REPEAT.end}")
    text.room("own", MOST_WORDS)
    text.room("at", 2)  # of a step: its description, and its words on the stack
    _reset(text)
    with text.loop("step", 0, "count"):
        _read_step(text, "copied")
        with text.loop("word", 0, "copied_length"):
            text.read("copied_word", "copied_words + word * 8")
            text.put("copied_own + word * 8", "copied_word")
        _go_on(text, "copied")
    with text.loop("time", 0, "times"):
        _reset(text)
        with text.loop("turn", 0, "count"):
            _read_step(text, "run")
            with text.when("run_is_shared != 0"):
                text.invoke("share", "run_own")
            with text.when("run_is_shared == 0"):
                text.invoke("run_kernel", "run_own", 0, "run_units")
            with text.loop("move", 0, "run_moves"):
                text.let("pair", "run_words + (run_length + 2 * move) * 8")
                text.read("place", "pair")
                text.read("by", "pair + 8")
                text.read("old", "run_own + place")
                text.put("run_own + place", "old + by")
            _go_on(text, "run")
    text.add("ret i64 0")
    return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")


def _reset(text: Steps) -> None:
    """Turn to the first step."""
    text.put("at", "first")
    text.put("at + 8", "own")


def _read_step(text: Steps, name: str) -> None:
    """The facts of a step, and the place of its words: those given, and those on the stack."""
    text.read(f"{name}_at", "at")
    text.read(f"{name}_own", "at + 8")
    for i, part in enumerate(STEP):
        text.read(f"{name}_{part}", f"{name}_at + {8 * i}")
    text.let(f"{name}_words", f"{name}_at + {8 * len(STEP)}")


def _go_on(text: Steps, name: str) -> None:
    """Turn to the next step."""
    text.put("at", f"{name}_words + ({name}_length + 2 * {name}_moves) * 8")
    text.put("at + 8", f"{name}_own + {name}_length * 8")


# Repeats, planned: where every step is a kernel whose record moves on evenly, one kernel calls them all.


class _Step(NamedTuple):
    """A kernel that is run each time."""

    program: KernelProgram
    moves: Mapping[str, int]
    """The bytes that tensors move on by, by what the program calls them."""
    names: Mapping[str, str]
    """What the repeat calls tensors that the program calls otherwise."""

    def record(self, start: int) -> Record:
        """It as the kernel has it, from one of its times on."""
        program, header = self.program, self.program.header
        words, relocations = program.record
        moved = [
            one._replace(tensor=self.names.get(one.tensor, one.tensor), offset=one.offset + start * self.step(one))
            for one in relocations
        ]
        steps = [(8 * (HEADER + one.word), step) for one in relocations if (step := self.step(one))]
        own = Record.of(header, Record(words, tuple(moved)))
        is_shared = int(program.size >= SMALL)
        facts = (program.kernel.address, program.work_items, is_shared, len(own.words), len(steps))
        return Record.of(facts, own, (word for pair in steps for word in pair))

    def step(self, relocation: Relocation) -> int:
        """The bytes that an address moves on by."""
        return self.moves.get(relocation.tensor, 0)


class LoopProgram(RepeatProgram):
    """A repeat of which Python makes one call: LSTM of 100 steps has 200 kernels to run."""

    __slots__ = ()

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; where steps are more than kernels, or chosen by addresses, bind them for every time."""
        programs = self._programs()
        if not programs:
            return RepeatProgram.bind(self, places)
        if len(programs) == 1:
            return programs[0].bind(places)

        def run() -> None:
            for program in programs:
                program.bind(places)()

        return run

    def kernels(self, _places: Mapping[str, Place]) -> Sequence[KernelProgram] | None:
        """The kernels of a command list: one that calls all."""
        programs = self._programs()
        return programs if len(programs) == 1 else None

    def _programs(self) -> list[KernelProgram]:
        """A program for all times, or as many as Ctrl-C is looked for between; none where there cannot be."""
        steps = []
        for part in self.parts:
            program = part.program
            if not isinstance(program, KernelProgram) or program.alignment is not None:
                return []
            names = {name: tensor for name, (tensor, _) in part.moves.items()} | {**part.layouts}
            steps.append(_Step(program, {name: step for name, (_, step) in part.moves.items()}, names))
        largest, size = max(one.program.size for one in steps), sum(one.program.size for one in steps)
        total = sum(HEADER + len(one.program.record.words) for one in steps)
        is_large, is_long = largest >= SMALL, any(takes_long(one.program.work_items, one.program.size) for one in steps)
        if total > MOST_WORDS or is_long or (is_large and not team.is_available()):
            return []
        share = team.get_team().share if is_large else 0
        most = max((LONG - 1) // max(size, 1), 1)  # times in one call, between which Ctrl-C is looked for
        found = []
        for start in range(0, self.times, most):
            times = min(most, self.times - start)
            fields = REPEAT.write({"times": times, "count": len(steps), "total": total, "share": share})
            record = Record.of(fields, *(step.record(start) for step in steps))
            found.append(KernelProgram(get_kernel("repeat", make_repeat), record, 1, size * times))
        return found
