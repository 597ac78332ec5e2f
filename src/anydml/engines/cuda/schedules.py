"""Selection: the decision tables of the cuda engine, one for each verb, and the conditions that their rows have.

A verb is carried out by the first row whose condition holds; the last one of each takes everything. Planners are
imported where their condition holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.guards import cached
from anydml.engines.common.routes import Route, Tables
from anydml.engines.cuda import is_interpreted
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import match_weights
from anydml.ir.contraction import match_contraction
from anydml.ir.numerics import expand
from anydml.ir.patterns import is_copy, match_filled, match_scaled
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Scan, Scatter, Sort

if TYPE_CHECKING:
    from anydml.engines.cuda.device import Figures
    from anydml.ir.contraction import Contraction
    from anydml.ir.verbs import Primitive

# Maps


def is_moved(verb: Map, _: Figures) -> bool:
    """Bits are moved, and none changes."""
    return is_copy(verb)


def is_scaled(verb: Map, _: Figures) -> bool:
    """A conversion of types, with a scale and a bias at most."""
    return match_scaled(verb) is not None


def is_filled(verb: Map, _: Figures) -> bool:
    """Elements are made of their own numbers."""
    return match_filled(verb) is not None


def is_fetched(verb: Map, _: Figures) -> bool:
    """Elements, rows or blocks are picked by indices."""
    return verb.value.op == "fetch" and not verb.also


def is_reversed(verb: Map, _: Figures) -> bool:
    """Lines are turned round, each by its length."""
    return verb.value.op == "fetch" and not verb.also and not verb.checks


def is_resampled(verb: Map, _: Figures) -> bool:
    """Each element reads one source near its place, by a small ratio."""
    return not verb.checks and len(verb.sources) == 1 and all(verb.sizes)


def is_map(_verb: Map, _: Figures) -> bool:
    """Any expression: a generated kernel over tiles of all views."""
    return True


# Products, convolution, reductions


MOST_TAPS = 64
"""Taps: more are a row, and are folded as such."""
_expand = cached(256)(expand)
"""Models have a few functions in many places."""


def is_weight_only(verb: Reduce, _: Figures) -> bool:
    """Few rows by weights of 4 or 8 bits, read as they lie."""
    is_ours = not verb.checks and not verb.also and all(verb.sizes)
    return is_ours and match_weights(verb.computing(_expand)) is not None


def is_prepacked(verb: Reduce, figures: Figures, _: frozenset[str]) -> bool:
    """Few rows by constant weights of 4 bits, prepacked for tensor cores."""
    return is_weight_only(verb, figures)


def is_windowed(verb: Reduce, _: Figures, __: frozenset[str]) -> bool:
    """A sum of products over windows that overlap, reach outside or lie apart, on tensor cores."""
    found = _contraction(verb)
    return found is not None and found.fold.type is DataType.FLOAT32


def is_product(verb: Reduce, _: Figures, __: frozenset[str]) -> bool:
    """A sum of products of two matrices, on tensor cores."""
    return _contraction(verb) is not None and all(node.op != "fetch" for node in walk(verb.value))


def _contraction(verb: Reduce) -> Contraction | None:
    found = match_contraction(verb.computing(_expand))
    return found if found is not None and found.folded else None


def is_stencil(verb: Reduce, _: Figures, __: frozenset[str]) -> bool:
    """Folds over windows of 2 to 64 taps: pooling, depthwise convolution."""
    is_ours = not verb.checks and verb.is_by_row and all(verb.sizes) and len(verb.sizes) > verb.depth
    return is_ours and 1 < math.prod(verb.rows) <= MOST_TAPS


def is_reduce(_verb: Reduce, _: Figures) -> bool:
    """Any folds along rows: softmax, normalisations, sums, ARGMAX."""
    return True


# The other verbs


def is_scan(_verb: Scan, _: Figures) -> bool:
    """Running sums and products."""
    return True


LEAST_TUPLES = 16 if not is_interpreted() else 3
"""Fewer are written one after the other."""
LONG_BLOCK = 16 * 1024
"""Elements of a block from which on there are lanes enough for tuples one after the other, up to 16 for each."""
MOST_PLACES = 2**28
"""Places that may be claimed: each takes 4 bytes."""


def has_many_tuples(verb: Scatter, _: Figures) -> bool:
    """From 16 tuples on, or 256 of long blocks: the last one of each place is found first."""
    batches, tuples, block = verb.walks()
    places = math.prod(verb.target.sizes[verb.indexed])
    least = LEAST_TUPLES if block.count < LONG_BLOCK else LEAST_TUPLES * LEAST_TUPLES
    return tuples.count >= least and block.count > 0 and 0 < batches.count * places <= MOST_PLACES


def is_scatter(_verb: Scatter, _: Figures) -> bool:
    """Few tuples, in their order."""
    return True


def is_top_k(verb: Sort, _: Figures) -> bool:
    """The first few places of each line's order, of elements of at most 32 bits."""
    return verb.source.data_type.size_in_bytes <= 4


