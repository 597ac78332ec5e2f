"""Programs of maps and reductions: their kernel, after the checks of indices that they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.launch import KernelProgram
from anydml.engines.webgpu.move.checks import checked, guard
from anydml.engines.webgpu.rows.map import map_kernels
from anydml.engines.webgpu.rows.reduce import reduce_kernel

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map, Reduce


def plan_map(verb: Map, memory: Memory) -> Program:
    """A map."""

    def fresh() -> Body:
        body = Body.on(memory.gpu)
        guard(body, verb.checks)
        return body

    return checked(verb.checks, KernelProgram.of(memory.name, *map_kernels(verb, fresh, memory.gpu)), memory)


def plan_reduce(verb: Reduce, memory: Memory) -> Program:
    """A reduce; one that is checked has an invocation a row, since a barrier may not come after a guard."""
    body = Body.on(memory.gpu)
    guard(body, verb.checks)
    kernel = reduce_kernel(verb, body, is_grouped=False if verb.checks else None)
    return checked(verb.checks, KernelProgram.of(memory.name, *([kernel] if kernel else [])), memory)
