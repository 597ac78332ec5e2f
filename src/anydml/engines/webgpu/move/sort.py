"""Sorts: an element's rank is counted, one invocation an element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.ir.expressions import const, where
from anydml.ir.loops import Loops

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Sort

F32, U32, U64 = DataType.FLOAT32, DataType.UINT32, DataType.UINT64


def plan_sort(verb: Sort, memory: Memory) -> Program:
    """Places in the order of the elements."""
    source, target, axis = verb.source, verb.target, verb.axis
    lanes = math.prod(source.sizes)
    if not lanes or not math.prod(target.sizes):
        return KernelProgram.of(memory.name)
    body = Body.on(memory.gpu)
    kind = U64 if source.data_type.size_in_bytes == 8 else U32

    def key(element: Expr) -> Expr:
        return _key(element, is_largest=verb.largest)

    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(lanes, 'lanes')}) {{ return; }}")
    names = take_apart(body, "i", Loops(source.sizes, (), ()), "c")
    own = read(body, source, kind, names, key)
    body.say("var rank = 0u;", f"for (var j = 0u; j < {body.number(source.sizes[axis], 'length')}; j++) {{")
    other = read(body, source, kind, [*names[:axis], "j", *names[axis + 1 :]], key)
    less, equal = f"{other[-1]} < {own[-1]}", f"{other[0]} == {own[0]}"
    if kind is U64:
        less = f"({less} || ({other[1]} == {own[1]} && {other[0]} < {own[0]}))"
        equal = f"({equal} && {other[1]} == {own[1]})"
    body.say(f"if ({less} || ({equal} && j < {names[axis]})) {{ rank++; }}", "}")
    body.say(f"if (rank >= {body.number(target.sizes[axis], 'room')}) {{ return; }}")
    write(body, target, U32, [names[axis]], [*names[:axis], "rank", *names[axis + 1 :]])
    return KernelProgram.of(memory.name, body.kernel(-(-lanes // LANES)))


def _key(x: Expr, *, is_largest: bool) -> Expr:
    """A number without a sign, in the order of the elements: NaN is the largest, and zeros are equal."""
    of = x.type
    assert of is not None  # noqa: S101 - for type checkers: elements are numbers
    if of.is_float:
        bits = x.to(F32).bits(U32)
        found = where(bits >= 1 << 31, ~bits, bits | 1 << 31)
        found = where((bits & 0x7FFFFFFF).equals(0), const(1 << 31, U32), found)
        found = where((bits & 0x7FFFFFFF) > 0x7F800000, const(0xFFFFFFFF, U32), found)
    elif of.size_in_bytes == 8:
        found = x.bits(U64) ^ (1 << 63) if of.is_signed else x
    else:
        found = x.to(DataType.INT32).bits(U32) ^ (1 << 31) if of.is_signed else x.to(U32)
    return ~found if is_largest else found
