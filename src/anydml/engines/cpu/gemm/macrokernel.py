"""The GEMM macro-kernel: products over packed panels, a work item of rows and columns at a time. Compiled once for all.

A unit packs a block of the right factor, then goes through its panels of rows: each is packed, multiplied tile by tile,
and finished. Factors and results are `sections` of the words: the row of a map that computes them, their views, and how
those lie. A factor that is a tensor's elements alone is packed as it lies, and a result that is the sum alone is
written as it is added up; all else goes through rows of maps, by memory that the nearest cache has.

A section: the address of the map's row, the views, the words of numbers; each view's address, its step along the row,
the numbers, its step across, then for each dimension of the batch its stride. What lies in the scratch is the last view
of a factor, and the first one of the result.
"""

from __future__ import annotations

from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.microkernel import CHAIN, UNROLLED
from anydml.engines.cpu.gemm.operands import DOTS, PANELS, PIECES, STRIP, UNPACKED, pack_left, pack_right
from anydml.engines.cpu.gemm.small_m import WIDE
from anydml.engines.cpu.gemm.work_item import (
    DECLARED,
    divide,
    find_block,
    find_unit,
    make_bases,
    make_lines,
    make_stage,
    take_scratch,
)
from anydml.engines.cpu.gemm.workspace import PANEL, RIGHT_AT, workspace
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.quant.int8 import read_totals, total_right
from anydml.engines.cpu.rows.walk import VIEWS

CHOSEN = (
    "pack_left", "total_left", "tile", "tile_narrow", "tile_low", "tile_small", "tile_beside", "last", "last_narrow",
    "last_low", "last_small",
)  # fmt: skip
"""Kernels that there are others of, for bytes that are small."""
RECORD = Layout(
    "slots", "slot_count", "m", "n", "k", "row_units", "column_units", "row_panels", "column_panels", "tile_rows",
    "tile_columns", "block", "pitch", "lanes", "pack_right", "left_mode",
    "right_mode", "is_direct", "left_at", "right_at", "result_at", "rank", "together",
    "mends", "total_right", "mend", "left_zero_at", "right_zero_at", "line", "gap",
    "beside", "pieces", "left_on", "of_columns", "fetches", "filled", "bounded", "most", "written", "is_placed",
    *CHOSEN,
    *(f"small_{name}" for name in CHOSEN),
)  # fmt: skip
"""After the header, and before the batch's sizes; `_at` are the words at which sections stand, `together` the steps
that a packed one has, `line` the columns of a line of the target, where there are gaps between those, `gap` the
distance from one to the next, and `beside` the panels that `tile_beside` takes at once. The `last` tiles
compute results from the sums; where there are none, rows of maps do. Rows that are not packed have a table of `pieces`,
and lie `left_on` bytes on from column to column. The units of the same columns are `of_columns` one after the other,
where that is not 0; otherwise those of the same rows are. Where it `fetches`, so do the tiles. Packed steps are a
multiple of `filled`. Tiles read whole `lanes` of columns that are not packed, and write multiples of `written`. Where
it `is_placed`, sums lie in the target until results are computed from them. Of the factor that is `bounded`, if there
is one, the last view is a number: bytes are small where it is `most` at most."""
LEFT, RIGHT = 1, 2
"""The factor that is bounded."""


def make_macrokernel() -> str:
    """The text of the kernel."""
    return "\n".join([make_stage(), make_lines(), make_bases(), _write_kernel(), DECLARED])


