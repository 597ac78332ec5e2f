"""Walks over lines: conversions, scales, fills and plain moves, one innermost dimension after the other.

A line is `kernel(words, source, target, count, source step, target step)`; its address stands among the words of the
kernel that walks the dimensions outside, and its parameters behind it. A walk takes 0.1 s to compile, a line 0.02:
there is one for each pair of types, and the walk is compiled once for all of them.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.conversions import F64, I32, I64, convert, scalar_of
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.outer_loops import LINES, make_line_walk
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import Layout, Pointer, Record
from anydml.engines.cpu.move.copy import program_of_copy
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of, match_filled, match_scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.patterns import Filled, Scaled
    from anydml.ir.verbs import Map

SEGMENT = 1024 * 1024
"""Bytes of a row, the source's or the target's, that one unit of work goes through."""
LONG_ROW = 256
"""Bytes of a row from which on whole lines of it are written past the cache, where the output is large."""
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
        is_run = bool(loops.sizes) and loops.strides[1][-1] == 1 and loops.sizes[-1] * width >= LONG_ROW
        of = figures().rows
        if of.streams and is_run and loops.count * width >= of.stream_from:
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
    table = [
        word
        for k in range(rank)
        for word in (loops.sizes[k], loops.strides[0][k] * widths[0], loops.strides[1][k] * widths[1])
    ]
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


# Lines: what happens along one innermost dimension, written in LLVM itself.


POINTER = ir.PointerType()
LINE = 64
FEW = 16
"""Bytes of a target: a line of the cache, and what the end of a run is written by before it goes by the element."""
ALIGNED_FROM = 4096
"""Bytes of a line from which on its target is aligned to the cache's first: reversed rows take half the time."""


def make_line(name: str) -> str:
    """The text of a line: `convert f32 f16`, `scale i8 f32`, `sequence f32`, `move 4`; `stream` may follow."""
    family, *kinds = name.split()
    stream = kinds[-1] == "stream"
    if family == "move":
        line = _Line(f"u{8 * int(kinds[0])}", stream)
        line.write(_reading(line, line.kind, lambda value: value), both_ways=True)
    elif family == "sequence":
        line = _Line(kinds[0], stream)
        line.write(_counting(line), both_ways=False)
    else:
        line = _Line(kinds[1], stream)
        line.write(_reading(line, kinds[0], _conversion(line, kinds[0], family)), both_ways=False)
    return str(line.module)


class _Line:
    """A line in the making."""

    def __init__(self, kind: str, stream: bool) -> None:
        self.module = ir.Module()
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [I64] * 6), "kernel")
        self.words, self.source, self.target, self.count, self.source_step, self.target_step = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.kind, self.width, self.stream = kind, int(kind[1:]) // 8, stream
        self.source_width = 0
        """The step that a source has for a run; 0 where there is no source."""

    def parameter(self, number: int, kind: Any) -> Any:
        return self.load(self.builder.add(self.words, word(8 * number)), kind)

    def load(self, address: Any, kind: Any) -> Any:
        value = self.builder.load(self.builder.inttoptr(address, POINTER), typ=kind)
        value.align = 1
        return value

    def at(self, base: Any, index: Any, step: Any) -> Any:
        return self.builder.add(base, self.builder.mul(index, step))

    def spread(self, value: Any, lanes: int) -> Any:
        """One value in every lane; without lanes the value itself."""
        if not lanes:
            return value
        some = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        first = self.builder.insert_element(some, value, ir.Constant(I32, 0))
        return self.builder.shuffle_vector(first, some, ir.Constant(ir.VectorType(I32, lanes), None))

    @contextlib.contextmanager
    def loop(self, begin: Any, end: Any, step: int) -> Iterator[Any]:
        """Count from begin up to end, which is whole steps away."""
        builder = self.builder
        before, body = builder.block, builder.append_basic_block()
        after = builder.append_basic_block()
        builder.cbranch(builder.icmp_signed("<", begin, end), body, after)
        builder.position_at_end(body)
        index = builder.phi(I64)
        index.add_incoming(begin, before)
        yield index
        on = builder.add(index, word(step))
        index.add_incoming(on, builder.block)
        builder.cbranch(builder.icmp_signed("<", on, end), body, after)
        builder.position_at_end(after)

    def write(self, values: Callable[[Any, int, bool], Any], *, both_ways: bool) -> None:
        """Write the whole line; `values(index, lanes, backward)` are some elements of it, one where lanes is 0.

        Runs go by whole lines of the cache, long ones from where the target is aligned to one, and what is left by
        the element. With `both_ways` a source that runs backwards is a run as well.
        """
        builder, count = self.builder, self.count
        lies_so = builder.icmp_signed("==", self.target_step, word(self.width))
        ways = [(False, lies_so)]
        if self.source_width:
            ways = [
                (back, builder.and_(lies_so, builder.icmp_signed("==", self.source_step, word(step))))
                for back, step in [(False, self.source_width), (True, -self.source_width)][: 2 if both_ways else 1]
            ]
        is_run = ways[0][1] if len(ways) == 1 else builder.or_(ways[0][1], ways[1][1])
        lead = builder.udiv(builder.and_(builder.neg(self.target), word(LINE - 1)), word(self.width))
        # A short line is not worth aligning, unless only aligned stores go past the cache.
        least, short = (lead, count) if self.stream else (word(ALIGNED_FROM // self.width), word(0))
        lead = builder.select(builder.icmp_signed("<", least, count), lead, short)
        done = builder.select(is_run, lead, count)
        self._elements(values, word(0), done)
        for size in (LINE, FEW) if not self.stream else (LINE,):
            lanes = size // self.width
            whole = builder.and_(builder.sub(count, done), word(-lanes))
            end = builder.add(done, whole)
            for back, holds in ways:
                self._vectors(values, done, builder.select(holds, end, done), lanes, back)
            done = end
        self._elements(values, done, count)
        builder.ret_void()

    def _elements(self, values: Callable[[Any, int, bool], Any], begin: Any, end: Any) -> None:
        with self.loop(begin, end, 1) as index:
            self._store(values(index, 0, False), self.at(self.target, index, self.target_step), 1)

    def _vectors(self, values: Callable[[Any, int, bool], Any], begin: Any, end: Any, lanes: int, back: bool) -> None:
        """Whole vectors; of a source that runs backwards the last first, so that it is read upwards.

        That is 0.93 of copy speed, the other way 0.87 (Arm Neoverse-N1).
        """
        last = self.builder.sub(self.builder.add(begin, end), word(lanes))
        with self.loop(begin, end, lanes) as index:
            place = self.builder.sub(last, index) if back else index
            where = self.at(self.target, place, word(self.width))
            self._store(values(place, lanes, back), where, LINE if self.stream else 1)

    def _store(self, value: Any, address: Any, alignment: int) -> None:
        store = self.builder.store(value, self.builder.inttoptr(address, POINTER))
        store.align = alignment
        if alignment == LINE:
            store.set_metadata("nontemporal", self.module.add_metadata([ir.Constant(I32, 1)]))


def word(number: int) -> Any:
    """A number that is known when the line is compiled."""
    return ir.Constant(I64, number)


def _reading(line: _Line, source: str, change: Callable[[Any], Any]) -> Callable[[Any, int, bool], Any]:
    """Elements of the source, changed."""
    width, scalar = int(source[1:]) // 8, scalar_of(source)
    line.source_width = width

    def values(index: Any, lanes: int, back: bool) -> Any:
        if not lanes:
            return change(line.load(line.at(line.source, index, line.source_step), scalar))
        address = line.at(line.source, index, word(-width if back else width))
        if not back:
            return change(line.load(address, ir.VectorType(scalar, lanes)))
        first = line.builder.sub(address, word((lanes - 1) * width))
        value = line.load(first, ir.VectorType(scalar, lanes))
        turned = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, lanes - 1 - i) for i in range(lanes)])
        return change(line.builder.shuffle_vector(value, value, turned))

    return values


