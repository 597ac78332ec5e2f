"""The microkernel of direct convolution: a register tile of output positions by vectors of output channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.function import store_some
from anydml.engines.cpu.conv.nhwc_microkernel import UnpackedText
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.gemm.microkernel import Tile
from anydml.engines.cpu.launch.record import LINE

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Steps
    from anydml.ir.epilogue import Epilogue


SOON = 2
"""Lines that are fetched to the second cache at a piece of few taps: of weights for later, or of the input. 512
channels into 512 of 7 x 7, 3 x 3, take 1.81 ms so, and 2.41 without (one thread, 16 lanes)."""


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
    """Bytes from a line's first place to the next line's, in the band."""
    apart: int
    """From a place to the next."""
    beside: int
    """From a tap to the next."""
    fetches: bool = False
    """Whether weights of later taps are fetched to the first cache."""
    chain: int = 0
    """Pieces after which sums are put down; 0 where that is after all."""
    soon: int = SOON
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
        return " ".join(["tile of a band", *map(str, plain), *([epilogue.name] if epilogue is not None else [])])


def make_direct_tile(tile: DirectTile) -> str:
    """The text of the kernel."""
    return _BandTile(tile).write()


class _BandTile(UnpackedText):
    def __init__(self, band: DirectTile) -> None:
        super().__init__(Tile(band.rows, band.vectors, band.lanes, 0, by_lane=False))
        self.band = band

    def write(self) -> str:
        text, band = self.text, self.band
        text.add("%c.entry = inttoptr i64 %c to ptr", "%b.entry = inttoptr i64 %b to ptr")
        text.add(f"%c.step = add i64 {4 * band.lanes * band.vectors}, 0")
        text.add("br label %piece", "piece:", "%e = phi i64 [ 0, %entry ], [ %e.on, %next ]")
        text.add("%b.piece = phi ptr [ %b.entry, %entry ], [ %b.on, %next ]")
        if band.ahead:
            text.add("%f = phi i64 [ %to, %entry ], [ %f.on, %next ]")
        if band.chain:
            text.add("%is.new = phi i64 [ %first, %entry ], [ %is.new.on, %next ]")
            text.add(f"%left = phi i64 [ {band.chain}, %entry ], [ %left.next, %next ]")
        for i, j in self.sums:
            text.add(f"%s{i}.{j} = phi {self.vector} [ zeroinitializer, %entry ], [ %s{i}.{j}.next, %next ]")
        text.read("far", "pieces + e * 8")
        text.add(f"%p.far = inttoptr i64 {text.value('a + far')} to ptr")
        text.add('%p = call ptr asm sideeffect "", "=r,0"(ptr %p.far)')  # one address, and not the sum of two
        sums = {(i, j): f"%s{i}.{j}" for i, j in self.sums}
        for u in range(band.taps):
            self._take(u, sums)
        for (i, j), value in sums.items():
            text.add(f"%s{i}.{j}.rest = bitcast {self.vector} {value} to {self.vector}")
        text.add(f"%b.on = getelementptr i8, ptr %b.piece, i64 {4 * band.width * band.taps}")
        for line in range(band.soon):
            text.fetch(text.place(f"soon + e * {band.soon * LINE} + {line * LINE}"), near=2)
        self._fetch_target()
        text.add("%e.on = add i64 %e, 1", "%is.more = icmp slt i64 %e.on, %count")
        text.add(f"%is.first = icmp ne i64 {'%is.new' if band.chain else '%first'}, 0")
        self._go_on()
        text.add("out:")
        names = ("a", "b", "c", "pieces", "count", "first", "soon", "to", "to.step", "section", "bases", "column")
        if band.epilogue is not None:
            self._end(band.epilogue)
        else:
            text.add("br i1 %is.first, label %write.last, label %add.last")
            for block in ("add", "write"):
                self.put_down(block, ".last")
                text.add("ret void")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _go_on(self) -> None:
        """To the next piece, if there is one; sums are put down where a chain ends."""
        text, band, ways = self.text, self.band, "[ %s{0}.{1}.rest, %go ]"
        text.add("br i1 %is.more, label %go, label %out", "go:")
        if band.chain:
            text.add("%left.on = sub i64 %left, 1", "%is.down = icmp eq i64 %left.on, 0")
            text.add("br i1 %is.down, label %down, label %next", "down:", "br i1 %is.first, label %write, label %add")
            for block in ("add", "write"):
                self.put_down(block)
                text.add("br label %next")
            ways += ", [ zeroinitializer, %write ], [ zeroinitializer, %add ]"
        else:
            text.add("br label %next")
        text.add("next:")
        for i, j in self.sums:
            text.add(f"%s{i}.{j}.next = phi {self.vector} {ways.format(i, j)}")
        if band.chain:
            text.add("%is.new.on = phi i64 [ %is.new, %go ], [ 0, %write ], [ 0, %add ]")
            text.add(f"%left.next = phi i64 [ %left.on, %go ], [ {band.chain}, %write ], [ {band.chain}, %add ]")
        text.add("br label %piece")

    def _take(self, tap: int, sums: dict[tuple[int, int], str]) -> None:
        """A tap of all places, by its channels."""
        text, band = self.text, self.band
        first, wide = 4 * band.width * tap, 4 * band.lanes
        columns = [
            text.new(f"load {self.vector}, ptr {self.at('%b.piece', first + wide * j)}, align 4")
            for j in range(band.vectors)
        ]
        for line in range(0, wide * band.vectors if band.fetches else 0, LINE):
            text.fetch(self.at("%b.piece", figures().gemm.prefetch_bytes + first + line))
        for i in range(band.rows):
            offset = i // band.places * band.down + i % band.places * band.apart + tap * band.beside
            if band.is_each:
                for j in range(band.vectors):
                    x = text.new(f"load {self.vector}, ptr {self.at('%p', offset + wide * j)}, align 4")
                    sums[i, j] = text.call("fmuladd", self.vector, [x, columns[j], sums[i, j]])
                self.wait(sums, i)
                continue
            one = text.new(f"load float, ptr {self.at('%p', offset)}, align 4")
            factor = text.spread(one, "float", band.lanes)
            for j in range(band.vectors):
                sums[i, j] = text.call("fmuladd", self.vector, [factor, columns[j], sums[i, j]])
            self.wait(sums, i)

    def _fetch_target(self) -> None:
        """Have some channels of the target fetched, which are written soon, or places: as far as the tile's go."""
        text, band = self.text, self.band
        runs, size = band.lanes * band.vectors, band.rows
        if band.is_beside:
            runs, size = size, runs
        for k in range(band.ahead):
            at = "%f" if not k else f"%f.{k}"
            for byte in sorted({0, 4 * size - 4, *range(LINE, 4 * size - 4, LINE)}):
                place = text.new(f"add i64 {at}, {byte}")
                text.fetch(text.new(f"inttoptr i64 {place} to ptr"), is_written=True)
            on = "%f.on" if k == band.ahead - 1 else f"%f.{k + 1}"
            more = text.new(f"icmp slt i64 %e, {(runs - 1 - k) // band.ahead}")
            step = text.new(f"select i1 {more}, i64 %to.step, i64 0")
            text.add(f"{on} = add i64 {at}, {step}")

    def _end(self, epilogue: Epilogue) -> None:
        """Compute results, and write them channel by channel."""
        text, band = self.text, self.band
        text.add("br i1 %is.first, label %finish, label %more", "more:")
        old = self.sums_of("add")
        text.add("br label %finish", "finish:")
        for i, j in self.sums:
            text.add(f"%t{i}.{j} = phi {self.vector} [ %s{i}.{j}.rest, %out ], [ {old[i, j]}, %more ]")
        made = EpilogueText(epilogue, text, band.lanes)
        if band.tail:
            made.few[band.vectors - 1] = band.tail
        table = len(text.lines)
        text.table = text.new('call ptr asm sideeffect "", "=r,0"(ptr @numbers)')
        made.enter()
        results = {(i, j): made.compute(f"%t{i}.{j}", i, j, "0", f"column + {band.lanes * j}") for i, j in self.sums}
        if band.is_beside:
            self._write_places(results)
        else:
            self._write_channels(results)
        text.add("ret void")
        if not text.numbers:
            del text.lines[table]

    def _write_places(self, results: dict[tuple[int, int], str]) -> None:
        text, band, row = self.text, self.band, "%to"
        for i in range(band.rows):
            row = text.new(f"add i64 {row}, %to.step") if i else row
            for j in range(band.vectors):
                place = text.new(f"inttoptr i64 {text.new(f'add i64 {row}, {4 * band.lanes * j}')} to ptr")
                count = band.tail if band.tail and j == band.vectors - 1 else band.lanes
                store_some(text, "f32", band.lanes, count, results[i, j], place, 4)

    def _write_channels(self, results: dict[tuple[int, int], str]) -> None:
        text, band, row = self.text, self.band, "%to"
        for j in range(band.vectors):
            parts = [
                (i, transpose(text, [results[k, j] for k in range(i, min(i + band.lanes, band.rows))], band.lanes))
                for i in range(0, band.rows, band.lanes)
            ]
            for channel in range(band.lanes):
                if j or channel:
                    row = text.new(f"add i64 {row}, %to.step")
                for i, turned in parts:
                    place = text.new(f"inttoptr i64 {text.new(f'add i64 {row}, {4 * i}')} to ptr")
                    store_some(text, "f32", band.lanes, min(band.lanes, band.rows - i), turned[channel], place, 4)


