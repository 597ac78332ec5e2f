"""The cpu engine: kernels in Numba, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from anydml.engines.cpu.build import has_float16
from anydml.engines.cpu.programs import CopyProgram, GatherProgram, ScanProgram, plan_fill, plan_reverse, plan_scaled
from anydml.engines.cpu.programs.fill import is_constant
from anydml.engines.cpu.programs.scale import moves_bits
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.ir.patterns import is_copy, match_scaled
from anydml.ir.verbs import Fill, IndexedCopy, Map, Reverse, Scan, views_of
from anydml.memory import HOST, reserve_host

if TYPE_CHECKING:
    from anydml.engines.protocol import Program
    from anydml.ir.verbs import Primitive


class CpuEngine:
    """Numba kernels over the host's memory."""

    name = "cpu"
    memory = HOST
    reserve = staticmethod(reserve_host)

    def __init__(self) -> None:
        has_float16()  # asks LLVM, which nothing may interrupt: engines are made on a thread of their own

    def compile(self, primitive: Primitive) -> Program:
        """Plan, and find the kernel: compiled, or cached from an earlier process."""
        if needs_float16(primitive) and not has_float16():
            return ReferenceEngine().compile(primitive)
        if is_copy(primitive):
            return CopyProgram.plan(primitive)
        if isinstance(primitive, IndexedCopy):
            return GatherProgram.plan(primitive)
        if isinstance(primitive, Scan):
            return ScanProgram.plan(primitive)
        if isinstance(primitive, Map):
            simple = match_scaled(primitive)
            if simple is None:
                raise NotImplementedError
            return plan_scaled(simple)
        if isinstance(primitive, Fill):
            return plan_fill(primitive)
        if isinstance(primitive, Reverse):
            return plan_reverse(primitive)
        assert_never(primitive)


def needs_float16(primitive: Primitive) -> bool:
    """Whether numbers of FLOAT16 are computed with, not only moved."""
    moves = isinstance(primitive, (IndexedCopy, Reverse))
    simple = match_scaled(primitive) if isinstance(primitive, Map) else None
    moves = moves or (simple is not None and moves_bits(simple))
    moves = moves or (isinstance(primitive, Fill) and is_constant(primitive))
    return not moves and any(view.data_type is DataType.FLOAT16 for view in views_of(primitive))