def is_sort(_verb: Sort, _: Figures) -> bool:
    """All places: an element's rank is counted."""
    return True


def is_attention(_verb: Attend, _: Figures) -> bool:
    """Product, online softmax and product in one pass over the keys."""
    return True


# The tables


SCHEDULES: dict[type[Primitive], tuple[Route, ...]] = {
    Map: (
        Route("copy", is_moved, "move.copy:CopyProgram.plan"),
        Route("scale", is_scaled, "move.copy:ScaleProgram.plan"),
        Route("fill", is_filled, "move.copy:FillProgram.plan"),
        Route("gather", is_fetched, "move.gather:GatherProgram.plan"),
        Route("reverse", is_reversed, "move.reverse:ReverseProgram.plan"),
        Route("resample", is_resampled, "rows.resample:ResampleProgram.plan"),
        Route(
            "map",
            is_map,
            "rows.map:MapProgram.plan",
            "GELU is at 0.88 of copy speed in FLOAT32 and at 0.93 in FLOAT16 (H200)",
        ),
    ),
    Reduce: (
        Route(
            "int4 mma GEMV",
            is_prepacked,
            "quant.int4_mma:Int4MmaProgram.plan",
            "a row of FLOAT16 by 4096 x 14336 takes 11.1 us, by 14336 x 4096 12.0, by 2048^2 2.4 (H200)",
            with_constants=True,
        ),
        Route("weight-only GEMV", is_weight_only, "quant.weight_only:WeightOnlyProgram.plan"),
        Route("implicit GEMM", is_windowed, "conv.implicit_gemm:ImplicitGemmProgram.plan", with_constants=True),
        Route("GEMM", is_product, "gemm.gemm:GemmProgram.plan", with_constants=True),
        Route("stencil", is_stencil, "conv.stencil:StencilProgram.plan", with_constants=True),
        Route("reduction", is_reduce, "rows.reduce:ReduceProgram.plan"),
    ),
    Scan: (Route("scan", is_scan, "move.scan:ScanProgram.plan"),),
    Scatter: (
        Route("last-writer scatter", has_many_tuples, "move.scatter:LastWriterProgram.plan"),
        Route("scatter", is_scatter, "move.scatter:ScatterProgram.plan"),
    ),
    Sort: (
        Route("top-k", is_top_k, "move.sort:TopKProgram.plan"),
        Route("rank", is_sort, "move.sort:RankProgram.plan"),
    ),
    Attend: (
        Route(
            "attention",
            is_attention,
            "attention.attention:AttentionProgram.plan",
            "32 heads of 2048 x 128 in FLOAT16 take 153 us, and PyTorch 204 by its flash attention (H200)",
        ),
    ),
}
"""The decision table of each verb: routes for a pattern, which leave what it does not fit; the last one is generic."""
TABLES = Tables(__name__.rpartition(".")[0], SCHEDULES)
