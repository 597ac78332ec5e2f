"""Which program carries a verb out: schedules are asked in turn, and what none takes is the reference engine's."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.engines.common.program import GENERIC, REPEATED, Route
from anydml.engines.common.repeat import compile_repeat
from anydml.engines.cpu.attention.attention import plan_attention, takes_attention
from anydml.engines.cpu.conv.depthwise import plan_stencil, plan_stencil_padded
from anydml.engines.cpu.conv.direct import plan_direct, plan_direct_padded
from anydml.engines.cpu.conv.direct_nhwc import plan_direct_nhwc
from anydml.engines.cpu.conv.nhwc import plan_nhwc, plan_nhwc_pooling
from anydml.engines.cpu.features import has_float16, has_fma, has_rounding
from anydml.engines.cpu.gemm.selection import plan_gemm, plan_gemm_prepacked
from anydml.engines.cpu.launch.loops import LoopProgram
from anydml.engines.cpu.move.copy import plan_copy, plan_phases
from anydml.engines.cpu.move.gather import plan_gather
from anydml.engines.cpu.move.index_check import CheckedProgram
from anydml.engines.cpu.move.padding import plan_padding, plan_placement
from anydml.engines.cpu.move.reverse import plan_reverse
from anydml.engines.cpu.move.scan import ScanProgram
from anydml.engines.cpu.move.scatter import ScatterProgram
from anydml.engines.cpu.move.top_k import TopProgram
from anydml.engines.cpu.quant.dequantize import plan_dequantize, plan_dequantize_prepacked
from anydml.engines.cpu.quant.weight_only import plan_weight_only, plan_weight_only_prepacked
from anydml.engines.cpu.rows.lines import plan_fill, plan_scaled
from anydml.engines.cpu.rows.lookup import plan_lookup
from anydml.engines.cpu.rows.map import plan_map
from anydml.engines.cpu.rows.reduce import plan_reduce
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.ir.attention import Attend
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan, Scatter, Sort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Primitive

SCHEDULES: dict[type[Primitive], tuple[Route, ...]] = {
    Map: (
        Route("strided phases", plan_phases, "a copy from or to every so manieth element, in several phases"),
        Route("copy", plan_copy, "bits are moved, and none changes"),
        Route("scale", plan_scaled, "a conversion of types, with a scale and a bias at most"),
        Route("fill", plan_fill, "elements are made of their own numbers"),
        Route("byte lookup", plan_lookup, "a table of 256 is read by bytes that lie side by side"),
        Route("gather", plan_gather, "elements, rows or blocks are picked by indices"),
        Route("reverse", plan_reverse, "lines are turned round, each by its length"),
        Route("placement", plan_placement, "indices depend on a dimension each: padding, nearest neighbours"),
        Route("map", plan_map, "any expression: a kernel for each tree and layout of rows"),
    ),
    Reduce: (
        Route(
            "depthwise or pooling stencil",
            plan_stencil,
            "windows of few taps over NCHW planes of FLOAT32 or bytes, no sum over channels",
        ),
        Route(
            "NHWC pooling",
            plan_nhwc_pooling,
            "the maximum, minimum or sum of a window, each channel by itself, in NHWC",
        ),
        Route("dequantise and GEMM", plan_dequantize, "many rows by weights of 4 or 8 bits"),
        Route(
            "GEMM",
            plan_gemm,
            "a sum of products in FLOAT32 or 32-bit integers: small-M for few rows, packed panels otherwise, "
            "implicit im2col for windows",
        ),
        Route("weight-only GEMV", plan_weight_only, "few rows by weights of 4 or 8 bits, in exact integer products"),
        Route("reduction", plan_reduce, "any folds along rows: softmax, normalisations, sums, ARGMAX"),
    ),
    Scan: (Route("scan", ScanProgram.plan, "running sums and products"),),
    Scatter: (Route("scatter", ScatterProgram.plan, "updates where tuples of indices say"),),
    Sort: (Route("top-k", TopProgram.plan, "the first few places of each line's order"),),
    Attend: (Route("attention", plan_attention, "product, softmax and product in one pass over the keys"),),
}
"""The decision table of each verb, in the order in which routes are asked; what none takes is the reference's."""
AHEAD: dict[type[Primitive], tuple[Route, ...]] = {
    Reduce: (
        Route(
            "NHWC implicit GEMM",
            plan_nhwc,
            "a convolution by constant filters whose channels lie last: pixels are rows of A, read in place",
        ),
        Route(
            "direct convolution",
            plan_direct,
            "NCHW, constant filters, output channels that fill vectors: row blocks with their halo",
        ),
        Route(
            "GEMM, prepacked",
            plan_gemm_prepacked,
            "a sum of products with a constant factor: its panels are packed once",
        ),
        Route("weight-only GEMV, prepacked", plan_weight_only_prepacked, "few rows by constant weights of 4 or 8 bits"),
        Route(
            "dequantise and GEMM, prepacked", plan_dequantize_prepacked, "many rows by constant weights of 4 or 8 bits"
        ),
    )
}
"""Routes that have constants packed ahead: they are asked before the others, where something is a constant."""
JOINED: tuple[Route, ...] = (
    Route(
        "depthwise or pooling stencil, padded",
        plan_stencil_padded,
        "padding that only such a stencil reads: margins in scratch",
    ),
    Route(
        "direct convolution, padded",
        plan_direct_padded,
        "padding that only a direct convolution reads: lines in scratch",
    ),
    Route("NHWC direct convolution, padded", plan_direct_nhwc, "padding that only a convolution in NHWC reads"),
    Route("bordered copy", plan_padding, "a copy into the middle of a tensor, and fills around it"),
)
"""Routes that carry several verbs out as one program: they are asked before all others."""

