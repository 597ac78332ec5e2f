"""Attention in one pass: a unit has some queries, and goes through all keys, chunk by chunk. Compiled once for all.

Of each chunk the keys and the values are packed, and lie in the second cache; then panels of queries take it in turn:
sums of products with the keys, whose tiles have queries side by side, as the next product wants them; what is computed
of those, their powers, and the sums of values that these weigh. All scores of a panel lie in the first cache. A row
whose largest score grows is scaled. What is added up when does not depend on the units.

Sections, as a contraction has them: the tensors; the scores, and those of chunks in which some keys are not seen; how
many are seen; the results.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.room import SCRATCH, SUMS_AT
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.kernels.steps import Steps

SECTIONS = ("tensors", "scores", "limited", "limit", "result")
WORDS = (
    "slots", "slot_count", "queries", "keys", "size", "value_size", "row_units", "rank", "panel", "lanes", "key_rows",
    "value_rows", "value_columns", "chunk", "has_limit", "is_beside", "pack_query", "pack_key", "pack_value",
    "tile_scores", "tile_values", *(f"{name}_at" for name in SECTIONS),
)  # fmt: skip
"""After the header, and before the batch's sizes; `_at` are the words at which sections stand."""
TENSORS = ("query", "key", "value", "target")
ONE = 0x3F800000
"""The bits of 1.0."""
HEAD = 64
"""Bytes before what a unit keeps in its scratch: the scratch's lock."""
ROOM = SUMS_AT - HEAD - 4096
"""Bytes of a scratch for all else."""


def make_attend() -> str:
    """The text of the kernel."""
    return "\n".join([make_stage(), make_bases(), _make_rescale(), _write_kernel(), DECLARED])