def _write_kernel() -> str:
    text = Steps()
    RECORD.load(text, *(one.name for one in RECORD.fields[: -2 * len(CHOSEN)]))
    for name in ("left_zero", "right_zero"):
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
    for name in ("left", "right", "result"):
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
        text.read(f"{name}_numbers", f"{name} + 16")
        text.let(f"{name}_steps", f"{name} + 24 + {name}_views * 8")
        text.read(f"{name}_step", f"{name}_steps")
        text.read(f"{name}_across", f"{name}_steps + ({name}_views + {name}_numbers) * 8")
    _choose(text)
    text.let("target_at", "(result_views - 1) * 8")
    text.read("target_step", "result_steps + target_at")
    text.read("target_across", "result_steps + (result_views + result_numbers) * 8 + target_at")
    text.room("places", VIEWS)
    text.room("totalled", 1)
    parts = workspace()
    take_scratch(text, parts.size)
    text.let("right_memory", f"scratch + {RIGHT_AT}")
    text.let("left_memory", f"scratch + {parts.left_at}")
    text.let("stage_memory", f"scratch + {parts.stage_at}")
    text.let("result_memory", f"scratch + {parts.sums_at}")
    for i, name in enumerate(("left_totals", "left_zeros", "right_totals", "right_zeros")):
        text.let(name, f"scratch + {parts.totals_at + 4 * i * (figures().gemm.skinny_columns + 2 * PANEL)}")
    text.let("panel_pitch", "tile_columns * 4")
    divide(text)
    with text.loop("unit", "begin", "end"):
        _write_unit(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")


def _choose(text: Steps) -> None:
    """The kernels for the bytes of a factor that is bounded, or for any."""
    for name in ("left", "right"):
        text.read(f"{name}_last", f"{name} + 16 + {name}_views * 8")
    text.let("bound_at", f"left_last if bounded == {LEFT} else right_last if bounded == {RIGHT} else words")
    bound = text.new(f"load i32, ptr {text.place('bound_at')}")
    text.add(f"%bound = sext i32 {bound} to i64")
    small = RECORD.end - len(CHOSEN)
    text.let("chosen", f"{small} if bounded != 0 and bound <= most else {small - len(CHOSEN)}")
    for i, name in enumerate(CHOSEN):
        text.read(name, f"words + (chosen + {i}) * 8")


def _write_unit(text: Steps) -> None:
    find_unit(text, RECORD.end)
    for name in ("left", "right", "result"):
        text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.read(f"{name}_base", f"{name}_bases")
    with text.when("mends"):
        for name in ("left_zero", "right_zero"):
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
    text.read("target_base", "result_bases + target_at")
    for name, side in (("row", "m"), ("column", "n")):
        text.let(f"{side}0", f"{name}_first * tile_{name}s")
        text.let(f"{side}1", f"min({name}_stop * tile_{name}s, {side})")
    text.let("columns", "n1 - n0")
    text.let("result_pitch", "(column_stop - column_first) * panel_pitch")
    # Panels of columns that fill vectors: all of them but the last. Most tiles write the columns that there are.
    text.let("over", "n_over if n1 == n else 0")
    text.let("whole_panels", "n1 - over")
    text.let("full_panels", "whole_panels if over and n_lanes else n1")
    text.let("written_panels", "whole_panels if over and n_written else n1")
    text.let("direct", "written_panels if is_direct != 0 else n0")
    text.let("ended", "written_panels if last != 0 else n0")
    text.let("placed", "ended if is_placed != 0 else direct")
    text.let("wide", "tile_columns * beside")
    text.put("counted", 0)
    with text.when(f"right_mode == {PANELS} and beside > 1"):
        text.put("counted", "columns // wide * wide")
    text.read("all_wide", "counted")
    with text.when(f"right_mode >= {STRIP}"):
        _write_small_m(text)
    with text.loop("k0", 0, f"0 if right_mode >= {STRIP} else k", "block"):
        text.let("steps", "min(block, k - k0)")
        text.put("counted", "steps")
        with text.when("filled > 1"):
            text.put("counted", "(steps + filled - 1) // filled * (filled // together)")
        text.read("packed", "counted")
        pack_right(text)
        find_block(text)
        with text.when("mends"):
            text.invoke(
                "@stage",
                "right_zero",
                "right_zero_bases",
                0,
                "n0",
                1,
                "columns",
                "right_zero_views - 1",
                "right_zeros",
                0,
            )
            text.put("totalled", 0)
            with text.when(f"right_mode == {PANELS}"):
                read_totals(text)
                text.put("totalled", 1)
        with text.loop("p", "row_first", "row_stop"):
            _write_panel(text)


def _write_small_m(text: Steps) -> None:
    """All rows of a few, against columns that are not packed."""
    text.read("skinny", "right")
    text.let("height_s", "m1 - m0")
    with text.when(f"right_mode == {STRIP}"), text.loop("k_s", 0, "k", CHAIN):
        text.let("steps_s", f"min({CHAIN}, k - k_s)")
        pack_left(text, "m0", "k_s", "height_s", "steps_s", "s")
        text.invoke(
            "skinny", "right + 24", "right_bases", "left_memory", "k_s", "n0", "columns", "stage_memory",
            "result_memory", "result_pitch", "steps_s", "1 if k_s == 0 else 0",
        )  # fmt: skip
    with text.when(f"right_mode == {DOTS}"):
        text.let("a_pitch", f"(k + {2 * WIDE}) * 4")
        with text.loop("r_s", 0, "height_s"), text.loop("z_s", 0, WIDE // 2):
            text.put("right_memory + r_s * a_pitch + k * 4 + z_s * 8", 0)
        text.invoke(
            "@stage", "left", "left_bases", "m0", "0", "height_s", "k", "left_views - 1", "right_memory", "a_pitch"
        )
        text.invoke(
            "skinny", "right + 24", "right_bases", "right_memory", "a_pitch", "n0", "columns", "result_memory",
            "result_pitch", "k",
        )  # fmt: skip
    _finish(text, "m0", "n0", "height_s", "result_memory")


def _finish(text: Steps, first: str, start: str, height: str, memory: str) -> None:
    """Results computed from sums, for some rows and the columns from a start on: line by line, where there are gaps."""
    with text.when("line == 0"):
        text.invoke(
            "@stage", "result", "result_bases", first, start, height, f"n1 - {start}", 0, memory, "result_pitch"
        )
    with text.when("line"):
        _move_lines(text, first, start, height, "n1", memory, 0)


def _move_lines(text: Steps, first: str, start: str, height: str, stop: str, memory: str, done: int) -> None:
    """Rows of results, from a column to another, to lines with gaps between them."""
    text.invoke(
        "@lines", "result", "result_bases", first, start, height, f"{stop} - {start}", memory, "result_pitch",
        "line", "gap", "target_step", "stage_memory", done,
    )  # fmt: skip


def _write_panel(text: Steps) -> None:
    text.let("i", "p * tile_rows")
    text.let("height", "min(tile_rows, m1 - i)")
    pack_left(text, "i", "k0", "height", "steps", "p")
    text.let("rows_ahead", "left_base + p * left_across + k0 * left_step")
    text.let("rows_packed", f"rows_ahead if left_mode == {PANELS} else left_memory")
    text.let("rows_apart", "left_base + i * left_across + k0 * left_step")
    text.let("rows_here", f"rows_apart if left_mode == {UNPACKED} else rows_packed")
    text.let("a", f"left_base + i * left_across if left_mode == {PIECES} else rows_here")
    text.let("steps_of", f"pieces if left_mode == {PIECES} else packed")
    text.let("on_next", f"left_across if left_mode == {PIECES} else tile_columns * right_across")
    # Results that are not in the target yet are kept for all rows only where more is added to them.
    text.let("kept", "i - m0 if k > block else 0")
    text.let("results", "result_memory + kept * result_pitch")
    text.let("far_from", f"(p - row_first) * (packed // {UNROLLED})")
    text.let("far_step", "right_step * together if has_next != 0 and far_from < packed else 0")
    text.let("far_on", "far_from * far_step")
    text.let("by_wide", "all_wide if height == tile_rows else 0")
    with text.loop("j_w", "n0", "n0 + by_wide", "wide"):
        _write_tile(text, "j_w", "tile_beside", "wide")
    with text.loop("j", "n0 + by_wide", "n1", "tile_columns"):
        text.let("width", "min(tile_columns, n1 - j)")
        text.let("tile_here", "(tile if width == tile_columns else tile_narrow)")
        text.let("low_here", "(tile_low if width == tile_columns else tile_small)")
        text.let("tile_used", "tile_here if height == tile_rows else low_here")
        text.let("end_here", "(last if width == tile_columns else last_narrow)")
        text.let("end_below", "(last_low if width == tile_columns else last_small)")
        text.let("end_used", "end_here if height == tile_rows else end_below")
        _write_tile(text, "j", "tile_used", "one", "end_used")
    with text.when("mends"):
        text.invoke("total_left", "left_memory", "packed", "height", "left_totals")
        text.invoke(
            "@stage", "left_zero", "left_zero_bases", 0, "i", 1, "height", "left_zero_views - 1", "left_zeros", 0
        )
        total_right(text)
        # What lies in the target already, and the others.
        for at, pitch, start, end in (
            ("target_base + i * target_across + n0 * 4", "target_across", "n0", "direct"),
            ("results + (direct - n0) * 4", "result_pitch", "direct", "n1"),
        ):
            text.invoke(
                "mend", at, pitch, "height", f"{end} - {start}", "left_totals", "left_zeros",
                f"right_totals + ({start} - n0) * 4", f"right_zeros + ({start} - n0) * 4", "steps", "mends",
            )  # fmt: skip
    with text.when("k0 + steps == k"):
        with text.when("line and ended > n0"):
            _move_lines(text, "i", "n0", "height", "ended", "results", 1)
        text.let("rest", "max(direct, ended)")
        with text.when("rest < n1"):
            _finish(text, "i", "rest", "height", "results + (rest - n0) * 4")


def _write_tile(text: Steps, j: str, tile: str, name: str, end: str = "") -> None:
    """Have a tile computed, of the columns from one on."""
    text.let(f"is_raw_{name}", f"1 if {j} < unpacked else 0")
    text.let(f"from_{name}", f"right_base + {j} * right_across + k0 * right_step")
    text.let(f"b_{name}", f"from_{name} if is_raw_{name} != 0 else right_memory + ({j} - unpacked) * packed * 4")
    text.let(f"b_step_{name}", f"right_step * together if is_raw_{name} != 0 else panel_pitch")
    text.let(f"to_{name}", f"target_base + i * target_across + {j} * 4")
    text.let(f"c_{name}", f"to_{name} if {j} < placed else results + ({j} - n0) * 4")
    text.let(f"c_step_{name}", f"target_across if {j} < placed else result_pitch")
    # Of the next panel of rows each tile has one fetched; where a kernel computes rows, that does no harm.
    text.let(f"row_{name}", f"min(i + tile_rows + ({j} - n0) // {figures().gemm.prefetch_columns}, m1 - 1)")
    text.let(f"soon_{name}", f"left_base + row_{name} * left_across + k0 * left_step")
    given = (
        f"a + {j} * left_on", f"b_{name}", f"b_step_{name}", f"c_{name}", f"c_step_{name}", "steps_of",
        "1 if k0 == 0 else 0", f"soon_{name} if left_mode != {PIECES} else on_next" if end else "on_next",
        f"next_block + {j} * right_across + far_on if far_step != 0 else b_{name}", "far_step", "left_across",
    )  # fmt: skip
    text.let(f"is_end_{name}", f"1 if k0 + steps == k and {j} < ended else 0" if end else 0)
    with text.when(f"is_end_{name} == 0"):
        text.invoke(tile, *given)
    if end:
        with text.when(f"is_end_{name} != 0"):
            text.let("end_in", f"target_base + i * target_across + {j} * target_step")
            text.let("end_to", f"results + ({j} - n0) * target_step if line else end_in")
            text.let("end_step", "result_pitch if line else target_across")
            text.invoke(end, *given, "end_to", "end_step", "result", "result_bases", "i", j)
