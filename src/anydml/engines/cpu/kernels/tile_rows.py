"""The rows of a tile: packed step by step, packed in lines, or as they lie in a matrix, some bytes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.pack import LINED
from anydml.engines.cpu.kernels.tile_results import TileResults

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.tile import Tile

UNROLLED = LINED // 2
"""Steps at once: a hundredth quicker than 4."""
MANY = 16
"""Sums of a tile from which on rows are fetched as well, where an x86 reads them: they lie in the second cache, for the
columns of a tile take the first. 256 x 256 x 256 takes 270 us so, and 284 without (one thread, 16 lanes)."""
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
        self.fetches_rows = not tile.by_lane and len(self.sums) >= MANY
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