def _write_kernel() -> str:
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in SECTIONS:
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
        text.read(f"{name}_numbers", f"{name} + 16")
        text.let(f"{name}_words", f"{name} + 24")
        text.let(f"{name}_steps", f"{name}_words + {name}_views * 8")
        text.let(f"{name}_across", f"{name}_steps + ({name}_views + {name}_numbers) * 8")
        text.read(f"{name}_kernel", name)
    for v, name in enumerate(TENSORS):
        text.read(f"{name}_step", f"tensors_steps + {8 * v}")
        text.read(f"{name}_row", f"tensors_across + {8 * v}")
    text.room("places", VIEWS)
    text.room("leaves", VIEWS)
    text.room("seen", 2)
    take_scratch(text, SCRATCH)
    text.let("wide", "(value_size + value_columns - 1) // value_columns * value_columns")
    text.let("out_pitch", "wide * 4")
    text.let("score_pitch", "panel * 4")
    text.let("key_memory", f"scratch + {HEAD}")
    text.let("value_memory", "key_memory + (chunk + key_rows) * size * 4")
    text.let("score_memory", "value_memory + chunk * out_pitch")
    text.let("state_memory", "score_memory + (chunk + key_rows) * score_pitch")
    text.let("panels", "(queries + panel - 1) // panel")
    with text.loop("unit", "begin", "end"):
        _write_unit(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")


def _write_unit(text: Steps) -> None:
    find_place(text, "unit // row_units", HEADER + len(WORDS))
    for name in SECTIONS:
        text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
    for v, name in enumerate(TENSORS):
        text.read(f"{name}_base", f"tensors_bases + {8 * v}")
    text.let("part", "unit % row_units")
    text.let("first", "panels * part // row_units * panel")
    text.let("last", "min(panels * (part + 1) // row_units * panel, queries)")
    text.let("count", "(last - first + panel - 1) // panel")
    text.let("query_memory", "state_memory + count * score_pitch * 3")
    text.let("out_memory", "query_memory + count * score_pitch * size")
    with text.loop("q", 0, "count"):
        _place(text, "q")
        text.invoke(
            "pack_query", "query_base + q_first * query_row", "query_row", "query_step", "min(panel, queries)", "size",
            "query_memory + q * score_pitch * size",
        )  # fmt: skip
        with text.loop("q_lane", 0, "panel"):
            text.let("state_q", "state_memory + q * score_pitch * 3 + q_lane * 4")
            text.add(f"store float 0xFFF0000000000000, ptr {text.place('state_q')}, align 4")
            text.add(f"store float 0.0, ptr {text.place('state_q + score_pitch')}, align 4")
    _limit(text, "last - 1", "unit")
    with text.loop("chunk_at", 0, "end_unit", "chunk"):
        text.let("more", "min(chunk, end_unit - chunk_at)")
        with text.loop("k", 0, "more", "key_rows"):
            text.invoke(
                "pack_key", "key_base + (chunk_at + k) * key_row", "key_row", "key_step", "min(key_rows, more - k)",
                "size", "key_memory + k * size * 4",
            )  # fmt: skip
        text.let("at_once", "value_size // value_columns * value_columns if is_beside != 0 else 0")
        with text.when("at_once"):
            text.invoke(
                "pack_value", "value_base + chunk_at * value_row", "value_step", "value_row", "at_once", "more",
                "value_memory",
            )  # fmt: skip
        with text.loop("column", "at_once", "value_size", "value_columns"):
            text.invoke(
                "pack_value", "value_base + chunk_at * value_row + column * value_step", "value_step", "value_row",
                "min(value_columns, value_size - column)", "more", "value_memory + column * more * 4",
            )  # fmt: skip
        with text.loop("p", 0, "count"):
            _write_panel(text)
    with text.loop("o", 0, "count"):
        _place(text, "o")
        text.let("o_begin", "first + o * panel")
        with text.loop("r", "o_begin", "min(o_begin + panel, last)"):
            text.put("leaves", "out_memory + (o * panel + r - o_first) * out_pitch")
            text.put("leaves + 8", "state_memory + (o * 3 + 1) * score_pitch + (r - o_first) * 4")
            text.put("leaves + 16", "target_base + r * target_row")
            text.invoke("result_kernel", "result_words", "leaves", "value_size")


def _place(text: Steps, panel: str) -> None:
    """The first query of a panel: the last panel has some of those before it, which it does not write.

    Where there are fewer than a panel has, what is computed of others is not written either.
    """
    text.let(f"{panel}_first", f"max(min(first + {panel} * panel, queries - panel), 0)")


def _limit(text: Steps, query: str, name: str) -> None:
    """How many keys a query sees."""
    text.put("seen", "keys")
    with text.when("has_limit"):
        text.invoke("@stage", "limit", "limit_bases", query, 0, 1, 1, "limit_views - 1", "seen", 0)
    text.read(f"seen_{name}", "seen")
    text.let(f"end_{name}", f"max(min(seen_{name}, keys), 0)")


def _write_panel(text: Steps) -> None:
    """A panel of queries with a chunk of keys."""
    _place(text, "p")
    text.let("state", "state_memory + p * score_pitch * 3")
    text.let("out", "out_memory + p * panel * out_pitch")
    _limit(text, "min(p_first + panel, queries) - 1", "panel")
    _limit(text, "p_first", "all")
    text.let("here", "min(more, end_panel - chunk_at)")
    with text.when("here > 0"):
        with text.loop("s", 0, "here", "key_rows"):
            text.invoke(
                "tile_scores", "key_memory + s * size * 4", "query_memory + p * score_pitch * size", "score_pitch",
                "score_memory + s * score_pitch", "score_pitch", "size", 1, 0, 0, 0,
            )  # fmt: skip
        text.let("is_whole", "1 if chunk_at + here <= end_all else 0")
        with text.loop("lane", 0, "panel", "lanes"):
            with text.when("is_whole != 0"):
                _soften(text, "scores")
            with text.when("is_whole == 0"):
                _soften(text, "limited")
        with text.when("chunk_at > 0"):
            text.invoke("@rescale", "out", "out_pitch", "panel", "state + 2 * score_pitch")
        with text.loop("c", 0, "value_size", "value_columns"), text.loop("row", 0, "panel", "value_rows"):
            text.invoke(
                "tile_values", "score_memory + row * 4", "value_memory + c * more * 4", "value_columns * 4",
                "out + row * out_pitch + c * 4", "out_pitch", "here", "1 if chunk_at == 0 else 0", 0, 0, 0,
            )  # fmt: skip


def _soften(text: Steps, name: str) -> None:
    with text.loop(f"{name}_v", 0, f"{name}_views"):
        text.read(f"{name}_base", f"{name}_bases + {name}_v * 8")
        text.read(f"{name}_on", f"{name}_steps + {name}_v * 8")
        text.read(f"{name}_row", f"{name}_across + {name}_v * 8")
        text.put(f"leaves + {name}_v * 8", f"{name}_base + (p_first + lane) * {name}_row + chunk_at * {name}_on")
    text.invoke(f"{name}_kernel", f"{name}_words", "leaves", "score_memory + lane * 4", "here", "state + lane * 4")


def _make_rescale() -> str:
    """Rows, each multiplied with a number of its own, but for 1."""
    text = Steps()
    with text.loop("r", 0, "rows"):
        one = text.new(f"load float, ptr {text.place('factors + r * 4')}, align 4")
        text.add(f"%bits = zext i32 {text.new(f'bitcast float {one} to i32')} to i64")
        with text.when(f"bits != {ONE}"), text.loop("d", 0, "pitch", 16):
            place = text.place("target + r * pitch + d")
            found = text.new(f"load <4 x float>, ptr {place}, align 4")
            made = text.new(f"fmul <4 x float> {found}, {text.spread(one, 'float', 4)}")
            text.add(f"store <4 x float> {made}, ptr {place}, align 4")
    text.add("ret void")
    names = ("target", "pitch", "rows", "factors")
    return text.define(f"private void @rescale({', '.join(f'i64 %{name}' for name in names)})")
