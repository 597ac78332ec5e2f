"""The GEMM microkernel: a register tile of some rows by some vectors of columns, accumulated along K.

One generator of three parts: operand modes of A (packed by K steps, packed in lines, or read in place with a stride;
`conv/microkernel.py` has those of convolution), accumulation in chains, and the store: sums kept, added to what lies in
memory, or an epilogue computed from them in registers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.amx import make_matrices
from anydml.engines.cpu.gemm.blocking import BYTES, CHAIN, LINED, UNROLLED
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.quant.dot4 import write_dot, write_pairs, write_small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.ir.epilogue import Epilogue

    Sums = dict[tuple[int, int], Value]
    """Accumulators, by row and vector."""
    Place = tuple[tuple[int, int], Value, range]
    """Of an accumulator in memory: its key, where it lies, and the lanes that it has there."""

# The tile of a contraction: some rows by some vectors of columns, held in registers along the folded dimension.
#
# `kernel(a, b, b_step, c, c_step, count, first, b_next, far, far_step, a_step)` adds the sum of a[k]·b[k] over `count`
# steps to the tile at c, or writes it there where `first` is 1: in chains of `CHAIN` steps, whose sums are kept on the
# stack until all are there. A step of a has the rows one after the other, `pitch` of them; or rows lie in lines:
# `LINED` steps of the first row, those of the next, and so on; or they lie `a_step` bytes apart. A step of b has the
# columns, `b_step` bytes after those of the step before, and in further panels `b_next` bytes after those of the panel
# before. One of a single panel, with rows in lines or apart, has as many bytes fetched from the address `b_next` on as
# a row has: what is read next. One that `fetches` has a step's columns fetched for every `UNROLLED` steps, from the
# address `far` on, each `far_step` bytes after the one before. Each sum is taken in k's order, whatever the tile; but
# in a halved one of one row, which has the registers, each half of `UNROLLED` products has a sum of its own: those are
# added.
#
# One with an epilogue computes results from the sums and writes them elsewhere: `…, to, to_step, section, bases, row,
# column)` are where, the words of the result, the addresses of its views, and the place of the tile among all.


SCALARS = {"f32": "float", "f16": "float", "i32": "i32", **dict.fromkeys(BYTES, "i32")}


# The accumulators of a register tile, where they are put down, and results computed from them.


class RegisterTile:
    """What the microkernels of all operand modes share; the tile at c has its rows `c_step` bytes apart."""

    ENDING = "to to_step section bases row column"
    """The arguments that an epilogue adds."""

    def __init__(self, tile: MicroTile, arguments: str) -> None:
        names = arguments if tile.epilogue is None else f"{arguments} {self.ENDING}"
        self.tile, self.f = tile, Function("kernel", names)
        self.arg = dict(zip(names.split(), self.f.args, strict=True))
        self.scalar = SCALARS[tile.kind]
        self.vector = vector_of(tile.lanes, self.scalar)
        self.keys = list(itertools.product(range(tile.rows), range(tile.across)))
        self.c, self.c_step = self.f.pointer(self.arg["c"]), self.arg.get("c_step")

    def zeros(self) -> Sums:
        """Sums of nothing."""
        return dict.fromkeys(self.keys, self.f.zero(self.vector))

    def places(self) -> Iterator[Place]:
        """Of the tile at c, vector by vector."""
        for i, row in enumerate(self.rows_from(self.c, self.c_step)):
            for j in range(self.tile.across):
                yield (i, j), row + 4 * self.tile.lanes * j, range(self.tile.present(j))

    def rows_from(self, row: Value, step: Value | int | None) -> Iterator[Value]:
        """Where each row begins, some bytes after the one before."""
        for i in range(self.tile.rows):
            row = row + step if i and step is not None else row
            yield row

    def added(self, sums: Sums, places: Iterable[Place]) -> Sums:
        """Sums and those that lie at places."""
        return {key: self.f.load(self.vector, at, mask=there) + sums[key] for key, at, there in places}

    def put_down(self, sums: Sums, places: Iterable[Place]) -> None:
        """Write sums to places."""
        for key, at, there in places:
            self.f.store(sums[key], at, mask=there)

    def settle(self, sums: Sums, is_first: Value, put: Callable[[Sums], None] | None = None) -> None:
        """Sums as they are where they are the first, or added to those at c: put somewhere, or carried on."""
        with self.f.either(is_first, carry=() if put else sums) as (write, add):
            with write:
                if put:
                    put(sums)
            with add:
                both = self.added(sums, self.places())
                if put:
                    put(both)
                else:
                    sums.update(both)

    def put_down_and_return(self, sums: Sums) -> None:
        """Write sums to the tile at c, and be done."""
        self.put_down(sums, self.places())
        self.f.ret()

    def begin_epilogue(self, epilogue: Epilogue) -> EpilogueText:
        """An epilogue's text, with what is the same for all rows."""
        made = EpilogueText(epilogue, self.f, self.tile.lanes, self.arg["section"], self.arg["bases"])
        # Constants are found here: an address that is kept from the start on takes a register of the loop's.
        self.f.find_table()
        made.enter()
        return made

    def finish(self, epilogue: Epilogue, sums: Sums) -> None:
        """Compute results from the last sums, row by row: from those at c where an epilogue is long."""
        f, tile, row, step = self.f, self.tile, self.arg["row"], self.arg["to_step"]
        made = self.begin_epilogue(epilogue)
        made.few[tile.across - 1] = tile.present(tile.across - 1)
        to = f.pointer(self.arg["to"])
        if not epilogue.is_long:
            for i, at in enumerate(self.rows_from(to, step)):
                self._finish_row(made, at, i, row + i, [sums[i, j] for j in range(tile.across)])
            return
        with f.loop(0, tile.rows) as i_end:
            at, old = to + i_end * step, self.c + i_end * self.arg["c_step"]
            there = [(old + 4 * tile.lanes * j, range(tile.present(j))) for j in range(tile.across)]
            found = [f.load(self.vector, place, mask=lanes) for place, lanes in there]
            self._finish_row(made, at, 0, row + i_end, found)

    def _finish_row(self, made: EpilogueText, place: Value, i: int, row: Value, sums: list[Value]) -> None:
        """Compute the results of a row, which is the tile's i-th or stands for each, and write them to a place."""
        lanes, width = self.tile.lanes, int(kind_of(made.epilogue.value.type)[1:]) // 8
        for j, one in enumerate(sums):
            value = made.compute(one, i, j, row, self.arg["column"] + lanes * j)
            self.f.store(value, place + width * lanes * j, align=1, mask=range(self.tile.present(j)))


