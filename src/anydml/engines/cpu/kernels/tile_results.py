"""The results of a tile: sums are kept, put down where more is added to them, or results are computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.endings import EndingText
from anydml.engines.cpu.kernels.nodes import kind_of
from anydml.engines.cpu.kernels.some import load_some, store_some
from anydml.engines.cpu.kernels.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.engines.cpu.kernels.endings import Ending
    from anydml.engines.cpu.kernels.tile import Tile

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

    def finish(self, ending: Ending, blocks: tuple[str, ...] = CHAINED) -> None:
        """Compute results from the last sums, row by row."""
        text, lanes, sums = self.text, self.tile.lanes, {}
        for block in blocks:
            if ending.is_long:
                self.put_down(block, ".last")
            else:
                text.add(f"{block}.last:")
                sums[block] = self.sums_of(block)
            text.add("br label %finish")
        text.add("finish:")
        for i, j in self.sums if sums else ():
            ways = ", ".join(f"[ {found[i, j]}, %{block}.last ]" for block, found in sums.items())
            text.add(f"%t{i}.{j} = phi {self.vector} {ways}")
        made = EndingText(ending, text, lanes)
        made.few[self.tile.across - 1] = self.tile.present(self.tile.across - 1)
        # Constants are found here: an address that is kept from the start on takes a register of the loop's.
        table = len(text.lines)
        text.table = text.new('call ptr asm sideeffect "", "=r,0"(ptr @numbers)')
        made.enter()
        text.add("%to.entry = inttoptr i64 %to to ptr")
        if ending.is_long:
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

    def _finish_row(self, made: EndingText, place: str, i: int, row: str, sums: list[str]) -> None:
        """Compute the results of a row, which is the tile's i-th or stands for each, and write them to a place."""
        lanes, kind = self.tile.lanes, kind_of(made.ending.value.type)
        for j, one in enumerate(sums):
            value = made.compute(one, i, j, row, f"column + {lanes * j}")
            at = self.at(place, int(kind[1:]) // 8 * lanes * j)
            store_some(self.text, kind, lanes, self.tile.present(j), value, at, 1)
