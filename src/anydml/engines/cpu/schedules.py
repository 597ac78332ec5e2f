"""Selection: the decision tables of the cpu engine, one for each verb, and the conditions that their rows have.

A verb is carried out by the first row whose condition holds; what none takes is the reference engine's. Planners are
imported where their condition holds: a product does not import what convolutions are planned with.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.engines.common.routes import GENERIC, REPEATED, Route, first
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_float16, has_fma, has_rounding
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.engines.reference import ReferenceEngine
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import match_rounded_weights, match_weights
from anydml.ir.contraction import ConvolutionAxes, match_contraction, varies_along
from anydml.ir.expressions import FOLDS
from anydml.ir.numerics import expand
from anydml.ir.padded_reads import match_padded, match_padded_reduce
from anydml.ir.patterns import is_copy, is_plain, match_filled, match_lookup, match_scaled
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan, Scatter, Sort
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.engines.cpu.conv.nhwc import NhwcOperands
    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

# Maps


def is_sequence(verb: Map) -> bool:
    """Elements are counted up."""
    found = match_filled(verb)
    return found is not None and bool(found.delta)


def is_byte_lookup(verb: Map) -> bool:
    """A table of 256 is read by bytes that lie side by side."""
    return match_lookup(verb) is not None


def is_fetched(verb: Map) -> bool:
    """Elements, rows or blocks are picked by indices."""
    return verb.value.op == "fetch" and not verb.also


def is_reversed(verb: Map) -> bool:
    """Lines are turned round, each by its length."""
    return is_fetched(verb) and not verb.checks and len(verb.sources) == 2


def is_placed(verb: Map) -> bool:
    """Indices depend on a dimension each: padding, nearest neighbours."""
    return is_fetched(verb) and is_plain(verb)


def is_moved(verb: Map) -> bool:
    """Bits are moved, and none changes."""
    found = match_scaled(verb)
    return is_copy(verb) or (found is not None and found.moves_bits)


def is_woven(verb: Map) -> bool:
    """A copy from or to every so manieth element, in several phases."""
    return is_copy(verb)


# Convolution and pooling


(BATCH, GROUP), CHANNEL, (ROW, PLACE), INPUT, (DOWN, BESIDE) = ConvolutionAxes.of(8, 3)
"""The dimensions of a convolution of planes."""
MOST_TAPS = 64
"""Elements of a window of the stencil."""
LONGEST_WINDOW = 128
"""Taps of a direct convolution: the longest chain of sums of a microkernel."""


def is_stencil(verb: Reduce) -> bool:
    """Windows of at most 64 taps over planes of FLOAT32 or bytes, each plane by itself: depthwise, pooling in NCHW."""
    folds = _folds(verb)
    if len(folds) != 1 or verb.also or not verb.is_by_row or not all(verb.sizes):
        return False
    kept = len(verb.sizes) - verb.depth
    wide = [k for k, size in enumerate(verb.sizes) if size > 1]
    plane, folded = [k for k in wide if k < kept][-2:], [k for k in wide if k >= kept]
    if len(plane) < 2 or not 1 <= len(folded) <= 2 or math.prod(verb.sizes[k] for k in folded) > MOST_TAPS:
        return False
    (term,) = folds[0].args
    if term.op != "mul":
        return term.op == "load"
    over = [varies_along(factor, verb.sources).intersection(range(kept)) for factor in term.args]
    return min(over, key=len).isdisjoint(plane)  # weights are the same at every place of a plane


def is_nhwc_pooling(verb: Reduce) -> bool:
    """The maximum, minimum or sum of windows of FLOAT32, each channel by itself, channels last, on an AVX2: at most 128
    taps, lines of 4 pixels or more, channels by fours, and no windows of 64 channels and more that lie apart.
    """
    folds = _folds(verb)
    is_ours = figures().conv.spreads_pixels and len(folds) == 1 and folds[0].op in ("fold_max", "fold_min", "fold_sum")
    is_ours = is_ours and not verb.also and verb.is_by_row and all(verb.sizes)
    is_ours = is_ours and folds[0].args[0].op == "load" and folds[0].type is DataType.FLOAT32
    return is_ours and import_alone(f"{_PACKAGE}.conv.nhwc").match_nhwc_pooling(verb) is not None


def is_nhwc(verb: Reduce, constants: frozenset[str]) -> bool:
    """A convolution by constant filters in FLOAT32 whose channels lie last, on an AVX2: lines of 4 pixels or more,
    output channels for a vector, 3 steps or more side by side; pixels that share sets of the first cache only where
    windows have several.

    A row of A is a pixel, read in place, so that nothing is packed. Products of one folded dimension are left to GEMM,
    whose panels serve any number of rows.
    """
    found = _filters(verb, constants)
    is_ours = found is not None and verb.depth > 1 and any(verb.target.strides[k] == 1 for k in _channels(found))
    return is_ours and import_alone(f"{_PACKAGE}.conv.nhwc").match_nhwc(verb) is not None


def suits_nhwc(operands: NhwcOperands, *, is_each: bool) -> bool:
    """Whether tiles suit pixels as they lie, for a sum over channels, or where it `is_each` channel by itself.

    Both conditions above end here, since it asks how operands lie: pixels of a line or more, whose channels lie side by
    side in the target, and windows that are walked onward.
    """
    x, target, of = operands.strided(operands.left), operands.target, figures().conv
    is_ours = operands.m >= of.least_places and target.width == 4 and target.along(operands.columns) == 4
    is_ours = is_ours and len(operands.all_strided(operands.finish)) < VIEWS and len(operands.batch) <= OUTER_RANK
    is_ours = is_ours and all(x.strides[k] > 0 for k in operands.folded)
    if is_each:  # channels lie side by side, and no window goes along them
        is_whole = operands.n % 4 == 0 and all(x.strides[k] >= 4 * operands.n for k in operands.folded)
        # Windows that each lie before the next, as the rows of a reduce along an axis do.
        end = max((x.strides[k] * operands.found.sizes[k] for k in operands.folded), default=0)
        is_axis = operands.n >= of.window_channels and all(x.strides[k] >= end for k in operands.rows)
        return is_ours and is_whole and operands.k <= LONGEST_WINDOW and not is_axis
    outer, _, length = operands.pieces
    # Pixels that share sets of the first cache are packed as a product's rows are, if a window has one: 1,024 channels
    # into 256 of eight times 14 x 14 take 9.2 ms as they lie, and 7.6 so (a Xeon).
    is_spread = outer != () or x.along(operands.rows) % of.crowded != 0
    return is_ours and is_spread and operands.n >= figures().gemm.lanes and length >= min(of.least_piece, operands.k)


def is_direct(verb: Reduce, constants: frozenset[str]) -> bool:
    """A convolution in NCHW by constant filters of 2 to 128 taps in FLOAT32, on an AVX2, whose output channels fill
    vectors and whose lines have 4 pixels or more.
    """
    return _is_convolution(verb, constants) and _fills_vectors(verb.sizes)


def _fills_vectors(sizes: tuple[int, ...]) -> bool:
    return (
        sizes[CHANNEL] % figures().lanes_for(sizes[CHANNEL]) == 0
        and 1 < sizes[DOWN] * sizes[BESIDE] <= LONGEST_WINDOW
        and sizes[PLACE] >= figures().conv.least_places
    )


def _is_convolution(verb: Reduce, constants: frozenset[str]) -> bool:
    return verb.depth == 3 and len(verb.sizes) == 8 and _filters(verb, constants) is not None


def _filters(verb: Reduce, constants: frozenset[str]) -> Contraction | None:
    """A sum of products of FLOAT32, of which one factor is a constant, where the CPU reads pixels at no cost."""
    is_ours = figures().conv.spreads_pixels and _is_packed(verb, constants) and all(verb.sizes)
    found = match_contraction(verb) if is_ours else None
    if found is None or found.fold.type is not DataType.FLOAT32 or not found.left.op == found.right.op == "load":
        return None
    tensors = {verb.sources[int(factor.value)].tensor for factor in (found.left, found.right)}
    return found if tensors & constants else None


def _channels(found: Contraction) -> tuple[int, ...]:
    """The dimensions that may be the channels of the output: of either factor, or of both where each has its own."""
    return (*found.rows, *found.columns, *found.batch)


# Padding and what reads it, as one program


def is_padded_stencil(verbs: Sequence[Primitive], constants: frozenset[str]) -> bool:
    """Padding that only a stencil over planes reads: margins in scratch."""
    last = _reader_of_padded(verbs, constants)
    return last is not None and is_stencil(last)


def is_padded_direct(verbs: Sequence[Primitive], constants: frozenset[str]) -> bool:
    """Padding that only a direct convolution in NCHW reads: lines in scratch."""
    last = _reader_of_padded(verbs, constants)
    return last is not None and is_direct(last, constants)


def is_padded_nhwc(verbs: Sequence[Primitive], constants: frozenset[str]) -> bool:
    """Padding that only a convolution in NHWC reads, of 8 channels and lines of 4 pixels or more: lines in scratch."""
    last = _reader_of_padded(verbs, constants)
    if last is None or not _is_convolution(last, constants):
        return False
    is_depthwise = last.sizes[CHANNEL] == last.sizes[INPUT] == 1 < last.sizes[GROUP]
    channels = last.sizes[GROUP if is_depthwise else CHANNEL]
    return channels >= figures().conv.least_lanes and last.sizes[PLACE] >= figures().conv.least_places


def is_bordered(verbs: Sequence[Primitive], _constants: frozenset[str]) -> bool:
    """A copy into the middle of a tensor, and fills of one number around it."""
    padded = match_padded(verbs)
    return padded is not None and not isinstance(padded.outside, View)


def _reader_of_padded(verbs: Sequence[Primitive], constants: frozenset[str]) -> Reduce | None:
    """The last, if it is a reduce, and the others pad a tensor that is not padded ahead, as a constant is."""
    found = match_padded_reduce(verbs)
    return None if found is None or found[1].source.tensor in constants else found[0]


# Products


SUMS = (DataType.FLOAT32, DataType.INT32, DataType.UINT32)
"""Types of sums that there are microkernels for; integers wrap, whatever their sign."""


def is_product(verb: Reduce) -> bool:
    """A sum of products in FLOAT32 or 32-bit integers."""
    found = match_contraction(verb)
    return found is not None and found.fold.type in SUMS and all(verb.sizes) and not fetched(verb.value)


def is_product_by_constant(verb: Reduce, constants: frozenset[str]) -> bool:
    """A sum of products with a constant factor, whose panels are packed once."""
    return _is_packed(verb, constants) and is_product(verb)


def _is_packed(verb: Reduce, constants: frozenset[str]) -> bool:
    """Whether there are constants to be laid out ahead."""
    return bool(constants) and not verb.checks


def is_weight_only(verb: Reduce) -> bool:
    """Few rows by weights of 4 or 8 bits, in exact integer products."""
    is_ours = match_weights(verb) is not None and has_rounding() and has_fma()
    return is_ours and all(verb.sizes) and not fetched(verb.value)


def is_weight_only_by_constant(verb: Reduce, constants: frozenset[str]) -> bool:
    """Few rows by constant weights of 4 or 8 bits, whose words are laid out ahead."""
    return _is_packed(verb, constants) and is_weight_only(verb)


def is_dequantised(verb: Reduce) -> bool:
    """Many rows by weights of 4 or 8 bits, which are dequantised as they are packed."""
    return match_rounded_weights(verb) is not None and all(verb.sizes)


def is_dequantised_constant(verb: Reduce, constants: frozenset[str]) -> bool:
    """Many rows by constant weights of 4 or 8 bits, whose words are laid out ahead."""
    return _is_packed(verb, constants) and is_dequantised(verb)


def _folds(verb: Reduce) -> list[Expr]:
    return [node for node in walk(verb.value) if node.op in FOLDS]


# The other verbs


MOST_WANTED = 64
"""Elements each of which takes its place by a walk past the smaller ones: of more, all are sorted."""


def is_top_k(verb: Sort) -> bool:
    """The first 64 places of each line's order at most."""
    return verb.target.sizes[verb.axis] <= MOST_WANTED


