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
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import HEADER, LINE, Layout, Pointer, Record, dimension_words

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def is_streamed(row: int, size: int) -> bool:
    """Whether a target is written past the cache, given the bytes of its rows, which are packed, and of all of them."""
    of = figures().rows
    return of.streams and row >= LONG_ROW and size >= of.stream_from


def make_rows() -> str:
    """The text of the walk's kernel."""
    words = [
        f"%{name}.at = getelementptr i64, ptr %all, i64 {HEADER + i}\n%{name} = load i64, ptr %{name}.at"
        for i, (name, *_) in enumerate(ROWS.fields)
    ]
    return _WALK.format(words="\n".join(words), rank=OUTER_RANK, views=VIEWS, first=ROWS.end)


# `move` takes every view so many times on in a dimension, four views at once: a map has up to 64.
_WALK = """
define private void @move(ptr %rows, i64 %views, ptr %dimension, i64 %times) alwaysinline {{
entry:
  %fours = and i64 %views, -4
  %one = insertelement <4 x i64> poison, i64 %times, i32 0
  %each = shufflevector <4 x i64> %one, <4 x i64> poison, <4 x i32> zeroinitializer
  %strides.at = getelementptr i64, ptr %dimension, i64 1
  br label %four
four:
  %f = phi i64 [ 0, %entry ], [ %f4, %four.on ]
  %is.four = icmp slt i64 %f, %fours
  br i1 %is.four, label %four.on, label %view
four.on:
  %f4 = add i64 %f, 4
  %strides4.at = getelementptr i64, ptr %strides.at, i64 %f
  %strides4 = load <4 x i64>, ptr %strides4.at, align 8
  %on4 = mul <4 x i64> %strides4, %each
  %rows4.at = getelementptr i64, ptr %rows, i64 %f
  %rows4 = load <4 x i64>, ptr %rows4.at, align 8
  %moved4 = add <4 x i64> %rows4, %on4
  store <4 x i64> %moved4, ptr %rows4.at, align 8
  br label %four
view:
  %v = phi i64 [ %fours, %four ], [ %v1, %view.on ]
  %is.view = icmp slt i64 %v, %views
  br i1 %is.view, label %view.on, label %done
view.on:
  %v1 = add i64 %v, 1
  %stride.at = getelementptr i64, ptr %strides.at, i64 %v
  %stride = load i64, ptr %stride.at
  %on = mul i64 %stride, %times
  %row.at = getelementptr i64, ptr %rows, i64 %v
  %row = load i64, ptr %row.at
  %moved = add i64 %row, %on
  store i64 %moved, ptr %row.at
  br label %view
done:
  ret void
}}

define i64 @kernel(i64 %words, i64 %begin, i64 %end) {{
entry:
  %all = inttoptr i64 %words to ptr
  {words}
  %row = inttoptr i64 %line to ptr
  %w = getelementptr i64, ptr %all, i64 {first}
  %steps = getelementptr i64, ptr %w, i64 %views
  %table = getelementptr i64, ptr %all, i64 %outer
  %words.each = add i64 %views, 1
  %at = alloca [{rank} x i64]
  %rows = alloca [{views} x i64]
  %places = alloca [{views} x i64]
  %size.of = mul i64 %views, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rows, ptr %w, i64 %size.of, i1 false)
  %segment0 = udiv i64 %begin, %number
  %before = mul i64 %segment0, %number
  %rest0 = sub i64 %begin, %before
  br label %find
find:
  %k = phi i64 [ %rank, %entry ], [ %k1, %found ]
  %rest = phi i64 [ %rest0, %entry ], [ %quotient, %found ]
  %is.outer = icmp sgt i64 %k, 0
  br i1 %is.outer, label %found, label %units
found:
  %k1 = sub i64 %k, 1
  %k.words = mul i64 %k1, %words.each
  %k.at = getelementptr i64, ptr %table, i64 %k.words
  %size = load i64, ptr %k.at
  %quotient = udiv i64 %rest, %size
  %product = mul i64 %quotient, %size
  %i = sub i64 %rest, %product
  %at.k = getelementptr i64, ptr %at, i64 %k1
  store i64 %i, ptr %at.k
  call void @move(ptr %rows, i64 %views, ptr %k.at, i64 %i)
  br label %find
units:
  %unit = phi i64 [ %begin, %find ], [ %unit1, %advance ], [ %unit1, %onward ]
  %segment = phi i64 [ %segment0, %find ], [ %segment1, %advance ], [ %segment, %onward ]
  %is.unit = icmp slt i64 %unit, %end
  br i1 %is.unit, label %start, label %over
over:
  ret i64 0
start:
  %unit1 = add i64 %unit, 1
  %whole = mul i64 %segment, %length
  %from = sub i64 %whole, %less
  %is.first = icmp slt i64 %from, 0
  %first = select i1 %is.first, i64 0, i64 %from
  %to = add i64 %from, %length
  %is.last = icmp slt i64 %count, %to
  %stop = select i1 %is.last, i64 %count, i64 %to
  %n = sub i64 %stop, %first
  %is.begin = icmp eq i64 %first, 0
  br i1 %is.begin, label %done, label %view
view:
  %v = phi i64 [ 0, %start ], [ %v1, %view ]
  %v1 = add i64 %v, 1
  %step.at = getelementptr i64, ptr %steps, i64 %v
  %step = load i64, ptr %step.at
  %on = mul i64 %step, %first
  %row.at = getelementptr i64, ptr %rows, i64 %v
  %row.v = load i64, ptr %row.at
  %place = add i64 %row.v, %on
  %place.at = getelementptr i64, ptr %places, i64 %v
  store i64 %place, ptr %place.at
  %is.view = icmp slt i64 %v1, %views
  br i1 %is.view, label %view, label %done
done:
  %here = phi ptr [ %rows, %start ], [ %places, %view ]
  call void %row(ptr %w, ptr %here, i64 %n)
  %segment1 = add i64 %segment, 1
  br label %advance
advance:
  %m = phi i64 [ %rank, %done ], [ %m1, %onward ]
  %is.inside = icmp sgt i64 %m, 0
  br i1 %is.inside, label %onward, label %units
onward:
  %m1 = sub i64 %m, 1
  %m.words = mul i64 %m1, %words.each
  %m.at = getelementptr i64, ptr %table, i64 %m.words
  %m.size = load i64, ptr %m.at
  %at.m = getelementptr i64, ptr %at, i64 %m1
  %c = load i64, ptr %at.m
  %c1 = add i64 %c, 1
  %fits = icmp slt i64 %c1, %m.size
  %c2 = select i1 %fits, i64 %c1, i64 0
  store i64 %c2, ptr %at.m
  %times = sub i64 %c2, %c
  call void @move(ptr %rows, i64 %views, ptr %m.at, i64 %times)
  br i1 %fits, label %units, label %advance
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
