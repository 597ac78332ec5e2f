"""The cpu engine: kernels in LLVM and Numba, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import has_float16, has_fma, has_rounding
from anydml.engines.cpu.programs import (
    GatherProgram,
    ScanProgram,
    plan_copy,
    plan_fill,
    plan_map,
    plan_reverse,
    plan_scaled,
)
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.ir.expressions import walk
from anydml.ir.verbs import IndexedCopy, Map, Reverse, Scan, views_of
from anydml.memory import HOST, reserve_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.protocol import Program
    from anydml.ir.verbs import Primitive

SCHEDULES: dict[type[Primitive], tuple[Callable[[Any], Program | None], ...]] = {
    Map: (plan_copy, plan_scaled, plan_fill, plan_map),
    IndexedCopy: (GatherProgram.plan,),
    Scan: (ScanProgram.plan,),
    Reverse: (plan_reverse,),
}
"""The ways to carry a verb out, the first that takes a primitive before the others; the last takes every one."""


class CpuEngine:
    """Compiled kernels over the host's memory."""

    name = "cpu"
    memory = HOST
    reserve = staticmethod(reserve_host)

    def __init__(self) -> None:
        has_float16()  # asks LLVM, which nothing may interrupt: engines are made on a thread of their own

    def compile(self, primitive: Primitive) -> Program:
        """Plan, and find the kernel: compiled, or cached from an earlier process."""
        if needs_more(primitive):
            return ReferenceEngine().compile(primitive)
        return next(program for plan in SCHEDULES[type(primitive)] if (program := plan(primitive)) is not None)


def needs_more(primitive: Primitive) -> bool:
    """Whether it computes with what this CPU has no instructions for: its code would call what is not there."""
    if isinstance(primitive, Map):
        nodes = list(walk(primitive.value))
        ops = {node.op for node in nodes}
        computed = [node for node in nodes if node.op not in _MOVES]
        halves = any(DataType.FLOAT16 in (node.type, *(arg.type for arg in node.args)) for node in computed)
    else:
        ops = set()
        moves = isinstance(primitive, (IndexedCopy, Reverse))
        halves = not moves and any(view.data_type is DataType.FLOAT16 for view in views_of(primitive))
    lacks_fma, lacks_rounding = "fma" in ops and not has_fma(), not ops.isdisjoint(_ROUNDINGS) and not has_rounding()
    return (halves and not has_float16()) or lacks_fma or lacks_rounding


_MOVES = {"load", "const", "given", "where", "bits"}
"""Operations that move bits, whatever they mean."""
_ROUNDINGS = {"floor", "ceil", "trunc", "rint"}
