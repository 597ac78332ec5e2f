"""Work items of a GEMM: which panels and which batch entry each has, the workspace that it takes, and prologue fusion,
operand rows that are computed as they are packed.
"""

from __future__ import annotations

from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.rows.walk import VIEWS

# The steps of every unit of a contraction: take a scratch, find where views begin, and have rows of maps computed.


DECLARED = "declare void @llvm.aarch64.isb(i32)" if IS_ARM else "declare void @llvm.x86.sse2.pause()"
"""The declarations of a text that takes a scratch."""
PIECES = (64, 32, 16, 8, 4, 2, 1)
"""Bytes that are moved at once."""
_PAUSE = "call void @llvm.aarch64.isb(i32 15)" if IS_ARM else "call void @llvm.x86.sse2.pause()"


def make_stage() -> str:
    """Some rows of a map, of which the view `own` lies in the scratch."""
    text = Steps()
    _read_section(text)
    with text.loop("r", 0, "rows"):
        _find_views(text)
        text.put("places + own * 8", "memory + r * pitch")
        text.invoke("row", "w", "places", "count")
    text.add("ret void")
    names = ("section", "bases", "first", "start", "rows", "count", "own", "memory", "pitch")
    return text.define(f"private void @stage({', '.join(f'i64 %{name}' for name in names)})")


def make_lines() -> str:
    """Some rows of results of some width: each is computed in the scratch, if it is not there, then moved by lines."""
    text = Steps()
    _read_section(text)
    with text.loop("r", 0, "rows"):
        _find_views(text)
        text.read("target", "places + views * 8 - 8")
        text.put("places", "memory + r * pitch")
        text.put("places + views * 8 - 8", "here")
        with text.when("done == 0"):
            text.invoke("row", "w", "places", "count")
        text.let("made", "here if done == 0 else memory + r * pitch")
        with text.loop("l", "start // line", "(start + count + line - 1) // line"):
            text.let("begin", "max(l * line, start)")
            text.let("length", "min(l * line + line, start + count) - begin")
            text.let("to", "target - start * width + l * gap + (begin - l * line) * width")
            text.let("source", "made + (begin - start) * width")
            text.let("size", "length * width")
            _move(text)
    text.add("ret void")
    names = (
        "section", "bases", "first", "start", "rows", "count", "memory", "pitch", "line", "gap", "width", "here", "done"
    )  # fmt: skip
    return text.define(f"private void @lines({', '.join(f'i64 %{name}' for name in names)})")


def _move(text: Steps) -> None:
    """Move the `size` bytes at `source` to `to`, in pieces of which the last overlaps the one before.

    Lines of a plane are short: 512 channels to 128 of 28 x 28, with margins, take 2.91 ms so, and 2.97 by `memcpy`
    (two threads of an Arm Neoverse-N1).
    """
    for piece in PIECES:
        above = f" and size < {2 * piece}" if piece < PIECES[0] else ""
        with text.when(f"size >= {piece}{above}"), text.loop(f"p{piece}", 0, "size", piece):
            text.let(f"at{piece}", f"min(p{piece}, size - {piece})")
            found = text.new(f"load <{piece} x i8>, ptr {text.place(f'source + at{piece}')}, align 1")
            text.add(f"store <{piece} x i8> {found}, ptr {text.place(f'to + at{piece}')}, align 1")


def _read_section(text: Steps) -> None:
    text.room("places", VIEWS)
    text.read("row", "section")
    text.read("views", "section + 8")
    text.read("numbers", "section + 16")
    text.let("w", "section + 24")
    text.let("steps", "w + views * 8")
    text.let("across", "steps + views * 8 + numbers * 8")


def _find_views(text: Steps) -> None:
    """Where each view's row begins."""
    with text.loop("v", 0, "views"):
        text.read("base", "bases + v * 8")
        text.read("step", "steps + v * 8")
        text.read("on", "across + v * 8")
        text.put("places + v * 8", "base + (first + r) * on + start * step")


def make_bases() -> str:
    """Where the views of a section begin for a place in the batch, which is given by its coordinates."""
    text = Steps()
    text.read("views", "section + 8")
    text.read("numbers", "section + 16")
    text.let("w", "section + 24")
    text.let("strides", "w + views * 24 + numbers * 8")
    with text.loop("v", 0, "views"):
        text.read("base", "w + v * 8")
        with text.when("rank == 1"):  # a unit of a small plane takes less than its divisions
            text.read("only", "places")
            text.read("by", "strides + v * 8")
            text.put("bases + v * 8", "base + only * by")
        with text.when("rank != 1"):
            text.put("bases + v * 8", "base")
        with text.loop("d", 0, "rank if rank != 1 else 0"):
            text.read("at", "places + d * 8")
            text.read("stride", "strides + (d * views + v) * 8")
            text.read("old", "bases + v * 8")
            text.put("bases + v * 8", "old + at * stride")
    text.add("ret void")
    return text.define("private void @bases(i64 %section, i64 %rank, i64 %places, i64 %bases)")


def find_place(text: Steps, number: str, sizes_at: int) -> None:
    """Where the unit of a number is in the batch: its coordinates, in the words `places` from the second on."""
    text.put("places + rank * 8", number)
    with text.loop("e", 0, "rank if rank != 1 else 0"):
        text.let("d", "rank - 1 - e")
        text.read("count_d", f"words + ({sizes_at} + d) * 8")
        text.read("left_over", "places + (d + 1) * 8")
        text.put("places + (d + 1) * 8", "left_over % count_d")
        text.put("places + d * 8", "left_over // count_d")


def take_scratch(text: Steps, size: int) -> None:
    """Take a scratch that is free; there are at least as many as threads, but threads may come from elsewhere."""
    text.add(
        "br label %look.first", "look.first:", "br label %look", "look:",
        "%turn = phi i64 [ 0, %look.first ], [ %turn.next, %look.on ]",
    )  # fmt: skip
    text.let("scratch", f"slots + turn * {size}")
    text.add(
        "%slot.ptr = inttoptr i64 %scratch to ptr",
        "%swap = cmpxchg ptr %slot.ptr, i64 0, i64 1 acquire monotonic",
        "%is.mine = extractvalue { i64, i1 } %swap, 1",
        "br i1 %is.mine, label %taken, label %look.on", "look.on:", _PAUSE,
    )  # fmt: skip
    text.add(f"%turn.next = add i64 {text.value('turn + 1 if turn + 1 < slot_count else 0')}, 0")
    text.add("br label %look", "taken:")


# The units of a contraction: the panels and the place in the batch of each, and the block that comes after its own.


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
