"""The lines of a band of a plane, copied with what is around them: as many stores as a line needs, and no loop for it.

`kernel(source, down, next, to, before, count, after, fill)` writes `before` lines that are filled, `count` lines of the
source, `down` bytes apart, and `after` filled ones. Meanwhile the lines `next` bytes on are fetched: another plane's.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.steps import Steps

LONG = 1024
"""Bytes of a line from which on `memcpy` moves it, and the CPU itself finds what comes next."""


class BandLine(NamedTuple):
    """A line of a band, in bytes."""

    size: int
    """Of the source's."""
    left: int
    """Of what is before it."""
    pitch: int
    """Of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines of a band {' '.join(map(str, self))}"


def make_band_lines(line: BandLine) -> str:
    """The text of the kernel."""
    text = Steps()
    wide = _piece(line.pitch)
    kind = f"<{wide // 4} x i32>"
    filled = text.spread(text.new("trunc i64 %fill to i32"), "i32", wide // 4)

    def put(place: str, offset: int) -> None:
        text.add(f"store {kind} {filled}, ptr {text.place(f'{place} + {offset}')}, align 4")

    for name, first, count in (("above", "0", "before"), ("below", "before + count", "after")):
        with text.loop(name, 0, count):
            text.let(f"{name}_to", f"to + ({first} + {name}) * {line.pitch}")
            for offset in _offsets(0, line.pitch, wide):
                put(f"{name}_to", offset)
    with text.loop("i", 0, "count"):
        text.let("here", f"to + (before + i) * {line.pitch}")
        text.let("there", "source + i * down")
        right = line.left + line.size
        around = [range(0, line.left, wide), range(line.pitch - wide, right - wide, -wide)]
        for offset in dict.fromkeys(min(max(at, 0), line.pitch - wide) for part in around for at in part):
            put("here", offset)
        _move(text, line)
    text.add("ret void")
    names = ("source", "down", "next", "to", "before", "count", "after", "fill")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _piece(size: int) -> int:
    """The most bytes that are stored at once in so many."""
    return next(piece for piece in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if piece <= size)


def _offsets(start: int, stop: int, piece: int) -> list[int]:
    """Where pieces begin that cover some bytes: the last overlaps the one before."""
    return [min(at, stop - piece) for at in range(start, stop, piece)]


def _move(text: Steps, line: BandLine) -> None:
    if line.size >= LONG:
        to, source = text.place(f"here + {line.left}"), text.place("there")
        text.declared["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None
        text.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {line.size}, i1 false)")
        return
    for offset in range(0, line.size, LINE):
        text.fetch(text.place(f"there + next + {offset}"))
    piece = _piece(line.size)
    kind = f"<{piece // 4} x i32>"
    offsets = _offsets(0, line.size, piece)
    found = [text.new(f"load {kind}, ptr {text.place(f'there + {at}')}, align 4") for at in offsets]
    for at, value in zip(offsets, found, strict=True):
        text.add(f"store {kind} {value}, ptr {text.place(f'here + {line.left + at}')}, align 4")
