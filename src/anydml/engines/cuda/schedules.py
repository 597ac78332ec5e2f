"""The cuda engine's schedules: which program carries a verb out. Those for a pattern are asked first, the generic
last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.common.program import Route
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
    from anydml.engines.common.program import Program
    from anydml.engines.cuda.device import Figures
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


SCHEDULES: dict[type[Primitive], tuple[Route, ...]] = {
    Map: (
        Route("copy", _copied, "bits are moved, and none changes"),
        Route("scale", _scaled, "a conversion of types, with a scale and a bias at most"),
        Route("fill", _filled, "elements are made of their own numbers"),
        Route("gather", GatherProgram.plan, "elements, rows or blocks are picked by indices"),
        Route("reverse", ReverseProgram.plan, "lines are turned round, each by its length"),
        Route("resample", SampleProgram.plan, "each element reads near its place, by a small ratio"),
        Route("map", MapProgram.plan, "any expression: a generated kernel over tiles of all views"),
    ),
    Reduce: (
        Route("weight-only GEMV", WeightsProgram.plan, "few rows by weights of 4 or 8 bits, read as they lie"),
        Route("implicit GEMM", WindowProgram.plan, "a sum of products over windows, on tensor cores"),
        Route("GEMM", ProductProgram.plan, "a sum of products of two matrices, on tensor cores"),
        Route("stencil", TapsProgram.plan, "folds over windows of few taps: pooling, depthwise convolution"),
        Route("reduction", ReduceProgram.plan, "any folds along rows: softmax, normalisations, sums, ARGMAX"),
    ),
    Scan: (Route("scan", ScanProgram.plan, "running sums and products"),),
    Scatter: (
        Route("last-writer scatter", WinnersProgram.plan, "many tuples: the last one of each place is found first"),
        Route("scatter", ScatterProgram.plan, "few tuples, in their order"),
    ),
    Sort: (
        Route("top-k", TopProgram.plan, "the first few places of each line's order"),
        Route("rank", OrderProgram.plan, "all places: an element's rank is counted"),
    ),
    Attend: (Route("attention", AttendProgram.plan, "product, softmax and product in one pass over the keys"),),
}
"""The decision table of each verb: routes for a pattern, which leave what it does not fit; the last one is generic."""
AHEAD = (WindowProgram.plan, ProductProgram.plan, TapsProgram.plan)
"""Those that are told the constants, to lay them out ahead."""


def plan(primitive: Primitive, figures: Figures, constants: frozenset[str] = frozenset()) -> Program:
    """The program of the first route that takes a primitive."""
    return _first(primitive, figures, constants)[1]


def _first(primitive: Primitive, figures: Figures, constants: frozenset[str]) -> tuple[Route, Program]:
    for route in SCHEDULES[type(primitive)]:
        program = route.plan(primitive, figures, *([constants] if route.plan in AHEAD else []))
        if program is not None:
            return route, program
    raise AssertionError("the last route takes everything")


def route(primitive: Primitive, figures: Figures, constants: frozenset[str]) -> Route:
    """The row of the decision table that a primitive is carried out by."""
    return _first(primitive, figures, constants)[0]