# The packed and the strided operand modes, and the loops along K.


TRIO = 3
"""Rows that share a pointer: an x86 adds a stride, or twice that, as it reads."""


def make_microkernel(tile: MicroTile) -> str:
    """The text of the kernel."""
    return make_matrices(tile) if tile.kind == "matrices" else Microkernel(tile).write()


class Microkernel(RegisterTile):
    """The text of a tile whose rows are packed, or lie some bytes apart."""

    def __init__(self, tile: MicroTile) -> None:
        super().__init__(tile, "a b b_step c c_step count first b_next far far_step a_step")
        self.width = 2 if tile.kind == "f16" else 4
        """Bytes of a column's step."""
        self.row_bytes = 4 * (tile.rows if tile.is_lined else tile.pitch * (2 if tile.kind == "pairs" else 1))
        """Of a step of all packed rows."""
        self.fetches_rows = len(self.keys) >= figures().gemm.fetched_rows_sums
        self.fetches_next = (tile.is_lined or tile.is_apart) and tile.panels == 1

    def write(self) -> str:
        """All of it: chains, and in each the steps that are unrolled, then the others."""
        f, tile, arg = self.f, self.tile, self.arg
        b, a = f.pointer(arg["b"]), f.pointer(arg["a"])
        firsts = range(0, tile.rows if tile.is_apart else 1, TRIO)
        at: dict[str | int, Value] = {row: a + arg["a_step"] * row if row else a for row in firsts}
        """Where the steps of rows lie, by the first of those that share a pointer, and those of columns."""
        after = f.pointer(arg["b_next"]) if self.fetches_next else None
        self.result = self.c + (4 * tile.lanes * tile.across - 1)
        self.panels = [arg["b_next"] * p for p in range(1, tile.panels)]
        self.ahead = arg["b_step"] * tile.ahead if tile.ahead else None
        at["b"] = b
        chain = {"left": arg["count"], "is_begun": f.value(0, "i1")}
        if tile.fetches:
            chain["far"] = f.pointer(arg["far"])
        self.kept = f.stack(self.vector, len(self.keys), LINE)
        is_first = arg["first"].ne(0)
        with f.forever(carry=(at, chain)):
            left = chain["left"]
            steps = f.select(left > CHAIN, CHAIN, left)
            chain["left"], whole = left - steps, steps & -UNROLLED
            sums, ahead = self.zeros(), {"result": self.result}
            if self.fetches_rows and not tile.is_apart:
                ahead["rows"] = at[0] + self.row_bytes * LINED
            if after is not None:
                self.next_row = f.made("ptr", f"getelementptr float, ptr {after}, i64 {arg['count'] - left}")
            if tile.fetches:
                ahead["far"] = chain["far"]
            with f.loop(0, whole, UNROLLED, carry=(at, ahead, sums)) as k:
                self._fetch(k, ahead)
                self._take(at, sums, UNROLLED, k, ahead)
            if tile.fetches:
                chain["far"] = ahead["far"]
            with f.loop(whole, steps, carry=(at, sums)):
                self._take(at, sums, 1)
            f.leave_if(chain["left"].eq(0))
            # Sums are kept for the next chain where nothing else is near: to put them down in the tile at c costs 120
            # cycles a chain, and this 35 (14 x 32, rows 1 KiB apart, 16 lanes).
            self._settle(sums, is_first, chain["is_begun"], lambda sums: self.put_down(sums, self._kept()))
            chain["is_begun"] = f.value(1, "i1")
        if tile.epilogue is None:
            self._settle(sums, is_first, chain["is_begun"], self.put_down_and_return)
            return f.end()
        put = (lambda sums: self.put_down(sums, self.places())) if tile.epilogue.is_long else None
        self._settle(sums, is_first, chain["is_begun"], put)
        self.finish(tile.epilogue, sums)
        return f.end()

    def _settle(self, sums: Sums, is_first: Value, is_begun: Value, put: Callable[[Sums], None] | None) -> None:
        """The same for a chain, whose sums may be added to those of the chains before."""
        with self.f.either(is_begun, carry=() if put else sums) as (more, begin):
            with begin:
                self.settle(sums, is_first, put)
            with more:
                both = self.added(sums, self._kept())
                if put:
                    put(both)
                else:
                    sums.update(both)

    def _kept(self) -> Iterator[Place]:
        """Of the sums that are kept, vector by vector."""
        for n, key in enumerate(self.keys):
            yield key, self.kept + 4 * self.tile.lanes * n, range(self.tile.lanes)

    # Prefetches

    def _fetch(self, k: Value, ahead: dict[str, Value]) -> None:
        """Have a row of the tile at c fetched, one every few steps: it is needed at the end, and seldom near.

        Of the lines that a row lies in the tile before has had the first one fetched.
        """
        f, tile, result = self.f, self.tile, ahead["result"]
        wide = 4 * tile.lanes * tile.across
        for back in range(0, max(wide - LINE, 0) + 1, LINE):
            f.prefetch(result + -back, is_written=True)
        ahead["result"] = result + f.select(k < UNROLLED * (tile.rows - 1), self.arg["c_step"], 0)
        if tile.fetches:
            for line in range(-(-self.width * tile.lanes * tile.vectors // LINE)):
                f.prefetch(ahead["far"] + LINE * line, cache=2)
            ahead["far"] += self.arg["far_step"]
        if self.fetches_next:
            f.prefetch(f.made("ptr", f"getelementptr float, ptr {self.next_row}, {k.typed}"), cache=2)

    def _fetch_factors(
        self, step: int, first: Value, b: Value, here: dict[str | int, Value], rows: Value | None
    ) -> None:
        """Have lines of factors fetched that later steps read: a few at each, for many at once would wait."""
        f, tile = self.f, self.tile
        if self.ahead is not None:
            for line in range(-(-4 * tile.lanes * tile.vectors // LINE)):
                f.prefetch(b + self.ahead + LINE * line)
        else:
            of = figures().gemm
            lines = min(-(-self.width * tile.lanes * tile.vectors * UNROLLED // LINE), of.prefetch_lines * UNROLLED)
            for line in range(lines * step // UNROLLED, lines * (step + 1) // UNROLLED):
                f.prefetch(first + (of.prefetch_bytes + LINE * line))
        if self.fetches_rows and tile.is_apart:
            for i in range(2 * step, min(2 * step + 2, tile.rows)):
                f.prefetch(self._row(here, 0, i) + LINE)
        elif rows is not None and LINE * step < self.row_bytes * UNROLLED:
            f.prefetch(rows + LINE * step)

    # Steps

    def _take(
        self,
        at: dict[str | int, Value],
        sums: Sums,
        steps: int,
        k: Value | None = None,
        ahead: dict[str, Value] | None = None,
    ) -> None:
        """Some steps at once; with what is fetched `ahead` in the loop that is unrolled, at its step k."""
        f, tile, b, rows = self.f, self.tile, at["b"], [name for name in at if name != "b"]
        # LLVM would have a pointer for each row, and be short of registers.
        here = {name: f.opaque(at[name]) if tile.is_apart else at[name] for name in rows}
        before, is_halved, half = dict(sums), ahead is not None and tile.is_halved, self.zeros()
        if is_halved:
            sums.update(half)
        for u in range(steps):
            if is_halved and u == steps // 2:
                half = dict(sums)
                sums.update(self.zeros())
            self._step(here, b, u, sums)
            if ahead is not None:
                self._fetch_factors(u, at["b"], b, here, ahead.get("rows"))
            b += self.arg["b_step"]
        if is_halved:
            sums.update({key: before[key] + (half[key] + value) for key, value in sums.items()})
        at["b"] = b
        for name in rows:
            at[name] = here[name] + self._rows_on(steps, k)
        if ahead is not None and "rows" in ahead:
            ahead["rows"] += self.row_bytes * steps

    def _rows_on(self, steps: int, k: Value | None) -> Value | int:
        """The bytes from some steps of a to the next ones."""
        tile = self.tile
        if tile.is_apart or not tile.is_lined:
            return (4 if tile.is_apart else self.row_bytes) * steps
        if k is None:  # the last steps have no line to its end
            return 4
        return self.f.select((k & steps).eq(0), 4 * steps, 4 * LINED * tile.rows - 4 * steps)

    def _row(self, here: dict[str | int, Value], step: int, i: int) -> Value:
        """Where a row's element of a step lies."""
        tile = self.tile
        if not tile.is_apart:
            return here[0] + (4 * (LINED * i + step) if tile.is_lined else self.row_bytes * step + 4 * i)
        place, on = here[i // TRIO * TRIO], i % TRIO
        if on:
            place += self.arg["a_step"] if on == 1 else self.arg["a_step"] << 1
        return place + 4 * step

    def _step(self, here: dict[str | int, Value], b: Value, step: int, sums: Sums) -> None:
        """The products of one step, added to sums."""
        f, tile = self.f, self.tile
        columns = [self._column(one, j) for one in [b, *(b + on for on in self.panels)] for j in range(tile.vectors)]
        for i in range(tile.rows):
            if tile.by_lane and i % tile.lanes == 0:
                several = f.load(self.vector, self._row(here, step, i))
            if tile.by_lane:
                factor = f.shuffle(several, None, [i % tile.lanes] * tile.lanes)
            else:
                factor = f.splat(f.load(self.scalar, self._row(here, step, i)), tile.lanes)
            if tile.kind == "pairs":
                both = factor, f.splat(f.load("i32", self._row(here, step, i) + 4 * tile.pitch), tile.lanes)
                for j, column in enumerate(columns):
                    sums[i, j] = write_pairs(f, both, column, sums[i, j], is_swapped=tile.is_swapped)
                continue
            for j, column in enumerate(columns):
                sums[i, j] = self._multiply(factor, column, sums[i, j])
        # Nothing is read before it is needed: LLVM would gather the loads of all steps, and be short of registers.
        if tile.is_tied:
            f.await_values(sums, self.keys, "w" if tile.by_lane else "v")
        else:
            f.barrier()

    def _column(self, b: Value, j: int) -> Value:
        """A vector of columns, by its number."""
        f, tile = self.f, self.tile
        if tile.kind != "f16":
            there = range(tile.present(j)) if tile.reads_some else None
            return f.load(self.vector, b + 4 * tile.lanes * j, mask=there)
        wide = f.cast("fpext", f.load(vector_of(tile.lanes, "half"), b + 2 * tile.lanes * j), "float")
        # An Arm's LLVM would convert the columns of steps to come as well, and be short of registers.
        return f.opaque(wide, "w") if tile.by_lane else wide

    def _multiply(self, factor: Value, column: Value, total: Value) -> Value:
        f, tile = self.f, self.tile
        if self.scalar == "float":
            return f.fmuladd(factor, column, total)  # two roundings where an old x86 has no other
        if tile.kind not in BYTES:
            return factor * column + total
        factors = (column, factor) if tile.is_swapped else (factor, column)
        if tile.kind == "small":
            return write_small(f, *factors, total)
        return write_dot(f, tile.by_lane, *factors, total)
