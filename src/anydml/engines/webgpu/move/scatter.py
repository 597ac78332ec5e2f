"""Scatters: an invocation for each element of a block writes all tuples in their order, so that the last one stays."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.move.checks import checked, guard
from anydml.engines.webgpu.move.copy import as_words
from anydml.engines.webgpu.rows.map import map_kernels
from anydml.ir.expressions import const, where
from anydml.ir.loops import Loops
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Scatter
    from anydml.ir.views import View

I32 = DataType.INT32


def plan_scatter(verb: Scatter, memory: Memory) -> Program:
    """The base is copied, and tuples are written over it."""

    def fresh() -> Body:
        body = Body.on(memory.gpu)
        guard(body, verb.checks)
        return body

    kernels = map_kernels(as_words(copy_of(verb.source, verb.target)), fresh)
    indices, updates, target, batch = verb.indices, verb.updates, verb.target, verb.batch_rank
    rank = len(indices.sizes) - 1
    tuples, block = indices.sizes[batch:rank], updates.sizes[rank:]
    blocks, count = (*target.sizes[:batch], *block), math.prod(tuples)
    lanes = math.prod(blocks)
    if lanes and count:
        body = Body.on(memory.gpu)
        guard(body, verb.checks)
        body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(lanes, 'lanes')}) {{ return; }}")
        outer = take_apart(body, "i", Loops(blocks, (), ()), "c")
        body.say(f"for (var t = 0u; t < {body.number(count, 'count')}; t++) {{")
        inner = take_apart(body, "t", Loops(tuples, (), ()), "p")
        places = []
        for k, size in enumerate(target.sizes[verb.indexed]):
            at = [*outer[:batch], *inner, f"{k}u"]
            (found,) = read(body, indices, I32, at, functools.partial(_placed, size=size))
            places.append(found)
        body.say(f"if ({' && '.join(f'{place} >= 0' for place in places)}) {{")
        wide = updates.data_type
        moved = DataType.UINT64 if wide.size_in_bytes == 8 else DataType.UINT32
        bits = {1: DataType.UINT8, 2: DataType.UINT16, 4: DataType.UINT32, 8: DataType.UINT64}[wide.size_in_bytes]
        source, aim = (_as_bits(view, bits) for view in (updates, target))
        parts = read(body, source, moved, [*outer[:batch], *inner, *outer[batch:]])
        write(body, aim, moved, parts, [*outer[:batch], *(f"u32({place})" for place in places), *outer[batch:]])
        body.say("}", "}")
        kernels.append(body.kernel(-(-lanes // LANES)))
    return checked(verb.checks, KernelProgram.of(memory.name, *kernels), memory)


def _as_bits(view: View, bits: DataType) -> View:
    """Bits are moved, whatever they mean."""
    return replace(view, data_type=bits)


def _placed(index: Expr, *, size: int) -> Expr:
    """An index from the start of its dimension, or -1 for one outside."""
    assert index.type is not None  # noqa: S101 - for type checkers: an index is a number
    of = index.type
    if 2 ** (8 * of.size_in_bytes - of.is_signed) <= size:  # all that are not negative are inside
        return where(index < 0, index.to(I32) + size, index.to(I32)) if of.is_signed else index.to(I32)
    found = where(index < 0, index + const(size, of), index) if of.is_signed else index
    inside = found < const(size, of)
    if of.is_signed:
        inside = inside & (found >= 0)
    return where(inside, found.to(I32), const(-1, I32))
