"""How a contraction's kernel brings its factors: packed, computed by rows of maps, or as they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps

STAGED = 16
"""Rows of a right factor that lies along its columns that are computed before they are packed."""
AS_IT_LIES, ALONG_STEPS, ALONG_ROWS, SIDE_BY_SIDE, UNPACKED, PANELS, HALVES, WINDOWS, PIECES, STRIP, DOTS = range(11)
"""How a factor is brought: packed as it lies; computed along the steps, or along its rows or columns; packed all at
once, for its columns lie side by side; not packed; packed ahead; packed ahead, but for its type; packed by tables of
distances; rows by a table of pieces, and not packed; or by a kernel for few rows, which the section names."""


def pack_right(text: Steps) -> None:
    """A unit's block of the right factor, but for panels that are not packed: up to `unpacked`."""
    text.let("unpacked", f"n1 if right_mode == {PANELS} else full_panels if right_mode == {UNPACKED} else n0")
    # Whole panels that lie side by side are packed at once.
    text.let("whole_n", "columns - over")
    text.let("at_once", f"whole_n if right_mode == {SIDE_BY_SIDE} else 0")
    with text.when("at_once > 0"):
        text.let("from_w", "right_base + n0 * right_across + k0 * right_step")
        text.invoke("pack_right", "from_w", "right_across", "right_step", "at_once", "steps", "right_memory")
    with text.when(f"right_mode == {ALONG_ROWS}"), text.loop("s", 0, "steps", STAGED):
        text.let("some", f"min({STAGED}, steps - s)")
        text.invoke(
            "@stage", "right", "right_bases", "k0 + s", "n0", "some", "columns", "right_views - 1",
            "stage_memory", "result_pitch",
        )  # fmt: skip
        with text.loop("js", "n0", "n1", "tile_columns"):
            text.invoke(
                "pack_right", "stage_memory + (js - n0) * 4", 4, "result_pitch", "min(tile_columns, n1 - js)",
                "some", "right_memory + (js - n0) * steps * 4 + s * panel_pitch",
            )  # fmt: skip
    with text.when(f"right_mode != {ALONG_ROWS}"), text.loop("jp", "unpacked + at_once", "n1", "tile_columns"):
        text.let("width_p", f"tile_columns if right_mode == {HALVES} else min(tile_columns, n1 - jp)")
        text.let("to_p", "right_memory + (jp - unpacked) * packed * 4")
        with text.when(f"right_mode == {ALONG_STEPS}"):
            text.invoke(
                "@stage", "right", "right_bases", "jp", "k0", "width_p", "steps", "right_views - 1",
                "stage_memory", "steps * 4",
            )  # fmt: skip
            text.invoke("pack_right", "stage_memory", "steps * 4", 4, "width_p", "steps", "to_p")
        with text.when(f"right_mode == {WINDOWS}"):
            text.invoke(
                "pack_right", "right_base", "right_across + jp * 8", "right_step + k0 * 8", "width_p", "steps", "to_p"
            )
        with text.when(f"right_mode != {ALONG_STEPS} and right_mode != {WINDOWS}"):
            text.let("from_p", "right_base + jp * right_across + k0 * right_step")
            text.invoke("pack_right", "from_p", "right_across", "right_step", "width_p", "steps", "to_p")


def pack_left(text: Steps, first: str, start: str, height: str, steps: str, name: str) -> None:
    """A panel of rows."""
    with text.when(f"left_mode == {AS_IT_LIES}"):
        text.let(f"left_{name}", f"left_base + {first} * left_across + {start} * left_step")
        text.invoke("pack_left", f"left_{name}", "left_across", "left_step", height, steps, "left_memory")
    with text.when(f"left_mode == {ALONG_STEPS}"):
        text.invoke(
            "@stage",
            "left",
            "left_bases",
            first,
            start,
            height,
            steps,
            "left_views - 1",
            "stage_memory",
            f"{steps} * 4",
        )
        text.invoke("pack_left", "stage_memory", f"{steps} * 4", 4, height, steps, "left_memory")
    with text.when(f"left_mode == {ALONG_ROWS}"):
        text.invoke(
            "@stage", "left", "left_bases", start, first, steps, height, "left_views - 1", "stage_memory", "pitch"
        )
        text.invoke("pack_left", "stage_memory", 4, "pitch", height, steps, "left_memory")
