"""Which program carries a verb out: schedules are asked in turn, and what none takes is the reference engine's."""

from __future__ import annotations

import functools
from itertools import chain
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.attention.attention import plan_attend, takes_attend
from anydml.engines.cpu.conv.depthwise import plan_framed, plan_taps
from anydml.engines.cpu.conv.direct import plan_bands, plan_padded_bands
from anydml.engines.cpu.conv.direct_nhwc import plan_pixel_bands
from anydml.engines.cpu.conv.nhwc import plan_folded_pixels, plan_pixels
from anydml.engines.cpu.features import has_float16, has_fma, has_rounding
from anydml.engines.cpu.gemm.selection import plan_contract, plan_panels
from anydml.engines.cpu.launch.loops import LoopProgram
from anydml.engines.cpu.move.copy import plan_copy, plan_phases
from anydml.engines.cpu.move.gather import plan_gather
from anydml.engines.cpu.move.index_check import CheckedProgram
from anydml.engines.cpu.move.padding import plan_bordered, plan_placed
from anydml.engines.cpu.move.reverse import plan_reverse
from anydml.engines.cpu.move.scan import ScanProgram
from anydml.engines.cpu.move.scatter import ScatterProgram
from anydml.engines.cpu.move.top_k import TopProgram
from anydml.engines.cpu.quant.dequantize import plan_unpacked, plan_unpacked_ahead
from anydml.engines.cpu.quant.weight_only import plan_weights, plan_weights_ahead
from anydml.engines.cpu.rows.lines import plan_fill, plan_scaled
from anydml.engines.cpu.rows.lookup import plan_lookup
from anydml.engines.cpu.rows.map import plan_map
from anydml.engines.cpu.rows.reduce import plan_reduce
from anydml.engines.reference import ReferenceEngine
from anydml.engines.repeated import compile_repeat
from anydml.enums import DataType
from anydml.ir.attention import Attend
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan, Scatter, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.protocol import Engine, Program
    from anydml.ir.verbs import Primitive

SCHEDULES: dict[type[Primitive], tuple[Callable[[Any], Program | None], ...]] = {
    Map: (
        plan_phases,
        plan_copy,
        plan_scaled,
        plan_fill,
        plan_lookup,
        plan_gather,
        plan_reverse,
        plan_placed,
        plan_map,
    ),
    Reduce: (plan_taps, plan_folded_pixels, plan_unpacked, plan_contract, plan_weights, plan_reduce),
    Scan: (ScanProgram.plan,),
    Scatter: (ScatterProgram.plan,),
    Sort: (TopProgram.plan,),
    Attend: (plan_attend,),
}
"""The ways to carry a verb out, in the order in which they are asked; what none takes is the reference's."""
AHEAD: dict[type[Primitive], tuple[Callable[[Any, frozenset[str]], Program | None], ...]] = {
    Reduce: (plan_pixels, plan_bands, plan_panels, plan_weights_ahead, plan_unpacked_ahead)
}
"""Ways that have some of the sources, which are constants, laid out ahead: they are asked before the others."""
JOINED: tuple[Callable[[Sequence[Primitive], frozenset[str]], Program | None], ...] = (
    plan_framed,
    plan_padded_bands,
    plan_pixel_bands,
    plan_bordered,
)
"""Ways to carry several verbs out together: planes with padding and the windows that walk over them, or a tensor with a
number around it."""

_expand = functools.lru_cache(maxsize=256)(expand)
"""It takes some milliseconds, and models have a few functions in many places."""


def takes(primitive: Primitive) -> bool:
    """Whether there is a schedule for a primitive that could be spelled out."""
    return isinstance(primitive, Attend) and takes_attend(primitive)


def schedule(engine: Engine, primitive: Primitive, constants: frozenset[str]) -> Program:
    """Plan, and find the kernel: compiled, or cached from an earlier process."""
    if isinstance(primitive, Repeat):
        return compile_repeat(engine, primitive, constants, LoopProgram)
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


def join(primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
    """One program for all of them; None where there is none."""
    written = [primitive.computing(_expand) for primitive in primitives]
    if any(map(needs_more, written)):
        return None
    return next((program for plan in JOINED if (program := plan(written, constants)) is not None), None)


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
