"""Walks over lines: conversions, scales, fills and plain moves, one innermost dimension after the other.

A line is `kernel(words, source, target, count, source step, target step)`; its address stands among the words of the
kernel that walks the dimensions outside, and its parameters behind it. A walk takes 0.1 s to compile, a line 0.02:
there is one for each pair of types, and the walk is compiled once for all of them.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import convert, kind_of, scalar_text
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.codegen.outer_loops import LINES, make_line_walk
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import LINE, Layout, Pointer, Record
from anydml.engines.cpu.move.copy import program_of_copy
from anydml.engines.cpu.rows.walk import dimension_words, is_streamed
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of, match_filled, match_scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.patterns import Filled, Scaled
    from anydml.ir.verbs import Map

SEGMENT = 1024 * 1024
"""Bytes of a row, the source's or the target's, that one unit of work goes through."""
ELEMENTS = 64
"""Segments are whole multiples of it, so that lines of the cache are whole in each."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines to be walked over."""

    walk: Kernel
    layout: Layout
    """LINES, or one that begins so."""
    fields: Mapping[str, int | Pointer | Sequence[int]]
    """All but the line's address."""
    line: str
    work_items: int
    size: int

    def program(self, loops: Loops, width: int) -> KernelProgram:
        """The program; a large target whose rows are long runs is written past the cache, where it is aligned to its
        elements, of some bytes.

        Not on an x86: two threads of a Xeon take 12.8 ms for 16 M float32 to int32 so, and 11.6 without; 13 and 9 to
        fill.
        """
        record, alignment = self._record(self.line), None
        is_run = bool(loops.sizes) and loops.strides[1][-1] == 1
        if is_run and is_streamed(loops.sizes[-1] * width, loops.count * width):
            target = [one.word for one in record.relocations].index(self.layout.word("target"))
            record, alignment = self._record(f"{self.line} stream"), Otherwise(target, width, record=record)
        return KernelProgram(self.walk, record, self.work_items, self.size, alignment=alignment)

    def _record(self, line: str) -> Record:
        return self.layout.write({**self.fields, "line": get_line(line).address})


def as_word(number: float) -> int:
    """A float64's bits as a word."""
    (bits,) = struct.unpack("q", struct.pack("d", number))
    return int(bits)


