"""Convolutions of planes, a band of the output's lines at a time. Compiled once for all.

A unit copies the lines of the input that its band reads to the scratch, which the second cache holds, with their
padding; then tiles go over it: a panel of channels after the other, for each a part of the input's channels after the
other, whose weights the first cache holds while all places of the band are computed with them.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.room import RESULT_AT, SCRATCH
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, take_scratch
from anydml.engines.cpu.kernels.steps import Steps

BAND_AT = 64
"""Of a scratch, the bytes before the band; sums lie where other kernels have results."""
TILES = tuple(f"{name}{narrow}{low}" for name in ("tile", "last") for narrow in ("", "_narrow") for low in ("", "_low"))
"""For a window's last channels or others, for the last panel or others, for the last places of a band or line."""
WORDS = (
    "slots", "slot_count", "channels", "rows", "line", "bands", "chunks", "panels", "count", "x_step", "x_down",
    "copy", "top", "height", "fill", "pitch", "plane", "stride", "reach", "together", "taps", "pieces",
    "places_at_once", "lines", "apart", "tile_bytes", "channel_bytes", "panel_bytes", "columns", "target_channel",
    "target_down", "x_at", "weights_at", "result_at", "rank", "fetches", "planes", "piece_on", "target_place",
    "to_step", "group_panels", "group_bytes", "group_columns", "left_on", "soon_bytes", *TILES,
)  # fmt: skip
"""After the header, and before the batch's sizes, of `count` places. The kernel `copy` brings lines of each of
`channels`, `x_step` apart: `height` of them, `x_down` apart, are there from line `top` on, and around them is `fill`.
Lines of a band lie `pitch` apart, channels `plane`; a row of the output begins `stride` lines after the one before, and
reads `reach`. Tiles take `together` channels, each with `taps` pieces. Weights of a channel have `channel_bytes`, those
of a panel `panel_bytes`, for so many `columns`. Where it `fetches`, tiles have weights fetched before the input: at
each piece `soon_bytes`.

Where the channels of a place lie side by side, there is one of `planes`, `channels` are pieces of a window, and their
table goes `piece_on` bytes on with each. Some `group_panels` read the same channels of the input, the next ones those
`group_bytes` on, for the `group_columns` after theirs; each of a group's panels begins `left_on` bytes on."""


