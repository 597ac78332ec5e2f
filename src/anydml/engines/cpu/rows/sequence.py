"""Sequences: elements that are counted up from a start by a delta, by the walk of maps.

As a map each vector would take its numbers as INT64 and multiply them: 128 Ki bytes take 2.8 us so, and 38 as a map (a
Xeon). Constants, whose delta is 0, are maps.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import convert, kind_of, scalar_text
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.walk import OUTER_RANK, is_streamed, program_of_rows
from anydml.ir.loops import Loops, simplify
from anydml.ir.patterns import match_filled

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.verbs import Map


FEW = 16
"""Bytes of a vector of rows that are shorter than a line of the cache."""


def plan_sequence(verb: Map) -> KernelProgram | None:
    """Let the number of an element be its place in a source of which every element is a byte; None for other maps."""
    found = match_filled(verb)
    if found is None:
        return None
    target, kind, width = found.target, kind_of(found.target.data_type), found.target.data_type.size_in_bytes
    numbers = tuple(math.prod(target.sizes[k + 1 :]) for k in range(len(target.sizes)))
    loops = simplify(Loops(target.sizes, (numbers, target.strides), (0, target.offset)), 1)
    if not loops.sizes:
        loops = Loops((1,), ((1,), (1,)), loops.offsets)
    *outer, count = loops.sizes
    if len(outer) > OUTER_RANK:
        return None
    is_run = loops.strides[1][-1] == 1
    stream = is_run and is_streamed(count * width, loops.count * width)
    if kind[0] == "f":
        words = [*struct.unpack("2q", struct.pack("2d", found.start, found.delta))]
    else:
        kind, words = f"u{kind[1:]}", [(int(number) + 2**63) % 2**64 - 2**63 for number in (found.start, found.delta)]
    kernel = get_kernel(f"sequence {kind}{' stream' * stream}", functools.partial(make_sequence, kind, stream=stream))
    # A margin of one element a line of the cache takes as long as 16.
    touched = width if is_run else min(abs(loops.strides[1][-1]) * width, LINE)
    return program_of_rows(
        kernel, (None, target), (1, width), loops, words, loops.count * touched, length=figures().rows.segment // width,
        is_empty=not all(target.sizes), aligned=width if stream and not outer else 0,
    )  # fmt: skip


def make_sequence(kind: str, *, stream: bool) -> str:
    """The text of a row: `kernel(words, places, count)`, whose words have both addresses, both steps, start and delta.

    Floats compute in float64, in which every number of an element is exact; integers in their own width. The last
    vector overlaps the one before.
    """
    f = Function("kernel", "words places count")
    words, places, count = f.args
    is_float, width = kind[0] == "f", int(kind[1:]) // 8
    scalar = "double" if is_float else scalar_text(kind)
    first, target = (f.load("i64", places + 8 * i) for i in range(2))
    step, target_step = (f.load("i64", words + 8 * i) for i in (2, 3))
    start, delta = (f.load(scalar, words + 8 * i, align=1) for i in (4, 5))

    def number(index: Value) -> Value:
        """That of an element; of integers, what is added to the start."""
        found = f.cast("sitofp" if is_float else "trunc", first + index * step, scalar)
        return found if is_float else found * delta

    on = number(f.value(1, "i64")) - number(f.value(0, "i64"))

    def write(index: Value, lanes: int, to: Value) -> None:
        value, of = number(index), (start, delta)
        if lanes:
            value = f.splat(value, lanes) + f.vector(scalar, range(lanes)) * f.splat(on, lanes)
            of = f.splat(start, lanes), f.splat(delta, lanes)
        value = convert(f, value * of[1] + of[0], "f64", kind) if is_float else value + of[0]
        f.store(value, to, align=1, is_streamed=stream and lanes * width == LINE)

    is_run, most = target_step.eq(width), count + 1
    for lanes in (LINE // width, FEW // width):
        with f.when(is_run & (count >= lanes) & (count < most)), f.loop(0, count, lanes) as i:
            at = f.min(i, count - lanes)
            write(at, lanes, target + at * width)
        most = f.value(lanes, "i64")
    with f.loop(0, f.select(is_run & (count >= FEW // width), 0, count)) as i:
        write(i, 0, target + i * target_step)
    return f.end()
