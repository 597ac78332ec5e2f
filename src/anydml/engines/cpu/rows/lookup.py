"""Lookup tables: functions of one byte by a table of 256, with vector shuffles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.rows.walk import OUTER_RANK, program_of_rows
from anydml.ir.loops import Loops, simplify
from anydml.ir.patterns import match_lookup

if TYPE_CHECKING:
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
    text = Steps()
    for i, name in enumerate(("source", "table", "target")):
        text.read(name, f"places + {8 * i}")
    for i, name in ((3, "source_step"), (5, "target_step"), (6, "length")):
        text.read(name, f"words + {8 * i}")
    text.let("rows", "count if length else 1")
    text.let("bytes", "length if length else count")
    parts = [text.new(f"load <{PART} x i8>, ptr {text.place(f'table + {k * PART}')}, align 1") for k in range(PART)]
    parts = parts if IS_ARM else _changes(text, parts)
    wide, *narrow = _widths()
    with text.loop("r", 0, "rows"):
        text.let("start", "source + r * source_step")
        text.let("to", "target + r * target_step")
        if wide == MASKED:
            with text.loop("m", 0, "bytes", MASKED):
                _write_masked(text, parts)
        else:
            most = "bytes + 1"
            for width in (wide, *narrow):
                with text.when(f"bytes >= {width} and bytes < {most}"), text.loop(f"from{width}", 0, "bytes", width):
                    text.let(f"at{width}", f"min(from{width}, bytes - {width})")
                    _write_vector(text, parts, width)
                most = str(width)
            with text.loop("b", 0, f"bytes if bytes < {most} else 0"):
                _write_byte(text)
    text.add("ret void")
    return text.define("void @kernel(i64 %words, i64 %places, i64 %count)")


def _widths() -> tuple[int, ...]:
    if IS_ARM:
        return PART, PART // 2
    return (MASKED,) if has_feature("avx512bw") else (32, 16) if has_feature("avx2") else (PART,)


def _write_masked(text: Steps, parts: list[str]) -> None:
    """Up to so many bytes from `m` on."""
    vector = f"<{MASKED} x i8>"
    left = text.new(f"trunc i64 {text.value(f'min(bytes - m, {MASKED})')} to i8")
    counts = ", ".join(f"i8 {k}" for k in range(MASKED))
    mask = text.new(f"icmp ult {vector} <{counts}>, {text.spread(left, 'i8', MASKED)}")
    found = _look_up(text, parts, text.load_lanes(vector, text.place("start + m"), mask), MASKED)
    text.store_lanes(vector, found, text.place("to + m"), mask)


def _write_vector(text: Steps, parts: list[str], width: int) -> None:
    """A vector; the last of a row may overlap the one before: sources and target are apart."""
    x = text.new(f"load <{width} x i8>, ptr {text.place(f'start + at{width}')}, align 1")
    found = _look_up_four(text, parts, x, width) if IS_ARM else _look_up(text, parts, x, width)
    text.add(f"store <{width} x i8> {found}, ptr {text.place(f'to + at{width}')}, align 1")


def _write_byte(text: Steps) -> None:
    byte = text.new(f"load i8, ptr {text.place('start + b')}")
    text.add(f"%byte = zext i8 {byte} to i64")
    found = text.new(f"load i8, ptr {text.place('table + byte')}")
    text.add(f"store i8 {found}, ptr {text.place('to + b')}")


def _changes(text: Steps, parts: list[str]) -> list[str]:
    """Of each half of a table the first part, and what is other in each part than in the one before."""
    half = len(parts) // 2
    return [
        part if k % half == 0 else text.new(f"xor <{PART} x i8> {part}, {parts[k - 1]}") for k, part in enumerate(parts)
    ]


def _look_up(text: Steps, changes: list[str], x: str, lanes: int) -> str:
    """An x86's."""
    vector, name, less = f"<{lanes} x i8>", f"@llvm.x86.{_NAMES[lanes]}", f"@llvm.ssub.sat.v{lanes}i8"
    order = ", ".join(f"i32 {k % PART}" for k in range(lanes))
    for one in (name, less):
        text.declared[f"declare {vector} {one}({vector}, {vector})"] = None
    half, found = len(changes) // 2, ""
    for k, change in enumerate(changes):
        if k == half:  # bytes of the upper half count from 0, and the others are negative
            x = text.new(f"xor {vector} {x}, splat (i8 -128)")
        by = f"{vector} {x}, {vector} splat (i8 {PART * (k % half)})"
        place = text.new(f"call {vector} {less}({by})") if k % half else x
        part = text.new(f"shufflevector <{PART} x i8> {change}, <{PART} x i8> poison, <{lanes} x i32> <{order}>")
        one = text.new(f"call {vector} {name}({vector} {part}, {vector} {place})")
        found = text.new(f"xor {vector} {found}, {one}") if found else one
    return found


def _look_up_four(text: Steps, parts: list[str], x: str, lanes: int) -> str:
    """An Arm's, in four parts at once."""
    vector, whole, found = f"<{lanes} x i8>", f"<{PART} x i8>", ""
    for k in range(0, len(parts), 4):
        place = text.new(f"sub {vector} {x}, splat (i8 {PART * k})") if k else x
        name = f"@llvm.aarch64.neon.tb{'x' if k else 'l'}4.v{lanes}i8"
        kinds, given = [whole] * 4 + [vector], [*parts[k : k + 4], place]
        if k:
            kinds, given = [vector, *kinds], [found, *given]
        text.declared[f"declare {vector} {name}({', '.join(kinds)})"] = None
        args = ", ".join(f"{kind} {one}" for kind, one in zip(kinds, given, strict=True))
        found = text.new(f"call {vector} {name}({args})")
    return found


# Bytes looked up in a table, planned: rows of one kernel, by the walk of maps.


SEGMENT = 32 * 1024
"""Bytes of a row that one unit of work goes through."""


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
    *outer, count = loops.sizes
    length, element = (outer.pop(), len(loops.sizes) - 2) if outer else (0, 0)
    length, count = (count, length) if length else (0, count)
    if len(outer) > OUTER_RANK:
        return None
    steps = [row[element] for row in loops.strides]
    segment = max(SEGMENT // length, 1) if length else SEGMENT
    number = math.prod(outer)
    table = [word for k, size in enumerate(outer) for word in (size, *(row[k] for row in loops.strides))]
    return program_of_rows(
        get_kernel("map of a table", make_lookup), views, loops.offsets, steps, [length], (), table, 2 * loops.count,
        count=count, number=number, length=segment, rank=len(outer),
    )  # fmt: skip
