"""Packing of A and B into panels for the microkernel: rows side by side, step by step along K.

`kernel(source, row.step, step, rows, count, target)` lays out the element of row r and step k at target[k·pitch + r],
converted. Rows come by groups of `GROUP`; in the last group the last row stands for those that there are not: nobody
reads what is computed from them. Rows that lie side by side may be those of several whole panels, one after the other.

Rows whose steps lie side by side may be laid out in lines instead, which is a copy: `LINED` steps of each row, then as
many of each again, in target[k // LINED][r][k % LINED].

Of windows, which lie w, the steps are addresses of tables: of each row's distance from the source, and of each step's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Function, transpose_four, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import GROUP, LINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import Packing


SOURCES = {"f32": "float", "f16": "half", "i32": "i32"}


def _pieces(panel: int, lanes: int) -> Iterator[tuple[int, int]]:
    """A panel's rows in vectors, each half of a vector's where there are no more: the first row, and how many."""
    row = 0
    while row < panel:
        while lanes > panel - row:
            lanes //= 2
        yield row, lanes
        row += lanes


class Packer:
    """What packers share, those of bytes too: the last row stands for those that there are not."""

    def __init__(self) -> None:
        self.f = Function("kernel", "source row_step step rows count target")
        self.base, self.row_step, self.step, self.rows, self.count, self.target = self.f.args

    def row(self, r: Value) -> Value:
        """Where a row begins."""
        return self.base + self.f.min(r, self.rows - 1) * self.row_step

    def distance(self, r: Value) -> Value:
        """A row's distance from the source, of windows."""
        return self.f.load("i64", self.row_step + self.f.min(r, self.rows - 1) * 8)


class Pack(Packer):
    """The text of a packer of numbers."""

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing, self.source = packing, SOURCES[packing.kind]
        self.width = 2 if packing.kind == "f16" else 4

    def write(self) -> str:
        """All of it, by how elements lie."""
        f, packing, count = self.f, self.packing, self.count
        if packing.lie == "w":
            self._write_windows()
            return f.end()
        if packing.lie == "l":
            self._write_lines()
            return f.end()
        if packing.lie == "p":  # along all panels: a row of the cache's lines is read once
            with f.when((self.rows % packing.panel).eq(0)):
                panel, steps = count * (4 * packing.pitch), figures().gemm.packed_steps
                deep = count - count % steps
                with f.loop(0, deep, steps) as k:
                    self._write_panels(k, panel, steps)
                with f.loop(deep, count) as k:
                    self._write_panels(k, panel, 1)
                f.ret()
        span = figures().gemm.packed_span
        with f.loop(0, count, span if packing.lie == "t" else f.max(count, 1)) as start:
            end = f.min(start + span, count) if packing.lie == "t" else count
            with f.loop(0, self.rows, GROUP) as r:
                self._write_group(r, start, end)
        return f.end()

    def _write_panels(self, k: Value, panel: Value, depth: int) -> None:
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
        if packing.lie == "p":  # by vectors along rows, which must be there
            whole = f.select(r + GROUP <= self.rows, count, 0)
            with f.loop(0, whole) as q:
                self._store(self._load(rows[0] + q * self.step, GROUP), to + q * pitch)
        if packing.lie == "t":  # or along steps
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

    def _write_lines(self) -> None:
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

    def _write_windows(self) -> None:
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
            rows, are_beside = ([self.base + one for one in far], far[1].eq(far[0] + self.width))
            for i in range(2, GROUP):
                are_beside = are_beside & far[i].eq(far[0] + i * self.width)
            with f.either(are_beside) as (beside, apart):
                with beside, f.loop(0, self.count) as q:
                    on = f.load("i64", self.step + q * 8)
                    self._store(self._load(rows[0] + on, GROUP), to + q * pitch)
                with apart, f.loop(0, self.count) as q:
                    on = f.load("i64", self.step + q * 8)
                    self._store(self._gather([row + on for row in rows]), to + q * pitch)

    def _gather(self, places: list[Value]) -> Value:
        """Elements that lie anywhere as a vector, converted."""
        f = self.f
        value = f.value("poison", vector_of(len(places), self.source))
        for i, place in enumerate(places):
            value = f.insert(value, f.load(self.source, place, align=1), i)
        return self._widen(value)

    def _load(self, at: Value, lanes: int) -> Value:
        return self._widen(self.f.load(vector_of(lanes, self.source), at, align=1))

    def _widen(self, value: Value) -> Value:
        return self.f.cast("fpext", value, "float") if self.source == "half" else value

    def _store(self, value: Value, at: Value) -> None:
        self.f.store(value, at, align=4)
