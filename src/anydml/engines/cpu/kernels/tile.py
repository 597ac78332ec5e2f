"""The tile of a contraction: some rows by some vectors of columns, held in registers along the folded dimension.

`kernel(a, b, b.step, c, c.step, count, first, b.next, far, far.step, a.step)` adds the sum of a[k]·b[k] over `count`
steps to the tile at c, or writes it there where `first` is 1: in chains of `CHAIN` steps, whose sums are kept on the
stack until all are there. A step of a has the rows one after the other, `pitch` of them; or rows lie in lines: `LINED`
steps of the first row, those of the next, and so on; or they lie `a.step` bytes apart. A step of b has the columns,
`b.step` bytes after those of the step before, and in further panels `b.next` bytes after those of the panel before. One
of a single panel, with rows in lines or apart, has as many bytes fetched from the address `b.next` on as a row has:
what is read next. One that `fetches` has a step's columns fetched for every `UNROLLED` steps, from the address
`far` on, each `far.step` bytes after the one before. Each sum is taken in k's order, whatever the tile; but in a
halved one of one row, which has the registers, each half of `UNROLLED` products has a sum of its own: those are added.

One with an ending computes results from the sums and writes them elsewhere: `…, to, to.step, section, bases, row,
column)` are where, the words of the result, the addresses of its views, and the place of the tile among all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.fourfold import write_dot, write_pairs, write_small
from anydml.engines.cpu.kernels.matrices import make_matrices
from anydml.engines.cpu.kernels.some import load_some
from anydml.engines.cpu.kernels.tile_results import CHAINED
from anydml.engines.cpu.kernels.tile_rows import UNROLLED, TileRows

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.endings import Ending

CHAIN = 128
"""Products that are added up one after the other: a sum of such sums has a smaller error than one of all."""
AHEAD = 1024
"""Bytes ahead that packed columns are fetched, a line for each step: a hundredth of the time (Arm Neoverse-N1)."""
BYTES = ("i8", "pairs", "small", "matrices")
"""The kinds of tiles whose elements are four bytes."""
SCALARS = {"f32": "float", "f16": "float", "i32": "i32", **dict.fromkeys(BYTES, "i32")}
MOST_LINES = 2
"""Lines of columns that are fetched for a step at most: others come by themselves, a stream of the CPU's."""


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
    """How rows are read that are not packed, see `unpacked_tile`; none where they are."""
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
    ending: Ending | None = None
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
        *plain, ending = self
        return " ".join(["tile", *map(str, plain), *([ending.name] if ending is not None else [])])


def make_tile(tile: Tile) -> str:
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
        if tile.ending is None:
            for block in CHAINED:
                self.put_down(block, ".last")
                text.add("ret void")
        else:
            self.finish(tile.ending)
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
            lines = min(-(-self.width * tile.lanes * tile.vectors * UNROLLED // LINE), MOST_LINES * UNROLLED)
            for line in range(lines * step // UNROLLED, lines * (step + 1) // UNROLLED):
                self.text.fetch(self.at("%b.main", AHEAD + LINE * line))
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
