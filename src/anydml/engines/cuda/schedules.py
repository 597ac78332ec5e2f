"""The cuda engine's schedules: which program carries a verb out. Those for a pattern are asked first, the generic
last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cuda.attention.attention import AttendProgram
from anydml.engines.cuda.conv.implicit_gemm import WindowProgram
from anydml.engines.cuda.conv.stencil import TapsProgram
from anydml.engines.cuda.gemm.gemm import ProductProgram
from anydml.engines.cuda.move.copy import CopyProgram, FillProgram, ScaleProgram
from anydml.engines.cuda.move.gather import GatherProgram
from anydml.engines.cuda.move.reverse import ReverseProgram
from anydml.engines.cuda.move.scan import ScanProgram
from anydml.engines.cuda.move.scatter import ScatterProgram, WinnersProgram
from anydml.engines.cuda.move.sort import OrderProgram, TopProgram
from anydml.engines.cuda.quant.weight_only import WeightsProgram
from anydml.engines.cuda.rows.map import MapProgram
from anydml.engines.cuda.rows.reduce import ReduceProgram
from anydml.engines.cuda.rows.resample import SampleProgram
from anydml.ir.attention import Attend
from anydml.ir.patterns import is_copy, match_filled, match_scaled
from anydml.ir.verbs import Map, Reduce, Scan, Scatter, Sort

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cuda.device import Figures
    from anydml.engines.protocol import Program
    from anydml.ir.verbs import Primitive


__all__ = [
    "AttendProgram",
    "CopyProgram",
    "FillProgram",
    "GatherProgram",
    "MapProgram",
    "OrderProgram",
    "ProductProgram",
    "ReduceProgram",
    "ReverseProgram",
    "SampleProgram",
    "ScaleProgram",
    "ScanProgram",
    "ScatterProgram",
    "TapsProgram",
    "TopProgram",
    "WeightsProgram",
    "WindowProgram",
    "WinnersProgram",
    "plan",
]


def _copied(primitive: Map, figures: Figures) -> CopyProgram | None:
    return CopyProgram.plan(primitive, figures) if is_copy(primitive) else None


def _scaled(primitive: Map, figures: Figures) -> ScaleProgram | CopyProgram | None:
    simple = match_scaled(primitive)
    return None if simple is None else ScaleProgram.plan(simple, figures)


def _filled(primitive: Map, figures: Figures) -> FillProgram | None:
    simple = match_filled(primitive)
    return None if simple is None else FillProgram.plan(simple, figures)


SCHEDULES: dict[type[Primitive], tuple[Callable[..., Program | None], ...]] = {
    Map: (_copied, _scaled, _filled, GatherProgram.plan, ReverseProgram.plan, SampleProgram.plan, MapProgram.plan),
    Reduce: (WeightsProgram.plan, WindowProgram.plan, ProductProgram.plan, TapsProgram.plan, ReduceProgram.plan),
    Scan: (ScanProgram.plan,),
    Scatter: (WinnersProgram.plan, ScatterProgram.plan),
    Sort: (TopProgram.plan, OrderProgram.plan),
    Attend: (AttendProgram.plan,),
}
"""By verb: those for a pattern, which leave what it does not fit, and at last one for everything."""
AHEAD = (WindowProgram.plan, ProductProgram.plan, TapsProgram.plan)
"""Those that are told the constants, to lay them out ahead."""


def plan(primitive: Primitive, figures: Figures, constants: frozenset[str] = frozenset()) -> Program:
    """The first schedule that takes a primitive."""
    for schedule in SCHEDULES[type(primitive)]:
        program = schedule(primitive, figures, *([constants] if schedule in AHEAD else []))
        if program is not None:
            return program
    raise AssertionError("the last schedule takes everything")
