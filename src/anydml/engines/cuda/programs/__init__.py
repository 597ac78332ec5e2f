"""From a primitive to kernels and their arguments: the shape of the work is chosen here, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cuda.programs.attend import AttendProgram
from anydml.engines.cuda.programs.copy import CopyProgram
from anydml.engines.cuda.programs.fill import FillProgram
from anydml.engines.cuda.programs.gather import GatherProgram
from anydml.engines.cuda.programs.map import MapProgram
from anydml.engines.cuda.programs.order import OrderProgram
from anydml.engines.cuda.programs.product import ProductProgram
from anydml.engines.cuda.programs.reduce import ReduceProgram
from anydml.engines.cuda.programs.reverse import ReverseProgram
from anydml.engines.cuda.programs.samples import SampleProgram
from anydml.engines.cuda.programs.scale import ScaleProgram
from anydml.engines.cuda.programs.scan import ScanProgram
from anydml.engines.cuda.programs.scatter import ScatterProgram
from anydml.engines.cuda.programs.taps import TapsProgram
from anydml.engines.cuda.programs.top import TopProgram
from anydml.engines.cuda.programs.weights import WeightsProgram
from anydml.engines.cuda.programs.window import WindowProgram
from anydml.engines.cuda.programs.winners import WinnersProgram
from anydml.ir.attending import Attend
from anydml.ir.choosing import Scatter, Sort
from anydml.ir.patterns import is_copy, match_filled, match_scaled
from anydml.ir.verbs import Map, Reduce, Scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cuda.figures import Figures
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