def _conversion(line: _Line, source: str, family: str) -> Callable[[Any], Any]:
    """A number made one of the target's kind, scaled in float64 before where that is asked for."""
    if family == "convert":
        return lambda value: convert(line.builder, value, source, line.kind)
    scale, bias = (line.parameter(i, F64) for i in range(2))

    def scaled(value: Any) -> Any:
        builder = line.builder
        lanes = value.type.count if isinstance(value.type, ir.VectorType) else 0
        product = builder.fmul(convert(builder, value, source, "f64"), line.spread(scale, lanes))
        return convert(builder, builder.fadd(product, line.spread(bias, lanes)), "f64", line.kind)

    return scaled


def _counting(line: _Line) -> Callable[[Any, int, bool], Any]:
    """Numbers counted on: the source is the number of the line's first element, its step what the next adds.

    Floats compute in float64, in which every number of an element is exact; integers in their own width, where a
    delta of 0 makes them the bits of any constant.
    """
    builder, scalar = line.builder, F64 if line.kind[0] == "f" else scalar_of(line.kind)
    start, delta = (line.parameter(i, scalar) for i in range(2))

    counts = {size // line.width: _count(scalar, size // line.width) for size in (LINE, FEW)}

    if line.kind[0] == "f":
        step = builder.sitofp(line.source_step, F64)
        on = {lanes: builder.fmul(count, line.spread(step, lanes)) for lanes, count in counts.items()}
    else:
        step = builder.mul(builder.trunc(line.source_step, scalar), delta)
        on = {lanes: builder.mul(count, line.spread(step, lanes)) for lanes, count in counts.items()}

    def floats(index: Any, lanes: int, _back: bool) -> Any:
        number = line.spread(builder.sitofp(line.at(line.source, index, line.source_step), F64), lanes)
        number = builder.fadd(number, on[lanes]) if lanes else number
        total = builder.fadd(builder.fmul(number, line.spread(delta, lanes)), line.spread(start, lanes))
        return convert(builder, total, "f64", line.kind)

    def integers(index: Any, lanes: int, _back: bool) -> Any:
        number = builder.trunc(line.at(line.source, index, line.source_step), scalar)
        first = line.spread(builder.add(builder.mul(number, delta), start), lanes)
        return builder.add(first, on[lanes]) if lanes else first

    return floats if line.kind[0] == "f" else integers


def _count(scalar: Any, lanes: int) -> Any:
    """0, 1, 2 and so on."""
    return ir.Constant(ir.VectorType(scalar, lanes), [ir.Constant(scalar, i) for i in range(lanes)])
