"""The GEMM macro-kernel: products over packed panels, a work item of rows and columns at a time. Compiled once for all.

A unit packs a block of the right factor, then goes through its panels of rows: each is packed, multiplied tile by tile,
and finished. Factors and results are `sections` of the words: the row of a map that computes them, their views, and how
those lie. A factor that is a tensor's elements alone is packed as it lies, and a result that is the sum alone is
written as it is added up; all else goes through rows of maps, by memory that the nearest cache has.

A section: the address of the map's row, the views, the words of numbers; each view's address, its step along the row,
the numbers, its step across, then for each dimension of the batch its stride. What lies in the scratch is the last view
of a factor, and the first one of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN, UNROLLED
from anydml.engines.cpu.gemm.operands import (
    ALONG_ROWS,
    ALONG_STEPS,
    AS_IT_LIES,
    DEQUANTISED,
    DOTS,
    HALVES,
    PANELS,
    PIECES,
    SIDE_BY_SIDE,
    STRIP,
    UNPACKED,
    WIDE,
    WINDOWS,
)
from anydml.engines.cpu.gemm.selection import CHOSEN, LEFT, RECORD, RIGHT
from anydml.engines.cpu.gemm.work_item import SectionText, WorkItems, make_stage, stack_words
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.engines.cpu.threads.scratch import PANEL, RIGHT_AT, workspace

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value

STAGED = 16
"""Rows of a right factor that lies along its columns that are computed before they are packed."""
_CHUNKS = (64, 32, 16, 8, 4, 2, 1)
"""Bytes that are moved at once."""


class MacroKernel(WorkItems):
    """The text of the kernel."""

    def __init__(self) -> None:
        super().__init__(RECORD, ("left", "right", "result", "left_zero", "right_zero"))
        self._choose()
        self.left, self.right, self.result = (self.sections[name] for name in ("left", "right", "result"))
        self.left_step, self.left_across = self.left.step(), self.left.on()
        self.right_step, self.right_across = self.right.step(), self.right.on()
        self.target = self.result.views - 1
        self.target_step, self.target_across = self.result.step(self.target), self.result.on(self.target)

    def _choose(self) -> None:
        """The kernels for the bytes of a factor that is bounded, or for any."""
        f, of, left, right = self.f, self.of, self.sections["left"], self.sections["right"]
        lasts = [f.load("i64", one.words + one.views * 8 - 8) for one in (left, right)]
        bound_at = f.select(of.bounded.eq(RIGHT), lasts[1], self.words)
        bound_at = f.select(of.bounded.eq(LEFT), lasts[0], bound_at)
        bound = f.cast("sext", f.load("i32", bound_at), "i64")
        small, any_bytes = (self.words + RECORD.at(name) for name in (f"small_{CHOSEN[0]}", CHOSEN[0]))
        chosen = f.select(of.bounded.ne(0) & (bound <= of.most), small, any_bytes)
        for i, name in enumerate(CHOSEN):
            setattr(of, name, f.load("i64", chosen + 8 * i))

    def write(self) -> str:
        """All of it."""
        f, of, parts = self.f, self.of, workspace()
        self.totalled = stack_words(f, 1)
        """Whether the totals of the block's columns are there."""
        scratch = self.take_scratch(parts.size)
        self.right_memory, self.left_memory = scratch + RIGHT_AT, scratch + parts.left_at
        self.stage_memory, self.result_memory = scratch + parts.stage_at, scratch + parts.sums_at
        self.left_totals, self.left_zeros, self.right_totals, self.right_zeros = (
            scratch + (parts.totals_at + 4 * i * (figures().gemm.small_m_columns + 2 * PANEL)) for i in range(4)
        )
        self.panel_pitch = of.tile_columns * 4
        # What is left over of the columns is found once: a division takes as long as a small unit's arithmetic. 1,000
        # products of 8 x 8 x 8 take 115 us so, and 155 with all divisions in each unit (one thread).
        self.n_over, self.n_lanes, self.n_written = (of.n % by for by in (of.tile_columns, of.lanes, of.written))
        self.is_cut = (of.row_units * of.column_units).ne(1)
        with self.each() as unit:
            self._unit(unit)
        return self.text(make_stage(), _make_lines())

    def _find_panels(self, unit: Value) -> dict[str, Value]:
        """The panels of a unit, and the number of its place: all panels, where each product is a unit."""
        f, of, zero = self.f, self.of, self.f.value(0, "i64")
        found = {"place": unit, "m0": zero, "m1": of.row_panels, "n0": zero, "n1": of.column_panels}
        with f.when(self.is_cut, carry=found):
            run, is_by_column = f.max(of.of_columns, 1), of.of_columns.ne(0)
            by_column = f.select(is_by_column, unit // run, unit % of.column_units)
            others = f.select(is_by_column, unit % run, unit // of.column_units)
            found["place"] = others // of.row_units
            for side, at, panels, units in (
                ("m", others % of.row_units, of.row_panels, of.row_units),
                ("n", by_column, of.column_panels, of.column_units),
            ):
                found[f"{side}0"], found[f"{side}1"] = (panels * (at + k) // units for k in (0, 1))
        return found

    def _unit(self, unit: Value) -> None:
        f, of = self.f, self.of
        found = self._find_panels(unit)
        self.row_first, self.row_stop = found["m0"], found["m1"]
        self.find_place(found["place"])
        self.find_bases("left", "right", "result")
        with f.when(of.compensates):
            self.find_bases("left_zero", "right_zero")
        self.left_base, self.right_base = self.left.base(), self.right.base()
        self.target_base = self.result.base(self.target)
        self.m0, self.m1 = found["m0"] * of.tile_rows, f.min(found["m1"] * of.tile_rows, of.m)
        self.n0, self.n1 = found["n0"] * of.tile_columns, f.min(found["n1"] * of.tile_columns, of.n)
        self.columns = self.n1 - self.n0
        self.result_pitch = (found["n1"] - found["n0"]) * self.panel_pitch
        # Panels of columns that fill vectors: all of them but the last. Most tiles write the columns that there are.
        self.over = f.select(self.n1.eq(of.n), self.n_over, 0)
        full, written = (
            f.select(self.over.ne(0) & left.ne(0), self.n1 - self.over, self.n1)
            for left in (self.n_lanes, self.n_written)
        )
        self.full_panels = full
        self.direct = f.select(of.is_direct.ne(0), written, self.n0)
        self.ended = f.select(of.last.ne(0), written, self.n0)
        self.placed = f.select(of.is_placed.ne(0), self.ended, self.direct)
        self.wide = of.tile_columns * of.beside
        all_wide = [f.value(0, "i64")]
        with f.when(of.right_mode.eq(PANELS) & (of.beside > 1), carry=all_wide):
            all_wide[0] = self.columns // self.wide * self.wide
        self.all_wide = all_wide[0]
        is_small_m = of.right_mode >= STRIP
        with f.when(is_small_m):
            self._small_m()
        with f.loop(0, f.select(is_small_m, 0, of.k), of.block) as k0:
            self._block(k0)

    def _block(self, k0: Value) -> None:
        """All rows of a unit, against a block of its columns."""
        f, of = self.f, self.of
        self.k0, self.steps = k0, f.min(of.block, of.k - k0)
        packed = [self.steps]
        with f.when(of.filled > 1, carry=packed):
            packed[0] = (self.steps + of.filled - 1) // of.filled * (of.filled // of.together)
        self.packed = packed[0]
        self._pack_right()
        self._find_next()
        with f.when(of.compensates):
            self.stage("right_zero", 0, self.n0, 1, self.columns, self.right_zeros, 0)
            f.store(0, self.totalled)
            with f.when(of.right_mode.eq(PANELS)):
                self._read_totals()
                f.store(1, self.totalled)
        with f.loop(self.row_first, self.row_stop) as p:
            self._panel(p)

    def _find_next(self) -> None:
        """Where the block of the right factor lies that comes next: the first panels of rows have it fetched."""
        f, of = self.f, self.of
        on = self.k0 + self.steps
        is_more, is_beside = on < of.k, self.n1 < of.n
        next_n = f.select(is_more, self.n0, f.select(is_beside, self.n1, 0))
        again = (of.row_units > 1) & (of.k * of.n > of.block * self.columns)
        self.has_next = (is_more | is_beside | again) & of.fetches.ne(0)
        next_k = f.select(is_more, on, 0)
        self.next_block = self.right_base + (next_n - self.n0) * self.right_across + next_k * self.right_step

    # Operands, packed

    def _pack_right(self) -> None:
        """A unit's block of the right factor, but for panels that are not packed: up to `unpacked`."""
        f, of, mode = self.f, self.of, self.of.right_mode
        start = self.right_base + self.k0 * self.right_step

        def pack(source: Value, across: Value | int, step: Value | int, *more: Value) -> None:
            f.invoke(of.pack_right, source, across, step, *more)

        self.unpacked = f.select(mode.eq(PANELS), self.n1, f.select(mode.eq(UNPACKED), self.full_panels, self.n0))
        # Whole panels that lie side by side are packed at once.
        at_once = f.select(mode.eq(SIDE_BY_SIDE), self.columns - self.over, 0)
        with f.when(at_once > 0):
            source = start + self.n0 * self.right_across
            pack(source, self.right_across, self.right_step, at_once, self.steps, self.right_memory)
        with f.when(mode.eq(ALONG_ROWS)), f.loop(0, self.steps, STAGED) as s:
            some = f.min(STAGED, self.steps - s)
            self.stage("right", self.k0 + s, self.n0, some, self.columns, self.stage_memory, self.result_pitch)
            with f.loop(self.n0, self.n1, of.tile_columns) as j:
                on = j - self.n0
                pack(
                    self.stage_memory + on * 4, 4, self.result_pitch, f.min(of.tile_columns, self.n1 - j), some,
                    self.right_memory + on * self.steps * 4 + s * self.panel_pitch,
                )  # fmt: skip
        with f.when(mode.ne(ALONG_ROWS)), f.loop(self.unpacked + at_once, self.n1, of.tile_columns) as j:
            width = f.select(mode.eq(HALVES), of.tile_columns, f.min(of.tile_columns, self.n1 - j))
            to = self.right_memory + (j - self.unpacked) * self.packed * 4
            with f.when(mode.eq(ALONG_STEPS)):
                pitch = self.steps * 4
                self.stage("right", j, self.k0, width, self.steps, self.stage_memory, pitch)
                pack(self.stage_memory, pitch, 4, width, self.steps, to)
            with f.when(mode.eq(WINDOWS)):
                tables = self.right_across + j * 8, self.right_step + self.k0 * 8
                pack(self.right_base, *tables, width, self.steps, to)
            with f.when(mode.eq(DEQUANTISED)):
                given = self.right.at, self.right.bases, j, width, self.k0, self.steps, to
                f.invoke(self.right.kernel, *given)
            with f.when(mode.ne(ALONG_STEPS) & mode.ne(WINDOWS) & mode.ne(DEQUANTISED)):
                pack(start + j * self.right_across, self.right_across, self.right_step, width, self.steps, to)

    def _pack_left(self, first: Value, start: Value, height: Value, steps: Value) -> None:
        """A panel of rows."""
        f, of, mode = self.f, self.of, self.of.left_mode
        with f.when(mode.eq(AS_IT_LIES)):
            source = self.left_base + first * self.left_across + start * self.left_step
            f.invoke(of.pack_left, source, self.left_across, self.left_step, height, steps, self.left_memory)
        with f.when(mode.eq(ALONG_STEPS)):
            self.stage("left", first, start, height, steps, self.stage_memory, steps * 4)
            f.invoke(of.pack_left, self.stage_memory, steps * 4, 4, height, steps, self.left_memory)
        with f.when(mode.eq(ALONG_ROWS)):
            self.stage("left", start, first, steps, height, self.stage_memory, of.pitch)
            f.invoke(of.pack_left, self.stage_memory, 4, of.pitch, height, steps, self.left_memory)

    # Products

    def _small_m(self) -> None:
        """All rows of a few, against columns that are not packed."""
        f, of, height = self.f, self.of, self.m1 - self.m0
        given = self.right.words, self.right.bases
        with f.when(of.right_mode.eq(STRIP)), f.loop(0, of.k, CHAIN) as k:
            steps = f.min(CHAIN, of.k - k)
            self._pack_left(self.m0, k, height, steps)
            f.invoke(
                self.right.kernel, *given, self.left_memory, k, self.n0, self.columns, self.stage_memory,
                self.result_memory, self.result_pitch, steps, f.select(k.eq(0), 1, 0),
            )  # fmt: skip
        with f.when(of.right_mode.eq(DOTS)):
            pitch = (of.k + 2 * WIDE) * 4
            with f.loop(0, height) as r, f.loop(0, WIDE // 2) as z:
                f.store(0, self.right_memory + r * pitch + of.k * 4 + z * 8)
            self.stage("left", self.m0, 0, height, of.k, self.right_memory, pitch)
            f.invoke(
                self.right.kernel, *given, self.right_memory, pitch, self.n0, self.columns, self.result_memory,
                self.result_pitch, of.k,
            )  # fmt: skip
        self._finish(self.m0, self.n0, height, self.result_memory)

    def _panel(self, p: Value) -> None:
        """A panel of rows, against a block of columns."""
        f, of, mode = self.f, self.of, self.of.left_mode
        i = p * of.tile_rows
        height = f.min(of.tile_rows, self.m1 - i)
        self._pack_left(i, self.k0, height, self.steps)
        is_pieces, on, down = mode.eq(PIECES), self.k0 * self.left_step, self.left_base + i * self.left_across
        ahead = self.left_base + p * self.left_across + on
        packed_rows = f.select(mode.eq(PANELS), ahead, self.left_memory)
        self.a = f.select(is_pieces, down, f.select(mode.eq(UNPACKED), down + on, packed_rows))
        self.steps_of = f.select(is_pieces, of.pieces, self.packed)
        self.on_next = f.select(is_pieces, self.left_across, of.tile_columns * self.right_across)
        # Results that are not in the target yet are kept for all rows only where more is added to them.
        self.i, self.results = i, self.result_memory + f.select(of.k > of.block, i - self.m0, 0) * self.result_pitch
        far_from = (p - self.row_first) * (self.packed // UNROLLED)
        self.far_step = f.select(self.has_next & (far_from < self.packed), self.right_step * of.together, 0)
        self.far_on = far_from * self.far_step
        is_high = height.eq(of.tile_rows)
        by_wide = self.n0 + f.select(is_high, self.all_wide, 0)
        with f.loop(self.n0, by_wide, self.wide) as j:
            self._tile(j, of.tile_beside)
        with f.loop(by_wide, self.n1, of.tile_columns) as j:
            is_wide = f.min(of.tile_columns, self.n1 - j).eq(of.tile_columns)

            def chosen(name: str) -> Value:
                whole, narrow, low, small = (getattr(of, f"{name}{end}") for end in ("", "_narrow", "_low", "_small"))
                return f.select(is_high, f.select(is_wide, whole, narrow), f.select(is_wide, low, small))

            self._tile(j, chosen("tile"), chosen("last"))
        with f.when(of.compensates):
            self._compensate(height)
        with f.when((self.k0 + self.steps).eq(of.k)):
            with f.when(of.line.ne(0) & (self.ended > self.n0)):
                self._move_lines(i, self.n0, height, self.ended, self.results, 1)
            rest = f.max(self.direct, self.ended)
            with f.when(rest < self.n1):
                self._finish(i, rest, height, self.results + (rest - self.n0) * 4)

    def _tile(self, j: Value, tile: Value, last: Value | None = None) -> None:
        """Have a tile computed, of the columns from one on; where it is the `last` of its sums, with results."""
        f, of = self.f, self.of
        is_raw, is_placed = j < self.unpacked, j < self.placed
        down, on = self.target_base + self.i * self.target_across, j - self.n0
        raw = self.right_base + j * self.right_across + self.k0 * self.right_step
        b = f.select(is_raw, raw, self.right_memory + (j - self.unpacked) * self.packed * 4)
        ahead = self.on_next
        if last is not None:
            # Of the next panel of rows each tile has one fetched; where a kernel computes rows, that does no harm.
            row = f.min(self.i + of.tile_rows + on // figures().gemm.prefetch_columns, self.m1 - 1)
            soon = self.left_base + row * self.left_across + self.k0 * self.left_step
            ahead = f.select(of.left_mode.ne(PIECES), soon, self.on_next)
        far = self.next_block + j * self.right_across + self.far_on
        given = (
            self.a + j * of.left_on, b, f.select(is_raw, self.right_step * of.together, self.panel_pitch),
            f.select(is_placed, down + j * 4, self.results + on * 4),
            f.select(is_placed, self.target_across, self.result_pitch),
            self.steps_of, f.select(self.k0.eq(0), 1, 0), ahead, f.select(self.far_step.ne(0), far, b), self.far_step,
            self.left_across,
        )  # fmt: skip
        if last is None:
            f.invoke(tile, *given)
            return
        with f.either((self.k0 + self.steps).eq(of.k) & (j < self.ended)) as (end, more):
            with more:
                f.invoke(tile, *given)
            with end:
                has_lines = of.line.ne(0)
                to = f.select(has_lines, self.results + on * self.target_step, down + j * self.target_step)
                step = f.select(has_lines, self.result_pitch, self.target_across)
                f.invoke(last, *given, to, step, self.result.at, self.result.bases, self.i, j)

    # Zero points of bytes

    def _read_totals(self) -> None:
        """The columns' totals, of all steps, that lie beside panels: the first block has them, the others nothing."""
        f, ahead = self.f, self.right.base(1)
        with f.loop(0, self.columns) as c:
            one = f.load("i32", ahead + (self.n0 + c) * 4)
            f.store(f.select(self.k0.eq(0), one, 0), self.right_totals + c * 4)

    def _total_right(self, height: Value) -> None:
        """The columns' totals, once rows have a zero point that is not 0: those of filters are 0 as a rule."""
        f, of = self.f, self.of
        with f.loop(0, height) as z:
            zero = f.load("i32", self.left_zeros + z * 4)
            with f.when(zero.ne(0) & f.load("i64", self.totalled).eq(0)):
                f.store(1, self.totalled)
                with f.loop(self.n0, self.n1, of.tile_columns) as j:
                    on, columns = j - self.n0, f.min(of.tile_columns, self.n1 - j)
                    panel = self.right_memory + on * self.packed * 4
                    f.invoke(of.total_right, panel, self.packed, columns, self.right_totals + on * 4)

    def _compensate(self, height: Value) -> None:
        """Take off a panel's sums what zero points add to them."""
        f, of = self.f, self.of
        f.invoke(of.total_left, self.left_memory, self.packed, height, self.left_totals)
        self.stage("left_zero", 0, self.i, 1, height, self.left_zeros, 0)
        self._total_right(height)
        # What lies in the target already, and the others.
        placed = self.target_base + self.i * self.target_across + self.n0 * 4
        for at, pitch, start, end in (
            (placed, self.target_across, self.n0, self.direct),
            (self.results + (self.direct - self.n0) * 4, self.result_pitch, self.direct, self.n1),
        ):
            on = (start - self.n0) * 4
            f.invoke(
                of.compensate, at, pitch, height, end - start, self.left_totals, self.left_zeros,
                self.right_totals + on, self.right_zeros + on, self.steps, of.compensates,
            )  # fmt: skip

    # Results

    def _finish(self, first: Value, start: Value, height: Value, memory: Value) -> None:
        """Results computed from sums, for some rows and the columns from a start on: by lines, where there are gaps."""
        with self.f.either(self.of.line.eq(0)) as (whole, lines):
            with whole:
                self.stage("result", first, start, height, self.n1 - start, memory, self.result_pitch)
            with lines:
                self._move_lines(first, start, height, self.n1, memory, 0)

    def _move_lines(self, first: Value, start: Value, height: Value, stop: Value, memory: Value, done: int) -> None:
        """Rows of results, from a column to another, to lines with gaps between them."""
        self.f.invoke(
            "@lines", self.result.at, self.result.bases, first, start, height, stop - start, memory, self.result_pitch,
            self.of.line, self.of.gap, self.target_step, self.stage_memory, done,
        )  # fmt: skip


def _make_lines() -> str:
    """Some rows of results of some width: each is computed in the scratch, if it is not there, then moved by lines."""
    names = "section bases first start rows count memory pitch line gap width here done"
    f = Function("lines", names, "private void")
    at, bases, first, start, rows, count, memory, pitch, line, gap, width, here, done = f.args
    section, places = SectionText(f, at, bases), stack_words(f, VIEWS)
    last = places + section.views * 8 - 8
    with f.loop(0, rows) as r:
        section.find_row(places, first + r, start)
        target, sums = f.load("i64", last), memory + r * pitch
        f.store(sums, places)
        f.store(here, last)
        with f.when(done.eq(0)):
            section.run_row(places, count)
        made = f.select(done.eq(0), here, sums)
        with f.loop(start // line, (start + count + line - 1) // line) as number:
            begin = f.max(number * line, start)
            size = (f.min(number * line + line, start + count) - begin) * width
            to = target - start * width + number * gap + (begin - number * line) * width
            _move(f, made + (begin - start) * width, to, size)
    return f.end()


def _move(f: Function, source: Value, to: Value, size: Value) -> None:
    """Move some bytes, in chunks of which the last overlaps the one before.

    Lines of a plane are short: 512 channels to 128 of 28 x 28, with margins, take 2.91 ms so, and 2.97 by `memcpy`
    (two threads of an Arm Neoverse-N1).
    """
    for chunk in _CHUNKS:
        is_here = size >= chunk
        is_here = is_here if chunk == _CHUNKS[0] else is_here & (size < 2 * chunk)
        with f.when(is_here), f.loop(0, size, chunk) as p:
            at = f.min(p, size - chunk)
            f.store(f.load(f"<{chunk} x i8>", source + at), to + at)
