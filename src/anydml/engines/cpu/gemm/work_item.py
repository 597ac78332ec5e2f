"""Work items of GEMM, direct and depthwise convolution, attention and products with 4- and 8-bit weights: the records
that planners write, with a section for each factor and the result, and what all these kernels have in common. Each
reads its record, takes a scratch, finds a work item's place in the batch, and has rows of maps computed: prologue
fusion, where those are rows of an operand that is packed then.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.codegen.function import Function, link
from anydml.engines.cpu.kernel import Address
from anydml.engines.cpu.launch.record import Pointer, Record
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.engines.cpu.threads.scratch import get_scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Operand, Value
    from anydml.engines.cpu.launch.record import Layout
    from anydml.ir.contraction import StridedOperand


# Records, as planners write them: fields, sections of factors and results, and tables.


Section = Record
"""What a kernel knows of a factor or of the result: the address of a row's kernel, how many views and numbers there
are, the views' addresses, their steps, the numbers, the views' strides across, and those of each dimension of the
batch."""


def section_of(
    kernel: int, views: Sequence[StridedOperand], steps: Sequence[int], numbers: Sequence[int], across: Sequence[int],
    batch: Iterable[int],
) -> Section:  # fmt: skip
    """A section; `batch` are the dimensions of the batch."""
    strides = [view.strides[k] if view.strides else 0 for k in batch for view in views]
    pointers = [Pointer(view.tensor, view.offset) for view in views]
    return Record.of((kernel, len(views), len(numbers)), pointers, steps, numbers, across, strides)


def record_of(
    layout: Layout, fields: Mapping[str, int], batch: Sequence[int], sections: Mapping[str, Section]
) -> Record:
    """A record of fields, the sizes of the batch, and sections, of which `NAME_at` is told: the words they begin at."""
    at, places = layout.end + len(batch), dict[str, int]()
    for name, section in sections.items():
        places[f"{name}_at"] = at
        at += len(section.words)
    scratch = get_scratch()
    own = {"slots": scratch.address, "slot_count": scratch.number, "rank": len(batch), **places}
    return Record.of(layout.write({**own, **fields}), batch, *sections.values())


@functools.cache  # a kernel may read a table as long as its program is bound somewhere
def distances(sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The distance from the first of each element, in the order of the dimensions."""
    found = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found


def place_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Address:
    """Where a table of distances lies."""
    return Address.of(distances(sizes, strides).ctypes.data, place_of, sizes, strides)


