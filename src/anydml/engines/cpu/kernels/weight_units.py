"""The units of products with weights of few bits: what all of them begin with, whichever way they multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.kernels.room import SCRATCH
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.kernels.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SECTIONS = ("left", "right", "result")


def make_units(
    fields: Sequence[str], memory: Mapping[str, int], enter: Callable[[Steps], None], write: Callable[[Steps], None]
) -> str:
    """The text of a kernel: words by their names, places in a scratch, what is found once, and what a unit does."""
    text = Steps()
    for i, name in enumerate(fields):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in SECTIONS:
        text.let(f"{name}", f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
    text.room("places", VIEWS)
    take_scratch(text, SCRATCH)
    for name, at in memory.items():
        text.let(name, f"scratch + {at}")
    text.let("k", f"portions * {PORTION}")
    text.read("shared", "right + 24 + right_views * 8")
    enter(text)
    with text.loop("unit", "begin", "end"):
        text.let("by_column", "unit % column_units")
        text.let("others", "unit // column_units")
        text.let("m0", "others % row_units * height")
        find_place(text, "others // row_units", HEADER + len(fields))
        for name in SECTIONS:
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.let("rows", "min(height, m - m0)")
        write(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    kernel = text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")
    return "\n".join([make_stage(), make_bases(), kernel, DECLARED])


def find_row(text: Steps) -> None:
    """Where a row's elements lie: bytes as they are, with their scales, and others in the scratch, computed."""
    with text.when("is_rounded == 0"):
        text.invoke("@stage", "left", "left_bases", "m0 + r", 0, 1, "k", "left_views - 1", "row", 0)
    for name, at in (("bytes", 0), ("row_scales", 8)):
        text.read(f"{name}_base", f"left_bases + {at}")
        text.read(f"{name}_on", f"left + {24 + 8 * 4} + {at}")
    text.let("of_row", "bytes_base + (m0 + r) * bytes_on if is_rounded != 0 else row")
    text.let("scales_of_row", "row_scales_base + (m0 + r) * row_scales_on")
