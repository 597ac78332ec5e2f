"""Running sums and products: by lines, by rows four at a time, by tiles of columns, and of one long row that all
threads share; the kernel is chosen by where the axis lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.memory import numpy_address
from anydml.engines.common.program import Program
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import convert, scalar_text
from anydml.engines.cpu.codegen.function import transpose_four, vector_of
from anydml.engines.cpu.codegen.language import (
    copy_bytes,
    fence,
    load_acquire,
    load_word,
    make_load,
    make_stack,
    make_store,
    pause,
    prefetch,
    prefetch_target,
    quotient,
    scratch,
    smaller,
    store_release,
    store_word,
    take_ticket,
)
from anydml.engines.cpu.codegen.outer_loops import find_row
from anydml.engines.cpu.codegen.translate import Constant, word
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_lanes
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import OUTER, Layout, Pointer, Record, Table, dimension_words, keeps_lines
from anydml.ir.loops import Loops, loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Scan


SCAN = Layout(
    "source", "target", "count", "source_step", "target_step", "across", "source_across", "target_across", "tiles",
    "rank", "tile", OUTER,
)  # fmt: skip
"""The elements of a line and its steps along the axis, which are negative for a scan from the end; how many lines lie
across the innermost of the other dimensions and their steps, the tiles of those, the outer dimensions, and the lines
of a tile, or for long rows the address of the chain of totals."""
TALLIES = Layout("before", "after", "step", Table("by", 0, "stride", ""), header=0)
"""Where tallies are handed on, behind the outer dimensions: the address of those before, or 0, and of those after, and
the bytes from one to the next, across and in each outer dimension."""
CHAIN = "chain of totals"


def plan_scan(primitive: Scan) -> KernelProgram | LongScanProgram:
    """Choose the kernel by where the axis lies."""
    source, target, axis = primitive.source, primitive.target, primitive.axis
    width, count = source.data_type.size_in_bytes, source.sizes[axis]
    steps = (source.strides[axis], target.strides[axis])
    views = (source, *primitive.targets)
    others = loops_of(*views).pick([k for k in range(len(source.sizes)) if k != axis])
    if primitive.reverse:
        starts = tuple(o + (count - 1) * step for o, step in zip(others.offsets, (*steps, 0), strict=False))
        others = Loops(others.sizes, others.strides, starts)
        steps = (-steps[0], -steps[1])
    if count == 1:
        steps = (1, 1)
    loops = simplify(others, 1)
    kind = ("f" if source.data_type.is_float else "u") + str(width * 8)
    flags = (" exclusive" if primitive.exclusive else "") + (" carried" if primitive.after else "")
    name = f"{kind} {primitive.function}{flags}"
    along = _Along(primitive, loops, count, (steps[0] * width, steps[1] * width))
    if steps in ((1, 1), (-1, -1)):
        turned = " reverse" if steps == (-1, -1) else ""
        # A product of some numbers may be infinite where that of all is 0, so those of floats go from the first on.
        is_whole = kind[0] == "f" and (primitive.function == "product" or primitive.in_turn)
        if loops.count < 8 and count >= 8 * TILE and not is_whole:
            return along.long(get_scan(f"scan long {name}{turned}"))
        return along.across(f"scan rows {name}{turned}", 4, stream=True)
    if loops.sizes and loops.strides[0][-1] == loops.strides[1][-1] == 1 and loops.sizes[-1] >= _least_columns():
        tile = _column_tile(loops)
        deep = "" if tile >= loops.sizes[-1] == abs(steps[1]) else " deep"
        deep = " narrow" if loops.sizes[-1] < COLUMNS else deep
        return along.across(f"scan columns {name}{deep}", tile, stream=figures().rows.streams)
    record = along.record(len(loops.sizes), {"across": 1, "tiles": 1}, (0, *along.tallies))
    return KernelProgram(get_scan(f"scan lines {name}"), record, loops.count, along.size)


class _Along(NamedTuple):
    """Lines to be summed, and the dimensions across them."""

    primitive: Scan
    loops: Loops
    """Of the source, the target, and the tallies that are handed on."""
    length: int
    """Elements of a line."""
    steps: tuple[int, int]
    """In bytes."""

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(view.data_type.size_in_bytes for view in (self.primitive.source, *self.primitive.targets))

    @property
    def size(self) -> int:
        return self.loops.count * self.length * self.widths[0] * 2

    @property
    def tallies(self) -> tuple[int, ...]:
        """The bytes from one tally to the next in each dimension; none where they are not handed on."""
        widths = self.widths
        return tuple(stride * widths[2] for stride in self.loops.strides[2]) if len(widths) > 2 else ()

    def record(
        self, rank: int, fields: Mapping[str, int | Pointer], tallies: Sequence[int], on: Sequence[int] = (0, 0, 0)
    ) -> Record:
        """The record of lines that begin so many bytes on in the source, in the target and in the tallies."""
        primitive, loops, widths = self.primitive, self.loops, self.widths
        begins = [offset * width + more for offset, width, more in zip(loops.offsets, widths, on, strict=False)]
        first: dict[str, int | Pointer] = {
            "source": Pointer(primitive.source.tensor, begins[0]),
            "target": Pointer(primitive.target.tensor, begins[1]), "count": self.length,
            "source_step": self.steps[0], "target_step": self.steps[1], "rank": rank, **fields,
        }  # fmt: skip
        outer = dimension_words(loops.sizes[:rank], loops.strides[:2], widths[:2])
        ends = (primitive.before, primitive.after) if primitive.after else ()
        pointers = [Pointer(view.tensor, begins[2]) if view else 0 for view in ends]
        return Record.of(SCAN.write({**first, "outer": outer}), pointers, tallies)

    def across(self, name: str, tile: int, *, stream: bool) -> KernelProgram:
        """Tiles across the innermost of the other dimensions, large ones written past the cache where that pays.

        For columns it does not on an x86: 16,384 x 1,024 take 13.1 ms so, and 11.6 without.
        """
        loops, width, target = self.loops, self.widths[0], self.primitive.target
        across, steps = 1, (0, 0)
        if loops.sizes:
            across, steps = loops.sizes[-1], (loops.strides[0][-1] * width, loops.strides[1][-1] * width)
        rank, tiles = max(len(loops.sizes) - 1, 0), -(-across // tile)
        *outer, far = self.tallies or (0,)
        fields = {"across": across, "source_across": steps[0], "target_across": steps[1], "tiles": tiles, "tile": tile}
        record, items = self.record(rank, fields, (far, *outer)), tiles * math.prod(loops.sizes[:rank])
        if not (stream and self.size // 2 >= figures().rows.stream_from and keeps_lines(target)):
            return KernelProgram(get_scan(name), record, items, self.size)
        alignment = Otherwise(1, target.data_type.size_in_bytes, get_scan(name))
        return KernelProgram(get_scan(f"{name} stream"), record, items, self.size, alignment=alignment)

    def long(self, kernel: Kernel) -> LongScanProgram:
        """A program for each line."""
        loops = self.loops
        rows = [
            [
                sum(i * s for i, s in zip(at, row, strict=True)) * width
                for row, width in zip(loops.strides, self.widths, strict=True)
            ]
            for at in np.ndindex(loops.sizes)
        ]
        fields: dict[str, int | Pointer] = {"across": 1, "tiles": 1, "tile": Pointer(CHAIN, 0)}
        records = [self.record(0, fields, (0,), row) for row in rows]
        size = self.size // len(rows)
        return LongScanProgram(tuple(KernelProgram(kernel, record, 1, size) for record in records), self.length)


@dataclass(frozen=True, slots=True)
class LongScanProgram(Program):
    """Rows, one after the other, each shared by all threads, who hand the total on from tile to tile.

    The chain of totals is made for each dispatch: several threads may dispatch one binding at once.
    """

    rows: tuple[KernelProgram, ...]
    count: int
    """Elements of a row."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Keep the addresses, to be put in with that of the chain."""
        return _Long(self, places)