def is_attention(verb: Attend) -> bool:
    """Queries enough for a panel, or a KV cache: product, online softmax and product in one pass over the keys."""
    found: bool = import_alone(f"{_PACKAGE}.attention.attention").takes_attention(verb)
    return found


def is_map(_: Map) -> bool:
    """Any expression: a kernel for each tree and layout of rows."""
    return True


def is_reduce(_: Reduce) -> bool:
    """Any folds along rows: softmax, normalisations, sums, ARGMAX."""
    return True


def is_scan(_: Scan) -> bool:
    """Running sums and products."""
    return True


def is_scatter(_: Scatter) -> bool:
    """Updates where tuples of indices say."""
    return True


# The tables


_ahead = functools.partial(Route, with_constants=True)
"""A row that has constants laid out ahead."""
SCHEDULES: dict[type[Primitive], tuple[Route, ...]] = {
    Map: (
        Route(
            "strided phases",
            is_woven,
            "move.copy:plan_phases",
            "64 planes of 112 x 112 in blocks of 2 take 0.38 ms, and 0.61 by rows of every second element (Xeon)",
        ),
        Route("copy", is_moved, "move.copy:plan_copy"),
        Route("sequence", is_sequence, "rows.sequence:plan_sequence"),
        Route("byte lookup", is_byte_lookup, "rows.lookup:plan_lookup"),
        Route("gather", is_fetched, "move.gather:plan_gather"),
        Route("reverse", is_reversed, "move.reverse:plan_reverse"),
        Route("placement", is_placed, "move.padding:plan_placement"),
        Route("map", is_map, "rows.map:plan_map"),
    ),
    Reduce: (
        _ahead("NHWC implicit GEMM", is_nhwc, "conv.nhwc:plan_nhwc"),
        _ahead("direct convolution", is_direct, "conv.direct:plan_direct"),
        _ahead("GEMM, prepacked", is_product_by_constant, "gemm.prepacked:plan_gemm_prepacked"),
        _ahead(
            "weight-only GEMV, prepacked", is_weight_only_by_constant, "quant.weight_only:plan_weight_only_prepacked"
        ),
        _ahead(
            "dequantise and GEMM, prepacked", is_dequantised_constant, "quant.weight_only:plan_dequantize_prepacked"
        ),
        Route("depthwise or pooling stencil", is_stencil, "conv.depthwise:plan_stencil"),
        Route("NHWC pooling", is_nhwc_pooling, "conv.nhwc:plan_nhwc_pooling"),
        Route("dequantise and GEMM", is_dequantised, "quant.weight_only:plan_dequantize"),
        Route("GEMM", is_product, "gemm.selection:plan_gemm"),
        Route("weight-only GEMV", is_weight_only, "quant.weight_only:plan_weight_only"),
        Route("reduction", is_reduce, "rows.reduce:plan_reduce"),
    ),
    Scan: (Route("scan", is_scan, "move.scan:plan_scan"),),
    Scatter: (Route("scatter", is_scatter, "move.scatter:plan_scatter"),),
    Sort: (Route("top-k", is_top_k, "move.top_k:plan_top_k"),),
    Attend: (
        Route(
            "attention",
            is_attention,
            "attention.attention:plan_attention",
            "12 heads of 512 x 64 take 27.8 ms, and 28.9 by way of their scores; causal ones 16.6, and 31.9 (N1)",
        ),
    ),
}
"""The decision table of each verb, in the order in which routes are asked; what none takes is the reference's."""
JOINED: tuple[Route, ...] = (
    _ahead("depthwise or pooling stencil, padded", is_padded_stencil, "conv.depthwise:plan_stencil_padded"),
    _ahead("direct convolution, padded", is_padded_direct, "conv.direct:plan_direct_padded"),
    _ahead("NHWC direct convolution, padded", is_padded_nhwc, "conv.direct_nhwc:plan_direct_nhwc"),
    _ahead("bordered copy", is_bordered, "move.padding:plan_padding"),
)
"""Routes that carry several verbs out as one program: they are asked before all others."""

