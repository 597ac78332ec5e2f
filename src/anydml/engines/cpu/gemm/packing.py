"""Packing of A and B into panels for the microkernel: rows side by side, step by step along K.

`kernel(source, row.step, step, rows, count, target)` lays out the element of row r and step k at target[k·pitch + r],
converted. Rows come by groups of `GROUP`; in the last group the last row stands for those that there are not: nobody
reads what is computed from them. Rows that lie side by side may be those of several whole panels, one after the other.

Rows whose steps lie side by side may be laid out in lines instead, which is a copy: `LINED` steps of each row, then as
many of each again, in target[k // LINED][r][k % LINED].

Of windows, which lie w, the steps are addresses of tables: of each row's distance from the source, and of each step's.

Floats and INT32 are packed step by step (`NumberPacker`); bytes K4, four steps at a time (`BytePacker`), as dot
instructions take them. Constants are packed before the first dispatch, by maps: `gemm/prepacked.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Function, transpose_four, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import FOUR, GROUP, LINED
from anydml.engines.cpu.quant.dot4 import widened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import K4Packing, Packing


SOURCES = {"f32": "float", "f16": "half", "i32": "i32"}


def _pieces(panel: int, lanes: int) -> Iterator[tuple[int, int]]:
    """A panel's rows in vectors, each half of a vector's where there are no more: the first row, and how many."""
    row = 0
    while row < panel:
        while lanes > panel - row:
            lanes //= 2
        yield row, lanes
        row += lanes


class Packer(ABC):
    """The text of a packer, by layout; the subclasses have it by type, and by how many steps are a group."""

    packing: Packing | K4Packing
    is_lined: bool
    """Whether rows are laid out in lines."""

    def __init__(self) -> None:
        self.f = Function("kernel", "source row_step step rows count target")
        self.base, self.row_step, self.step, self.rows, self.count, self.target = self.f.args

    def write(self) -> str:
        """All of it, by how elements lie."""
        f, packing = self.f, self.packing
        if self.is_lined:
            self.write_lines()
            return f.end()
        if packing.layout == "p" and self.takes_panels():  # along all panels: a row of the cache's lines is read once
            with f.when((self.rows % packing.panel).eq(0)):
                self.write_panels()
                f.ret()
        if packing.layout == "w":
            self.write_windows()
        else:
            self.write_groups()
        return f.end()

    @abstractmethod
    def write_lines(self) -> None:
        """Row by row, so many steps of each side by side."""

    @abstractmethod
    def write_panels(self) -> None:
        """Whole panels of rows that lie side by side, one after the other."""

    @abstractmethod
    def write_windows(self) -> None:
        """Windows, whose rows and steps tables say (implicit im2col)."""

    @abstractmethod
    def write_groups(self) -> None:
        """Rows by groups, wherever they lie."""

    def takes_panels(self) -> bool:
        """Whether whole panels are written at once."""
        return True

    def row(self, r: Value) -> Value:
        """Where a row begins."""
        return self.base + self.f.min(r, self.rows - 1) * self.row_step

    def distance(self, r: Value) -> Value:
        """A row's distance from the source, of windows."""
        return self.f.load("i64", self.row_step + self.f.min(r, self.rows - 1) * 8)

    def are_beside(self, far: list[Value], step: int = 1) -> Value:
        """Whether rows at some distances lie so many bytes apart, each from the one before."""
        test = far[1].eq(far[0] + step)
        for i, one in enumerate(far[2:], 2):
            test &= one.eq(far[0] + i * step)
        return test

    def gather(self, places: list[Value], kind: str) -> Value:
        """Elements that lie anywhere as a vector."""
        f = self.f
        value = f.value("poison", vector_of(len(places), kind))
        for i, place in enumerate(places):
            value = f.insert(value, f.load(kind, place, align=1), i)
        return value


