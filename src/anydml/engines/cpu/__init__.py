"""The cpu engine: kernels in Numba, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from anydml.engines.cpu.build import has_float16
from anydml.engines.cpu.programs import CopyProgram, GatherProgram, ScanProgram, plan_fill, plan_map, plan_reverse
from anydml.engines.cpu.programs.fill import is_constant
from anydml.engines.cpu.programs.map import moves_bits
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.memory import HOST, reserve_host
from anydml.primitives import Fill, IndexedCopy, Map, Reverse, Scan, StridedCopy, views_of

if TYPE_CHECKING:
    from anydml.engines.protocol import Program
    from anydml.primitives import Primitive


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
        if isinstance(primitive, StridedCopy):
            return CopyProgram.plan(primitive)
        if isinstance(primitive, IndexedCopy):
            return GatherProgram.plan(primitive)
        if isinstance(primitive, Scan):
            return ScanProgram.plan(primitive)
        if isinstance(primitive, Map):
            return plan_map(primitive)
        if isinstance(primitive, Fill):
            return plan_fill(primitive)
        if isinstance(primitive, Reverse):
            return plan_reverse(primitive)
        assert_never(primitive)


def needs_float16(primitive: Primitive) -> bool:
    """Whether numbers of FLOAT16 are computed with, not only moved."""
    moves = isinstance(primitive, (StridedCopy, IndexedCopy, Reverse))
    moves = moves or (isinstance(primitive, Map) and moves_bits(primitive))
    moves = moves or (isinstance(primitive, Fill) and is_constant(primitive))
    return not moves and any(view.data_type is DataType.FLOAT16 for view in views_of(primitive))
