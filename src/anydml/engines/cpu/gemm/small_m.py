"""Small-M products (GEMV-like): the right factor is read once, in the order in which it lies; vectors lie across
columns, or along K as dot products of rows.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN
from anydml.engines.cpu.gemm.operands import DOTS, NOWHERE, STRIP, WIDE, letters_of
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.map import word_of
from anydml.engines.cpu.rows.row import givens, load_leaf
from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.ir.expressions import Expr

# Contractions of a few rows: the right factor is computed as it is read, once, in the order in which it lies.
#
# `Strip` is for columns that lie side by side:
# `kernel(w, bases, a, k0, n0, columns, room, total, pitch, steps, first)` takes some steps at once along as many
# columns of a unit as the first cache has room for the sums of; sums of a chain are somewhere in `room`, and are
# added to `total`, or written there where `first` is 1. They are the bits that tiles give, but for one row on an Arm,
# which takes one step after the other.
#
# Steps that lie side by side are for `Dots`. Both find the views of the right factor in the words of its section:
# each one's step along the row, and across.


MASKED = ("float", "i32")
"""Elements of which some lanes are read."""


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
    layout: str
    """A letter for each leaf: p for packed along the row, r for repeated, s for strided."""


View = tuple["Value", "Value", "Value"]
"""Where a view begins, its step along the row, and across."""
Prefetch = tuple["Value | int", "Value", int, int]
"""What is fetched of each packed view: rows below, the index, bytes more, and the cache, 1 or 2."""


class Reader:
    """The common part of both: the right factor, computed from where its views lie."""

    ARGUMENTS: str

    def __init__(self, value: Expr, shape: SmallM) -> None:
        self.f, self.shape, self.nodes = (Function("kernel", self.ARGUMENTS), shape, list(walk(value)))
        self.arg = dict(zip(self.ARGUMENTS.split(), self.f.args, strict=True))
        self.scalar = "float" if kind_of(value.type) == "f32" else "i32"
        self.vector = vector_of(shape.lanes, self.scalar)
        self.found: dict[Expr, Value] = {}

    def enter(self, down: Value | int, on: Value | int) -> None:
        """The views' addresses, some rows down and some elements on, and the user's numbers."""
        f, w, count, numbers = (self.f, self.arg["w"], len(self.shape.leaves) + 1, givens(self.nodes))
        # The last view is where others put what they compute.
        self.views: list[View] = []
        for v in range(len(self.shape.leaves)):
            base = f.load("i64", self.arg["bases"] + 8 * v)
            step = f.load("i64", w + 8 * (count + v))
            across = f.load("i64", w + 8 * (2 * count + len(numbers) + v))
            self.views.append((base + across * down + step * on, step, across))
        for i, node in enumerate(numbers):
            self.found[node] = f.load(scalar_text(kind_of(node.type)), w + 8 * (2 * count + i))

    def compute(
        self,
        first: Value,
        rows: int,
        at: Value,
        lanes: int,
        last: Value | None = None,
        prefetched: Sequence[Prefetch] = (),
    ) -> list[Value]:
        """Vectors of some rows at an index along them, from a row on: steps across are counted.

        `last` is the index at which a row ends, where it may end before the vector.
        """
        f, made = self.f, []
        for d in range(rows):
            row = first + d
            found: dict[Expr, str] = {node: f.splat(x, lanes) for node, x in self.found.items()}
            for view, leaf, letter in zip(self.views, self.shape.leaves, self.shape.layout, strict=True):
                place, step, across = view
                found[leaf] = self._leaf(leaf, letter, view, row, at, lanes, last)
                for below, index, far, cache in prefetched if letter == "p" else ():
                    f.prefetch(place + (row + below) * across + index * step + far, cache=cache)
            made.append(f.value(write_tree(f, self.nodes, found, lanes), vector_of(lanes, self.scalar)))
        return made

    def find_soon(self, at: Value, start: Value | int, stop: Value, down: int, lanes: int) -> list[Prefetch]:
        """What is read some time after an index: past the end of these rows, of those that come next."""
        distance = figures().small_m.prefetch_elements
        is_over = self.f.select(at + distance >= stop, 1, 0)
        index, below = at + distance - is_over * (stop - start), is_over * down
        return [(below, index + more, 0, 1) for more in range(0, lanes, WIDE)]

    def _leaf(self, leaf: Expr, letter: str, view: View, row: Value, at: Value, lanes: int, last: Value | None) -> str:
        f, scalar, step = self.f, scalar_text(kind_of(leaf.type)), view[1]
        here = view[0] + row * view[2]
        value = f.value("poison", vector_of(lanes, scalar))
        if leaf.op == "coordinate":
            for lane in range(lanes):
                value = f.insert(value, here + (at + lane) * step, lane)
            return value
        mask = None
        if letter == "p" and last is not None and scalar in MASKED and figures().small_m.masks_ends:
            left = f.splat(f.cast("trunc", last - at, "i32"), lanes)
            mask, last = f.vector("i32", range(lanes)) < left, None
        if last is None or letter == "r":
            place = f.pointer(here if letter == "r" else here + at * step)
            return load_leaf(f, letter, scalar, place, step, lanes, mask)
        for lane in range(lanes):
            value = f.insert(value, f.load(scalar, here + f.min(at + lane, last - 1) * step, align=1), lane)
        return value

    def parts(self, value: Value, lanes: int) -> list[Value]:
        """A wide vector as ones of the CPU's."""
        own = self.shape.lanes
        if lanes == own:
            return [value]
        return [self.f.shuffle(value, None, range(first, first + own)) for first in range(0, lanes, own)]

    def multiply(self, a: Value, b: Value, total: Value) -> Value:
        """Add a product to a sum."""
        return self.f.fmuladd(a, b, total) if self.scalar == "float" else a * b + total

    def load(self, at: Value) -> Value:
        """The vector at an address."""
        return self.f.load(self.vector, at)


