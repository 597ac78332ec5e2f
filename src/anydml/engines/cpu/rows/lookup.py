"""Lookup tables: functions of one byte by a table of 256, with vector shuffles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.rows.walk import OUTER_RANK, program_of_rows
from anydml.ir.loops import Loops, simplify
from anydml.ir.patterns import match_lookup

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.verbs import Map

# Bytes looked up in a table of 256, written in LLVM itself: the rows of a map of three views, byte, table and target.
#
# An Arm looks a vector of bytes up in 64 at once, and leaves lanes as they are that lie outside. An x86 looks it up in
# 16, and gives 0 for bytes that are negative: parts of the table hold what changes from one to the next, and those up
# to the byte are put together.


PART = 16
"""Bytes of a part of a table, and parts."""
MASKED = 64
"""Lanes of vectors that are read and written in part."""
_NAMES = {64: "avx512.pshuf.b.512", 32: "avx2.pshuf.b", 16: "ssse3.pshuf.b.128"}
"""An x86's instructions, by lanes."""


def can_look_up() -> bool:
    """Whether the CPU has instructions for it."""
    return IS_ARM or has_feature("ssse3")


def make_lookup() -> str:
    """The text of the kernel: `kernel(words, places, count)` takes so many rows, or as many bytes of one.

    After three addresses and three steps the words have the bytes of a row, 0 where there is one alone.
    """
    f = Function("kernel", "words places count")
    words, places, count = f.args
    source, table, target = (f.load("i64", places + 8 * i) for i in range(3))
    source_step, target_step, length = (f.load("i64", words + 8 * i) for i in (3, 5, 6))
    rows, size = f.select(length, count, 1), f.select(length, length, count)
    parts = [f.load(vector_of(PART, "i8"), table + k * PART, align=1) for k in range(PART)]
    look_up = _look_up_four if IS_ARM else _look_up
    parts = parts if IS_ARM else _changes(parts)
    with f.loop(0, rows) as r:
        start, to = source + r * source_step, target + r * target_step
        if has_feature("avx512bw"):
            with f.loop(0, size, MASKED) as i:
                mask = f.tail_mask(f.min(size - i, MASKED), MASKED, "i8")
                x = f.load(vector_of(MASKED, "i8"), start + i, mask=mask)
                f.store(look_up(f, parts, x), to + i, mask=mask)
        else:
            most = size + 1
            for width in (PART, PART // 2) if IS_ARM else (32, 16) if has_feature("avx2") else (PART,):
                with f.when((size >= width) & (size < most)), f.loop(0, size, width) as i:
                    at = f.min(i, size - width)  # the last overlaps the one before: sources and target are apart
                    f.store(look_up(f, parts, f.load(vector_of(width, "i8"), start + at)), to + at)
                most = f.value(width, "i64")
            with f.loop(0, f.select(size < most, size, 0)) as i:
                byte = f.cast("zext", f.load("i8", start + i), "i64")
                f.store(f.load("i8", table + byte), to + i)
    return f.end()


def _changes(parts: list[Value]) -> list[Value]:
    """Of each half of a table the first part, and what is other in each part than in the one before."""
    half = len(parts) // 2
    return [part ^ parts[k - 1] if k % half else part for k, part in enumerate(parts)]


def _look_up(f: Function, changes: list[Value], x: Value) -> Value:
    """An x86's."""
    half, found = len(changes) // 2, f.zero(x.type)
    for k, change in enumerate(changes):
        if k == half:  # bytes of the upper half count from 0, and the others are negative
            x = x ^ -128
        place = f.overloaded("ssub.sat", x, f.value(PART * (k % half), x.type)) if k % half else x
        part = f.shuffle(change, None, [lane % PART for lane in range(x.lanes)])
        one = f.intrinsic(f"x86.{_NAMES[x.lanes]}", part, place)
        found = found ^ one if k else one
    return found


def _look_up_four(f: Function, parts: list[Value], x: Value) -> Value:
    """An Arm's, in four parts at once."""
    found: list[Value] = []
    for k in range(0, len(parts), 4):
        name = f"aarch64.neon.tb{'x' if k else 'l'}4.v{x.lanes}i8"
        found = [f.intrinsic(name, *found, *parts[k : k + 4], x - PART * k, result=x.type)]
    return found[0]


# Bytes looked up in a table, planned: rows of one kernel, by the walk of maps.


def plan_lookup(primitive: Map) -> KernelProgram | None:
    """Look up bytes that lie side by side, as what is looked up does; None for others."""
    found = match_lookup(primitive)
    if found is None or not can_look_up() or not all(primitive.sizes):
        return None
    views = (found.byte, found.table, primitive.target)
    rank = len(primitive.sizes)
    strides = (found.byte.strides, (0,) * rank, primitive.target.strides)
    loops = simplify(Loops(primitive.sizes, strides, tuple(view.offset for view in views)), len(views) - 1)
    if not loops.sizes or [row[-1] for row in loops.strides] != [1, 0, 1]:
        return None
    # Rows that follow one another are taken at once, as elements of what the walk takes for a row.
    length, segment, rows = 0, figures().rows.lookup_segment, loops
    if len(loops.sizes) > 1:
        length, rows = loops.sizes[-1], loops.pick(range(len(loops.sizes) - 1))
        segment = max(segment // length, 1)
    if len(rows.sizes) - 1 > OUTER_RANK:
        return None
    kernel = get_kernel("map of a table", make_lookup)
    return program_of_rows(kernel, views, (1, 1, 1), rows, [length], 2 * loops.count, length=segment)
