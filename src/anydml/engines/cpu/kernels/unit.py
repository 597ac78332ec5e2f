"""The units of a contraction: the panels and the place in the batch of each, and the block that comes after its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.stage import find_place

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps

FOUND = ("place", "row_first", "row_stop", "column_first", "column_stop")
"""Of a unit."""


def divide(text: Steps) -> None:
    """What is left over of the columns, found once: a division takes as long as a small unit's arithmetic.

    1,000 products of 8 x 8 x 8 take 115 us so, and 155 with all divisions in each unit (one thread).
    """
    text.let("n_over", "n % tile_columns")
    text.let("n_lanes", "n % lanes")
    text.let("n_written", "n % written")
    text.let("is_whole", "1 if row_units * column_units == 1 else 0")
    text.room("found", len(FOUND))
    text.room("counted", 1)


def find_unit(text: Steps, sizes_at: int) -> None:
    """The panels of a unit, and its place in the batch: all panels, where each product is a unit."""
    for value, i in (("unit", 0), (0, 1), ("row_panels", 2), (0, 3), ("column_panels", 4)):
        text.put(f"found + {8 * i}", value)
    with text.when("is_whole == 0"):
        text.let("by_column", "unit // max(of_columns, 1) if of_columns else unit % column_units")
        text.let("others", "unit % max(of_columns, 1) if of_columns else unit // column_units")
        text.let("by_row", "others % row_units")
        text.put("found", "others // row_units")
        for i, (name, line) in enumerate((("row", "by_row"), ("column", "by_column"))):
            text.put(f"found + {16 * i + 8}", f"({name}_panels * {line}) // {name}_units")
            text.put(f"found + {16 * i + 16}", f"({name}_panels * ({line} + 1)) // {name}_units")
    for i, name in enumerate(FOUND):
        text.read(name, f"found + {8 * i}")
    find_place(text, "place", sizes_at)


def find_block(text: Steps) -> None:
    """Where the block of the right factor lies that comes next: the first panels of rows have it fetched."""
    text.let("is_more", "1 if k0 + steps < k else 0")
    text.let("next_n", "n0 if is_more != 0 else n1 if n1 < n else 0")
    text.let("is_next", "1 if is_more != 0 or n1 < n or (row_units > 1 and k * n > block * columns) else 0")
    text.let("has_next", "is_next if fetches != 0 else 0")
    text.let("next_k", "k0 + steps if is_more != 0 else 0")
    text.let("next_block", "right_base + (next_n - n0) * right_across + next_k * right_step")