def transpose(text: Steps, rows: list[str], lanes: int) -> list[str]:
    """As many vectors as they have lanes, columns for rows; rows that there are not may be anything.

    Four by four within parts of 16 bytes, then those: shuffles that an x86 has, 64 of them for 16 lanes.
    """
    kind = f"<{lanes} x float>"
    rows = [*rows, *["poison"] * (lanes - len(rows))]

    def pick(a: str, b: str, order: list[int]) -> str:
        if a == b == "poison":
            return a
        mask = ", ".join(f"i32 {lane}" for lane in order)
        return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{lanes} x i32> <{mask}>")

    def within(*four: int) -> list[int]:
        """Lanes of both, the same in each part of four; those of the second from 4 on."""
        return [part + k % 4 + (lanes if k > 3 else 0) for part in range(0, lanes, 4) for k in four]

    def parts(*chosen: int) -> list[int]:
        """Whole parts of four lanes: those of the second after the first's."""
        return [4 * part + k for part in chosen for k in range(4)]

    groups = []
    for first in range(0, lanes, 4):
        a, b, c, d = rows[first : first + 4]
        pairs = [pick(x, y, within(*four)) for four in ((0, 4, 1, 5), (2, 6, 3, 7)) for x, y in ((a, b), (c, d))]
        groups.append([
            pick(pairs[2 * half], pairs[2 * half + 1], within(*four))
            for half in (0, 1) for four in ((0, 1, 4, 5), (2, 3, 6, 7))
        ])  # fmt: skip
    if lanes == 4:
        return groups[0]
    if lanes == 8:
        return [pick(groups[0][c], groups[1][c], parts(half, 2 + half)) for half in (0, 1) for c in range(4)]
    halves = {
        (half, pair, c): pick(groups[pair][c], groups[pair + 1][c], parts(*(2 * half + k for k in (0, 1, 4, 5))))
        for half in (0, 1) for pair in (0, 2) for c in range(4)
    }  # fmt: skip
    return [
        pick(halves[half, 0, c], halves[half, 2, c], parts(*(odd + k for k in (0, 2, 4, 6))))
        for half in (0, 1) for odd in (0, 1) for c in range(4)
    ]  # fmt: skip
