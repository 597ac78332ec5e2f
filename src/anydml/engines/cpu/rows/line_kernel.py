"""Lines: what happens along one innermost dimension, written in LLVM itself.

A line is `kernel(words, source, target, count, source step, target step)`; its address stands among the words of the
kernel that walks the dimensions outside, and its parameters behind it. A walk takes 0.1 s to compile, a
line 0.02: there is one for each pair of types, and the walk is compiled once for all of them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from anydml.engines.cpu.codegen.expressions import F64, I32, I64, convert, scalar_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
