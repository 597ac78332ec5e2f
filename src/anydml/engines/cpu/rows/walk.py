"""The walk over the rows of any number of views, planned and written in LLVM IR: every map's, compiled once.

After the words of `ROWS` come each view's address, each view's step, what the row's own code knows, and of each outer
dimension its size and each view's stride, outermost first. Addresses, steps and strides are in bytes. A work item is
one segment of one row, and a segment of all rows comes before the next: a source that lies across the rows is read by
whole lines of the cache. It is done by `row(words, places, count)`: its words start with the addresses, and `places`
are where the segment lies in each view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, link
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import LINE, Layout, Pointer, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.loops import Loops
    from anydml.ir.views import View

OUTER_RANK = 8
"""Outer dimensions that a walk has room for."""
LONG_ROW = 256
"""Bytes of a row from which on it is written past the cache, where the output is large."""
VIEWS = 64
"""Views that a walk has room for."""
ROWS = Layout("line", "less", "views", "outer", "count", "number", "length", "rank")
"""The address of what does a row, how many elements fewer the first segment has, the views, the word at which the outer
dimensions stand, the elements of a row, the rows, the elements of a segment, and the outer dimensions."""


@dataclass(frozen=True, slots=True)
class WholeLines:
    """Segments begin with lines of the cache: written past it, lines in one piece take 0.95 of the time for one source,
    and 0.97 for three.
    """

    target: int
    width: int
    """Bytes of the target's elements."""

    def choose(self, program: KernelProgram, address: int) -> KernelProgram:
        """The first segment has some elements fewer."""
        less, words = address % LINE // self.width, list(program.record.words)
        words[ROWS.word("less")] = less
        items = -(-(words[ROWS.word("count")] + less) // words[ROWS.word("length")])
        record = program.record._replace(words=tuple(words))
        return replace(program, record=record, work_items=items, alignment=None)


def program_of_rows(
    row: Kernel, views: Sequence[View | None], widths: Sequence[int], loops: Loops, numbers: Sequence[int], size: int,
    *, length: int, is_empty: bool = False, aligned: int = 0,
) -> KernelProgram:  # fmt: skip
    """The program of a row's kernel, for a walk whose rows lie along the innermost dimension.

    Widths are of the views' elements, in bytes; a view that is None is a coordinate, and its offset the first. Numbers
    are what the kernel knows besides. Where segments begin with lines of the cache, `aligned` is the bytes of the
    target's elements.
    """
    *outer, count = loops.sizes
    tensors = ("" if view is None else view.tensor for view in views)
    places = zip(tensors, loops.offsets, widths, strict=True)
    pointers = [Pointer(tensor, offset * width) for tensor, offset, width in places]
    own = Record.of(pointers, (row[-1] * width for row, width in zip(loops.strides, widths, strict=True)), numbers)
    number = math.prod(outer)
    fields = {"line": row.address, "views": len(views), "outer": ROWS.end + len(own.words), "count": count}
    fields |= {"number": number, "length": length, "rank": len(outer)}
    record = Record.of(ROWS.write(fields), own, dimension_words(outer, loops.strides, widths))
    items = 0 if is_empty else number * -(-count // length)
    alignment = WholeLines(len(record.relocations) - 1, aligned) if aligned else None
    return KernelProgram(get_kernel("rows", make_rows), record, items, size, alignment=alignment)


def dimension_words(sizes: Sequence[int], strides: Sequence[Sequence[int]], widths: Sequence[int]) -> list[int]:
    """Of each dimension its size and each view's stride in bytes."""
    views = list(zip(strides, widths, strict=True))
    return [word for k, size in enumerate(sizes) for word in (size, *(row[k] * width for row, width in views))]


def is_streamed(row: int, size: int) -> bool:
    """Whether a target is written past the cache, given the bytes of its rows, which are packed, and of all of them."""
    of = figures().rows
    return of.streams and row >= LONG_ROW and size >= of.stream_from


def make_rows() -> str:
    """The text of the walk's kernel."""
    f = Function("kernel", "words begin end", "i64")
    words, (_, begin, end) = f.pointer(f.args[0]), f.args
    line, less, views, outer, count, number, length, rank = (
        f.load("i64", words + ROWS.at(name))
        for name in ("line", "less", "views", "outer", "count", "number", "length", "rank")
    )
    own, table = words + 8 * ROWS.end, words + outer * 8
    at, rows, places = (f.stack("i64", room, align=8) for room in (OUTER_RANK, VIEWS, VIEWS))
    f.invoke("@llvm.memcpy.p0.p0.i64", rows, own, views * 8, f.value(0, "i1"))

    each = views * 8 + 8

    def dimension(k: Value) -> tuple[Value, Value]:
        """Where the words of an outer dimension lie, and the coordinate in it."""
        return table + k * each, at + k * 8

    def move(dimension: Value, times: Value) -> None:
        f.invoke("@move", rows, views, dimension + 8, times)

    segment = [begin // number]
    rest, k = [begin - segment[0] * number], [rank]
    with f.forever(carry=(k, rest)):
        f.leave_if(k[0] <= 0)
        k[0] -= 1
        words_of, place = dimension(k[0])
        size = f.load("i64", words_of)
        on = rest[0] // size
        f.store(coordinate := rest[0] - on * size, place)
        move(words_of, coordinate)
        rest[0] = on
    with f.loop(begin, end, carry=segment):
        begins = segment[0] * length - less
        first, stop = f.max(begins, 0), f.min(begins + length, count)
        here = [rows]
        with f.when(first.ne(0), carry=here):
            with f.loop(0, views, is_entered=True) as v:
                step = f.load("i64", own + (views + v) * 8)
                f.store(f.load("i64", rows + v * 8) + step * first, places + v * 8)
            here[0] = places
        f.invoke(line, own, here[0], stop - first)
        # The next row: one on in the innermost dimension that has one; after the last, the first of the next segment.
        k = [rank]
        with f.region(carry=segment) as leave:
            with f.forever(carry=k):
                f.leave_if(k[0] <= 0)
                k[0] -= 1
                words_of, place = dimension(k[0])
                old = f.load("i64", place)
                is_inside = old + 1 < f.load("i64", words_of)
                f.store(new := f.select(is_inside, old + 1, 0), place)
                move(words_of, new - old)
                with f.when(is_inside):
                    leave()
            segment[0] += 1
    return link(_make_move(), f.end(0))


def _make_move() -> str:
    """The text of what takes every view so many times on in a dimension, four views at once: a map has up to 64."""
    f = Function("move", "rows:ptr views strides:ptr times")
    rows, views, strides, times = f.args
    fours = views & -4

    def go(v: Value, kind: str, each: Value) -> None:
        stride, row = f.load(kind, strides + v * 8, align=8), rows + v * 8
        f.store(f.load(kind, row, align=8) + stride * each, row, align=8)

    with f.loop(0, fours, 4) as v:
        go(v, "<4 x i64>", f.splat(times, 4))
    with f.loop(fours, views) as v:
        go(v, "i64", times)
    return f.end(is_private=True)
