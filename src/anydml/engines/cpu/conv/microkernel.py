"""The microkernels of convolution: register tiles whose rows are output positions, read in place.

They are of the generator in `gemm/microkernel.py`, with operand modes of their own: an indirection table has for each
piece of the window where it lies, from the first position's on. NHWC convolution goes through the channels of a piece;
direct convolution through its taps, whose offsets are known, for positions of one or several lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import MicroTile
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.gemm.microkernel import TRIO, RegisterTile
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.reduce_kernel import combine, identity
from anydml.ir.expressions import fold, load

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.microkernel import Sums
    from anydml.ir.epilogue import Epilogue


class PiecesTile(RegisterTile):
    """A tile that goes through the pieces of a table: what both operand modes share."""

    def go_through(self, sums: Sums, state: dict[str, Value]) -> Value:
        """Take each piece, and put sums down where they are to be; whether the last ones are the first of all."""
        f, nothing = self.f, dict(sums)
        state |= {"e": f.value(0, "i64"), "b": f.pointer(self.arg["b"])}
        with f.forever(carry=(state, sums)):
            self.take(state, sums)
            after = state["e"] + 1
            is_over, is_first = self.is_over(after), self.is_first(state)
            f.leave_if(is_over)
            state["e"] = after
            self.put_down_at_times(state, sums, nothing, is_first)
        return is_first

    def take(self, state: dict[str, Value], sums: Sums) -> None:
        """Add the products of the piece `e`, whose weights begin at `b`."""
        raise NotImplementedError

    def is_over(self, after: Value) -> Value:
        """Whether there is no piece of a number."""
        return after.eq(self.arg["count"])

    def is_first(self, state: dict[str, Value]) -> Value:
        """Whether nothing has been put down at c yet."""
        return state["is_new"].ne(0)

    def put_down_at_times(self, state: dict[str, Value], sums: Sums, nothing: Sums, is_first: Value) -> None:
        """Put sums down after a piece, where a test holds."""
        f = self.f
        with f.when(self.is_down(state), carry=(state, sums)):
            self.settle(sums, is_first, lambda sums: self.put_down(sums, self.places()))
            sums.update(nothing)
            state.update(self.renewed())

    def is_down(self, state: dict[str, Value]) -> Value:
        """Whether sums are put down after this piece."""
        raise NotImplementedError

    def renewed(self) -> dict[str, Value]:
        """The state after sums are put down."""
        return {"is_new": self.f.value(0, "i64")}

    def columns(self, b: Value) -> list[Value]:
        """The weights of a step."""
        return [self.f.load(self.vector, b + 4 * self.tile.lanes * j) for j in range(self.tile.vectors)]

    def add_row(self, i: int, factor: Value, columns: list[Value], sums: Sums) -> None:
        """Add a row's products of one factor, and wait for them."""
        for j, column in enumerate(columns):
            sums[i, j] = self.f.fmuladd(factor, column, sums[i, j])
        self.await_row(i, sums)

    def await_row(self, i: int, sums: Sums) -> None:
        """Let nothing be read before a row's sums are there: LLVM would read ahead what it has no registers for."""
        self.f.await_values(sums, [(i, j) for j in range(self.tile.vectors)], "v")


# NHWC: rows of A are pixels, some bytes apart, and pieces are runs of channels.


SPREAD, EACH = "spread", "each"
UNROLLED = 4
"""Steps at once."""
PIECE = 24
"""Bytes of a piece in its table."""


def make_unpacked_tile(tile: MicroTile) -> str:
    """The text of the kernel."""
    return _PixelTile(tile).write()


