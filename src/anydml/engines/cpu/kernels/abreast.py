"""Rows times columns of 4-bit weights that lie abreast, a unit of panels at a time. Compiled once for all.

A unit lays its rows out by words of steps. For some panels at a time it turns their columns' scales and zero points,
and their weights where those are not laid out ahead, has all rows multiplied, and finishes the results as a contraction
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.abreast_sums import STEPS, WORDS
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.kernels.weight_units import find_row, make_units
from anydml.ir.weights import MOST

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps

FIELDS = (
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "wide", "lanes",
    "row_of", "columns_of", "columns_low", "turn_values", "turn_zeros", "left_at", "right_at", "result_at",
    "rank", "is_rounded", "is_laid_out",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes the rest, `wide` the panels of both, and `_at` the words at which sections stand."""
MOST_ROWS = 512 * 1024
"""Bytes of a unit's rows."""
MOST_PANELS = 384 * 1024
"""Bytes of what is turned of some panels."""
MOST_RESULTS = 256 * 1024
"""Bytes of a unit's results."""

# Where things lie in a scratch: its lock, a row, all rows, their sums and powers, the panels, the results.
_ROW = 64
_ROWS = _ROW + 4 * MOST
_SUMS = _ROWS + MOST_ROWS
_PANELS = _SUMS + 2 * MOST_ROWS // PORTION
_RESULT = _PANELS + MOST_PANELS
END = _RESULT + MOST_RESULTS
"""The bytes of a scratch that are used."""


def bytes_of_panel(portions: int, lanes: int) -> int:
    """Bytes of the weights, the scales and the zero points of a panel, at most."""
    return portions * (WORDS + 2) * 4 * lanes


def make_unit() -> str:
    """The text of the kernel."""
    memory = {"row": _ROW, "rows_at": _ROWS, "sums": _SUMS, "panels_at": _PANELS, "results": _RESULT}
    return make_units(FIELDS, memory, _enter, _write_unit)


def _enter(text: Steps) -> None:
    text.let("panels", "(n + lanes - 1) // lanes")
    text.let("scale_count", "portions // shared")
    text.let("scales_panel", "scale_count * lanes * 4")
    text.let("weights_panel", f"portions * lanes * {4 * WORDS}")
    text.let("powers", "sums + height * portions * 4")
    text.let("width", "1 if is_rounded != 0 else 4")


def _write_unit(text: Steps) -> None:
    text.let("panel0", "panels * by_column // column_units")
    text.let("count", "panels * (by_column + 1) // column_units - panel0")
    text.let("n0", "panel0 * lanes")
    text.let("pitch", "count * lanes * 4")
    with text.loop("r", 0, "rows"):
        _write_row(text)
    for i, name in enumerate(("weights", "scales", "zeros")):
        text.read(f"{name}_base", f"right_bases + {8 * i}")
        text.read(f"{name}_on", f"right + 24 + (right_views * 2 + {i}) * 8")
    with text.loop("q", 0, "count", "wide"):
        text.let("at", "min(q, count - wide)")  # the last panels again, where fewer are left
        _write_panels(text)
    text.invoke(
        "@stage", "result", "result_bases", "m0", "n0", "rows", "min(n - n0, count * lanes)", 0, "results", "pitch"
    )


def _write_row(text: Steps) -> None:
    """Lay a row out among those of its group."""
    find_row(text)
    text.let("before", "r - r % some")
    text.let("beside", "min(some, rows - before)")
    # A group of rows of FLOAT32 has a power a row.
    text.let("of_group", "before * (portions if is_rounded != 0 else 1) + r % some")
    text.invoke(
        "row_of", "of_row", "portions", "beside", f"rows_at + (before * k + r % some * {STEPS}) * width",
        "sums + of_group * 4", "powers + of_group * 4", "scales_of_row", "shared",
    )  # fmt: skip


def _write_panels(text: Steps) -> None:
    """Some panels, times all rows."""
    text.let("zeros_at", "panels_at + wide * scales_panel")
    text.let("turned_at", "zeros_at + wide * scales_panel")
    text.let("first", "n0 + at * lanes")
    with text.loop("v", 0, "wide"):
        text.let("column", "first + v * lanes")
        text.let("own", "min(lanes, n - column)")
        text.invoke(
            "turn_values",
            "scales_base + column * scales_on",
            "scales_on",
            "own",
            "scale_count",
            "panels_at + v * scales_panel",
        )
        with text.when("turn_zeros != 0"):
            text.invoke(
                "turn_zeros", "zeros_base + column * zeros_on", "zeros_on", "own", "scale_count",
                "zeros_at + v * scales_panel",
            )  # fmt: skip
        with text.when("is_laid_out == 0"):
            text.invoke(
                "turn_values", "weights_base + column * weights_on", "weights_on", "own", f"portions * {WORDS}",
                "turned_at + v * weights_panel",
            )  # fmt: skip
    text.let("weights_at", "weights_base + (panel0 + at) * weights_panel if is_laid_out != 0 else turned_at")
    with text.loop("i", 0, "rows", "some"):
        text.let("used", "columns_of if rows - i >= some else columns_low")
        text.let("sums_at", "i * (portions if is_rounded != 0 else 1) * 4")
        text.invoke(
            "used", "weights_at", "panels_at", "zeros_at", "rows_at + i * k * width", "sums + sums_at",
            "powers + sums_at", "results + i * pitch + at * lanes * 4", "pitch", "scale_count", "shared",
            "scales_base + (first + wide * lanes) * scales_on",
        )  # fmt: skip
