"""The cpu engine: kernels in LLVM, compiled for the CPU they run on, at the speed of its memory."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.late_imports import run_alone
from anydml.core.memory import HOST, reserve_host
from anydml.engines.common.engine import Engine, NhwcLayout, Traits
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu import plans
from anydml.engines.cpu.families import columns_of_panel, figures
from anydml.engines.cpu.features import has_dots, has_float16, multiplies_bytes
from anydml.engines.cpu.launch.program import make_open_series, make_series
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import SHORT_BLOCK
from anydml.ir.bounds import are_checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.memory import Buffer
    from anydml.engines.common.program import OpenSeries, Place, Program
    from anydml.engines.common.routes import Route
    from anydml.ir.verbs import Primitive


@functools.cache
def _schedules() -> Any:
    """How verbs are planned: 60 modules that take 40 ms to import, and that a plan from disk does without."""
    return run_alone(functools.partial(importlib.import_module, "anydml.engines.cpu.schedules"))


@functools.cache
def _proofs() -> Any:
    """How programs are proved to stay inside their tensors, which nothing needs that is not asked to."""
    return run_alone(functools.partial(importlib.import_module, "anydml.engines.cpu.bounds"))


def _proved(program: Program, primitives: Sequence[Primitive]) -> Program:
    """A program that was found to stay inside its tensors."""
    _proofs().check_program(program, primitives)
    return program


def _weight_only_rows() -> dict[tuple[DataType, int], int]:
    """Up to how many rows, by their type and the bits of weights, products read packed weights."""
    lanes, of = figures().gemm.lanes, figures().quant
    dots = has_dots(lanes)
    few, few_bytes = (of.few_rows_with_dots, of.few_bytes_with_dots) if dots else (of.few_rows, of.few_bytes)
    rounded = of.rounded_with_dots if dots else of.rounded_without_dots if multiplies_bytes(lanes) else ()
    return {
        **{(DataType.FLOAT32, bits): most for bits, most in few.items()},
        (DataType.INT8, 4): few[4],
        (DataType.INT8, 8): few_bytes,
        **{(DataType.INT8, bits): sys.maxsize for bits in rounded},
    }


class CpuEngine(Engine):
    """Compiled kernels over the host's memory."""

    name = "cpu"
    memory = HOST
    plans = plans
    has_open_programs = True

    def __init__(self) -> None:
        has_float16()  # asks LLVM, which nothing may interrupt: engines are made on a thread of their own
        get_num_threads()  # imports what a signal handler may need, and is not asked for the first time elsewhere
        nhwc = NhwcLayout(
            needs_constant_weights=True,
            conflict_bytes=figures().conv.crowded,
            includes_outputs=True,
            needs_both_sides=True,
        )
        self.traits = Traits(
            weight_only_rows=_weight_only_rows(),
            weight_only_blocks={4: SHORT_BLOCK} if columns_of_panel(4) else {},
            fuses_dequantization=True,
            uses_lookup_tables=True,
            nhwc={DataType.FLOAT32: nhwc} if figures().conv.spreads_pixels else {},
        )

    def reserve(self, size: int) -> Buffer:
        """So many bytes of the host's memory."""
        return reserve_host(size)

    def takes(self, primitive: Primitive) -> bool:
        """Whether there is a schedule for a primitive that could be spelled out."""
        return isinstance(primitive, Attend) and bool(_schedules().takes(primitive))

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan, and find the kernel: compiled, or cached from an earlier process."""
        program: Program = _schedules().schedule(self, primitive, constants)
        return _proved(program, [primitive]) if are_checked() else program

    def route(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
        """The row of the decision tables that verbs are carried out by."""
        found: Route = _schedules().route(primitives, constants)
        return found

    def join(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
        """Planes with padding, and the windows that walk over them, as one."""
        program: Program | None = _schedules().join(primitives, constants)
        return _proved(program, primitives) if program is not None and are_checked() else program

    def series(self, programs: Sequence[Program], places: Sequence[Mapping[str, Place]]) -> Callable[..., Any] | None:
        """One native call for all steps, where each of them is a kernel and its record."""
        return make_series(programs, places)

    def open_series(self, programs: Sequence[Program], places: Sequence[Mapping[str, Place]]) -> OpenSeries | None:
        """The same of records with words that are open sizes."""
        return make_open_series(programs, places)