class _PixelTile(PiecesTile):
    """The text of a tile whose rows are read as they lie."""

    def __init__(self, tile: MicroTile) -> None:
        super().__init__(tile, "a b b_step c c_step pieces first a_step later later_step none")
        is_fold = tile.reads not in (SPREAD, EACH)
        self.fold = fold(tile.reads, load(0, DataType.FLOAT32)) if is_fold else None

    def write(self) -> str:
        """All of it."""
        f, tile, arg = self.f, self.tile, self.arg
        sums = self.zeros()
        if self.fold is not None:
            sums = dict.fromkeys(self.keys, f.value(identity(self.fold), self.vector))
        arg["count"] = f.load("i64", arg["pieces"])
        self.groups = [arg["a"] + arg["a_step"] * row for row in range(0, tile.rows, TRIO)]
        """The first of the rows that share a pointer."""
        self.ahead = self._enter_ahead()
        is_first = self.go_through(sums, {"is_new": arg["first"]})
        if tile.epilogue is None:
            self.settle(sums, is_first, self.put_down_and_return)
            return f.end()
        put = (lambda sums: self.put_down(sums, self.places())) if tile.epilogue.is_long else None
        self.settle(sums, is_first, put)
        self.finish(tile.epilogue, sums)
        return f.end()

    def is_down(self, state: dict[str, Value]) -> Value:  # noqa: ARG002 - the piece's table says it
        return self.down.ne(0)

    def take(self, state: dict[str, Value], sums: Sums) -> None:
        """The channels of a piece: as many as all have, or as its table says; or one of each column's own."""
        f, tile = self.f, self.tile
        entry = self.arg["pieces"] + 8 + state["e"] * PIECE
        far = f.load("i64", entry)
        at = {"b": state["b"]} | {str(g): f.pointer(group + far) for g, group in enumerate(self.groups)}
        if tile.steps:
            self._fetch_ahead()
            self._take_steps(at, sums, tile.steps, is_fetched=True)
        elif tile.reads == SPREAD:
            steps = f.load("i64", entry + 8)
            whole = steps & -UNROLLED
            with f.loop(0, whole, UNROLLED, carry=(at, sums)):
                self._fetch_ahead()
                self._take_steps(at, sums, UNROLLED, is_fetched=True)
            with f.loop(whole, steps, carry=(at, sums)):
                self._take_steps(at, sums, 1, is_fetched=False)
        else:
            self._fold_each(at, sums)
        state["b"] = at["b"]
        self.down = f.load("i64", entry + 16)

    def _take_steps(self, at: dict[str, Value], sums: Sums, steps: int, *, is_fetched: bool) -> None:
        """Some steps of all rows side by side; the weights of later ones are fetched."""
        f, tile = self.f, self.tile
        # LLVM would have an address for each row, and be short of registers.
        here = {name: f.opaque(one) for name, one in at.items() if name != "b"}
        for u in range(steps):
            columns = self.columns(at["b"])
            for j in range(tile.vectors if is_fetched else 0):
                f.prefetch(at["b"] + (figures().gemm.prefetch_bytes + 4 * tile.lanes * j))
            for i in range(tile.rows):
                factor = f.splat(f.load("float", self._row(here, i, 4 * u)), tile.lanes)
                self.add_row(i, factor, columns, sums)
            at["b"] += self.arg["b_step"]
        at.update({name: one + 4 * steps for name, one in here.items()})

    def _fold_each(self, at: dict[str, Value], sums: Sums) -> None:
        """A step of each column's own."""
        f, tile = self.f, self.tile
        columns = self.columns(at["b"]) if self.fold is None else []
        for i, j in self.keys:
            x = f.load(self.vector, self._row(at, i, 4 * tile.lanes * j), mask=range(tile.present(j)))
            if self.fold is None:
                sums[i, j] = f.fmuladd(x, columns[j], sums[i, j])
            else:
                sums[i, j] = f.value(combine(f, self.fold, sums[i, j], x, tile.lanes), self.vector)
        at["b"] += self.arg["b_step"]

    def _row(self, here: dict[str, Value], i: int, offset: int) -> Value:
        """Where a row of a number lies, so many bytes on."""
        place, on = here[str(i // TRIO)], i % TRIO
        return (place + self.arg["a_step"] * on if on else place) + offset

    def _enter_ahead(self) -> list[tuple[Value, Value, int, bool]]:
        """The lines fetched a row at a time while sums are made: where they are, step, bytes, and whether written.

        It is the target, and what is added to it. Where their next rows are lies on the stack: registers are the
        loop's. 64 channels into 256 of 56 x 56, with as many added, take 1.07 ms so, and 1.35 without (a Xeon).
        """
        f, tile, arg, epilogue = self.f, self.tile, self.arg, self.tile.epilogue
        if epilogue is None or tile.reads != SPREAD:
            return []
        wide = tile.lanes * tile.vectors
        starts = [(arg["to"], arg["to_step"], int(kind_of(epilogue.value.type)[1:]) // 8 * wide, True)]
        made = EpilogueText(epilogue, f, tile.lanes, arg["section"], arg["bases"])
        for base, across, width in made.elements():
            starts.append((base + arg["row"] * across + arg["column"] * width, across, width * wide, False))
        found = []
        for start, step, size, is_written in starts:
            found.append((f.stack("i64", align=8), step, size, is_written))
            f.store(start, found[-1][0])
        self.rows_left = f.stack("i64", align=8)
        f.store(-(-tile.rows // figures().conv.prefetch_rows), self.rows_left)
        return found

    def _fetch_ahead(self) -> None:
        """Have the lines of the next rows fetched, as long as there are any."""
        f = self.f
        if not self.ahead:
            return
        left = f.load("i64", self.rows_left)
        with f.when(left.ne(0)):
            f.store(left - 1, self.rows_left)
            for place, step, size, is_written in self.ahead:
                at = f.load("i64", place)
                for _ in range(figures().conv.prefetch_rows):
                    row = f.pointer(at)
                    for byte in (*range(0, size, LINE), size - 1):  # the last line too, where a row begins within one
                        f.prefetch(row + byte, is_written=is_written)
                    at += step
                f.store(at, place)


# Direct convolution: output positions by vectors of output channels, and pieces are the taps of a line.


class DirectTile(NamedTuple):
    """The parameters of a tile's text."""

    lines: int
    """Of the output: whole ones, where there are several."""
    places: int
    """Of a line."""
    vectors: int
    lanes: int
    width: int
    """Channels of a panel, which may have more than the tile takes."""
    taps: int
    """Of a piece."""
    down: int
    """Bytes from a line's first place to the next line's, in the row block."""
    apart: int
    """From a place to the next."""
    beside: int
    """From a tap to the next."""
    fetches: bool = False
    """Whether weights of later taps are fetched to the first cache."""
    chain: int = 0
    """Pieces after which sums are put down; 0 where that is after all."""
    soon: int = 0
    """Lines that are fetched to the second cache at each piece."""
    ahead: int = 0
    """Channels of the target that are fetched at each piece."""
    is_beside: bool = False
    """Whether the channels of a place lie side by side: results are written place by place."""
    is_each: bool = False
    """Whether each channel is multiplied by a number of its own, and not all by one."""
    tail: int = 0
    """Channels of the last vector that there are, where not all."""
    epilogue: Epilogue | None = None
    """The computation of results from sums, by the last of a window's tiles; None for others."""

    @property
    def rows(self) -> int:
        """The places of all lines."""
        return self.lines * self.places

    @property
    def name(self) -> str:
        """The kernel's."""
        *plain, epilogue = self
        return " ".join(["direct tile", *map(str, plain), *([epilogue.name] if epilogue is not None else [])])


def make_direct_tile(tile: DirectTile) -> str:
    """The text of the kernel."""
    return _BlockTile(tile).write()


class _BlockTile(PiecesTile):
    ENDING = ""

    def __init__(self, own: DirectTile) -> None:
        tile = MicroTile(own.rows, own.vectors, own.lanes, 0, by_lane=False, epilogue=own.epilogue)
        super().__init__(tile, "a b c pieces count first soon to to_step section bases column")
        self.own, self.c_step = own, self.f.value(4 * own.lanes * own.vectors, "i64")

    def write(self) -> str:
        """All of it."""
        f, own, sums = self.f, self.own, self.zeros()
        state: dict[str, Value] = {}
        if own.ahead:
            state["target"] = self.arg["to"]
        if own.chain:
            state |= {"is_new": self.arg["first"], "left": f.value(own.chain, "i64")}
        is_first = self.go_through(sums, state)
        if own.epilogue is None:
            self.settle(sums, is_first, self.put_down_and_return)
            return f.end()
        self.settle(sums, is_first)
        made = self.begin_epilogue(own.epilogue)
        if own.tail:
            made.few[own.vectors - 1] = own.tail
        columns = [self.arg["column"] + own.lanes * j for j in range(own.vectors)]
        results = {(i, j): made.compute(sums[i, j], i, j, f.value(0, "i64"), columns[j]) for i, j in self.keys}
        if own.is_beside:
            self._write_places(results)
        else:
            self._write_channels(results)
        return f.end()

    def is_over(self, after: Value) -> Value:
        return after >= self.arg["count"]

    def is_first(self, state: dict[str, Value]) -> Value:
        return state.get("is_new", self.arg["first"]).ne(0)

    def put_down_at_times(self, state: dict[str, Value], sums: Sums, nothing: Sums, is_first: Value) -> None:
        """Where a chain ends."""
        if self.own.chain:
            state["left"] -= 1
            super().put_down_at_times(state, sums, nothing, is_first)

    def is_down(self, state: dict[str, Value]) -> Value:
        return state["left"].eq(0)

    def renewed(self) -> dict[str, Value]:
        return super().renewed() | {"left": self.f.value(self.own.chain, "i64")}

    def take(self, state: dict[str, Value], sums: Sums) -> None:
        """All taps of a piece."""
        f, own, e, b = self.f, self.own, state["e"], state["b"]
        far = f.load("i64", self.arg["pieces"] + e * 8)
        place = f.opaque(f.pointer(self.arg["a"] + far))  # one address, and not the sum of two
        for tap in range(own.taps):
            self._take_tap(tap, place, b, sums)
        state["b"] = b + 4 * own.width * own.taps
        for line in range(own.soon):
            f.prefetch(self.arg["soon"] + e * (own.soon * LINE) + line * LINE, cache=2)
        self._fetch_target(state)

    def _take_tap(self, tap: int, place: Value, b: Value, sums: Sums) -> None:
        """A tap of all positions, by its channels."""
        f, own = self.f, self.own
        first, wide = 4 * own.width * tap, 4 * own.lanes
        columns = [f.load(self.vector, b + (first + wide * j)) for j in range(own.vectors)]
        for line in range(0, wide * own.vectors if own.fetches else 0, LINE):
            f.prefetch(b + (figures().gemm.prefetch_bytes + first + line))
        for i in range(own.rows):
            offset = i // own.places * own.down + i % own.places * own.apart + tap * own.beside
            if not own.is_each:
                self.add_row(i, f.splat(f.load("float", place + offset), own.lanes), columns, sums)
                continue
            for j, column in enumerate(columns):
                sums[i, j] = f.fmuladd(f.load(self.vector, place + (offset + wide * j)), column, sums[i, j])
            self.await_row(i, sums)

    def _fetch_target(self, state: dict[str, Value]) -> None:
        """Have some channels of the target fetched, which are written soon, or places: as far as the tile's go."""
        f, own = self.f, self.own
        runs, size = own.lanes * own.vectors, own.rows
        if own.is_beside:
            runs, size = size, runs
        for k in range(own.ahead):
            for byte in sorted({0, 4 * size - 4, *range(LINE, 4 * size - 4, LINE)}):
                f.prefetch(state["target"] + byte, is_written=True)
            state["target"] += f.select(state["e"] < (runs - 1 - k) // own.ahead, self.arg["to_step"], 0)

    def _write_places(self, results: Sums) -> None:
        f, own = self.f, self.own
        for i, row in enumerate(self.rows_from(self.arg["to"], self.arg["to_step"])):
            for j in range(own.vectors):
                count = own.tail if own.tail and j == own.vectors - 1 else own.lanes
                f.store(results[i, j], row + 4 * own.lanes * j, mask=range(count))

    def _write_channels(self, results: Sums) -> None:
        f, own, row = self.f, self.own, self.arg["to"]
        for j in range(own.vectors):
            parts = [
                (i, f.transpose([results[k, j] for k in range(i, min(i + own.lanes, own.rows))]))
                for i in range(0, own.rows, own.lanes)
            ]
            for channel in range(own.lanes):
                row = row + self.arg["to_step"] if j or channel else row
                for i, turned in parts:
                    f.store(turned[channel], row + 4 * i, mask=range(min(own.lanes, own.rows - i)))
