"""Small-M products (GEMV-like): the right factor is read once, in the order in which it lies; vectors lie across
columns, or along K as dot products of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import Steps, load_masked
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.microkernel import CHAIN, SCALARS
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.row import givens
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.expressions import Expr

# Contractions of a few rows: the right factor is computed as it is read, once, in the order in which it lies.
#
# `make_strip` is for columns that lie side by side:
# `kernel(w, bases, a, k0, n0, columns, room, total, pitch, steps, first)` takes some steps at once along as many
# columns of a unit as the first cache has room for the sums of; sums of a chain are somewhere in `room`, and are
# added to `total`, or written there where `first` is 1. They are the bits that tiles give, but for one row on an Arm,
# which takes one step after the other.
#
# Steps that lie side by side are for `make_dots`. Both find the views of the right factor in the words of its section:
# each one's step along the row, and across.


WIDE = 16
"""Elements of the right factor that are computed at once."""
NEVER: Mapping[int, int] = {}
MASKED = {"float": "f32", "i32": "i32"}
"""Elements of which an x86 reads some lanes: 1 x 1000 x 1000 takes 180 us so, and 188 lane by lane."""


class SmallM(NamedTuple):
    """The parameters of the text, beside the tree."""

    rows: int
    lanes: int
    pitch: int
    """Rows that a step of a has room for."""
    by_lane: bool
    """As a tile has it."""
    is_short: bool
    """Whether there are few steps."""
    is_cut: bool
    """Whether a unit has some of the columns."""
    leaves: tuple[Expr, ...]
    lie: str
    """A letter for each leaf: p for packed along the row, r for repeated, s for strided."""


class Reader:
    """The common part of both: the right factor, computed from where its views lie."""

    def __init__(self, value: Expr, shape: SmallM) -> None:
        self.text, self.shape, self.nodes = Steps(), shape, list(walk(value))
        self.kind = "f32" if kind_of(value.type) == "f32" else "i32"
        self.vector = f"<{shape.lanes} x {SCALARS[self.kind]}>"
        self.found: dict[Expr, str] = {}

    def enter(self, views: str) -> None:
        """The views' addresses at a place given as (across, along), and the user's numbers."""
        text, shape = self.text, self.shape
        count, numbers = len(shape.leaves) + 1, givens(self.nodes)  # the last one is where others put what they compute
        across, along = views.split(", ")
        for v in range(len(shape.leaves)):
            text.read(f"base{v}", f"bases + {8 * v}")
            text.read(f"step{v}", f"w + {8 * (count + v)}")
            text.read(f"across{v}", f"w + {8 * (2 * count + len(numbers) + v)}")
            text.let(f"view{v}", f"base{v} + {across} * across{v} + {along} * step{v}")
        for i, node in enumerate(numbers):
            scalar = scalar_text(kind_of(node.type))
            self.found[node] = text.new(f"load {scalar}, ptr {text.place(f'w + {8 * (2 * count + i)}')}")

    def compute(
        self,
        rows: Sequence[str],
        at: str,
        lanes: int,
        last: str = "",
        *,
        below: int = 0,
        ahead: Mapping[int, int] = NEVER,
        soon: str = "",
    ) -> list[str]:
        """Vectors of some rows at an index along them: each row is given as a number of steps across.

        `last` is the index at which a row ends, where it may end before the vector. What lies some rows below is
        fetched into the second cache, and what lies some bytes ahead into the caches given; or what lies at the index
        `soon`, some rows below or not.
        """
        text, made = self.text, list[str]()
        for row in rows:
            found = {node: text.spread(x, scalar_text(kind_of(node.type)), lanes) for node, x in self.found.items()}
            for v, (leaf, letter) in enumerate(zip(self.shape.leaves, self.shape.lie, strict=True)):
                found[leaf] = self._leaf(leaf, letter, v, row, at, lanes, last)
                for far, near in ({0: 2} if below else ahead).items() if letter == "p" else ():
                    place = text.place(f"view{v} + ({row} + {below}) * across{v} + {at} * step{v} + {far}")
                    text.fetch(place, near=near)
                if soon and letter == "p":
                    for more in range(0, lanes, WIDE):
                        index = f"({soon} + {more})"
                        text.fetch(text.place(f"view{v} + ({row} + {soon}_down) * across{v} + {index} * step{v}"))
            made.append(write_tree(text, self.nodes, found, lanes))
        return made

    def find_soon(self, at: str, start: str, stop: str, down: int) -> str:
        """Name the index that is read some time after another: past the end of these rows, of those that come next."""
        self.text.let(f"{at}_over", f"1 if {at} + {figures().small_m.prefetch_elements} >= {stop} else 0")
        self.text.let(f"{at}_soon", f"{at} + {figures().small_m.prefetch_elements} - {at}_over * ({stop} - {start})")
        self.text.let(f"{at}_soon_down", f"{at}_over * {down}")
        return f"{at}_soon"

    def _leaf(self, leaf: Expr, letter: str, v: int, row: str, at: str, lanes: int, last: str) -> str:
        text, scalar = self.text, scalar_text(kind_of(leaf.type))
        here = f"view{v} + {row} * across{v}"
        if leaf.op == "coordinate":
            value = "poison"
            for lane in range(lanes):
                index = text.value(f"{here} + ({at} + {lane}) * step{v}")
                value = text.new(f"insertelement <{lanes} x i64> {value}, i64 {index}, i32 {lane}")
            return value
        if letter == "r":
            return text.spread(text.new(f"load {scalar}, ptr {text.place(here)}, align 1"), scalar, lanes)
        if letter == "p" and not last:
            return text.new(f"load <{lanes} x {scalar}>, ptr {text.place(f'{here} + {at} * step{v}')}, align 1")
        if letter == "p" and scalar in MASKED and not self.shape.by_lane:
            left = text.spread(text.new(f"trunc i64 {text.value(f'{last} - {at}')} to i32"), "i32", lanes)
            numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
            mask = text.new(f"icmp slt <{lanes} x i32> <{numbers}>, {left}")
            return load_masked(text, MASKED[scalar], lanes, mask, text.place(f"{here} + {at} * step{v}"), 1)
        value = "poison"
        for lane in range(lanes):
            on = f"min({at} + {lane}, {last} - 1)" if last else f"({at} + {lane})"
            one = text.new(f"load {scalar}, ptr {text.place(f'{here} + {on} * step{v}')}, align 1")
            value = text.new(f"insertelement <{lanes} x {scalar}> {value}, {scalar} {one}, i32 {lane}")
        return value

    def parts(self, value: str, lanes: int) -> list[str]:
        """A wide vector as ones of the CPU's."""
        own, wide = self.shape.lanes, f"<{lanes} x {SCALARS[self.kind]}>"
        if lanes == own:
            return [value]
        masks = [", ".join(f"i32 {own * j + k}" for k in range(own)) for j in range(lanes // own)]
        return [self.text.new(f"shufflevector {wide} {value}, {wide} poison, <{own} x i32> <{mask}>") for mask in masks]

    def multiply(self, a: str, b: str, total: str) -> str:
        """Add a product to a sum."""
        text, vector = self.text, self.vector
        if self.kind == "f32":
            return text.call("fmuladd", vector, [a, b, total])
        return text.new(f"add {vector} {text.new(f'mul {vector} {a}, {b}')}, {total}")

    def add(self, a: str, b: str) -> str:
        """Add two sums."""
        return self.text.new(f"{'fadd' if self.kind == 'f32' else 'add'} {self.vector} {a}, {b}")

    def load(self, line: str) -> str:
        """The vector at an address."""
        return self.text.new(f"load {self.vector}, ptr {self.text.place(line)}, align 4")

    def store(self, value: str, line: str) -> None:
        """Set the vector at an address."""
        self.text.add(f"store {self.vector} {value}, ptr {self.text.place(line)}, align 4")


def make_strip(value: Expr, shape: SmallM) -> str:
    """The text of the kernel for columns that lie side by side."""
    return _Strip(value, shape).write()


class _Strip(Reader):
    def write(self) -> str:
        text, rows, of = self.text, self.shape.rows, figures().small_m
        is_deep = rows == 1 or (not self.shape.by_lane and rows * of.streams <= self.shape.lanes)
        is_whole = is_deep and not (self.shape.by_lane and self.shape.is_cut)
        depth = (1 if self.shape.by_lane else of.streams) if is_whole else of.steps
        # Of more rows each factor is read for two vectors: 8 x 768 x 768 takes 140 us so, and 165 by one.
        self.wide = WIDE if is_deep else max(WIDE, 2 * self.shape.lanes)
        width = figures().gemm.skinny_columns // (1 if is_deep else 1 << (rows - 1).bit_length()) // WIDE * WIDE
        self.pitch = 4 * width + LINE  # whose lines do not share the cache's places
        self.enter("k0, n0")
        place = f"(view{self.shape.lie.index('p')} + {of.arm_apart} - room) & {of.arm_way - LINE}"
        away = place if self.shape.by_lane else "0"
        text.let("part", f"room + ({away})")
        text.let("deep", f"steps - steps % {depth}")
        with text.loop("b", 0, "columns", width):
            text.let("stop", f"min(b + {width}, columns)")
            text.let("whole", f"stop - (stop - b) % {self.wide}")
            text.let("most", f"stop - (stop - b) % {WIDE}")
            with text.loop("z", 0, "stop - b", self.shape.lanes):
                for i in range(rows):
                    self.store("zeroinitializer", f"part + {self.pitch * i} + z * 4")
            with text.loop("s", 0, "deep", depth):
                self._pass("s", depth)
            with text.loop("t", "deep", "steps"):
                self._pass("t", 1)
            with text.loop("e", "b", "stop", self.shape.lanes):
                for i in range(rows):
                    place = f"total + {i} * pitch + e * 4"
                    new = self.load(f"part + {self.pitch * i} + (e - b) * 4")
                    added = self.add(self.load(place), new)
                    test = text.new("icmp ne i64 %first, 0")
                    self.store(text.new(f"select i1 {test}, {self.vector} {new}, {self.vector} {added}"), place)
        text.add("ret void")
        names = ("w", "bases", "a", "k0", "n0", "columns", "room", "total", "pitch", "steps", "first")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _pass(self, step: str, depth: int) -> None:
        """Some steps along the columns that have sums."""
        text, shape = self.text, self.shape
        self._read_factors(step, depth)
        rows = [f"({step} + {d})" for d in range(depth)]
        pieces = [(self.wide, "b", "whole"), (WIDE, "whole", "most"), (shape.lanes, "most", "stop")]
        for lanes, start, stop in pieces if self.wide > WIDE else (pieces[0], pieces[2]):
            name, last = f"{step}_{start}", "columns" if stop == "stop" else ""
            with text.loop(name, start, stop, lanes):
                below = depth if shape.by_lane and depth > 1 and not last else 0
                is_read = shape.by_lane and shape.rows == depth == 1 and not last
                ahead = figures().small_m.arm_prefetch if is_read else NEVER
                soon = "" if shape.by_lane or start != "b" else self.find_soon(name, "b", "whole", depth)
                wide = self.compute(rows, name, lanes, last, below=below, ahead=ahead, soon=soon)
                columns = [self.parts(each, lanes) for each in wide]
                for i in range(shape.rows):
                    factors = [self._factor(step, d, i) for d in range(depth)]
                    places = [
                        f"part + {self.pitch * i} + ({name} - b + {shape.lanes * j}) * 4"
                        for j in range(lanes // shape.lanes)
                    ]
                    sums = [self.load(place) for place in places]
                    # One row has sums for half of the steps each, as in a tile.
                    is_halved = shape.rows == 1 and depth == figures().small_m.streams and self.kind == "f32"
                    halves, old = [], ["zeroinitializer"] * len(places) if is_halved else sums
                    for d in range(depth):
                        old = [self.multiply(factors[d], columns[d][j], one) for j, one in enumerate(old)]
                        if is_halved and d in (depth // 2 - 1, depth - 1):
                            halves.append(old)
                            old = ["zeroinitializer"] * len(places)
                    if is_halved:
                        both = [self.add(*pair) for pair in zip(*halves, strict=True)]
                        old = [self.add(*pair) for pair in zip(sums, both, strict=True)]
                    sums = old
                    for place, made in zip(places, sums, strict=True):
                        self.store(made, place)

    def _read_factors(self, step: str, depth: int) -> None:
        """The vectors of the left factor, where they are taken by the lane."""
        self.factors: dict[tuple[int, int], str] = {}
        for d in range(depth if self.shape.by_lane else 0):
            for i in range(0, self.shape.rows, self.shape.lanes):
                self.factors[d, i] = self.load(f"a + ({step} + {d}) * {4 * self.shape.pitch} + {4 * i}")

    def _factor(self, step: str, d: int, i: int) -> str:
        """An element of the left factor in every lane."""
        text, shape, scalar = self.text, self.shape, SCALARS[self.kind]
        if shape.by_lane:
            found = self.factors[d, i - i % shape.lanes]
            mask = ", ".join([f"i32 {i % shape.lanes}"] * shape.lanes)
            return text.new(
                f"shufflevector {self.vector} {found}, {self.vector} poison, <{shape.lanes} x i32> <{mask}>"
            )
        place = text.place(f"a + ({step} + {d}) * {4 * shape.pitch} + {4 * i}")
        return text.spread(text.new(f"load {scalar}, ptr {place}"), scalar, shape.lanes)


# Contractions of a few rows whose right factor lies along the steps: dot products of rows, read once.
#
# `kernel(w, bases, a, a.pitch, n0, columns, total, pitch, count)` takes a few columns at once along the steps: lane by
# lane, in chains of `CHAIN` vectors, and the lanes in pairs in the end.


FEW_COLUMNS = dict.fromkeys(((16, rows) for rows in range(5, 10)), 3)
"""The columns at once of more than four rows, by lanes and rows, where there are registers for more than two: 8 x 4096
x 4096 takes 6.2 ms so, and 6.7 by two (one thread)."""


def make_dots(value: Expr, shape: SmallM) -> str:
    """The text of the kernel for steps that lie side by side."""
    return _Dots(value, shape).write()


class _Dots(Reader):
    def write(self) -> str:
        text, rows = self.text, self.shape.rows
        # One row waits for memory alone: on an Arm its columns come one after the other, as they lie, with several sums
        # each. Those of a few steps wait for their sums: 12 x 1001 of 64 steps take 0.28 ms one by one, and 0.20 by
        # four. An x86 reads four columns at once sooner than one: 1 x 4096 x 4096 takes 5.8 ms, and 6.6.
        is_alone = rows == 1 and not self.shape.is_short and self.shape.by_lane
        columns, self.apart = (
            (1, 4) if is_alone else (FEW_COLUMNS.get((self.shape.lanes, rows), 4 if rows <= 4 else 2), 1)
        )
        words = self.apart * rows * self.shape.lanes // 2
        text.room("n_sums", columns * words)
        text.room("o_sums", words)
        self.enter("n0, 0 * n0")
        text.let("whole", f"count - count % {WIDE}")
        text.let("most", f"columns - columns % {columns}")
        with text.loop("n", 0, "most", columns):
            self._columns("n", columns)
        with text.loop("o", "most", "columns"):
            self._columns("o", 1)
        text.add("ret void")
        names = ("w", "bases", "a", "a_pitch", "n0", "columns", "total", "pitch", "count")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _columns(self, name: str, columns: int) -> None:
        """Some columns along all steps: sums of chains are on the stack."""
        text, shape = self.text, self.shape
        sums = [(i, j, q) for i in range(shape.rows) for j in range(columns) for q in range(self.apart)]
        places = [f"{name}_sums + {4 * shape.lanes * s}" for s in range(len(sums))]
        for place in places:
            self.store("zeroinitializer", place)
        rows = [f"({name} + {j})" for j in range(columns)]
        with text.loop(f"{name}_c", 0, "whole", CHAIN * shape.lanes):
            text.let(f"{name}_stop", f"min({name}_c + {CHAIN * shape.lanes}, whole)")
            for place, made in zip(places, self._chain(name, rows, sums), strict=True):
                self.store(self.add(self.load(place), made), place)
        with text.when("whole < count"):
            self._rest(rows, sums, places)
        for s in range(0, len(sums), self.apart):
            i, j, _ = sums[s]
            total = self.load(places[s])
            for place in places[s + 1 : s + self.apart]:
                total = self.add(total, self.load(place))
            at = text.place(f"total + {i} * pitch + ({name} + {j}) * 4")
            text.add(f"store {SCALARS[self.kind]} {self._fold(total)}, ptr {at}")

    def _rest(self, rows: list[str], sums: list[tuple[int, int, int]], places: list[str]) -> None:
        """The steps that fill no vector: nothing is added for those that there are not."""
        text, kind = self.text, f"<{WIDE} x {SCALARS[self.kind]}>"
        left = text.spread(text.value("count - whole"), "i64", WIDE)
        test = text.new(f"icmp slt <{WIDE} x i64> <{', '.join(f'i64 {k}' for k in range(WIDE))}>, {left}")
        parts = [
            self.parts(text.new(f"select <{WIDE} x i1> {test}, {kind} {x}, {kind} zeroinitializer"), WIDE)
            for x in self.compute(rows, "whole", WIDE, "count")
        ]
        for place, (i, j, q) in zip(places, sums, strict=True):
            total = self.load(place)
            for p in range(q, WIDE // self.shape.lanes, self.apart):
                a = self.load(f"a + {i} * a_pitch + (whole + {self.shape.lanes * p}) * 4")
                total = self.multiply(a, parts[j][p], total)
            self.store(total, place)

    def _chain(self, name: str, rows: list[str], sums: list[tuple[int, int, int]]) -> list[str]:
        """The sums of a chain, in registers."""
        text, shape = self.text, self.shape
        before, head, body, after = (text.label(name) for _ in range(4))
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name}_k = phi i64 [ %{name}_c, %{before} ], [ %{name}_k1, %{body} ]")
        for s in range(len(sums)):
            text.add(f"%{name}.s{s} = phi {self.vector} [ zeroinitializer, %{before} ], [ %{name}.t{s}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}_k, %{name}_stop")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        of = figures().small_m
        ahead = NEVER if not shape.by_lane else of.arm_prefetch_dots if shape.rows == 1 else of.arm_prefetch
        soon = "" if shape.by_lane else self.find_soon(f"{name}_k", "0", "whole", len(rows))
        parts = [self.parts(x, WIDE) for x in self.compute(rows, f"{name}_k", WIDE, ahead=ahead, soon=soon)]
        now = {s: f"%{name}.s{s}" for s in range(len(sums))}
        for p in range(WIDE // shape.lanes):
            loaded = [self.load(f"a + {i} * a_pitch + ({name}_k + {shape.lanes * p}) * 4") for i in range(shape.rows)]
            for s, (i, j, q) in enumerate(sums):
                if q == p % self.apart:
                    now[s] = self.multiply(loaded[i], parts[j][p], now[s])
        for s, value in now.items():
            text.add(f"%{name}.t{s} = bitcast {self.vector} {value} to {self.vector}")
        text.let(f"{name}_k1", f"{name}_k + {WIDE}")
        text.add(f"br label %{head}", f"{after}:")
        return [f"%{name}.s{s}" for s in range(len(sums))]

    def _fold(self, value: str) -> str:
        """The sum of all lanes, in pairs."""
        text, lanes = self.text, self.shape.lanes
        while lanes > 1:
            lanes //= 2
            # Lanes that nobody asks for stay open: LLVM 22 adds up the wrong ones of integers on an x86 otherwise.
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(self.shape.lanes))
            other = text.new(
                f"shufflevector {self.vector} {value}, {self.vector} poison, <{self.shape.lanes} x i32> <{mask}>"
            )
            value = self.add(value, other)
        return text.new(f"extractelement {self.vector} {value}, i32 0")
