"""The cpu engine: kernels in LLVM, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

import functools
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu import plans
from anydml.engines.cpu.build import has_float16, has_fma, has_rounding
from anydml.engines.cpu.programs import (
    CheckedProgram,
    LoopProgram,
    ScanProgram,
    ScatterProgram,
    TopProgram,
    plan_attend,
    plan_contract,
    plan_copy,
    plan_fill,
    plan_framed,
    plan_gather,
    plan_map,
    plan_panels,
    plan_placed,
    plan_reduce,
    plan_reverse,
    plan_scaled,
    plan_taps,
    plan_unpacked,
    plan_unpacked_ahead,
    plan_weights,
    plan_weights_ahead,
    takes_attend,
)
from anydml.engines.reference import ReferenceEngine
from anydml.engines.repeated import compile_repeat
from anydml.enums import DataType
from anydml.ir.attending import Attend
from anydml.ir.choosing import Scatter, Sort
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan
from anydml.memory import HOST, reserve_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.protocol import Program
    from anydml.ir.verbs import Primitive

SCHEDULES: dict[type[Primitive], tuple[Callable[[Any], Program | None], ...]] = {
    Map: (plan_copy, plan_scaled, plan_fill, plan_gather, plan_reverse, plan_placed, plan_map),
    Reduce: (plan_taps, plan_unpacked, plan_contract, plan_weights, plan_reduce),
    Scan: (ScanProgram.plan,),
    Scatter: (ScatterProgram.plan,),
    Sort: (TopProgram.plan,),
    Attend: (plan_attend,),
}
"""The ways to carry a verb out, in the order in which they are asked; what none takes is the reference's."""
AHEAD: dict[type[Primitive], tuple[Callable[[Any, frozenset[str]], Program | None], ...]] = {
    Reduce: (plan_panels, plan_weights_ahead, plan_unpacked_ahead)
}
"""Ways that have some of the sources, which are constants, laid out ahead: they are asked before the others."""

_expand = functools.lru_cache(maxsize=256)(expand)
"""It takes some milliseconds, and models have a few functions in many places."""


class CpuEngine:
    """Compiled kernels over the host's memory."""

    name = "cpu"
    memory = HOST
    # 32 rows by 4096 x 4096 of 4 bits take 40 ms so, and 47 where they are dequantised first (one thread of an N1).
    reads_weights: Mapping[DataType, int] = MappingProxyType({DataType.FLOAT32: 32})
    unpacks_weights = True
    reads_outside = False
    chooses_layouts = False
    reserve = staticmethod(reserve_host)
    plans = plans

    def __init__(self) -> None:
        has_float16()  # asks LLVM, which nothing may interrupt: engines are made on a thread of their own

    def takes(self, primitive: Primitive) -> bool:
        """Whether there is a schedule for a primitive that could be spelled out."""
        return isinstance(primitive, Attend) and takes_attend(primitive)

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan, and find the kernel: compiled, or cached from an earlier process."""
        if isinstance(primitive, Repeat):
            return compile_repeat(self, primitive, constants, LoopProgram)
        written = primitive.computing(_expand)
        program: Program | None = None
        if not needs_more(written):
            ahead = AHEAD.get(type(written), ()) if constants and not written.checks else ()
            found = chain(
                (plan(written, constants) for plan in ahead), (plan(written) for plan in SCHEDULES[type(written)])
            )
            program = next((planned for planned in found if planned is not None), None)
        if program is None:
            return ReferenceEngine().compile(primitive)
        for check in reversed(written.checks):
            program = CheckedProgram.plan(check, program)
        return program

    def join(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
        """Planes with padding, and the windows that walk over them, as one."""
        written = [primitive.computing(_expand) for primitive in primitives]
        return None if any(map(needs_more, written)) else plan_framed(written, constants)


def needs_more(primitive: Primitive) -> bool:
    """Whether it computes with what this CPU has no instructions for: its code would call what is not there."""
    ops, types = _computes(primitive)
    lacks = [
        DataType.FLOAT16 in types and not has_float16(),
        "fma" in ops and not has_fma(),
        not ops.isdisjoint(("floor", "ceil", "trunc", "rint")) and not has_rounding(),
    ]
    return any(lacks)


def _computes(primitive: Primitive) -> tuple[set[str], set[DataType | None]]:
    """The operations, and the types that are computed with, not only moved."""
    if not primitive.values:
        return set(), {view.data_type for view in primitive.views}
    nodes = [node for node in walk(*primitive.values) if node.op not in _MOVES]
    return {node.op for node in nodes}, {part.type for node in nodes for part in (node, *node.args)}


_MOVES = {"load", "fetch", "const", "given", "where", "bits"}
"""Operations that move bits, whatever they mean."""