class NumberPacker(Packer):
    """The text of a packer of floats and of INT32, step by step."""

    packing: Packing

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing, self.is_lined, self.source = packing, packing.layout == "l", SOURCES[packing.kind]
        self.width = 2 if packing.kind == "f16" else 4

    def write_panels(self) -> None:
        """Some steps of all panels at once."""
        f, packing, count = self.f, self.packing, self.count
        panel, steps = count * (4 * packing.pitch), figures().gemm.packed_steps
        deep = count - count % steps
        with f.loop(0, deep, steps) as k:
            self._write_steps(k, panel, steps)
        with f.loop(deep, count) as k:
            self._write_steps(k, panel, 1)

    def write_groups(self) -> None:
        """Four rows at once, some steps after the other where those lie side by side."""
        f, packing, count, span = self.f, self.packing, self.count, figures().gemm.packed_span
        with f.loop(0, count, span if packing.layout == "t" else f.max(count, 1)) as start:
            end = f.min(start + span, count) if packing.layout == "t" else count
            with f.loop(0, self.rows, GROUP) as r:
                self._write_group(r, start, end)

    def _write_steps(self, k: Value, panel: Value, depth: int) -> None:
        """Some steps of all panels: what is written to a panel fills lines of the cache."""
        f, packing = self.f, self.packing
        with f.loop(0, self.rows // packing.panel) as j:
            source = self.base + k * self.step + j * (self.width * packing.panel)
            target = self.target + k * (4 * packing.pitch) + j * panel
            for d in range(depth):
                if depth > 1:
                    f.prefetch(source + (d + 2 * depth) * self.step, cache=2)
                for r, lanes in _pieces(packing.panel, packing.lanes):
                    found = self._load(source + d * self.step + self.width * r, lanes)
                    self._store(found, target + 4 * (packing.pitch * d + r))

    def _write_group(self, r: Value, start: Value, end: Value) -> None:
        """Some rows, along the steps from one on to another."""
        f, packing, count = self.f, self.packing, self.count
        to, pitch, whole = self.target + r * 4, 4 * packing.pitch, f.value(0, "i64")
        rows = [self.row(r + i) for i in range(GROUP)]
        if packing.layout == "p":  # by vectors along rows, which must be there
            whole = f.select(r + GROUP <= self.rows, count, 0)
            with f.loop(0, whole) as q:
                self._store(self._load(rows[0] + q * self.step, GROUP), to + q * pitch)
        if packing.layout == "t":  # or along steps
            whole = count - count % GROUP
            with f.loop(start, f.min(end, whole), GROUP) as q:
                # The next panel's rows, a line of one of them at a time.
                far = r + packing.panel + q // GROUP % GROUP
                f.prefetch(self.base + far * self.row_step + q * self.width)
                found = [self._load(row + q * self.width, GROUP) for row in rows]
                for i, column in enumerate(transpose_four(f, found)):
                    self._store(column, to + q * pitch + pitch * i)
        with f.loop(f.max(start, whole), end) as k:
            self._store(self._gather([row + k * self.step for row in rows]), to + k * pitch)

    def write_lines(self) -> None:
        """Row by row. Tiles have those of the next panel fetched meanwhile."""
        f, lanes, width, count = self.f, self.packing.lanes, self.width, self.count
        line, whole = self.rows * (4 * LINED), count - count % LINED
        with f.loop(0, self.rows) as r:
            row, to = self.base + r * self.row_step, self.target + r * (4 * LINED)
            with f.loop(0, whole, LINED) as q:
                for first in range(0, LINED, lanes):
                    found = self._load(row + q * width + width * first, lanes)
                    self._store(found, to + q // LINED * line + 4 * first)
            with f.loop(whole, count) as k:
                self._store(self._load(row + k * width, 1), to + whole // LINED * line + (k - whole) * 4)

    def write_windows(self) -> None:
        """A vector of rows at once where there are no more than two runs of them; by fours where there are."""
        f, lanes, width = self.f, self.packing.lanes, self.width
        if lanes == GROUP:
            self._write_groups(f.value(0, "i64"), self.rows)
            return
        with f.loop(0, self.rows, lanes) as w:
            starts = [self.distance(w + i) for i in range(lanes)]
            # Rows before which a run ends, the first of them and the last.
            first, last = f.value(lanes, "i64"), f.value(0, "i64")
            for up in range(1, lanes):
                down = lanes - up
                first = f.select(starts[down].ne(starts[down - 1] + width), down, first)
                last = f.select(starts[up].ne(starts[up - 1] + width), up, last)
            are_there = w + lanes <= self.rows
            is_one, is_two = are_there & first.eq(lanes), are_there & first.eq(last)
            is_other = are_there
            for i in range(1, lanes):
                is_other = is_other & starts[i].eq(starts[0] + 2 * i * width)
            to, row = self.target + w * 4, self.base + starts[0]
            with f.when(is_one):
                self._put_steps(to, lambda far: self._load(row + far, lanes))
            with f.when(is_other):
                self._put_steps(to, lambda far: self._every_other(row + far))
            is_done = is_one | is_other
            if width == 4:
                is_done = is_done | is_two
                with f.when(is_two):
                    self._write_two_runs(w, first, to, row)
            self._write_groups(w, f.select(is_done, w, f.min(w + lanes, self.rows)))

    def _put_steps(self, to: Value, take: Callable[[Value], Value]) -> None:
        """All steps of a vector of rows, each some bytes on."""
        with self.f.loop(0, self.count) as q:
            far = self.f.load("i64", self.step + q * 8)
            self._store(take(far), to + q * (4 * self.packing.pitch))

    def _every_other(self, at: Value) -> Value:
        """A vector of every other element; the one after the last may not be there."""
        lanes = self.packing.lanes
        low, high = (self._load(at + self.width * first, lanes) for first in (0, lanes - 1))
        return self.f.every_other(low, high)

    def _write_two_runs(self, w: Value, first: Value, to: Value, row: Value) -> None:
        """A vector of rows, some of one run and the others of the next: each is read where its elements are."""
        f, lanes = self.f, self.packing.lanes
        start = f.load("i64", self.row_step + (w + first) * 8)
        other, own = self.base + start - first * self.width, f.tail_mask(first, lanes)
        vector = vector_of(lanes, self.source)

        def take(far: Value) -> Value:
            one = f.load(vector, row + far, align=1, mask=own)
            return f.load(vector, other + far, align=1, mask=~own, otherwise=one)

        self._put_steps(to, take)

    def _write_groups(self, start: Value, stop: Value) -> None:
        """Four rows at once, which lie side by side but where a line of windows ends, or they are strides apart."""
        f, pitch = self.f, 4 * self.packing.pitch
        with f.loop(start, stop, GROUP) as r:
            to = self.target + r * 4
            far = [self.distance(r + i) for i in range(GROUP)]
            rows = [self.base + one for one in far]
            with f.either(self.are_beside(far, self.width)) as (beside, apart):
                with beside, f.loop(0, self.count) as q:
                    on = f.load("i64", self.step + q * 8)
                    self._store(self._load(rows[0] + on, GROUP), to + q * pitch)
                with apart, f.loop(0, self.count) as q:
                    on = f.load("i64", self.step + q * 8)
                    self._store(self._gather([row + on for row in rows]), to + q * pitch)

    def _gather(self, places: list[Value]) -> Value:
        """Elements that lie anywhere as a vector, converted."""
        return self._widen(self.gather(places, self.source))

    def _load(self, at: Value, lanes: int) -> Value:
        return self._widen(self.f.load(vector_of(lanes, self.source), at, align=1))

    def _widen(self, value: Value) -> Value:
        return self.f.cast("fpext", value, "float") if self.source == "half" else value

    def _store(self, value: Value, at: Value) -> None:
        self.f.store(value, at, align=4)


# K4 packing: bytes, four steps of K to a 32-bit lane, as `quant/dot4.py` multiplies them.
#
# A packed step is four steps side by side, 0 where there are no more: the step of a tile, whose elements have 32 bits.
# Where products of 16 bits are added up, of the left factor there are the first and third bytes of all rows as such,
# then the others. For matrix registers it lies in lines, 64 bytes of each row.


FOUR_ROWS = vector_of(GROUP, "i32")
"""Four steps of each of four rows."""


class BytePacker(Packer):
    """The text of a packer of bytes, K4."""

    packing: K4Packing

    def __init__(self, packing: K4Packing) -> None:
        super().__init__()
        self.packing, self.is_lined = packing, packing.is_lined

    def write(self) -> str:
        """All of it, zeros past the end of the steps first."""
        if self.packing.filled > FOUR and not self.is_lined:
            self._fill()
        return super().write()

    def takes_panels(self) -> bool:
        """Whether four rows at once fill a panel."""
        return self.packing.panel % GROUP == 0

    def write_groups(self) -> None:
        """Four rows at once, by sixteen steps where those lie side by side."""
        f, packing, group = self.f, self.packing, self.packing.group
        whole, most = self.count - self.count % FOUR, f.value(0, "i64")
        with f.loop(0, self.rows, GROUP) as r:
            rows, to = [self.row(r + i) for i in range(GROUP)], self.target + r * 4
            if packing.layout == "t":
                most = self.count - self.count % (FOUR * GROUP)
                with f.loop(0, most, FOUR * GROUP) as q:
                    found = [f.load(FOUR_ROWS, row + q, align=1) for row in rows]
                    for i, column in enumerate(f.transpose(found)):
                        self._put(column, to + (q // FOUR + i) * group)
            with f.loop(most, whole, FOUR) as k:
                places = [row + (k + j) * self.step for row in rows for j in range(FOUR)]
                self._put(self._gather(places), to + k // FOUR * group)
            with f.when(whole < self.count):
                last = self.count - 1
                places = [row + f.min(whole + j, last) * self.step for row in rows for j in range(FOUR)]
                self._put(self._gather(places), to + whole // FOUR * group, self._mask(whole))

    # Bytes of rows, four steps of each

    def _mask(self, whole: Value) -> Value:
        """The bytes of the steps that are left: whatever lies past the end is 0."""
        f = self.f
        bits = (f.value(1, "i64") << (self.count - whole) * 8) - 1
        return f.splat(f.cast("trunc", bits, "i32"), GROUP)

    def _put(self, value: Value, to: Value, mask: Value | None = None) -> None:
        """Write four bytes of each of four rows, with the sign that they are multiplied with."""
        f, packing = self.f, self.packing
        value = self._flip(value)
        value = value if mask is None else value & mask
        parts = widened(f, value, is_signed=packing.is_signed) if packing.is_wide else (value,)
        for i, part in enumerate(parts):
            f.store(part, to + 4 * packing.pitch * i)

    def _flip(self, value: Value) -> Value:
        """Bytes with the other sign, where they are multiplied so."""
        return value ^ -0x7F7F7F80 if self.packing.flips else value

    def _gather(self, places: list[Value]) -> Value:
        """Four steps of four rows, a byte at a time."""
        return self.f.bitcast(self.gather(places, "i8"), FOUR_ROWS)

    def _beside(self, lines: list[Value], count: int, step: int = 1) -> list[Value]:
        """Four steps of four or eight rows that lie side by side, or two bytes from each other, by four rows."""
        f, kind = self.f, vector_of(count, "i8")
        if count == GROUP and step == 1:  # in the low half of a vector of eight, or LLVM widens bytes first
            low = [f.load("i32", line, align=1) for line in lines]
            steps = [f.bitcast(f.insert(f.value("poison", "<2 x i32>"), one, 0), "<8 x i8>") for one in low]
        else:
            steps = [f.load(kind, line) for line in lines]
        if step == 2:  # nothing is read past the last of them
            ends = [f.load(kind, line + (count - 1)) for line in lines]
            steps = [f.every_other(a, b) for a, b in zip(steps, ends, strict=True)]
        pairs = [f.bitcast(self._zip(a, b, range(count)), vector_of(count, "i16")) for a, b in (steps[:2], steps[2:])]
        return [
            f.bitcast(self._zip(pairs[0], pairs[1], range(first, first + GROUP)), FOUR_ROWS)
            for first in range(0, count, GROUP)
        ]

    def _zip(self, a: Value, b: Value, lanes: range) -> Value:
        """Lanes of two vectors in turns."""
        return self.f.shuffle(a, b, [lane for k in lanes for lane in (k, k + a.lanes)])

    # Layouts

    def _steps(self) -> Value:
        """The packed steps of a panel."""
        filled = self.packing.filled
        return (self.count + (filled - 1)) // filled * (filled // FOUR)

    def _fill(self) -> None:
        """Zeros in the packed steps of all panels that there are no bytes for."""
        f, packing, steps = self.f, self.packing, self._steps()
        with (
            f.loop(0, (self.rows + (packing.panel - 1)) // packing.panel) as n,
            f.loop((self.count + (FOUR - 1)) // FOUR, steps) as k,
            f.loop(0, packing.group, 8) as c,
        ):
            f.store(0, self.target + (n * steps + k) * packing.group + c)

    def write_lines(self) -> None:
        """Row by row, in lines of 64 bytes; past the end of the steps lies 0."""
        f, packing, line = self.f, self.packing, self.packing.filled
        whole, octets, words = self.count - self.count % line, vector_of(line, "i8"), vector_of(line // 4, "i32")

        def put_byte(source: Value, to: Value) -> None:
            byte = f.load("i8", source)
            f.store(byte ^ -128 if packing.flips else byte, to)

        with f.loop(0, self.rows) as r:
            row, to = self.base + r * self.row_step, self.target + r * line
            last = to + whole * packing.pitch
            if packing.layout == "t":
                with f.loop(0, whole, line) as q:
                    f.store(self._flip(f.load(words, row + q, align=1)), to + q * packing.pitch)
            else:
                with f.loop(0, whole) as k:
                    put_byte(row + k * self.step, to + k // line * (line * packing.pitch) + k % line)
            with f.when(whole < self.count):
                f.store(f.zero(octets), last, align=4)
                with f.loop(whole, self.count) as k:
                    put_byte(row + k * self.step, last + (k - whole))

    def write_panels(self) -> None:
        """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
        f, packing = self.f, self.packing
        panel, deep = self._steps() * packing.group, self.count - self.count % FOUR

        def write(k: Value, mask: Value | None = None) -> None:
            lines = [self.base + f.min(k + j, self.count - 1) * self.step for j in range(FOUR)]
            to = self.target + k * (packing.group // FOUR)
            with f.loop(0, self.rows // packing.panel) as p:
                for first in range(0, packing.panel, 2 * GROUP):
                    places = [line + p * packing.panel + first for line in lines]
                    for i, value in enumerate(self._beside(places, min(2 * GROUP, packing.panel - first))):
                        self._put(value, to + p * panel + 4 * (first + GROUP * i), mask)

        with f.loop(0, deep, FOUR) as k:
            write(k)
        with f.when(deep < self.count):
            write(deep, self._mask(deep))

    def write_windows(self) -> None:
        """Eight rows at once where they lie side by side or every other one does, otherwise four, anywhere.

        7 x 7 by 2 of 224 x 224 pixels of 3 bytes, by 64 filters, take 2.55 ms so, and 2.94 where each byte is read for
        itself (one thread of an Arm Neoverse-N1).
        """
        f, panel = self.f, self.packing.panel

        if 2 * GROUP < panel <= 4 * GROUP and panel % GROUP == 0:
            far = [self.distance(f.value(i, "i64")) for i in range(panel)]
            with f.when(self.rows.eq(panel) & self.are_beside(far)):
                self._write_rows(far, self.target, 1)
                f.ret()
        with f.loop(0, self.rows, 2 * GROUP) as r:
            far, to = [self.distance(r + i) for i in range(2 * GROUP)], self.target + r * 4
            are_one, are_other = self.are_beside(far), self.are_beside(far, 2)
            with f.when(are_one):
                self._write_rows(far, to, 1)
            with f.when(are_other):
                self._write_rows(far, to, 2)
            for first in (0, GROUP):
                four = far[first : first + GROUP]
                is_left = ~(are_one | are_other) & (r + first < self.rows)
                with f.when(is_left), f.either(self.are_beside(four)) as (beside, apart):
                    with beside:
                        self._write_rows(four, to + 4 * first, 1)
                    with apart:
                        self._write_rows(four, to + 4 * first, 0)

    def _write_rows(self, far: list[Value], to: Value, step: int) -> None:
        """All steps of some rows, so many bytes from each other, or 0 where they lie at any distances."""
        f, count = self.f, len(far)
        whole = self.count - self.count % FOUR

        def write(k: Value, mask: Value | None = None) -> None:
            on = [j if mask is None else f.min(j, self.count - 1 - k) for j in range(FOUR)]
            lines = [self.base + f.load("i64", self.step + (k + j) * 8) for j in on]
            if not step:
                made = [self._gather([line + one for one in far for line in lines])]
            else:
                made = [
                    value
                    for first in range(0, count, 2 * GROUP)
                    for value in self._beside(
                        [line + far[0] + first * step for line in lines], min(2 * GROUP, count - first), step
                    )
                ]
            for i, value in enumerate(made):
                self._put(value, to + 4 * GROUP * i + k * (self.packing.group // FOUR), mask)

        with f.loop(0, whole, FOUR) as k:
            write(k)
        with f.when(whole < self.count):
            write(whole, self._mask(whole))
