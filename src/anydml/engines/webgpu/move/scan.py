"""Running sums and products: an invocation a line, one element after the other.

Floats are summed in FLOAT64 where the device has it, else in double-floats, and rounded once; integers wrap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault, UnsupportedError
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import compute, take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.ir.expressions import Expr
from anydml.ir.legalise import Words, add, multiply
from anydml.ir.loops import Loops
from anydml.ir.numerics.parts import Pair, to_half

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Scan
    from anydml.ir.views import View

F32, F16, F64 = DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64
U32, U64 = DataType.UINT32, DataType.UINT64
DOUBLE = """
fn sum(a: f64, b: f64) -> f64 { return a + b; }
fn product(a: f64, b: f64) -> f64 { return a * b; }
fn lift(x: f32) -> f64 { return f64(x); }
fn high(a: f64) -> f32 { return f32(a); }
fn low(a: f64) -> f32 { return f32(a - f64(f32(a))); }
"""
PAIR = """
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn sum(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let s = keep(a.x + b.x);
  if (!is_finite(s)) { return vec2<f32>(s, 0.0); }
  let v = keep(s - a.x);
  let e = keep(keep(a.x - keep(s - v)) + keep(b.x - v));
  let t = keep(e + keep(a.y + b.y));
  let h = keep(s + t);
  return vec2<f32>(h, keep(t - keep(h - s)));
}
fn product(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let p = keep(a.x * b.x);
  if (!is_finite(p)) { return vec2<f32>(p, 0.0); }
  let e = keep(fused(a.x, b.x, -p) + keep(keep(a.x * b.y) + keep(a.y * b.x)));
  let h = keep(p + e);
  return vec2<f32>(h, keep(e - keep(h - p)));
}
fn lift(x: f32) -> vec2<f32> { return vec2<f32>(x, 0.0); }
fn high(a: vec2<f32>) -> f32 { return a.x; }
fn low(a: vec2<f32>) -> f32 { return a.y; }
"""


def plan_scan(verb: Scan, memory: Memory) -> Program:
    """Lines, each by an invocation."""
    source, target, axis = verb.source, verb.target, verb.axis
    lines = target.sizes[:axis], target.sizes[axis + 1 :]
    count = math.prod((*lines[0], *lines[1]))
    if not count:
        return KernelProgram.of(memory.name)
    body = Body.on(memory.gpu)
    tally = (_Floats if source.data_type.is_float else _Integers)(verb, body, memory)
    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
    names = take_apart(body, "i", Loops((*lines[0], *lines[1]), (), ()), "c")

    def at(place: str) -> list[str]:
        return [*names[:axis], place, *names[axis:]]

    tally.begin(at("0u"))
    length = body.number(target.sizes[axis], "length")
    body.say(f"for (var j = 0u; j < {length}; j++) {{")
    place = body.line(f"{length} - 1u - j") if verb.reverse else "j"
    element = tally.read(source, at(place))
    if verb.exclusive:
        tally.write(target, at(place))
        tally.add(element)
    else:
        tally.add(element)
        tally.write(target, at(place))
    body.say("}")
    if verb.after is not None:
        tally.hand_on(verb.after, at("0u"))
    return KernelProgram.of(memory.name, body.kernel(-(-count // LANES)))


class _Integers:
    """A tally of 32 or 64 bits, which wraps: the same bits with a sign and without."""

    def __init__(self, verb: Scan, body: Body, _: Memory) -> None:
        self.verb, self.body = verb, body
        self.kind = U64 if verb.source.data_type.size_in_bytes == 8 else U32
        self.names = ["low", "high"][: 2 if self.kind is U64 else 1]

    def begin(self, at: Sequence[str]) -> None:
        """Where the line goes on from."""
        before = self.verb.before
        start = ["0u" if self.verb.function == "sum" else "1u", "0u"]
        if before is not None:
            start = read(self.body, before, self.kind, at)
        self.body.say(*(f"var {name} = {number};" for name, number in zip(self.names, start, strict=False)))

    def read(self, view: View, at: Sequence[str]) -> list[str]:
        """An element's parts."""
        return read(self.body, view, self.kind, at)

    def add(self, element: Sequence[str]) -> None:
        """Go on."""
        body, is_sum = self.body, self.verb.function == "sum"
        if len(self.names) == 1:
            body.say(f"low = low {'+' if is_sum else '*'} {element[0]};")
            return
        with body.scope():
            leaves = [Expr("held", U32, (), k) for k in range(4)]
            body.names.update(zip(leaves, (*self.names, *element), strict=True))
            found = (add if is_sum else multiply)(Words(*leaves[:2]), Words(*leaves[2:]))
            compute(body, found, {}, ())
            body.say(*(f"{name} = {body.names[part]};" for name, part in zip(self.names, found, strict=True)))

    def write(self, view: View, at: Sequence[str]) -> None:
        """The tally as an element."""
        write(self.body, view, self.kind, self.names, at)

    def hand_on(self, view: View, at: Sequence[str]) -> None:
        """The tally as one to go on from."""
        write(self.body, view, self.kind, self.names, at)


class _Floats:
    """A tally of FLOAT64, or a double-float."""

    def __init__(self, verb: Scan, body: Body, memory: Memory) -> None:
        self.verb, self.body = verb, body
        self.is_double = "shader-f64" in memory.gpu.features
        body.declare(DOUBLE if self.is_double else PAIR)
        if (verb.before or verb.after) and not self.is_double:
            rule = f"tallies of FLOAT64 are needed, which {memory.gpu.info} has not"
            raise UnsupportedError(
                "Device", Fault(field="name", rule=rule, value=memory.name, way_out='use Device("cpu")')
            )

    def begin(self, at: Sequence[str]) -> None:
        """Where the line goes on from."""
        body, before = self.body, self.verb.before
        start = f"lift({0.0 if self.verb.function == 'sum' else 1.0})"
        if before is not None:
            start = body.double(before, at)
        body.say(f"var tally = {start};")

    def read(self, view: View, at: Sequence[str]) -> list[str]:
        """An element."""
        return read(self.body, view, F32, at)

    def add(self, element: Sequence[str]) -> None:
        """Go on."""
        self.body.say(f"tally = {self.verb.function}(tally, lift({element[0]}));")

    def write(self, view: View, at: Sequence[str]) -> None:
        """The tally, rounded once."""
        body = self.body
        with body.scope():
            first, rest = (Expr("held", F32, (), k) for k in range(2))
            body.put(first, "high(tally)")
            found: Expr = first
            if view.data_type is F16:
                body.put(rest, "low(tally)")
                found = to_half(Pair(first, rest))
                body.take(found)
                compute(body, [found], {}, ())
            write(body, view, F32, [body.names[found]], at)

    def hand_on(self, view: View, at: Sequence[str]) -> None:
        """The tally as one to go on from."""
        self.body.say(f"{self.body.double(view, at)} = tally;")