class _Long:
    __slots__ = ("_places", "_program")

    def __init__(self, program: LongScanProgram, places: Mapping[str, int]) -> None:
        self._program, self._places = program, dict(places)

    @property
    def records(self) -> list[bytes]:
        """Of the rows, but for the chain."""
        return [row.laid_out({**self._places, CHAIN: 0}) for row in self._program.rows]

    def __call__(self) -> None:
        tiles = -(-self._program.count // TILE)
        workers = min(get_num_threads(), tiles)
        for row in self._program.rows:
            chain = np.zeros(2 + 2 * tiles, np.int64)
            replace(row, work_items=workers).bind({**self._places, CHAIN: numpy_address(chain)})()


def get_scan(name: str) -> Kernel:
    """The kernel of a name, such as `scan columns f32 sum exclusive deep stream`."""

    def make() -> Any:
        _, shape, kind, function, *flags = name.split()
        options: list[int] = ["exclusive" in flags, "carried" in flags]
        if shape in ("rows", "long"):
            options.append("reverse" in flags)
        if shape == "columns":
            options.append(NARROW if "narrow" in flags else 2 if "deep" in flags else 1)
        if shape in ("rows", "columns"):
            options.append("stream" in flags)
        makers: dict[str, Any] = {"lines": make_lines, "rows": make_rows, "columns": make_columns, "long": make_long}
        return makers[shape](kind, function, *options)

    return get_kernel(name, make)


def _least_columns() -> int:
    """Columns from which on they are done by the vector."""
    return 2 if has_lanes() else COLUMNS


def _column_tile(loops: Loops) -> int:
    """The widest tile that leaves work for every thread: wide ones are fetched in long stretches."""
    across, outer = loops.sizes[-1], math.prod(loops.sizes[:-1])
    per_step = max(-(-get_num_threads() // outer), 1)
    return max(min(COLUMN_TILE, -(-across // per_step // 16) * 16), 64)


# The arithmetic of running sums and products: elements widened, combined and rounded, alone and by the vector.


class Tally:
    """The arithmetic of a running sum or product over one kind of element.

    Floats are widened to float64 and rounded when they are written; integers wrap in their own width. Methods without
    a function to write to are parts of kernels.
    """

    def __init__(self, kind: str, function: str, exclusive: bool, carried: bool) -> None:
        self.kind, self.function, self.exclusive, self.carried = kind, function, exclusive, carried
        self.width = int(kind[1:]) // 8
        self.is_float = kind[0] == "f"
        self.element = scalar_text(kind)
        self.total = "double" if self.is_float else self.element
        self.total_width = 8 if self.is_float else self.width
        # -0.0 is what leaves every float as it is, -0.0 included.
        start = 1 if function == "product" else -0.0 if self.is_float else 0
        self.start, self.zero = Constant(self.total, start), Constant(self.total, 0)
        self.load, self.store = make_load(self.element, self.widen), make_store(self.narrow)
        self.load_total = make_load(self.total)
        self.store_total = store_word
        self.take = word(lambda _, total, value: self.combine(total, value))
        self.clears = exclusive and self.is_float and function == "sum"
        """Whether the first element written is 0.0 though the total starts at -0.0: an exclusive sum of floats."""

    def widen(self, f: Function, value: Value) -> Value:
        """An element, or a vector of them, as totals."""
        return f.cast("fpext", value, self.total)

    def narrow(self, f: Function, value: Value) -> Value:
        """A total as an element, rounded once."""
        return convert(f, value, "f64", self.kind) if self.is_float else value

    def combine(self, total: Value, value: Value) -> Value:
        """Take a value in."""
        return total + value if self.function == "sum" else total * value

    def line(self, source: int, source_step: int, target: int, target_step: int, count: int, total: Any) -> Any:
        """One line, by the element; the total after it."""
        for i in range(count):
            after = self.take(total, self.load(source, i * source_step))
            self.store(target, i * target_step, total if self.exclusive else after)
            total = after
        return total

    def opening(self, before: int, on: int) -> Any:
        """The total that a line starts with, some bytes on from an address, which may be 0."""
        total = self.start
        if before != 0:
            total = self.load_total(before, on)
        return total

    def find(self, w: Any, rank: int, at: int, first: int) -> tuple[int, int, int]:
        """Where the tallies before and after a line lie, and the bytes from one to the next; 0 for whole lines."""
        if not self.carried:
            return 0, 0, 0
        tallies = TALLIES(w.outer[rank])  # after the last
        before, step = tallies.before, tallies.step
        on = first * step
        for k in range(rank):
            on += load_word(at, 8 * k) * tallies.by[k].stride
        return before + on if before != 0 else 0, tallies.after + on, step

    def make_rows(self, columns: int, *, reverse: bool, stream: bool) -> Any:
        """rows(target, target_step, source, source_step, totals): four rows at once, some columns on.

        Rows are turned into columns in registers, because one row alone waits for each addition to end. With
        `reverse` the addresses are those of the last columns. The four totals go on. With `stream` the columns are
        written past the cache, and the targets must be aligned to them.
        """

        @word
        def rows(
            f: Function, target: Value, target_step: Value, source: Value, source_step: Value, totals: Value
        ) -> None:
            targets, sources = [target], [source]
            for _ in range(3):
                targets.append(targets[-1] + target_step)
                sources.append(sources[-1] + source_step)
            place = f.pointer(totals)
            total = f.load(vector_of(4, self.total), place, align=8)
            starts = [start * self.width for start in range(0, columns, 4)]
            written = []
            for start in reversed(starts) if reverse else starts:
                block = [f.load(vector_of(4, self.element), source + start, align=1) for source in sources]
                results = []
                for column in reversed(transpose_four(f, block)) if reverse else transpose_four(f, block):
                    after = self.combine(total, self.widen(f, column))
                    results.append(self.narrow(f, total if self.exclusive else after))
                    total = after
                written.append((start, transpose_four(f, results[::-1] if reverse else results)))
            for i, target in enumerate(targets):  # a whole line of each row at a time
                for start, block in sorted(written, key=lambda pair: pair[0]):
                    f.store(block[i], target + start, align=4 * self.width if stream else 1, is_streamed=stream)
            f.store(total, place, align=8)

        return rows

    def make_reduce(self, width: int) -> Any:
        """reduce(source, totals): take so many elements into as many totals."""

        @word
        def reduce(f: Function, source: Value, totals: Value) -> None:
            place = f.pointer(totals)
            total = f.load(vector_of(width, self.total), place, align=8)
            value = self.widen(f, f.load(vector_of(width, self.element), source, align=1))
            f.store(self.combine(total, value), place, align=8)

        return reduce

    def make_columns(self, width: int, height: int, *, stream: bool, partly: bool = False) -> Any:
        """columns(target, target_step, source, source_step, totals): some columns, some rows on.

        With `stream` they are written past the cache, and the target must be aligned to them. With `partly` a last
        argument is the number of columns, of as many as there are totals: the others are neither read nor written, and
        their totals stay as they are.
        """

        @word
        def columns(
            f: Function,
            target: Value,
            target_step: Value,
            source: Value,
            source_step: Value,
            totals: Value,
            *count: Value,
        ) -> None:
            place = f.pointer(totals)
            total = f.load(vector_of(width, self.total), place, align=8)
            mask = f.tail_mask(count[0], width) if partly else None
            align = width * self.width if stream and not partly else 1
            start = f.value(self.start.number, vector_of(width, self.element))
            for _ in range(height):
                element = f.load(start.type, source, align=1, mask=mask, otherwise=start)
                after = self.combine(total, self.widen(f, element))
                result = self.narrow(f, total if self.exclusive else after)
                f.store(result, target, align=align, mask=mask, is_streamed=stream)
                total = after
                source, target = source + source_step, target + target_step
            f.store(total, place, align=8)

        return columns


# Running sums and products: lines of any layout, rows four at a time, and columns by the tile.


ROW_BLOCK = 16
"""Columns of a row done at once: a cache line of FLOAT32."""
COLUMN_TILE = 4096
"""Columns whose totals fit the first cache as float64."""
COLUMNS = 16
"""Columns done at once: whole lines are written."""
NARROW = 8
"""Rows done at once of less than that many: their totals stay in registers meanwhile."""


def make_lines(kind: str, function: str, exclusive: bool, carried: bool) -> Any:
    """Lines of any layout, one by one. A unit is a line."""
    tally = Tally(kind, function, exclusive, carried)

    def kernel(words: int, begin: int, end: int) -> int:
        w = SCAN(words)
        count, rank, source_step, target_step = w.count, w.rank, w.source_step, w.target_step
        at = scratch()
        for unit in range(begin, end):
            source_on, target_on = find_row(w.outer, rank, unit, at)
            source, target = w.source + source_on, w.target + target_on
            before, after, _ = tally.find(w, rank, at, 0)
            total = tally.line(source, source_step, target, target_step, count, tally.opening(before, 0))
            if carried:
                tally.store_total(after, 0, total)
            if tally.clears and before == 0:
                tally.store(target, 0, tally.zero)
        return 0

    return kernel


def make_rows(kind: str, function: str, exclusive: bool, carried: bool, reverse: bool, stream: bool) -> Any:
    """Contiguous rows, four at a time. A unit is four rows of one outer step; across lie the rows.

    The blocks of columns are aligned to the lines of the first row's target, but for short rows on an x86; for `stream`
    to those of every row's. What is left goes by fours: FLOAT16 of 16,384 x 77 takes 1.7 ms so, and 2.4 one by one.
    """
    tally = Tally(kind, function, exclusive, carried)
    rows, fours = (
        tally.make_rows(ROW_BLOCK, reverse=reverse, stream=stream),
        tally.make_rows(4, reverse=reverse, stream=False),
    )
    stack = make_stack(64)
    aligned_from = 0 if stream else figures().move.scan_aligned_from
    width, total_width = tally.width, tally.total_width
    block = ROW_BLOCK * width
    forward = -1 if reverse else 1
    step, stride, lead = forward * width, forward * block, block - width if reverse else 0
    short_lead = 3 * width if reverse else 0

    def kernel(words: int, begin: int, end: int) -> int:
        w = SCAN(words)
        count, across, source_across, target_across = w.count, w.across, w.source_across, w.target_across
        groups, rank = w.tiles, w.rank
        totals, at = stack(), scratch()
        for unit in range(begin, end):
            rest = quotient(unit, groups)
            first = (unit - rest * groups) * 4
            source_on, target_on = find_row(w.outer, rank, rest, at)
            source = w.source + source_on + first * source_across
            target = w.target + target_on + first * target_across
            before, after, far = tally.find(w, rank, at, first)
            height = smaller(4, across - first)
            head = 0
            if count >= aligned_from:
                head = (target + width) % block // width if reverse else -target % block // width
            head = smaller(head, count) if height == 4 else count
            whole = (count - head) // ROW_BLOCK
            done = head + whole * ROW_BLOCK
            for r in range(height):
                s, t = source + r * source_across, target + r * target_across
                total = tally.line(s, step, t, step, head, tally.opening(before, r * far))
                tally.store_total(totals, r * total_width, total)
            s, t = source + head * step - lead, target + head * step - lead
            for i in range(whole):
                rows(t + i * stride, target_across, s + i * stride, source_across, totals)
            few = (count - done) // 4
            s, t = source + done * step - short_lead, target + done * step - short_lead
            for i in range(few):
                fours(t + i * 4 * step, target_across, s + i * 4 * step, source_across, totals)
            done += few * 4
            for r in range(height):
                s, t = source + r * source_across + done * step, target + r * target_across + done * step
                last = tally.line(s, step, t, step, count - done, tally.load_total(totals, r * total_width))
                if carried:
                    tally.store_total(after, r * far, last)
                if tally.clears and before == 0:
                    tally.store(target + r * target_across, 0, tally.zero)
        return 0

    return kernel


def make_columns(kind: str, function: str, exclusive: bool, carried: bool, depth: int, stream: bool) -> Any:
    """An axis across contiguous columns. A unit is a tile of columns of one outer step, down the whole axis.

    A depth of 2 takes two rows at once, which is quicker where a row of the tile is not all of a row in memory, and
    slower where it is (measured on Arm, 16 M elements: 6.1 ms against 7.4, and 10.4 against 5.8); NARROW is for rows
    that are no whole block. Blocks of columns are aligned to the lines of the target's first row; for `stream` to those
    of every row. The rows after are fetched ahead on x86, where it takes up to 20 % less time, and not on Arm, where it
    takes as much more; the target's too, with which 8 x 64 x 1,024 take 210 us, and 390 without (a Xeon).
    """
    fetches, is_narrow, by_lanes = figures().rows.fetches_written, depth == NARROW, has_lanes()
    tally = Tally(kind, function, exclusive, carried)
    columns = tally.make_columns(COLUMNS, depth, stream=stream)
    some, few = (tally.make_columns(COLUMNS, d, stream=False, partly=True) for d in (depth, 1))
    width, total_width = tally.width, tally.total_width
    stack, block = make_stack(COLUMN_TILE * total_width + 64 + COLUMNS * total_width), COLUMNS * width

    def one_by_one(source: int, target: int, totals: int, low: int, high: int) -> None:
        for j in range(low, high):
            total = tally.load_total(totals, j * total_width)
            after = tally.take(total, tally.load(source, j * width))
            tally.store(target, j * width, total if exclusive else after)
            tally.store_total(totals, j * total_width, after)

    def some_columns(
        source: int, source_step: int, target: int, target_step: int, totals: int, low: int, high: int
    ) -> None:
        # Fewer than a block, `depth` rows of them.
        if by_lanes:
            if low < high:
                s, t = source + low * width, target + low * width
                some(t, target_step, s, source_step, totals + low * total_width, high - low)
        else:
            for k in range(depth):
                one_by_one(source + k * source_step, target + k * target_step, totals, low, high)

    def one_row(source: int, target: int, totals: int, wide: int) -> None:
        if by_lanes:
            for j in range(0, wide, COLUMNS):
                s, t, number = source + j * width, target + j * width, smaller(COLUMNS, wide - j)
                few(t, 0, s, 0, totals + j * total_width, number)
        else:
            one_by_one(source, target, totals, 0, wide)

    def move_totals(target: int, target_step: int, source: int, source_step: int, number: int) -> None:
        if target_step == source_step:  # as they lie side by side on the stack
            copy_bytes(target, source, number * total_width)
        else:
            for j in range(number):
                tally.store_total(target, j * target_step, tally.load_total(source, j * source_step))

    def kernel(words: int, begin: int, end: int) -> int:
        w = SCAN(words)
        count, across, source_step, target_step = w.count, w.across, w.source_step, w.target_step
        tiles, rank, tile = w.tiles, w.rank, w.tile
        memory, at = stack(), scratch()
        deep = count // depth * depth
        for unit in range(begin, end):
            rest = quotient(unit, tiles)
            low = (unit - rest * tiles) * tile
            wide = smaller(tile, across - low)
            source_on, target_on = find_row(w.outer, rank, rest, at)
            source = w.source + source_on + low * width
            target = w.target + target_on + low * width
            head = 0 if is_narrow else smaller(-target % block // width, wide)
            blocks = (wide - head) // COLUMNS
            done = head + blocks * COLUMNS
            totals = memory + -(head * total_width) % 64  # those of whole blocks are aligned
            before, after, far = tally.find(w, rank, at, low)
            if before != 0:
                move_totals(totals, total_width, before, far, wide)
            else:
                for j in range(wide):
                    tally.store_total(totals, j * total_width, tally.start)
            for i in range(0, deep, depth):
                s, t = source + i * source_step, target + i * target_step
                if not is_narrow:
                    some_columns(s, source_step, t, target_step, totals, 0, head)
                    for j in range(head, done, COLUMNS):
                        if fetches:
                            for k in range(depth):
                                prefetch(s + (depth + k) * source_step + j * width)
                                if not stream:
                                    prefetch_target(t + (depth + k) * target_step + j * width)
                        columns(t + j * width, target_step, s + j * width, source_step, totals + j * total_width)
                some_columns(s, source_step, t, target_step, totals, done, wide)
            for i in range(deep, count):
                one_row(source + i * source_step, target + i * target_step, totals, wide)
            if carried:
                move_totals(after, far, totals, total_width, wide)
            if tally.clears and before == 0:
                for j in range(wide):
                    tally.store(target, j * width, tally.zero)
        return 0

    return kernel


# Running sums and products of one long row, which all threads share.


PIECES, PIECE = 4, 4112
"""A tile of a long row: pieces that are added up side by side, not a power of two apart, for the cache's sake.

Fixed, so that the answer does not depend on the number of threads."""
TILE = PIECES * PIECE
PATIENCE = 200
"""Pauses, of 10 to 45 ns, for which a tile's total is waited for: about as long as it takes to add the tile up."""


def make_long(kind: str, function: str, exclusive: bool, carried: bool, reverse: bool) -> Any:
    """One long contiguous row. A unit is a worker, which takes tiles in turn until none is left.

    The chain is a ticket, then for each tile the total of everything up to it and, one word on, whether it is there.
    A worker adds its tile up, takes the total before it, passes its own on, and only then writes: each element is
    fetched from memory once. Whoever has a tile may have lost its core; those after it wait some microseconds, then add
    that tile up themselves, to the same bits. Nobody waits for a thread that does not run.
    """
    tally = Tally(kind, function, exclusive, carried)
    rows, reduce = tally.make_rows(ROW_BLOCK, reverse=reverse, stream=False), tally.make_reduce(ROW_BLOCK)
    stack = make_stack(320)
    width, total_width = tally.width, tally.total_width
    block = ROW_BLOCK * width
    forward = -1 if reverse else 1
    lead = block - width if reverse else 0
    step = forward * width

    def add_up(source: int, sums: int, lanes: int) -> None:
        # The total of each piece, in lanes of which the order is fixed.
        for p in range(PIECES):
            for j in range(ROW_BLOCK):
                tally.store_total(lanes, j * total_width, tally.start)
            for i in range(PIECE // ROW_BLOCK):
                reduce(source + (p * PIECE + i * ROW_BLOCK) * step - lead, lanes)
            whole = tally.start
            for j in range(ROW_BLOCK):
                whole = tally.take(whole, tally.load_total(lanes, j * total_width))
            tally.store_total(sums, p * total_width, whole)

    def find_total(chain: int, t: int, source: int, before: int, sums: int, lanes: int) -> Any:
        # The total of everything before tile t.
        link = chain + 16 * t
        tries = 0
        while tries < PATIENCE and load_acquire(link - 8) == 0:
            pause()
            tries += 1
        known = t
        while known > 0 and load_acquire(chain + 16 * known - 8) == 0:
            known -= 1
        carry = tally.opening(before, 0)
        if known > 0:
            carry = tally.load_total(chain + 16 * known - 16, 0)
        for k in range(known, t):
            add_up(source + k * TILE * step, sums, lanes)
            fence()  # in place its elements are written as soon as its total is there
            if load_acquire(chain + 16 * k + 8):
                carry = tally.load_total(chain + 16 * k, 0)
            else:
                for p in range(PIECES):
                    carry = tally.take(carry, tally.load_total(sums, p * total_width))
        return carry

    def kernel(words: int, begin: int, end: int) -> int:
        w = SCAN(words)
        source, target, count, ticket = w.source, w.target, w.count, w.tile
        before, after, _ = tally.find(w, 0, 0, 0)
        chain = ticket + 16
        tiles = quotient(count + TILE - 1, TILE)
        totals = stack()
        sums, others, lanes = totals + 64, totals + 128, totals + 192
        while True:
            t = take_ticket(ticket)
            if t >= tiles:
                return 0
            first = t * TILE
            s, d = source + first * step, target + first * step
            length = smaller(TILE, count - first)
            if length < TILE:  # the last one: nobody needs its total
                total = tally.line(s, step, d, step, length, find_total(chain, t, source, before, others, lanes))
                if carried:
                    tally.store_total(after, 0, total)
                if tally.clears and t == 0 and before == 0:
                    tally.store(d, 0, tally.zero)
                continue
            add_up(s, sums, lanes)
            carry = find_total(chain, t, source, before, others, lanes)
            for p in range(PIECES):
                tally.store_total(totals, p * total_width, carry)
                carry = tally.take(carry, tally.load_total(sums, p * total_width))
            tally.store_total(chain + 16 * t, 0, carry)
            store_release(chain + 16 * t + 8, 1)
            if carried and t == tiles - 1:
                tally.store_total(after, 0, carry)
            fence()  # before the tile is written: who still adds it up, in place, then sees that its total is there
            for i in range(PIECE // ROW_BLOCK):
                at = forward * i * block - lead
                rows(d + at, PIECE * step, s + at, PIECE * step, totals)
            if tally.clears and t == 0 and before == 0:
                tally.store(d, 0, tally.zero)

    return kernel
