"""Command lists that repeat: the steps of a recurrent or ONNX loop in one call, their records moved on each time."""

from __future__ import annotations

import contextlib
import struct
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.memory import has_fast_address, numpy_address
from anydml.engines.common.repeat import RepeatProgram
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.codegen.function import Function, Value
from anydml.engines.cpu.launch.call import LONG, METH_FASTCALL, NO_STATUS, SMALL, make_builtin, takes_long
from anydml.engines.cpu.launch.commands import array_at, call_kernel, give
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import BYTES_HEAD, CALL, HEADER, WORD, Layout, Record, count_reference
from anydml.engines.cpu.threads import team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from anydml.engines.common.program import Place
    from anydml.engines.cpu.codegen.function import Operand
    from anydml.engines.cpu.launch.record import Relocation

    Array = np.ndarray[Any, Any]

# Steps of a loop in one call: what each reads is put in its place, kernels run, and what they give is put in a row.
#
# `kernel(self, arrays, count)` is a built-in function's. The first array is the state, of whole numbers; then come
# arrays of which a step reads a row, and those that take a row of each step. `self` is a bytes object, of what is the
# same at all steps, and its tables.


TABLES = {
    "reads": Layout("place", "size", header=0),
    "gives": Layout("place", "size", header=0),
    "ahead": Layout("place", "source", "size", header=0),
    "there": Layout("record", "team", header=0),
    "back": Layout("record", "team", header=0),
}
"""What is read and given by a step, what is put in place after the first, and two rows of kernels that take turns: the
place of a record, and the team's entry, or 0 where the kernel itself is called."""
SWEEP = Layout("none", "number", "condition", *TABLES, header=0)
"""None, the places of the step's number and of a condition, or 0, and the lengths of the tables, which follow."""
STATE = Layout("at", "end", "turn", "is_begun", "first", "ended", header=0)
"""The next step, the end, whether the second row of kernels is next, whether a step was done before, the step of the
first row of blocks, and why it ended: 0 at the end, 1 where a condition says so, 2 for a status."""
BY_CONDITION, BY_STATUS = 1, 2


class _Sweep:
    """The text of the kernel."""

    def __init__(self) -> None:
        self.f = f = Function("kernel", "self arrays count", "i64")
        own, self.arrays, _ = f.args
        self.own = SWEEP.loaded(f, own + BYTES_HEAD)
        self.tables, at = dict[str, Value](), own + (BYTES_HEAD + WORD * SWEEP.end)
        for name, row in TABLES.items():
            self.tables[name] = at
            at += self.count(name) * (WORD * row.end)
        self.state = array_at(f, self.arrays)

    def write(self) -> str:
        """All of it."""
        f, own = self.f, self.own
        state = STATE.loaded(f, self.state, "at", "end", "first")
        with f.loop(state.at, state.end) as step:
            with f.when(own.number.ne(0)):
                f.store(step, own.number)
            with f.loop(0, own.reads) as i:
                row = self.row("reads", i)
                self.copy(row.place, array_at(f, self.arrays + (i + 1) * WORD) + step * row.size, row.size)
            self.run()
            with f.when(self.read("is_begun").eq(0)):
                with f.loop(0, own.ahead) as i:
                    row = self.row("ahead", i)
                    self.copy(row.place, row.source, row.size)
                self.set("is_begun", 1)
            with f.loop(0, own.gives) as i:
                row = self.row("gives", i)
                given = array_at(f, self.arrays + (own.reads + i + 1) * WORD) + (step - state.first) * row.size
                self.copy(given, row.place, row.size)
            self.set("at", step + 1)
            with f.when(own.condition.ne(0)), f.when(f.load("i8", own.condition).eq(0)):
                self.end(BY_CONDITION)
        give(f, own.none)
        return f.end()

    def count(self, table: str) -> Value:
        found: Value = getattr(self.own, table)
        return found

    def row(self, table: str, number: Value) -> Any:
        layout = TABLES[table]
        return layout.loaded(self.f, self.tables[table] + number * (WORD * layout.end))

    def read(self, name: str) -> Value:
        return self.f.load("i64", self.state + STATE.at(name))

    def set(self, name: str, value: Operand) -> None:
        self.f.store(value, self.state + STATE.at(name))

    def run(self) -> None:
        """Run the kernels whose turn it is."""
        f, turn = self.f, self.read("turn")
        number = f.select(turn.ne(0), self.own.back, self.own.there)
        first, layout = f.select(turn.ne(0), self.tables["back"], self.tables["there"]), TABLES["back"]
        with f.loop(0, number) as i:
            one = layout.loaded(f, first + i * (WORD * layout.end))
            with f.either(one.team.eq(0)) as (alone, shared):
                with alone, f.when(call_kernel(f, one.record).ne(0)):
                    self.end(BY_STATUS)
                with shared:
                    found = f.invoke(one.team, one.record - BYTES_HEAD, 0, result="i64")
                    with f.when(found.eq(0)):  # an exception of Python's
                        f.ret(found)
                    count_reference(f, found, -1)
                    with f.when(found.ne(self.own.none)):
                        self.end(BY_STATUS)
        self.set("turn", 1 - turn)

    def end(self, why: int) -> None:
        self.set("ended", why)
        give(self.f, self.own.none)

    def copy(self, to: Value, source: Value, size: Value) -> None:
        """Copy bytes, wherever they lie, by words and the rest one by one."""
        f, whole = self.f, size // WORD * WORD
        for kind, first, last, width in (("i64", f.value(0, "i64"), whole, WORD), ("i8", whole, size, 1)):
            with f.loop(first, last, width) as i:
                f.store(f.load(kind, source + i, align=1), to + i, align=1)
                f.barrier()  # or LLVM calls memcpy, which kernels have not


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
    sizes = [sum(_size_of(own) for own in row or ()) for row in rows]
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
            words += [id(own) + BYTES_HEAD, 0 if _size_of(own) < SMALL else team.get_team().entry]
    return make_builtin(kernel_for("sweep", _Sweep).address, struct.pack(f"{len(words)}q", *words), METH_FASTCALL)