def fields_of_walk(
    loops: Loops, pointers: Sequence[Pointer], widths: Sequence[int], segment: int = SEGMENT
) -> tuple[dict[str, int | Pointer | Sequence[int]], int]:
    """The fields of a walk whose innermost dimension is the last, and its work items; widths are of both elements."""
    rank = max(len(loops.sizes) - 1, 0)
    count, steps = (loops.sizes[-1], [row[-1] for row in loops.strides]) if loops.sizes else (1, [1, 1])
    segments = -(-count * max(widths) // segment)
    length = -(-count // segments // ELEMENTS) * ELEMENTS
    segments = -(-count // length)
    table = dimension_words(loops.sizes[:rank], loops.strides[:2], widths)
    fields: dict[str, int | Pointer | Sequence[int]] = {
        "source": pointers[0], "target": pointers[1], "count": count, "source_step": steps[0] * widths[0],
        "target_step": steps[1] * widths[1], "segments": segments, "length": length, "rank": rank, "outer": table,
    }  # fmt: skip
    return fields, math.prod(loops.sizes[:rank]) * segments


def get_line(name: str) -> Kernel:
    """The kernel of a line: `line` and what `make_line` takes."""
    return get_kernel(name, functools.partial(make_line, name.removeprefix("line ")))


# Fills, planned: a walk over the target and the numbers of its elements.


def plan_fill(primitive: Map) -> KernelProgram | None:
    """Let the number of an element be its place in a source of which every element is a byte; None for other maps."""
    found = match_filled(primitive)
    if found is None:
        return None
    target, width = found.target, found.target.data_type.size_in_bytes
    numbers = tuple(math.prod(target.sizes[k + 1 :]) for k in range(len(target.sizes)))
    loops = simplify(Loops(target.sizes, (numbers, target.strides), (0, target.offset)), 1)
    pointers = Pointer("", loops.offsets[0]), Pointer(target.tensor, loops.offsets[1] * width)
    fields, items = fields_of_walk(loops, pointers, (1, width))
    kind, fields["parameters"] = _sequence(found)
    lines = Lines(
        get_kernel("walk", make_line_walk), LINES, fields, f"line sequence {kind}", items, _touched(loops, width)
    )
    return lines.program(loops, width)


def _touched(loops: Loops, width: int) -> int:
    """The bytes of the lines that are written to: a margin of one element a line takes as long as 16."""
    if not loops.sizes:
        return width
    step, run = loops.strides[1][-1] * width, loops.sizes[-1] * width
    if step == width:
        return loops.count * width // run * (-(-run // LINE) * LINE)
    return loops.count * min(abs(step), LINE)


def _sequence(primitive: Filled) -> tuple[str, tuple[int, int]]:
    """The kind that computes, and its start and delta as words."""
    data_type = primitive.target.data_type
    bits = f"u{data_type.size_in_bytes * 8}"
    if not primitive.delta:
        start = np.array(primitive.start, data_type.dtype).view(f"i{data_type.size_in_bytes}")
        return bits, (int(start), 0)
    if data_type.is_float:
        return kind_of(data_type), (as_word(primitive.start), as_word(primitive.delta))
    return bits, (_wrapped(int(primitive.start)), _wrapped(int(primitive.delta)))


def _wrapped(number: int) -> int:
    """An integer of any size as a word, which is signed."""
    return (number + 2**63) % 2**64 - 2**63


# Conversions and scales, planned: the line is chosen by the pair of types.


def moves_bits(primitive: Scaled) -> bool:
    """Whether elements only change their type's name: equal types, and integers of one width."""
    source, target = primitive.source.data_type, primitive.target.data_type
    same_width = source.size_in_bytes == target.size_in_bytes
    return primitive.is_conversion and same_width and source.is_float == target.is_float


def plan_scaled(verb: Map) -> KernelProgram | None:
    """Choose the line by the pair of types; a map that moves bits is a copy."""
    if (primitive := match_scaled(verb)) is None:
        return None
    source, target = primitive.source, primitive.target
    if moves_bits(primitive):
        return program_of_copy(copy_of(source, target))
    widths = (source.data_type.size_in_bytes, target.data_type.size_in_bytes)
    loops = simplify(loops_of(source, target), 1)
    pointers = [Pointer(view.tensor, loops.offsets[k] * widths[k]) for k, view in enumerate((source, target))]
    fields, items = fields_of_walk(loops, pointers, widths)
    fields["parameters"] = as_word(primitive.scale), as_word(primitive.bias)
    lines = Lines(
        get_kernel("walk", make_line_walk),
        LINES,
        fields,
        f"line {_function(primitive)}",
        items,
        loops.count * sum(widths),
    )
    return lines.program(loops, widths[1])


def _function(primitive: Scaled) -> str:
    """A line's name, with that of the pairs that share it: bits are cut off whatever their sign."""
    source, target = kind_of(primitive.source.data_type), kind_of(primitive.target.data_type)
    if not primitive.is_conversion:
        return f"scale {source} {target}"
    if "f" not in source + target:
        target = f"u{target[1:]}"
        source = f"u{source[1:]}" if int(target[1:]) < int(source[1:]) else source
    return f"convert {source} {target}"


# Lines: what happens along one innermost dimension.


FEW = 16
"""Bytes by which the end of a run is written, before it goes by the element."""
ALIGNED_FROM = 4096
"""Bytes of a line from which on its target is aligned to the cache's first: reversed rows take half the time."""


def make_line(name: str) -> str:
    """The text of a line: `convert f32 f16`, `scale i8 f32`, `sequence f32`, `move 4`; `stream` may follow."""
    family, *kinds = name.split()
    stream = kinds[-1] == "stream"
    if family == "move":
        line = _Line(f"u{8 * int(kinds[0])}", stream)
        line.write(line.reading(line.kind, lambda value: value), both_ways=True)
    elif family == "sequence":
        line = _Line(kinds[0], stream)
        line.write(line.counting(), both_ways=False)
    else:
        line = _Line(kinds[1], stream)
        line.write(line.reading(kinds[0], line.conversion(kinds[0], family)), both_ways=False)
    return line.f.end()


class _Line:
    """A line in the making."""

    def __init__(self, kind: str, stream: bool) -> None:
        self.f = Function("kernel", "words source target count source_step target_step")
        self.words, self.source, self.target, self.count, self.source_step, self.target_step = self.f.args
        self.kind, self.width, self.stream = kind, int(kind[1:]) // 8, stream
        self.source_width = 0
        """The step that a source has for a run; 0 where there is no source."""

    def write(self, values: Callable[[Value, int, bool], Value], *, both_ways: bool) -> None:
        """Write the whole line; `values(index, lanes, backward)` are some elements of it, one where lanes is 0.

        Runs go by whole lines of the cache, long ones from where the target is aligned to one, and what is left by
        the element. With `both_ways` a source that runs backwards is a run as well.
        """
        f, count = self.f, self.count
        lies_so = self.target_step.eq(self.width)
        ways = [(False, lies_so)]
        if self.source_width:
            steps = [(False, self.source_width), (True, -self.source_width)][: 2 if both_ways else 1]
            ways = [(back, lies_so & self.source_step.eq(step)) for back, step in steps]
        is_run = ways[0][1] if len(ways) == 1 else ways[0][1] | ways[1][1]
        lead = (-self.target & (LINE - 1)) // self.width
        # A short line is not worth aligning, unless only aligned stores go past the cache.
        is_long = lead < count if self.stream else count > ALIGNED_FROM // self.width
        done = f.select(is_run, f.select(is_long, lead, count if self.stream else 0), count)
        self._elements(values, f.value(0, "i64"), done)
        for size in (LINE, FEW) if not self.stream else (LINE,):
            lanes = size // self.width
            end = done + ((count - done) & -lanes)
            for back, holds in ways:
                self._vectors(values, done, f.select(holds, end, done), lanes, back)
            done = end
        self._elements(values, done, count)

    def _elements(self, values: Callable[[Value, int, bool], Value], begin: Value, end: Value) -> None:
        with self.f.rotated_loop(begin, end) as index:
            self.f.store(values(index, 0, False), self.target + index * self.target_step, align=1)

    def _vectors(
        self, values: Callable[[Value, int, bool], Value], begin: Value, end: Value, lanes: int, back: bool
    ) -> None:
        """Whole vectors; of a source that runs backwards the last first, so that it is read upwards.

        That is 0.93 of copy speed, the other way 0.87 (Arm Neoverse-N1).
        """
        last = begin + end - lanes
        with self.f.rotated_loop(begin, end, lanes) as index:
            place = last - index if back else index
            where, value = self.target + place * self.width, values(place, lanes, back)
            self.f.store(value, where, align=LINE if self.stream else 1, is_streamed=self.stream)

    def splat(self, value: Value, lanes: int) -> Value:
        """One value in every lane; without lanes the value itself."""
        return self.f.splat(value, lanes) if lanes else value

    # What the elements are

    def parameter(self, number: int, kind: str) -> Value:
        """A word that the line is given."""
        return self.f.load(kind, self.words + 8 * number, align=1)

    def reading(self, source: str, change: Callable[[Value], Value]) -> Callable[[Value, int, bool], Value]:
        """Elements of the source, changed."""
        f, width, scalar = self.f, int(source[1:]) // 8, scalar_text(source)
        self.source_width = width

        def values(index: Value, lanes: int, back: bool) -> Value:
            if not lanes:
                return change(f.load(scalar, self.source + index * self.source_step, align=1))
            address, vector = self.source + index * (-width if back else width), vector_of(lanes, scalar)
            if not back:
                return change(f.load(vector, address, align=1))
            value = f.load(vector, address - (lanes - 1) * width, align=1)
            return change(f.shuffle(value, None, range(lanes)[::-1]))

        return values

    def conversion(self, source: str, family: str) -> Callable[[Value], Value]:
        """A number made one of the target's kind, scaled in float64 before where that is asked for."""
        f = self.f
        if family == "convert":
            return lambda value: convert(f, value, source, self.kind)
        scale, bias = (self.parameter(i, "double") for i in range(2))

        def scaled(value: Value) -> Value:
            lanes = value.lanes if value.type[0] == "<" else 0
            product = convert(f, value, source, "f64") * self.splat(scale, lanes)
            return convert(f, product + self.splat(bias, lanes), "f64", self.kind)

        return scaled

    def counting(self) -> Callable[[Value, int, bool], Value]:
        """Numbers counted on: the source is the number of the line's first element, its step what the next adds.

        Floats compute in float64, in which every number of an element is exact; integers in their own width, where a
        delta of 0 makes them the bits of any constant.
        """
        f, is_float = self.f, self.kind[0] == "f"
        scalar = "double" if is_float else scalar_text(self.kind)
        number = functools.partial(f.cast, "sitofp" if is_float else "trunc", scalar=scalar)
        start, delta = (self.parameter(i, scalar) for i in range(2))
        step = number(self.source_step) if is_float else number(self.source_step) * delta
        on = {
            lanes: f.vector(scalar, range(lanes)) * f.splat(step, lanes)
            for lanes in (LINE // self.width, FEW // self.width)
        }

        def floats(index: Value, lanes: int, _back: bool) -> Value:
            first = self.splat(number(self.source + index * self.source_step), lanes)
            first = first + on[lanes] if lanes else first
            total = first * self.splat(delta, lanes) + self.splat(start, lanes)
            return convert(f, total, "f64", self.kind)

        def integers(index: Value, lanes: int, _back: bool) -> Value:
            first = self.splat(number(self.source + index * self.source_step) * delta + start, lanes)
            return first + on[lanes] if lanes else first

        return floats if is_float else integers