def make_bands() -> str:
    """The text of the kernel."""
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in ("x", "weights", "result"):
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
    text.room("places", VIEWS)
    text.room("ahead", 4)
    text.read("views", "result + 8")
    text.let("pieces_down", "stride * pitch")
    text.let("groups", "(rows + lines - 1) // lines")
    text.let("across", "(line + places_at_once - 1) // places_at_once")
    take_scratch(text, SCRATCH)
    text.let("band", f"scratch + {BAND_AT}")
    text.let("sums", f"scratch + {RESULT_AT}")
    with text.loop("unit", "begin", "end"):
        _look_ahead(text)
        text.let("part", "unit % bands")
        text.let("chunk", "unit // bands // count")
        for name in ("weights", "result"):
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.read("x_base", "x_bases")
        text.read("weights_base", "weights_bases")
        text.read("target", "result_bases + views * 8 - 8")
        text.let("group", "(groups * part) // bands")
        text.let("group_stop", "(groups * (part + 1)) // bands")
        text.let("first", "group * lines")
        text.let("some", "min(group_stop * lines, rows) - first")
        _copy(text)
        panels = [f"(panels * (chunk + {k})) // chunks" for k in (0, 1)]
        with text.loop("panel", *panels), text.loop("ch", 0, "channels", "together"):
            _multiply(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    return "\n".join([make_bases(), text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)"), DECLARED])


def _look_ahead(text: Steps) -> None:
    """Where the input of the next unit begins, which tiles have fetched meanwhile, then that of this one."""
    with text.loop("way", 0, 2):
        text.let("asked", "min(unit + 1 - way, end - 1)")
        find_place(text, "asked // bands % count", HEADER + len(WORDS))
        text.invoke("@bases", "x", "rank", "places + 8", "x_bases")
        with text.when("way == 0"):
            text.read("next_base", "x_bases")
            text.let("next_part", "asked % bands")
            text.let("next_line", "max((groups * next_part) // bands * lines * stride - top, 0)")
            text.let("next_stop", "(groups * (next_part + 1)) // bands * lines * stride - top + reach - stride")
            text.put("ahead", "next_base + next_line * x_down")
            text.put("ahead + 8", 0)
            text.put("ahead + 16", "planes if asked > unit else 0")
            text.put("ahead + 24", "(min(next_stop, height) - next_line) * x_down")


def _fetch_ahead(text: Steps) -> None:
    """The lines that a tile fetches: weights of the next channels, then the next unit's input, channel by channel."""
    text.let("soon", "(y * across + z) * steps * soon_bytes")
    text.let("is_weights", "1 if fetches and soon < b_bytes else 0")
    for i, name in enumerate(("begin_a", "on_a", "left_a", "size_a")):
        text.read(name, f"ahead + {8 * i}")
    text.let("is_input", "1 if left_a > 0 and is_weights == 0 else 0")
    text.let("to_a", "on_a + steps * soon_bytes")
    text.let("is_done", "1 if to_a >= size_a else 0")
    with text.when("is_input"):
        text.put("ahead", "begin_a + x_step if is_done else begin_a")
        text.put("ahead + 8", "0 if is_done else to_a")
        text.put("ahead + 16", "left_a - is_done")
    text.let("fetched", "b + b_bytes + soon if is_weights else begin_a + on_a if is_input else b")


def _copy(text: Steps) -> None:
    """The lines of a band, with what is around them."""
    text.let("line_first", "first * stride - top")
    text.let("total", "(some - 1) * stride + reach")
    text.let("above", "min(max(0 - line_first, 0), total)")
    text.let("inside", "max(min(height - line_first, total) - above, 0)")
    text.let("source", "x_base + (line_first + above) * x_down")
    with text.loop("c", 0, "planes"):
        text.invoke(
            "copy", "source + c * x_step", "x_down", "x_step", "band + c * plane", "above", "inside",
            "total - above - inside", "fill",
        )  # fmt: skip


def _multiply(text: Steps) -> None:
    """Some channels of all places of a band, by the weights of a panel."""
    text.let("here_channels", "min(together, channels - ch)")
    text.let("steps", "here_channels * taps")
    text.let("is_last", "1 if ch + here_channels == channels else 0")
    text.let("b", "weights_base + panel * panel_bytes + ch * channel_bytes")
    text.let("b_bytes", "here_channels * channel_bytes")
    text.let("set", "panel // group_panels")
    text.let("panel_of", "panel - set * group_panels")
    text.let("column", "set * group_columns + panel_of * columns")
    text.let("a_first", "band + ch * plane + set * group_bytes + panel_of * left_on")
    text.let("to_first", "target + column * target_channel + first * target_down")
    text.let("kind", "(4 if is_last else 0) + (2 if panel_of == group_panels - 1 else 0)")
    text.let("tiles", f"words + {8 * (HEADER + len(WORDS) - len(TILES))} + kind * 8")
    text.read("whole", "tiles")
    text.read("low", "tiles + 8")
    with text.loop("y", 0, "group_stop - group"), text.loop("z", 0, "across"):
        text.let("row", "y * lines")
        text.let("at", "z * places_at_once")
        text.let("is_low", "1 if row + lines > some or at + places_at_once > line else 0")
        _fetch_ahead(text)
        text.let("chosen", "low if is_low else whole")
        text.invoke(
            "chosen", "a_first + row * pieces_down + at * apart", "b", "sums + (y * across + z) * tile_bytes",
            "pieces + ch * piece_on", "steps", "1 if ch == 0 else 0", "fetched",
            "to_first + row * target_down + at * target_place", "to_step", "result", "result_bases", "column",
        )  # fmt: skip
