"""The walk over the rows of any number of views: every map's and reduce's, compiled once.

After the words of `ROWS` come each view's address, each view's step, what the row's own code knows, and of each outer
dimension its size and each view's stride, outermost first. Addresses, steps and strides are in bytes. A work item is
one segment of one row, and a segment of all rows comes before the next: a source that lies across the rows is read by
whole lines of the cache. It is done by `row(words, places, count)`: its words start with the addresses, and `places`
are where the segment lies in each view.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import LINE, WORD, Layout, Pointer, Record, dimension_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.engines.cpu.codegen.function import Carried, Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.loops import Loops
    from anydml.ir.views import View

OUTER_RANK = 8
"""Outer dimensions that a walk has room for."""
LONG_ROW = 256
"""Bytes of a row from which on it is written past the cache, where the output is large."""
VIEWS = 64
"""Views that a walk has room for."""
AT_ONCE = 4
"""Views that are taken on at once."""
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


def is_streamed(row: int, size: int) -> bool:
    """Whether a target is written past the cache, given the bytes of its rows, which are packed, and of all of them."""
    of = figures().rows
    return of.streams and row >= LONG_ROW and size >= of.stream_from


def make_rows() -> str:
    """The text of the walk's kernel."""
    f = Function("kernel", "words begin end", "i64")
    words, begin, end = f.args
    all_words = f.pointer(words)
    of = ROWS.loaded(f, all_words)
    own, table = all_words + WORD * ROWS.end, all_words + of.outer * WORD
    steps, pitch = own + of.views * WORD, (of.views + 1) * WORD
    at = f.stack("i64", OUTER_RANK, WORD)
    rows, places = (f.stack("i64", VIEWS, WORD) for _ in range(2))
    f.memcpy(rows, own, of.views * WORD)
    segment = begin // of.number
    rest = [begin - segment * of.number]
    with _inside_out(f, of.rank, rest) as k:
        dimension = table + k * pitch
        size = f.load("i64", dimension)
        index, rest[0] = rest[0] % size, rest[0] // size
        f.store(index, at + k * WORD)
        _move(f, rows, of.views, dimension, index)
    now = [segment]
    with f.loop(begin, end, carry=now):
        start = now[0] * of.length - of.less
        first, here = f.max(start, 0), [rows]
        count = f.min(start + of.length, of.count) - first
        with f.when(first.ne(0), carry=here):
            with f.loop(0, of.views, is_entered=True) as v:
                on = f.load("i64", steps + v * WORD) * first
                f.store(f.load("i64", rows + v * WORD) + on, places + v * WORD)
            here[0] = places
        f.invoke(of.line, own, here[0], count)
        with f.region(carry=now) as leave:  # to the next row, or to the first one of the next segment
            with _inside_out(f, of.rank) as k:
                dimension, place = table + k * pitch, at + k * WORD
                before = f.load("i64", place)
                after = before + 1
                is_inside = after < f.load("i64", dimension)
                index = f.select(is_inside, after, 0)
                f.store(index, place)
                _move(f, rows, of.views, dimension, index - before)
                with f.when(is_inside):
                    leave()
            now[0] += 1
    return f.end(0)


@contextlib.contextmanager
def _inside_out(f: Function, rank: Value, carry: Carried | Sequence[Carried] = ()) -> Iterator[Value]:
    """The numbers of the outer dimensions, from the innermost outwards."""
    with f.loop(0, rank, carry=carry) as k:
        yield rank - 1 - k


def _move(f: Function, rows: Value, views: Value, dimension: Value, times: Value) -> None:
    """Take every view so many times on in a dimension, four views at once: a map has up to 64."""
    fours, strides, each = views & -AT_ONCE, dimension + WORD, f.splat(times, AT_ONCE)
    for start, stop, count, by in ((0, fours, AT_ONCE, each), (fours, views, 1, times)):
        with f.loop(start, stop, count) as v:
            place = rows + v * WORD
            on = f.load(by.type, strides + v * WORD) * by
            f.store(f.load(by.type, place) + on, place)
