"""The units of work of a contraction: how many rows and columns each has, and how many steps are packed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.call import SMALL
from anydml.engines.cpu.kernels.bringing import PANELS, STRIP
from anydml.engines.cpu.kernels.fourfold import FOUR
from anydml.engines.cpu.kernels.room import AHEAD, BLOCK, COLUMNS, LONG, PANEL, RIGHT, SUMS
from anydml.engines.cpu.kernels.tile import BYTES, CHAIN
from anydml.engines.threads import get_num_threads

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.tile import Tile
    from anydml.engines.cpu.programs.sides import Sides

TURNS = 4
"""Units for each thread, so that one that is held up leaves its share to the others."""
FEW_TURNS = 2
"""Units for each thread of a product of a few rows, since longer rows are read at higher speed, or of little work."""
UNIT = 2**21
"""Products of a unit for which threads have more than a few: 256 x 256 x 256 takes eight threads 65 us in 16 units, and
82 in 32; 512 x 512 x 512 takes sixteen 310 us in 32, and 280 in 64 (a Xeon of 2023)."""
LEAST = 2**19
"""Products of a unit at the least: 128 x 128 x 128 takes sixteen threads 12 us so, and 24 in 32 units; 256 x 256 x 256
35, and 42."""
FLOPS = 4
"""Operations in the time that a byte is moved in."""
PACKING = 20
"""Products in the time that an element is packed in: 384 x 384 x 384 takes sixteen threads 131 us so, and 196 where 8
are thought of."""


class Units(NamedTuple):
    """Of a contraction."""

    rows: int
    """Parts of the rows."""
    columns: int
    block: int
    """The steps that are packed at once."""


def size_of(sides: Sides) -> int:
    """The work in arithmetic or, where that takes longer, reads: a row by 127 keys of 64 in 12 heads takes 26 us."""
    batch = sides.count(sides.batch)
    return batch * max(2 * sides.m * sides.n * sides.k // FLOPS, 4 * sides.k * min(sides.m, sides.n))


def threads_for(sides: Sides) -> int:
    """The threads that there is work for."""
    return 1 if size_of(sides) < SMALL else get_num_threads()


def units_of(sides: Sides, tile: Tile, mode: int, *, is_direct: bool, is_ahead: bool) -> Units:
    """Of units enough for the threads those that take the least time: each packs its rows and its columns."""
    batch, width = sides.count(sides.batch), tile.vectors * tile.lanes
    row_panels, column_panels = -(-sides.m // tile.rows), -(-sides.n // width)
    is_read = mode == PANELS and row_panels == 1
    is_skinny = mode >= STRIP or is_read
    threads = threads_for(sides)
    turns = FEW_TURNS if is_skinny else TURNS
    products = batch * sides.m * sides.n * sides.k
    few = FEW_TURNS * threads
    enough = max(products // UNIT, few if is_skinny else min(few, -(-products // LEAST)))
    wanted = 1 if threads == 1 else min(turns * threads, enough)
    most = LONG if is_skinny else AHEAD if mode == PANELS else COLUMNS
    fewest = -(-column_panels // (most // width))
    wanted = min(max(wanted, batch * fewest), batch * row_panels * column_panels)
    found = []
    for columns in range(fewest, min(column_panels, max(2 * wanted, fewest)) + 1):
        n = -(-column_panels // columns) * width
        # A panel that is read once is read as it lies: all chains for which there is room.
        together = FOUR if tile.kind in BYTES else 1
        pitch = tile.pitch * (2 if tile.kind == "pairs" else 1)
        whole = BLOCK * PANEL // (pitch * CHAIN) * CHAIN * together if is_read else 0
        block = whole or _block(sides.k, n, together)
        lowest = -(-wanted // (batch * columns))
        if sides.k > block and not is_direct:  # results lie in the scratch until the last block
            lowest = max(lowest, -(-row_panels // (SUMS // (4 * n) // tile.rows)))
        for rows in range(min(lowest, row_panels), min(2 * lowest, row_panels) + 1):
            m = -(-row_panels // rows) * tile.rows
            packed = (0 if is_ahead else m) + (0 if mode == PANELS else n)
            time = -(-batch * rows * columns // threads) * (m * n + PACKING * packed)
            found.append((time, Units(rows, columns, block)))
    return min(found)[1]


def _block(steps: int, columns: int, together: int) -> int:
    """The steps that are packed at once for so many columns, whole chains: sums do not depend on it."""
    most = max(min(RIGHT // (4 * columns), BLOCK) // CHAIN, 1) * together
    chains = -(-steps // CHAIN)
    return -(-chains // -(-chains // most)) * CHAIN
