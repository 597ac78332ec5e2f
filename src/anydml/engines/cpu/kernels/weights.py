"""A few rows times columns of weights of few bits, a unit of columns at a time. Compiled once for all.

A unit makes digits of its rows, has its columns multiplied, and finishes the results as a contraction does. Rows with
what is no finite number are multiplied in FLOAT32 instead.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.digits import PLACES, PORTION
from anydml.engines.cpu.kernels.room import RESULT, RIGHT, SCRATCH, SUMS_AT
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.kernels.steps import Steps
from anydml.ir.weights import MOST

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
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in ("left", "right", "result"):
        text.let(f"{name}", f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
    text.room("places", VIEWS)
    take_scratch(text, SCRATCH)
    text.let("k", f"portions * {PORTION}")
    text.let("row", f"scratch + {_ROW}")
    text.let("digit_memory", f"scratch + {_DIGITS}")
    text.let("result_memory", f"scratch + {_RESULT}")
    with text.loop("unit", "begin", "end"):
        _write_unit(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    kernel = text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")
    return "\n".join([make_stage(), make_bases(), kernel, DECLARED])


def _write_unit(text: Steps) -> None:
    text.let("by_column", "unit % column_units")
    text.let("others", "unit // column_units")
    text.let("m0", "others % row_units * height")
    find_place(text, "others // row_units", HEADER + len(WORDS))
    for name in ("left", "right", "result"):
        text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
    text.let("rows", "min(height, m - m0)")
    text.let("n0", "n * by_column // column_units")
    text.let("columns", "n * (by_column + 1) // column_units - n0")
    text.let("pitch", "columns * 4")
    text.let("sums", f"digit_memory + rows * portions * {PLACES * PORTION}")
    text.let("powers", "sums + rows * portions * 4")
    with text.loop("r", 0, "rows"):
        text.put(f"scratch + {_ODD} + r * 8", 0)
        with text.when("is_rounded == 0"):
            text.invoke("@stage", "left", "left_bases", "m0 + r", 0, 1, "k", "left_views - 1", "row", 0)
        for name, at in (("bytes", 0), ("scales", 8)):
            text.read(f"{name}_base", f"left_bases + {at}")
            text.read(f"{name}_on", f"left + {24 + 8 * 4} + {at}")
        text.let("of_row", "bytes_base + (m0 + r) * bytes_on if is_rounded != 0 else row")
        text.read("shared", "right + 24 + right_views * 8")
        text.invoke(
            "digits", "of_row", "portions", f"digit_memory + r * portions * {PLACES * PORTION}",
            "sums + r * portions * 4", "powers + r * portions * 4", f"scratch + {_ODD} + r * 8",
            "scales_base + (m0 + r) * scales_on", "shared",
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
