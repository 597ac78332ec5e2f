"""How taps walk over a plane: rows and vectors at once, and whether windows that reach past the input are read so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.tiles import tile_for

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.taps_shape import Taps

SUMS = 16 if IS_ARM else 8
"""Registers of sums at once."""
WIDE, WIDE_BYTES = (7, 2) if IS_ARM else (2, 2)
"""Registers of a row at most. On an Arm Neoverse-N1 144 planes of 56 x 56 by 2 take 179 us with 7, and 205 with 2; of
bytes, by 1, 652 with 6 and 459 with 2."""
TALL = 8
"""Rows at most: texts grow with them."""
WIDEST, SUMS_WIDE = 16, 16
"""Lanes, and registers of sums, of the blocks of an x86 with 32 registers."""
ROLLING, ACROSS = 16, 4
"""Registers of sums that roll on from line to line, and of a row at most."""


def in_blocks(taps: Taps, rows: int, columns: int) -> Taps:
    """Taps with blocks that suit planes, or parts of some, of so many results."""
    needed = -(-columns // taps.lanes)
    if taps.is_by_line:
        together, vectors = 4, min(2, needed)
    else:
        size = max(taps.lanes // tile_for("f32", TALL).lanes, 1)  # registers of a vector: bytes are summed as 32 bits
        wide = max((WIDE if taps.kind == "f32" else WIDE_BYTES) // size, 1)
        vectors = -(-needed // -(-needed // wide))
        together = min(range(1, min(TALL, rows) + 1), key=lambda some: _cost(taps, some, rows, vectors * size))
    return taps._replace(together=min(together, rows), vectors=vectors, is_single=needed == vectors)


def _cost(taps: Taps, some: int, rows: int, registers: int) -> tuple[bool, int]:
    """The cost of rows if some are computed at once: arithmetic, and lines that are read."""
    lines = (some - 1) * abs(taps.down) + (taps.rows - 1) * abs(taps.below) + 1
    return some * registers > SUMS, -(-rows // some) * taps.columns * (some * taps.rows + lines)


def suits_wide(taps: Taps) -> bool:
    """Whether a text that knows how long lines are computes them."""
    return taps.kind == "f32" and taps.op in ("fma", "sum") and has_feature("avx512vl")


def in_wide_blocks(taps: Taps, rows: int, columns: int, line: int, left: int | None = None) -> Taps:
    """Taps for such a text, with blocks that suit parts of so many rows."""
    lanes = WIDEST if columns > WIDEST // 2 else WIDEST // 2
    needed = -(-columns // lanes)
    is_rolling = taps.down == taps.below == 1 < taps.rows
    wide = min(ROLLING // taps.rows, ACROSS) if is_rolling else WIDE
    vectors = -(-needed // -(-needed // wide))
    most = 0 if is_rolling else min(SUMS_WIDE // vectors, TALL, rows)
    together = min(range(1, most + 1), key=lambda some: _cost(taps, some, rows, 0), default=0)
    return taps._replace(
        lanes=lanes, vectors=vectors, together=together, left=left, over=0, width=columns, line=line, by_lane=False
    )


def with_margins(taps: Taps, columns: int, left: int, line: int) -> Taps | None:
    """Taps that read lines of so many elements, the first window beginning so many before one.

    None where a vector that is not a row's first or last would reach past a line.
    """
    last = (columns - 1) * taps.step + (taps.columns - 1) * taps.beside - left
    over, wide = max(last - (line - 1), 0), taps.vectors * taps.lanes
    is_inside = columns == taps.lanes  # the one vector is the first and the last
    if not is_inside:
        # The vector before a row's last ends so many results before it; those after the first begin so many after it.
        gap = (columns - 1) % (taps.lanes if taps.is_single else wide) + 1
        begin = columns - taps.lanes if taps.is_single else min(columns - wide, wide)
        is_inside = over + taps.step - 1 <= min(gap, taps.lanes) * taps.step and left <= begin * taps.step
    # What is read at once lies in a line, and reaches past one end of it at most.
    is_read = line >= taps.lanes * (1 if taps.vectors == 1 else taps.step)
    return taps._replace(left=left, over=over) if is_inside and is_read else None