def _size_of(record: bytes) -> int:
    (size,) = struct.unpack_from("q", record, CALL.at("size"))
    return int(size)


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


REPEAT = Layout("times", "count", "total", "share")
"""How often, how many steps, the words of all steps together, and what shares a kernel out among threads."""
STEP = Layout("kernel", "units", "is_shared", "length", "moves", header=0)
"""Of each step its kernel, its units, whether threads share them, how many words it has and how many of them move;
those words follow; and of each that moves its place among them, in bytes, and by how much."""
MOVE = Layout("place", "by", header=0)
MOST_WORDS = 4096
"""Of all steps: they lie on the stack, since others may be at the same work with the same words."""


def make_repeat() -> str:
    """The text of the kernel."""
    f = Function("kernel", "words begin end", "i64")
    words, _, _ = f.args
    repeat, stack = REPEAT.loaded(f, words), f.address(f.stack("i64", MOST_WORDS))

    @contextlib.contextmanager
    def each() -> Iterator[tuple[Any, Value, Value]]:
        """Each step, with its words as they are given and on the stack."""
        at = [words + WORD * REPEAT.end, stack]
        with f.loop(0, repeat.count, carry=at):
            step, given, own = STEP.loaded(f, at[0]), at[0] + WORD * STEP.end, at[1]
            yield step, given, own
            at[:] = given + (step.length + step.moves * MOVE.end) * WORD, own + step.length * WORD

    with each() as (step, given, own), f.loop(0, step.length) as i:
        f.store(f.load("i64", given + i * WORD), own + i * WORD)
    with f.loop(0, repeat.times), each() as (step, given, own):
        with f.either(step.is_shared.ne(0)) as (shared, alone):
            with shared:
                f.invoke(repeat.share, own)
            with alone:
                f.invoke(step.kernel, own, 0, step.units)
        with f.loop(0, step.moves) as i:
            move = MOVE.loaded(f, given + (step.length + i * MOVE.end) * WORD)
            f.store(f.load("i64", own + move.place) + move.by, own + move.place)
    return f.end(0)


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
        facts = STEP.write({
            "kernel": program.kernel.address, "units": program.work_items, "is_shared": is_shared,
            "length": len(own.words), "moves": len(steps),
        })  # fmt: skip
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
            found.append(KernelProgram(kernel_for("repeat", make_repeat), record, 1, size * times))
        return found
