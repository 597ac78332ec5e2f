"""A few rows times columns of weights of few bits, a unit of columns at a time. Compiled once for all.

A unit makes digits of its rows, has its columns multiplied, and finishes the results as a contraction does. Rows with
what is no finite number are multiplied in FLOAT32 instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.digits import PLACES, PORTION
from anydml.engines.cpu.kernels.room import RESULT, RIGHT, SUMS_AT
from anydml.engines.cpu.kernels.weight_units import find_row, make_units
from anydml.ir.weights import MOST

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps

WORDS = (
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "digits", "columns_of",
    "columns_low", "plainly", "left_at", "right_at", "result_at", "rank", "is_rounded",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes what is left, and `_at` the words at which sections stand."""
NEAR = 64
"""Columns that all rows take in turn: their weights stay in the second cache, and the digits of some rows in the
first."""
MOST_BYTES = RIGHT
"""Of the digits, sums and powers of all rows of a unit."""
MOST_RESULTS = RESULT // 4
"""Of a unit."""

# Where things lie in a scratch: its lock, whether rows are odd, a row, the digits, sums and powers, the results.
_ODD = 64
_ROW = _ODD + 64
_DIGITS = _ROW + 4 * MOST
_RESULT = SUMS_AT - 4096 - RESULT


def bytes_of(portions: int, rows: int) -> int:
    """Bytes of the digits, the sums and the powers."""
    return rows * portions * (PLACES * PORTION + 8)


def make_weights() -> str:
    """The text of the kernel."""
    memory = {"row": _ROW, "digit_memory": _DIGITS, "result_memory": _RESULT}
    return make_units(WORDS, memory, lambda _: None, _write_unit)


def _write_unit(text: Steps) -> None:
    text.let("n0", "n * by_column // column_units")
    text.let("columns", "n * (by_column + 1) // column_units - n0")
    text.let("pitch", "columns * 4")
    text.let("sums", f"digit_memory + rows * portions * {PLACES * PORTION}")
    text.let("powers", "sums + rows * portions * 4")
    with text.loop("r", 0, "rows"):
        text.put(f"scratch + {_ODD} + r * 8", 0)
        find_row(text)
        text.invoke(
            "digits", "of_row", "portions", f"digit_memory + r * portions * {PLACES * PORTION}",
            "sums + r * portions * 4", "powers + r * portions * 4", f"scratch + {_ODD} + r * 8",
            "scales_of_row", "shared",
        )  # fmt: skip
    with text.loop("j", 0, "columns", NEAR), text.loop("i", 0, "rows", "some"):
        text.let("used", "columns_of if rows - i >= some else columns_low")
        text.invoke(
            "used", "right", "right_bases", "n0 + j", f"min({NEAR}, columns - j)",
            f"digit_memory + i * portions * {PLACES * PORTION}", "sums + i * portions * 4", "powers + i * portions * 4",
            "result_memory + i * pitch + j * 4", "pitch", "portions",
        )  # fmt: skip
    with text.loop("o", 0, "rows"):
        text.read("is_odd", f"scratch + {_ODD} + o * 8")
        with text.when("is_odd"):
            text.invoke("@stage", "left", "left_bases", "m0 + o", 0, 1, "k", "left_views - 1", "row", 0)
            text.invoke(
                "plainly", "right", "right_bases", "n0", "columns", "row", "result_memory + o * pitch", "portions"
            )
    text.invoke("@stage", "result", "result_bases", "m0", "n0", "rows", "columns", 0, "result_memory", "pitch")
