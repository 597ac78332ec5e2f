"""The GEMM microkernel: a register tile of some rows by some vectors of columns, accumulated along K.

Operand modes of A (packed by K steps, packed in lines, or read in place with a stride), accumulation, and the store:
sums kept, added to what lies in memory, or an epilogue computed from them in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.function import Steps, load_some, store_some
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.amx import make_matrices
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.gemm.packing import LINED
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.quant.dot4 import write_dot, write_pairs, write_small

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.epilogue import Epilogue

# The results of a tile: sums are kept, put down where more is added to them, or results are computed from them.


CHAINED = ("write", "add", "more")
"""Blocks of text for a chain's sums: they are the first ones, added to those at c, or to those of the chains before."""


class TileResults:
    """The part of a tile's text that comes after its sums: %s0.0.rest, %s0.1.rest and so on, by row and vector."""

    def __init__(self, tile: Tile, scalar: str) -> None:
        self.tile, self.text, self.vector = tile, Steps(), f"<{tile.lanes} x {scalar}>"
        self._kind = "f32" if scalar == "float" else "i32"
        self.sums = [(i, j) for i in range(tile.rows) for j in range(tile.across)]

    def at(self, base: str, offset: int) -> str:
        """The place some bytes on."""
        return self.text.new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, base: str, offset: int, kind: str) -> str:
        """The value that lies there."""
        return self.text.new(f"load {kind}, ptr {self.at(base, offset)}, align 4")

    def put_down(self, block: str, more: str = "") -> None:
        """Write the sums to the tile at c, as a block has them."""
        self.text.add(f"{block}{more}:")
        sums = self.sums_of(block)
        for (i, j), place in self._places():
            store_some(self.text, self._kind, self.tile.lanes, self.tile.present(j), sums[i, j], place, 4)

    def keep(self, block: str) -> None:
        """Keep the sums for the next chain, as a block has them: where nothing else is near.

        To put them down in the tile at c costs 120 cycles a chain, and this 35 (14 x 32, rows 1 KiB apart, 16 lanes).
        """
        self.text.add(f"{block}:")
        sums = self.sums_of(block)
        for (i, j), place in self._kept():
            self.text.add(f"store {self.vector} {sums[i, j]}, ptr {place}, align 4")

    def sums_of(self, block: str) -> dict[tuple[int, int], str]:
        """The sums of a block: as they are, with those of the tile at c, or with those that are kept."""
        places = {"write": (), "add": self._places(), "more": self._kept()}[block]
        text, op = self.text, "fadd" if "float" in self.vector else "add"
        found = {(i, j): f"%s{i}.{j}.rest" for i, j in self.sums}
        for one, place in places:
            count = self.tile.present(one[1]) if block == "add" else self.tile.lanes
            old = load_some(text, self._kind, self.tile.lanes, count, place, 4)
            found[one] = text.new(f"{op} {self.vector} {old}, {found[one]}")
        return found

    def _kept(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Of the sums that are kept, vector by vector."""
        for n, one in enumerate(self.sums):
            yield one, self.at("%kept", 4 * self.tile.lanes * n)

    def _places(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Of the tile at c, vector by vector."""
        row = "%c.entry"
        for i in range(self.tile.rows):
            if i:
                row = self.text.new(f"getelementptr i8, ptr {row}, i64 %c.step")
            for j in range(self.tile.across):
                yield (i, j), self.at(row, 4 * self.tile.lanes * j)

    def finish(self, epilogue: Epilogue, blocks: tuple[str, ...] = CHAINED) -> None:
        """Compute results from the last sums, row by row."""
        text, lanes, sums = self.text, self.tile.lanes, {}
        for block in blocks:
            if epilogue.is_long:
                self.put_down(block, ".last")
            else:
                text.add(f"{block}.last:")
                sums[block] = self.sums_of(block)
            text.add("br label %finish")
        text.add("finish:")
        for i, j in self.sums if sums else ():
            ways = ", ".join(f"[ {found[i, j]}, %{block}.last ]" for block, found in sums.items())
            text.add(f"%t{i}.{j} = phi {self.vector} {ways}")
        made = EpilogueText(epilogue, text, lanes)
        made.few[self.tile.across - 1] = self.tile.present(self.tile.across - 1)
        # Constants are found here: an address that is kept from the start on takes a register of the loop's.
        table = len(text.lines)
        text.table = text.new('call ptr asm sideeffect "", "=r,0"(ptr @numbers)')
        made.enter()
        text.add("%to.entry = inttoptr i64 %to to ptr")
        if epilogue.is_long:
            with text.loop("i_end", 0, self.tile.rows):
                row, old = (
                    text.new(f"getelementptr i8, ptr %{name}.entry, i64 {text.new(f'mul i64 %i_end, %{name}.step')}")
                    for name in ("to", "c")
                )
                self._finish_row(
                    made,
                    row,
                    0,
                    "row + i_end",
                    [self._sum_at(old, j) for j in range(self.tile.across)],
                )
        else:
            row = "%to.entry"
            for i in range(self.tile.rows):
                if i:
                    row = text.new(f"getelementptr i8, ptr {row}, i64 %to.step")
                self._finish_row(made, row, i, f"row + {i}", [f"%t{i}.{j}" for j in range(self.tile.across)])
        text.add("ret void")
        if not text.numbers:
            del text.lines[table]

    def _sum_at(self, row: str, j: int) -> str:
        """A row's vector of sums that are put down."""
        present = self.tile.present(j)
        return load_some(self.text, self._kind, self.tile.lanes, present, self.at(row, 4 * self.tile.lanes * j), 4)

    def _finish_row(self, made: EpilogueText, place: str, i: int, row: str, sums: list[str]) -> None:
        """Compute the results of a row, which is the tile's i-th or stands for each, and write them to a place."""
        lanes, kind = self.tile.lanes, kind_of(made.epilogue.value.type)
        for j, one in enumerate(sums):
            value = made.compute(one, i, j, row, f"column + {lanes * j}")
            at = self.at(place, int(kind[1:]) // 8 * lanes * j)
            store_some(self.text, kind, lanes, self.tile.present(j), value, at, 1)


# The rows of a tile: packed step by step, packed in lines, or as they lie in a matrix, some bytes apart.


UNROLLED = LINED // 2
"""Steps at once: a hundredth quicker than 4."""
TRIO = 3
"""Rows that share a pointer: an x86 adds a stride, or twice that, as it reads."""


class TileRows(TileResults):
    """The part of a tile's text that reads rows."""

    def __init__(self, tile: Tile, scalar: str) -> None:
        super().__init__(tile, scalar)
        self.scalar = scalar
        self.row_bytes = 4 * (tile.rows if tile.is_lined else tile.pitch * (2 if tile.kind == "pairs" else 1))
        """Of a step of all packed rows."""
        self.rows = ["a", *(f"a{row}" for row in range(TRIO, tile.rows if tile.is_apart else 0, TRIO))]
        """Pointers to rows."""
        self.fetches_rows = not tile.by_lane and len(self.sums) >= figures().gemm.fetched_rows_sums
        self.fetches_next = (tile.is_lined or tile.is_apart) and tile.panels == 1

    def enter_rows(self) -> None:
        """Find the first step of rows, and that of a row of the next panel."""
        text = self.text
        text.add("%a.entry = inttoptr i64 %a to ptr")
        for name in self.rows[1:]:
            on = text.new(f"mul i64 %a.step, {name[1:]}")
            text.add(f"%{name}.entry = getelementptr i8, ptr %a.entry, i64 {on}")
        if self.fetches_next:
            text.add("%next.entry = inttoptr i64 %b.next to ptr")

    def enter_chain(self) -> None:
        """Find what is fetched first."""
        text = self.text
        if self.fetches_rows and not self.tile.is_apart:
            text.add(f"%g.chain = getelementptr i8, ptr %a.chain, i64 {self.row_bytes * LINED}")
        if self.fetches_next:
            done = text.new("sub i64 %count, %left.chain")
            text.add(f"%next.chain = getelementptr float, ptr %next.entry, i64 {done}")

    def enter_steps(self, name: str, phi: str) -> None:
        """The fetched rows of a loop."""
        if name == "main" and self.fetches_rows and not self.tile.is_apart:
            self.text.add("%g.main = phi ptr " + phi.format("%g.chain", "%g.main.on"))

    def begin_steps(self, name: str) -> None:
        """Have a line of the next panel fetched, and hold the pointers of a turn."""
        text = self.text
        if name == "main" and self.fetches_next:
            text.fetch(text.new("getelementptr float, ptr %next.chain, i64 %k.main"), near=2)
        for x in self.rows if self.tile.is_apart else ():  # LLVM would have one for each row, and be short of registers
            text.add(f'%{x}.{name}.here = call ptr asm sideeffect "", "=r,0"(ptr %{x}.{name})')

    def fetch_rows(self, step: int) -> None:
        """Have lines of rows fetched that later steps read, a few at each."""
        tile = self.tile
        if tile.is_apart:
            for i in range(2 * step, min(2 * step + 2, tile.rows)):
                self.text.fetch(self._row_of("main", i, LINE))
        elif LINE * step < self.row_bytes * UNROLLED:
            self.text.fetch(self.at("%g.main", LINE * step))

    def row_at(self, name: str, step: int, i: int) -> str:
        """Where a row's element of a step lies."""
        tile = self.tile
        if tile.is_apart:
            return self._row_of(name, i, 4 * step)
        return self.at(f"%a.{name}", 4 * (LINED * i + step) if tile.is_lined else self.row_bytes * step + 4 * i)

    def _row_of(self, name: str, i: int, offset: int) -> str:
        """Where a row lies in a matrix, some bytes on."""
        place, on = f"%{self.rows[i // TRIO]}.{name}.here", i % TRIO
        if on:
            by = "%a.step" if on == 1 else self.text.new("shl i64 %a.step, 1")
            place = self.text.new(f"getelementptr i8, ptr {place}, i64 {by}")
        return self.at(place, offset)

    def end_steps(self, name: str, steps: int) -> None:
        """Go on to the next steps."""
        text, tile = self.text, self.tile
        for x in self.rows:
            here = f"%{x}.{name}.here" if tile.is_apart else f"%{x}.{name}"
            text.add(f"%{x}.{name}.on = getelementptr i8, ptr {here}, i64 {self._rows_on(name, steps)}")
        if name == "main" and self.fetches_rows and not tile.is_apart:
            text.add(f"%g.main.on = getelementptr i8, ptr %g.main, i64 {self.row_bytes * steps}")

    def _rows_on(self, name: str, steps: int) -> str | int:
        """The bytes from some steps of a to the next ones."""
        tile, text = self.tile, self.text
        if tile.is_apart:
            return 4 * steps
        if not tile.is_lined:
            return self.row_bytes * steps
        if name == "rest":  # which has no line to its end
            return 4
        half = text.new(f"and i64 %k.main, {steps}")
        is_first = text.new(f"icmp eq i64 {half}, 0")
        return text.new(f"select i1 {is_first}, i64 {4 * steps}, i64 {4 * LINED * tile.rows - 4 * steps}")


# The tile of a contraction: some rows by some vectors of columns, held in registers along the folded dimension.
#
# `kernel(a, b, b.step, c, c.step, count, first, b.next, far, far.step, a.step)` adds the sum of a[k]·b[k] over `count`
# steps to the tile at c, or writes it there where `first` is 1: in chains of `CHAIN` steps, whose sums are kept on the
# stack until all are there. A step of a has the rows one after the other, `pitch` of them; or rows lie in lines:
# `LINED` steps of the first row, those of the next, and so on; or they lie `a.step` bytes apart. A step of b has the
# columns, `b.step` bytes after those of the step before, and in further panels `b.next` bytes after those of the panel
# before. One of a single panel, with rows in lines or apart, has as many bytes fetched from the address `b.next` on as
# a row has: what is read next. One that `fetches` has a step's columns fetched for every `UNROLLED` steps, from the
# address `far` on, each `far.step` bytes after the one before. Each sum is taken in k's order, whatever the tile; but
# in a halved one of one row, which has the registers, each half of `UNROLLED` products has a sum of its own: those are
# added.
#
# One with an epilogue computes results from the sums and writes them elsewhere: `…, to, to.step, section, bases, row,
# column)` are where, the words of the result, the addresses of its views, and the place of the tile among all.


CHAIN = 128
"""Products that are added up one after the other: a sum of such sums has a smaller error than one of all."""
BYTES = ("i8", "pairs", "small", "matrices")
"""The kinds of tiles whose elements are four bytes."""
SCALARS = {"f32": "float", "f16": "float", "i32": "i32", **dict.fromkeys(BYTES, "i32")}


class Tile(NamedTuple):
    """The parameters of a tile's text."""

    rows: int
    vectors: int
    lanes: int
    pitch: int
    """Rows that a step of a has room for."""
    by_lane: bool
    """Whether arithmetic takes a factor from a lane of a vector, as an Arm's; otherwise it is spread as it is read."""
    kind: str = "f32"
    """Of elements: `i8` are four bytes of as many steps, and `pairs` too, for an x86 without dot instructions, with
    rows as 16 bits: the first and third bytes of all, then the others; `small` are bytes for such a one, of which one
    factor's are small; `matrices` are bytes for matrix registers; of `f16` columns are FLOAT16, and rows FLOAT32.
    """
    panels: int = 1
    """Panels of columns that it takes at once, so that a few rows have sums enough to wait for none of them."""
    reads: str = ""
    """How rows are read that are not packed, see `conv/nhwc_microkernel.py`; none where they are."""
    is_turned: bool = False
    """Whether the left one of bytes is signed, and the right one is not, where that is an x86's other way round."""
    is_lined: bool = False
    """Whether rows lie in lines."""
    is_apart: bool = False
    """Whether rows are not packed, and lie some bytes apart."""
    fetches: bool = False
    """Whether columns are fetched that are multiplied later."""
    ahead: int = 0
    """Steps ahead that columns are fetched, where they lie in a matrix; 0 where they are packed."""
    steps: int = 0
    """Of each piece of rows that are not packed, where all have the same few; 0 where a table says how many."""
    tail: int = 0
    """Lanes of a row's last vector that there are; 0 where all are."""
    is_halved: bool = False
    """Whether products of some steps have sums of their own: ONNX Runtime's error of one row is half of a chain's."""
    epilogue: Epilogue | None = None
    """The computation of results from sums; None where they are results, or others compute those."""

    @property
    def across(self) -> int:
        """Vectors of a row, of all panels."""
        return self.vectors * self.panels

    def present(self, j: int) -> int:
        """The lanes of a row's vector that there are."""
        return self.tail if self.tail and j == self.across - 1 else self.lanes

    @property
    def reads_some(self) -> bool:
        """Whether columns are read that there are, and no more, so that none need to be packed."""
        return self.tail > 0 and self.kind == "f32" and not self.by_lane

    @property
    def is_tied(self) -> bool:
        """Whether LLVM reads steps ahead that it has no registers for, unless every step's sums are waited for.

        6 x 64 x 128 takes 3.0 us so, and 3.2 spilled (Arm Neoverse-N1); others are a hundredth slower tied.
        """
        if self.by_lane:
            return self.rows == 6 and self.vectors == 4
        return self.panels > 1 or self.is_apart or self.kind in ("pairs", "small")

    @property
    def name(self) -> str:
        """The kernel's."""
        *plain, epilogue = self
        return " ".join(["tile", *map(str, plain), *([epilogue.name] if epilogue is not None else [])])


def make_microkernel(tile: Tile) -> str:
    """The text of the kernel."""
    return make_matrices(tile) if tile.kind == "matrices" else TileText(tile).write()


def _chained(first: str, other: str) -> str:
    """A value for the first chain, and another for the others, by the blocks before."""
    return ", ".join([f"[ {first}, %entry ]", *(f"[ {other}, %{block} ]" for block in CHAINED)])


class TileText(TileRows):
    """The text of a tile."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(tile, SCALARS[tile.kind])
        self.width = 2 if tile.kind == "f16" else 4
        """Bytes of a column's step."""

    def write(self) -> str:
        """All of it."""
        text, tile = self.text, self.tile
        text.add("%c.entry = inttoptr i64 %c to ptr", "%b.entry = inttoptr i64 %b to ptr")
        self.enter_rows()
        text.add(f"%f.entry = getelementptr i8, ptr %c.entry, i64 {4 * tile.lanes * tile.across - 1}")
        for p in range(1, tile.panels):
            text.add(f"%b.panel{p} = mul i64 %b.next, {p}")
        if tile.ahead:
            text.add(f"%b.ahead = mul i64 %b.step, {tile.ahead}")
        if tile.fetches:
            text.add("%far.entry = inttoptr i64 %far to ptr")
        text.add(f"%kept = alloca [{len(self.sums)} x {self.vector}], align {LINE}")
        text.add("%is.first = icmp ne i64 %first, 0", "br label %chain", "chain:")
        for name in (*self.rows, "b"):
            text.add(f"%{name}.chain = phi ptr {_chained(f'%{name}.entry', f'%{name}.rest')}")
        text.add(f"%left.chain = phi i64 {_chained('%count', '%left.on')}")
        text.add(f"%is.begun = phi i1 {_chained('false', 'true')}")
        if tile.fetches:
            text.add(f"%far.chain = phi ptr {_chained('%far.entry', '%far.main')}")
        text.add(f"%is.long = icmp sgt i64 %left.chain, {CHAIN}")
        text.add(f"%steps = select i1 %is.long, i64 {CHAIN}, i64 %left.chain")
        text.add("%left.on = sub i64 %left.chain, %steps", f"%whole = and i64 %steps, {-UNROLLED}")
        self.enter_chain()
        self._loop("main", "chain", "0", "%whole", UNROLLED, "rest")
        self._loop("rest", "main", "%whole", "%steps", 1, "out")
        text.add("out:", "%is.over = icmp eq i64 %left.on, 0", "br i1 %is.over, label %last, label %on")
        text.add("on:", "br i1 %is.begun, label %more, label %begin", "begin:")
        text.add("br i1 %is.first, label %write, label %add")
        for block in CHAINED:
            self.keep(block)
            text.add("br label %chain")
        text.add("last:", "br i1 %is.begun, label %more.last, label %begin.last", "begin.last:")
        text.add("br i1 %is.first, label %write.last, label %add.last")
        names = ["a", "b", "b.step", "c", "c.step", "count", "first", "b.next", "far", "far.step", "a.step"]
        if tile.epilogue is None:
            for block in CHAINED:
                self.put_down(block, ".last")
                text.add("ret void")
        else:
            self.finish(tile.epilogue)
            names += ["to", "to.step", "section", "bases", "row", "column"]
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _loop(self, name: str, before: str, start: str, stop: str, steps: int, after: str) -> None:
        """Go through so many steps at once, from a block before to a block after."""
        text, phi = self.text, f"[ {{}}, %{before} ], [ {{}}, %{name}.on ]"
        if before == "chain":
            text.add(f"br label %{name}")
        text.add(f"{name}:", f"%k.{name} = phi i64 " + phi.format(start, f"%k.{name}.on"))
        for x in (*self.rows, "b"):
            text.add(f"%{x}.{name} = phi ptr " + phi.format(f"%{x}.{before}", f"%{x}.{name}.on"))
        if name == "main":
            text.add("%f.main = phi ptr " + phi.format("%f.entry", "%f.main.on"))
        self.enter_steps(name, phi)
        if name == "main" and self.tile.fetches:
            text.add("%far.main = phi ptr " + phi.format("%far.chain", "%far.main.on"))
        for i, j in self.sums:
            old = "zeroinitializer" if before == "chain" else f"%s{i}.{j}.{before}"
            text.add(f"%s{i}.{j}.{name} = phi {self.vector} " + phi.format(old, f"%s{i}.{j}.{name}.on"))
        text.add(f"%is.{name} = icmp slt i64 %k.{name}, {stop}")
        text.add(f"br i1 %is.{name}, label %{name}.on, label %{after}", f"{name}.on:")
        if name == "main":
            self._fetch_result("%k.main")
            if self.tile.fetches:
                for line in range(-(-self.width * self.tile.lanes * self.tile.vectors // LINE)):
                    text.fetch(self.at("%far.main", LINE * line), near=2)
                text.add("%far.main.on = getelementptr i8, ptr %far.main, i64 %far.step")
        self.begin_steps(name)
        so_far, b = {(i, j): f"%s{i}.{j}.{name}" for i, j in self.sums}, f"%b.{name}"
        is_halved = name == "main" and self.tile.is_halved
        none = dict.fromkeys(self.sums, "zeroinitializer")
        sums, half = dict(none if is_halved else so_far), none
        for u in range(steps):
            is_last = u == steps - 1
            if is_halved and u == steps // 2:
                half, sums = sums, dict(none)
            self._step(name, b, u, sums)
            if name == "main":
                self._fetch_factors(u, b)
            on = f"%b.{name}.on" if is_last else f"%b.{name}.{u}"
            text.add(f"{on} = getelementptr i8, ptr {b}, i64 %b.step")
            b = on
        if is_halved:
            sums = {one: self.added(so_far[one], self.added(half[one], value)) for one, value in sums.items()}
        for (i, j), value in sums.items():
            text.add(f"%s{i}.{j}.{name}.on = bitcast {self.vector} {value} to {self.vector}")
        self.end_steps(name, steps)
        text.add(f"%k.{name}.on = add i64 %k.{name}, {steps}", f"br label %{name}")

    def added(self, one: str, other: str) -> str:
        """The sum of two vectors of floats."""
        return self.text.new(f"fadd {self.vector} {one}, {other}")

    def _fetch_factors(self, step: int, b: str) -> None:
        """Have lines of factors fetched that later steps read: a few at each, for many at once would wait."""
        tile = self.tile
        if tile.ahead:
            on = self.text.new(f"getelementptr i8, ptr {b}, i64 %b.ahead")
            for line in range(-(-4 * tile.lanes * tile.vectors // LINE)):
                self.text.fetch(self.at(on, LINE * line))
        else:
            of = figures().gemm
            lines = min(-(-self.width * tile.lanes * tile.vectors * UNROLLED // LINE), of.prefetch_lines * UNROLLED)
            for line in range(lines * step // UNROLLED, lines * (step + 1) // UNROLLED):
                self.text.fetch(self.at("%b.main", of.prefetch_bytes + LINE * line))
        if self.fetches_rows:
            self.fetch_rows(step)

    def _fetch_result(self, k: str) -> None:
        """Have a row of the tile at c fetched, one every few steps: it is needed at the end, and seldom near.

        Of the lines that a row lies in the tile before has had the first one fetched.
        """
        text, wide = self.text, 4 * self.tile.lanes * self.tile.across
        for back in range(0, max(wide - LINE, 0) + 1, LINE):
            self.text.fetch(self.at("%f.main", -back), is_written=True)
        more = text.new(f"icmp slt i64 {k}, {UNROLLED * (self.tile.rows - 1)}")
        step = text.new(f"select i1 {more}, i64 %c.step, i64 0")
        text.add(f"%f.main.on = getelementptr i8, ptr %f.main, i64 {step}")

    def _step(self, name: str, b: str, step: int, sums: dict[tuple[int, int], str]) -> None:
        text, tile = self.text, self.tile
        panels = [b, *(text.new(f"getelementptr i8, ptr {b}, i64 %b.panel{p}") for p in range(1, tile.panels))]
        columns = [self._column(one, j) for one in panels for j in range(tile.vectors)]
        found = ""
        for i in range(tile.rows):
            if tile.by_lane and i % tile.lanes == 0:
                found = self.load(self.row_at(name, step, i), 0, self.vector)
            if tile.by_lane:
                lanes = ", ".join([f"i32 {i % tile.lanes}"] * tile.lanes)
                factor = text.new(
                    f"shufflevector {self.vector} {found}, {self.vector} poison, <{tile.lanes} x i32> <{lanes}>"
                )
            else:
                one = self.load(self.row_at(name, step, i), 0, self.scalar)
                factor = text.spread(one, self.scalar, tile.lanes)
            if tile.kind == "pairs":
                one = self.load(self.row_at(name, step, i), 4 * tile.pitch, "i32")
                other = text.spread(one, "i32", tile.lanes)
                for j in range(tile.across):
                    both = (factor, other)
                    sums[i, j] = write_pairs(text, tile.lanes, both, columns[j], sums[i, j], is_turned=tile.is_turned)
                continue
            for j in range(tile.across):
                sums[i, j] = self._multiply(factor, columns[j], sums[i, j])
        # Nothing is read before it is needed: LLVM would gather the loads of all steps, and be short of registers.
        if not tile.is_tied:
            text.add('call void asm sideeffect "", "~{memory}"()')
            return
        kind, letter = f"{{ {', '.join([self.vector] * len(sums))} }}", "w" if tile.by_lane else "v"
        ties = ",".join([*[f"={letter}"] * len(sums), *map(str, range(len(sums)))])
        given = ", ".join(f"{self.vector} {value}" for value in sums.values())
        if len(sums) == 1:  # a single output is no struct
            sums[0, 0] = text.new(f'call {self.vector} asm sideeffect "", "{ties},~{{memory}}"({given})')
            return
        held = text.new(f'call {kind} asm sideeffect "", "{ties},~{{memory}}"({given})')
        for k, place in enumerate(list(sums)):
            sums[place] = text.new(f"extractvalue {kind} {held}, {k}")

    def _column(self, b: str, j: int) -> str:
        """A vector of columns, by its number."""
        first = self.tile.lanes * j
        if self.tile.reads_some:
            return load_some(self.text, "f32", self.tile.lanes, self.tile.present(j), self.at(b, 4 * first), 4)
        if self.tile.kind != "f16":
            return self.load(b, 4 * first, self.vector)
        half = f"<{self.tile.lanes} x half>"
        place = self.at(b, 2 * first)
        wide = self.text.new(f"fpext {half} {self.text.new(f'load {half}, ptr {place}, align 2')} to {self.vector}")
        # An Arm's LLVM would convert the columns of steps to come as well, and be short of registers.
        way = f'call {self.vector} asm sideeffect "", "=w,0"({self.vector} {wide})'
        return self.text.new(way) if self.tile.by_lane else wide

    def _multiply(self, factor: str, column: str, total: str) -> str:
        text, vector = self.text, self.vector
        if SCALARS[self.tile.kind] == "float":
            return text.call("fmuladd", vector, [factor, column, total])  # two roundings where an old x86 has no other
        if self.tile.kind in BYTES:
            factors = (column, factor) if self.tile.is_turned else (factor, column)
            if self.tile.kind == "small":
                return write_small(text, self.tile.lanes, *factors, total)
            return write_dot(text, self.tile.lanes, self.tile.by_lane, *factors, total)
        return text.new(f"add {vector} {text.new(f'mul {vector} {factor}, {column}')}, {total}")