_PACKAGE = __name__.rpartition(".")[0]
_expand = functools.lru_cache(maxsize=256)(expand)
"""It takes some milliseconds, and models have a few functions in many places."""


def takes(primitive: Primitive) -> bool:
    """Whether there is a schedule for a primitive that could be spelled out."""
    return isinstance(primitive, Attend) and is_attention(primitive)


def schedule(engine: Engine, primitive: Primitive, constants: frozenset[str]) -> Program:
    """Plan, and find the kernel: compiled, or cached from an earlier process."""
    if isinstance(primitive, Repeat):
        import_alone("anydml.engines.common.repeat", f"{_PACKAGE}.launch.loops")
        from anydml.engines.common.repeat import compile_repeat
        from anydml.engines.cpu.launch.loops import LoopProgram  # which few graphs need

        return compile_repeat(engine, primitive, constants, LoopProgram)
    (written,) = expanded = _expanded([primitive])
    _, program = _first(expanded, constants)
    if program is None:
        return ReferenceEngine().compile(primitive)
    if written.checks:
        checked = import_alone(f"{_PACKAGE}.move.index_check").CheckedProgram
        program = functools.reduce(lambda inner, check: checked.plan(check, inner), reversed(written.checks), program)
    return program


def join(primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
    """One program for all of several; None where there is none."""
    return _first(_expanded(primitives), constants)[1]


def route(primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
    """The row of the decision tables that verbs are carried out by; they are planned for it once more."""
    is_repeated = isinstance(primitives[0], Repeat)
    return REPEATED if is_repeated else _first(_expanded(primitives), constants)[0]


def _expanded(primitives: Sequence[Primitive]) -> list[Primitive]:
    return [primitive.computing(_expand) for primitive in primitives]


def _first(written: Sequence[Primitive], constants: frozenset[str]) -> tuple[Route, Program | None]:
    """The first row that takes one verb, or several as one program, and that."""
    if any(map(needs_more, written)):
        return GENERIC, None
    rows, given = (JOINED, written) if len(written) > 1 else (SCHEDULES[type(written[0])], written[0])
    return first(_PACKAGE, rows, constants, given)


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