@functools.cache  # as above
def pieces(
    sizes: tuple[int, ...], strides: tuple[int, ...], length: int, chain: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A table of runs of memory, of which none is longer than a chain, and whether sums are put down after each."""
    found: list[tuple[int, int, int]] = []
    run = 0
    for far in distances(sizes, strides).tolist():
        for first in range(0, length, chain):
            steps = min(chain, length - first)
            if run + steps > chain:
                found[-1] = (*found[-1][:2], 1)
                run = 0
            run += steps
            found.append((far + 4 * first, steps, 0))
    return np.array([len(found), *(number for piece in found for number in piece)], np.int64)


def place_of_pieces(sizes: tuple[int, ...], strides: tuple[int, ...], length: int, chain: int) -> Address:
    """Where a table of pieces lies."""
    where = pieces(sizes, strides, length, chain).ctypes.data
    return Address.of(where, place_of_pieces, sizes, strides, length, chain)


# The same, as kernels read them.


class SectionText:
    """A factor or the result as a kernel reads it: the words of its section, and where its views begin."""

    def __init__(self, f: Function, at: Value, bases: Value | None = None) -> None:
        self.f, self.at = f, at
        self.kernel, self.views, self.numbers = (f.load("i64", at + 8 * k) for k in range(3))
        self.words = at + 24
        self.steps = self.words + self.views * 8
        self.across = self.steps + (self.views + self.numbers) * 8
        self.bases = stack_words(f, VIEWS) if bases is None else bases

    def base(self, v: Value | int = 0) -> Value:
        """Where a view begins, at the place in the batch."""
        return self.f.load("i64", self.bases + v * 8)

    def step(self, v: Value | int = 0) -> Value:
        """Bytes from an element of a view's row to the next."""
        return self.f.load("i64", self.steps + v * 8)

    def on(self, v: Value | int = 0) -> Value:
        """Bytes from a row of a view to the next."""
        return self.f.load("i64", self.across + v * 8)

    def find_row(self, places: Value, row: Value, start: Value) -> None:
        """Put down where each view's row begins, from an element on."""
        with self.f.loop(0, self.views) as v:
            self.f.store(self.base(v) + row * self.on(v) + start * self.step(v), places + v * 8)

    def run_row(self, places: Value, count: Value) -> None:
        """Have a row of the map computed."""
        self.f.invoke(self.kernel, self.words, places, count)


def stack_words(f: Function, count: int) -> Value:
    """The address of some words on the stack."""
    return f.address(f.stack("i64", count))


def make_stage() -> str:
    """Some rows of a map, of which the view `own` lies in the scratch."""
    f = Function("stage", "section bases first start rows count own memory pitch", "private void")
    at, bases, first, start, rows, count, own, memory, pitch = f.args
    section, places = SectionText(f, at, bases), stack_words(f, VIEWS)
    with f.loop(0, rows) as r:
        section.find_row(places, first + r, start)
        f.store(memory + r * pitch, places + own * 8)
        section.run_row(places, count)
    return f.end()


def make_bases() -> str:
    """Where the views of a section begin for a place in the batch, which is given by its coordinates."""
    f = Function("bases", "section rank places bases", "private void")
    at, rank, places, bases = f.args
    section = SectionText(f, at, bases)
    strides = section.across + section.views * 8
    with f.loop(0, section.views) as v:
        base = [f.load("i64", section.words + v * 8)]
        with f.loop(0, rank, carry=base) as d:
            base[0] += f.load("i64", places + d * 8) * f.load("i64", strides + (d * section.views + v) * 8)
        f.store(base[0], bases + v * 8)
    return f.end()


class WorkItems:
    """`kernel(words, begin, end)`: fields of the record by their names, the sections, a scratch, and the batch."""

    def __init__(self, layout: Layout, sections: Sequence[str]) -> None:
        self.f, self.layout = Function("kernel", "words begin end", "i64"), layout
        self.words, self.begin, self.end = self.f.args
        self.of = layout.loaded(self.f, self.words)
        self.sections = {name: SectionText(self.f, self.words + vars(self.of)[f"{name}_at"] * 8) for name in sections}
        self.places = stack_words(self.f, VIEWS)

    def take_scratch(self, size: int) -> Value:
        """Take a scratch that is free; there are at least as many as threads, but threads may come from elsewhere."""
        slots: Value = self.of.slots
        f, turn = self.f, [self.f.value(0, "i64")]
        with f.forever(carry=turn):
            self.scratch = slots + turn[0] * size
            f.leave_if(f.compare_exchange(self.scratch, 0, 1))
            f.pause()
            turn[0] = f.select(turn[0] + 1 < self.of.slot_count, turn[0] + 1, 0)
        return self.scratch

    @contextlib.contextmanager
    def each(self) -> Iterator[Value]:
        """The numbers of the work items; after the last one the scratch is given back."""
        with self.f.loop(self.begin, self.end) as unit:
            yield unit
        self.f.store(0, self.scratch, atomic="release")

    def find_place(self, number: Value) -> None:
        """Where a number is in the batch: its coordinates, in the words `places`; the first takes no division."""
        f, rank, left = self.f, self.of.rank, [number]
        with f.loop(1, rank, carry=left) as e:
            d = rank - e
            size = f.load("i64", self.words + (d + self.layout.end) * 8)
            f.store(left[0] % size, self.places + d * 8)
            left[0] //= size
        f.store(left[0], self.places)

    def find_bases(self, *sections: str) -> None:
        """Where the views of sections begin, at the place in the batch."""
        for section in (self.sections[name] for name in sections):
            self.f.invoke("@bases", section.at, self.of.rank, self.places, section.bases)

    def stage(
        self, name: str, first: Operand, start: Operand, rows: Operand, count: Operand, memory: Value, pitch: Operand
    ) -> None:  # fmt: skip
        """Have some rows of a section computed, which lie in the scratch: a factor's last view, or the result's first.

        They are `count` elements long from `start` on, and `pitch` bytes apart.
        """
        section = self.sections[name]
        own = self.f.value(0, "i64") if name == "result" else section.views - 1
        self.f.invoke("@stage", section.at, section.bases, first, start, rows, count, own, memory, pitch)

    def text(self, *functions: str) -> str:
        """The kernel, with functions that it calls."""
        return link(*functions, make_bases(), self.f.end(0))