class Strip(Reader):
    """The text of the kernel for columns that lie side by side."""

    ARGUMENTS = "w bases a k0 n0 columns room total pitch steps first"

    def write(self) -> str:
        """All of it."""
        f, arg, shape, of = self.f, self.arg, self.shape, figures().small_m
        rows, lanes, columns, steps = (shape.rows, shape.lanes, arg["columns"], arg["steps"])
        is_deep = rows == 1 or 1 < of.streams <= lanes // rows
        depth = of.streams if is_deep and not shape.is_cut else of.steps
        # Of more rows each factor is read for two vectors: 8 x 768 x 768 takes 140 us so, and 165 by one.
        self.wide = WIDE if is_deep else max(WIDE, 2 * lanes)
        width = figures().gemm.small_m_columns // (1 if is_deep else 1 << (rows - 1).bit_length()) // WIDE * WIDE
        self.pitch = 4 * width + LINE  # whose lines do not share the cache's places
        self.enter(arg["k0"], arg["n0"])
        self.part = arg["room"]
        if of.way_bytes:
            view = self.views[shape.layout.index("p")][0]
            self.part += (view + of.sums_apart - arg["room"]) & (of.way_bytes - LINE)
        deep = steps - steps % depth
        with f.loop(0, columns, width) as b:
            stop = f.min(b + width, columns)
            ends = stop - (stop - b) % self.wide, stop - (stop - b) % WIDE, stop
            with f.loop(0, stop - b, lanes) as z:
                for i in range(rows):
                    f.store(f.zero(self.vector), self.part + self.pitch * i + z * 4)
            with f.loop(0, deep, depth) as s:
                self._pass(s, depth, b, ends)
            with f.loop(deep, steps) as s:
                self._pass(s, 1, b, ends)
            with f.loop(b, stop, lanes) as e:
                for i in range(rows):
                    place = arg["total"] + i * arg["pitch"] + e * 4
                    new = self.load(self.part + self.pitch * i + (e - b) * 4)
                    f.store(f.select(arg["first"].ne(0), new, self.load(place) + new), place)
        return f.end()

    def _pass(self, step: Value, depth: int, b: Value, ends: tuple[Value, Value, Value]) -> None:
        """Some steps along the columns that have sums: by wide vectors, the CPU's, and those that end them."""
        f, shape, of = self.f, self.shape, figures().small_m
        whole, most, stop = ends
        self._read_factors(step, depth)
        pieces = [(self.wide, b, whole), (WIDE, whole, most), (shape.lanes, most, stop)]
        for lanes, start, end in pieces if self.wide > WIDE else (pieces[0], pieces[2]):
            last = self.arg["columns"] if end is stop else None
            with f.loop(start, end, lanes) as at:
                prefetched: list[Prefetch] = []
                if of.prefetch_elements:
                    prefetched = self.find_soon(at, b, whole, depth, lanes) if start is b else []
                elif last is None and depth > 1:
                    prefetched = [(depth, at, 0, 2)]
                elif last is None and shape.rows == 1:
                    prefetched = [(0, at, far, cache) for far, cache in of.prefetch_bytes.items()]
                wide = self.compute(step, depth, at, lanes, last, prefetched)
                self._add_products(step, at - b, [self.parts(each, lanes) for each in wide])

    def _add_products(self, step: Value, on: Value, columns: list[list[Value]]) -> None:
        """Add some steps' products of all rows to the sums of some columns."""
        f, shape, depth = self.f, self.shape, len(columns)
        # One row has sums for half of the steps each, as in a tile.
        is_halved = figures().gemm.halves_row and depth == figures().small_m.streams and self.scalar == "float"
        is_halved = is_halved and shape.rows == 1
        for i in range(shape.rows):
            factors = [self._factor(step, d, i) for d in range(depth)]
            places = [self.part + self.pitch * i + (on + shape.lanes * j) * 4 for j in range(len(columns[0]))]
            sums = [self.load(place) for place in places]
            nothing = [f.zero(self.vector)] * len(places)
            halves, made = [], nothing if is_halved else sums
            for d in range(depth):
                made = [self.multiply(factors[d], columns[d][j], one) for j, one in enumerate(made)]
                if is_halved and d in (depth // 2 - 1, depth - 1):
                    halves.append(made)
                    made = nothing
            if is_halved:
                both = [one + other for one, other in zip(*halves, strict=True)]
                made = [one + other for one, other in zip(sums, both, strict=True)]
            for place, one in zip(places, made, strict=True):
                f.store(one, place)

    def _read_factors(self, step: Value, depth: int) -> None:
        """The vectors of the left factor, where they are taken by the lane."""
        self.factors: dict[tuple[int, int], Value] = {}
        for d in range(depth if self.shape.by_lane else 0):
            for i in range(0, self.shape.rows, self.shape.lanes):
                self.factors[d, i] = self.load(self.arg["a"] + (step + d) * (4 * self.shape.pitch) + 4 * i)

    def _factor(self, step: Value, d: int, i: int) -> Value:
        """An element of the left factor in every lane."""
        f, shape = self.f, self.shape
        if shape.by_lane:
            return f.shuffle(self.factors[d, i - i % shape.lanes], None, [i % shape.lanes] * shape.lanes)
        return f.splat(f.load(self.scalar, self.arg["a"] + (step + d) * (4 * shape.pitch) + 4 * i), shape.lanes)


# Contractions of a few rows whose right factor lies along the steps: dot products of rows, read once.
#
# `kernel(w, bases, a, a_pitch, n0, columns, total, pitch, count)` takes a few columns at once along the steps: lane by
# lane, in chains of `CHAIN` vectors, and the lanes in pairs in the end.


class Dots(Reader):
    """The text of the kernel for steps that lie side by side."""

    ARGUMENTS = "w bases a a_pitch n0 columns total pitch count"

    def write(self) -> str:
        """All of it."""
        f, arg, rows = self.f, self.arg, self.shape.rows
        # Of one row that waits for memory alone, a column has several sums; those of a few steps wait for their sums.
        is_alone = rows == 1 and not self.shape.is_short and figures().small_m.dots_one_by_one
        columns = 1 if is_alone else figures().small_m.dot_columns.get(rows, 4 if rows <= 4 else 2)
        self.apart = 4 if is_alone else 1
        self.enter(arg["n0"], 0)
        self.whole = arg["count"] - arg["count"] % WIDE
        most = arg["columns"] - arg["columns"] % columns
        with f.loop(0, most, columns) as n:
            self._columns(n, columns)
        with f.loop(most, arg["columns"]) as n:
            self._columns(n, 1)
        return f.end()

    def _columns(self, n: Value, columns: int) -> None:
        """Some columns along all steps: sums of chains are on the stack."""
        f, shape, arg = self.f, self.shape, self.arg
        sums = [(i, j, q) for i in range(shape.rows) for j in range(columns) for q in range(self.apart)]
        memory = f.address(f.stack(self.vector, len(sums)))
        offsets = [4 * shape.lanes * s for s in range(len(sums))]
        for offset in offsets:
            f.store(f.zero(self.vector), memory + offset)
        with f.loop(0, self.whole, CHAIN * shape.lanes) as c:
            stop = f.min(c + CHAIN * shape.lanes, self.whole)
            for offset, made in zip(offsets, self._chain(c, stop, n, columns, sums), strict=True):
                f.store(self.load(memory + offset) + made, memory + offset)
        with f.when(self.whole < arg["count"]):
            self._rest(n, columns, sums, memory)
        for s in range(0, len(sums), self.apart):
            i, j, _ = sums[s]
            total = self.load(memory + offsets[s])
            for offset in offsets[s + 1 : s + self.apart]:
                total += self.load(memory + offset)
            f.store(self._fold(total), arg["total"] + i * arg["pitch"] + (n + j) * 4)

    def _rest(self, n: Value, columns: int, sums: list[tuple[int, int, int]], memory: Value) -> None:
        """The steps that fill no vector: nothing is added for those that there are not."""
        f, arg, kind = self.f, self.arg, vector_of(WIDE, self.scalar)
        test = f.vector("i64", range(WIDE)) < f.splat(arg["count"] - self.whole, WIDE)
        found = self.compute(n, columns, self.whole, WIDE, arg["count"])
        parts = [self.parts(f.select(test, x, f.zero(kind)), WIDE) for x in found]
        for s, (i, j, q) in enumerate(sums):
            total = self.load(memory + 4 * self.shape.lanes * s)
            for p in range(q, WIDE // self.shape.lanes, self.apart):
                a = self.load(arg["a"] + i * arg["a_pitch"] + (self.whole + self.shape.lanes * p) * 4)
                total = self.multiply(a, parts[j][p], total)
            f.store(total, memory + 4 * self.shape.lanes * s)

    def _chain(
        self, start: Value, stop: Value, n: Value, columns: int, sums: list[tuple[int, int, int]]
    ) -> list[Value]:
        """The sums of a chain, in registers."""
        f, shape, arg, of = self.f, self.shape, self.arg, figures().small_m
        now = [f.zero(self.vector)] * len(sums)
        with f.loop(start, stop, WIDE, carry=now) as k:
            if of.prefetch_elements:
                prefetched = self.find_soon(k, 0, self.whole, columns, WIDE)
            else:
                ahead = of.prefetch_bytes_dots if shape.rows == 1 else of.prefetch_bytes
                prefetched = [(0, k, far, cache) for far, cache in ahead.items()]
            parts = [self.parts(x, WIDE) for x in self.compute(n, columns, k, WIDE, prefetched=prefetched)]
            for p in range(WIDE // shape.lanes):
                on = (k + shape.lanes * p) * 4
                loaded = [self.load(arg["a"] + i * arg["a_pitch"] + on) for i in range(shape.rows)]
                for s, (i, j, q) in enumerate(sums):
                    if q == p % self.apart:
                        now[s] = self.multiply(loaded[i], parts[j][p], now[s])
        return now

    def _fold(self, value: Value) -> Value:
        """The sum of all lanes, in pairs."""
        f, lanes = self.f, self.shape.lanes
        while lanes > 1:
            lanes //= 2
            # Lanes that nobody asks for stay open: LLVM 22 adds up the wrong ones of integers on an x86 otherwise.
            value += f.shuffle(value, None, [lanes + k if k < lanes else -1 for k in range(self.shape.lanes)])
        return f.extract(value, 0)


# Planned


def plan_small_m(operands: Operands, tile: MicroTile, *, is_cut: bool) -> tuple[Section, int]:
    """The section of a right factor that is read once, and how it is; whether a unit has some of the columns."""
    nodes = list(walk(operands.right))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate"))
    is_across = operands.is_across(operands.right, operands.columns)
    inner, outer = (operands.columns, operands.folded) if is_across else (operands.folded, operands.columns)
    lies = [operands.strided(node) for node in leaves]
    steps, across = [lie.along(inner) for lie in lies], [lie.along(outer) for lie in lies]
    letters = letters_of(steps, lies)
    is_short = not is_across and operands.k <= figures().small_m.short
    shape = SmallM(operands.m, tile.lanes, tile.pitch, tile.by_lane, is_short, is_cut, leaves, letters)
    family, make = ("strip", Strip) if is_across else ("dots", Dots)
    key = f"{write(operands.right, numbers=False)} {shape[:6]} {letters}"
    name = f"{family} {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    kernel = get_kernel(name, functools.partial(make, operands.right, shape))
    numbers = [word_of(node) for node in givens(nodes)]
    section = operands.section((kernel.address, *numbers), [*lies, NOWHERE], [*steps, 4], [*across, 0])
    return section, STRIP if is_across else DOTS
