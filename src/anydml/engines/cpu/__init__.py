"""The cpu engine: kernels in Numba, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from anydml.engines.cpu.build import has_float16
from anydml.engines.cpu.programs import CopyProgram, GatherProgram, ScanProgram
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.memory import HOST, reserve_host
from anydml.primitives import Fill, IndexedCopy, Map, Reverse, Scan, StridedCopy

if TYPE_CHECKING:
    from anydml.engines.protocol import Program
    from anydml.primitives import Primitive


class CpuEngine:
    """Numba kernels over the host's memory."""

    name = "cpu"
    memory = HOST
    reserve = staticmethod(reserve_host)

    def compile(self, primitive: Primitive) -> Program:
        """Plan, and find the kernel: compiled, or cached from an earlier process."""
        if isinstance(primitive, StridedCopy):
            return CopyProgram.plan(primitive)
        if isinstance(primitive, IndexedCopy):
            return GatherProgram.plan(primitive)
        if isinstance(primitive, Scan):
            if primitive.source.data_type is DataType.FLOAT16 and not has_float16():
                return ReferenceEngine().compile(primitive)
            return ScanProgram.plan(primitive)
        if isinstance(primitive, (Map, Fill, Reverse)):
            return ReferenceEngine().compile(primitive)
        assert_never(primitive)
