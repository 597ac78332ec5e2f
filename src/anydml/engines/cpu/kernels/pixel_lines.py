"""The lines of a band of a picture whose channels lie side by side, copied with the places around them.

`kernel(source, down, next, to, before, count, after, fill)` writes `before` lines that are filled, `count` lines of the
source, `down` bytes apart, and `after` filled ones; `next` has no meaning here.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.steps import Steps


class PixelLine(NamedTuple):
    """A line of a band."""

    size: int
    """Bytes of a place."""
    apart: int
    """Bytes from one place to the next, in the source."""
    pitch: int
    """The same in the band."""
    places: int
    """Of the source's line."""
    left: int
    """Places before those."""
    width: int
    """Places of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines of pixels {' '.join(map(str, self))}"


def make_pixel_lines(line: PixelLine) -> str:
    """The text of the kernel."""
    text, whole = Steps(), line.width * line.pitch
    piece = next(size for size in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if line.pitch % size == 0)
    kind = f"<{piece // 4} x i32>"
    filled = text.spread(text.new("trunc i64 %fill to i32"), "i32", piece // 4)

    def fill(name: str, first: str, size: int) -> None:
        if size:
            with text.loop(name, 0, size, piece):
                text.add(f"store {kind} {filled}, ptr {text.place(f'{first} + {name}')}, align 4")

    for name, first, count in (("above", "0", "before"), ("below", "before + count", "after")):
        with text.loop(name, 0, count):
            fill(f"{name}_at", f"to + ({first} + {name}) * {whole}", whole)
    text.declared["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None
    with text.loop("i", 0, "count"):
        text.let("here", f"to + (before + i) * {whole}")
        text.let("there", "source + i * down")
        fill("left", "here", line.left * line.pitch)
        past = line.left + line.places
        fill("right", f"here + {past * line.pitch}", (line.width - past) * line.pitch)
        text.let("inner", f"here + {line.left * line.pitch}")
        is_run = line.size == line.apart == line.pitch
        size = line.places * line.size if is_run else line.size
        with text.loop("p", 0, 1 if is_run else line.places):
            to, source = text.place(f"inner + p * {line.pitch}"), text.place(f"there + p * {line.apart}")
            text.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")
    text.add("ret void")
    names = ("source", "down", "next", "to", "before", "count", "after", "fill")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")