_expand = functools.lru_cache(maxsize=256)(expand)
"""It takes some milliseconds, and models have a few functions in many places."""


def takes(primitive: Primitive) -> bool:
    """Whether there is a schedule for a primitive that could be spelled out."""
    return isinstance(primitive, Attend) and takes_attention(primitive)


def schedule(engine: Engine, primitive: Primitive, constants: frozenset[str]) -> Program:
    """Plan, and find the kernel: compiled, or cached from an earlier process."""
    if isinstance(primitive, Repeat):
        return compile_repeat(engine, primitive, constants, LoopProgram)
    written = primitive.computing(_expand)
    _, program = _first(written, constants)
    if program is None:
        return ReferenceEngine().compile(primitive)
    for check in reversed(written.checks):
        program = CheckedProgram.plan(check, program)
    return program


def _first(written: Primitive, constants: frozenset[str]) -> tuple[Route, Program | None]:
    """The first route that takes a verb, and its program."""
    if not needs_more(written):
        for route in AHEAD.get(type(written), ()) if constants and not written.checks else ():
            if (program := route.plan(written, constants)) is not None:
                return route, program
        for route in SCHEDULES[type(written)]:
            if (program := route.plan(written)) is not None:
                return route, program
    return GENERIC, None


def join(primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
    """One program for all of them; None where there is none."""
    return _first_joined(primitives, constants)[1]


def _first_joined(primitives: Sequence[Primitive], constants: frozenset[str]) -> tuple[Route, Program | None]:
    written = [primitive.computing(_expand) for primitive in primitives]
    for route in () if any(map(needs_more, written)) else JOINED:
        if (program := route.plan(written, constants)) is not None:
            return route, program
    return GENERIC, None


def route(primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
    """The row of the decision tables that verbs are carried out by; they are planned for it once more."""
    if len(primitives) > 1:
        return _first_joined(primitives, constants)[0]
    (primitive,) = primitives
    return REPEATED if isinstance(primitive, Repeat) else _first(primitive.computing(_expand), constants)[0]


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
