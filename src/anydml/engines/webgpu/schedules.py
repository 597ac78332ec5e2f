"""Selection: the decision tables of the webgpu engine, one for each verb. The last row of each takes everything.

But for attention: what its row does not take is spelled out in other verbs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.common.routes import Route, Tables
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import match_weights
from anydml.ir.contraction import match_contraction
from anydml.ir.patterns import is_copy
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Scan, Scatter, Sort

if TYPE_CHECKING:
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Primitive


def is_moved(verb: Map, _: Memory) -> bool:
    """Bits are moved, and none changes."""
    return is_copy(verb) and not verb.checks


def is_fetched(verb: Map, _: Memory) -> bool:
    """Elements, rows or blocks are picked by indices."""
    return verb.value.op == "fetch" and not verb.also


def is_map(_verb: Map, _: Memory) -> bool:
    """Any expression: 16 bytes of each tensor a step, an element, or a word of narrow ones."""
    return True


MOST_ROWS = 8
"""Of a product that is made as its right matrix is read: all are written out."""


def has_few_rows(verb: Reduce, _: Memory) -> object:
    """A sum of products of at most 8 rows by columns of any weights, of 4 and 8 bits too: all rows read them once."""
    if verb.checks or not verb.is_by_row or not all(verb.sizes):
        return False
    found = match_contraction(verb)
    is_narrow = found is not None and found.folded and min(found.shape[:2]) <= MOST_ROWS
    return is_narrow or match_weights(verb) is not None


def has_narrow_weights(verb: Reduce, _: Memory) -> bool:
    """More rows by weights of 4 or 8 bits, each dequantised as it is read: in register tiles."""
    return not verb.checks and match_weights(verb) is not None


def is_windowed(verb: Reduce, _: Memory, __: frozenset[str]) -> bool:
    """A sum of products over windows, or over several dimensions: in register tiles."""
    return _has_sides(verb)


def is_product(verb: Reduce, _: Memory) -> bool:
    """A sum of products of two matrices: in register tiles."""
    return _has_sides(verb)


def _has_sides(verb: Reduce) -> bool:
    found = match_contraction(verb)
    return found is not None and bool(found.folded and found.rows and found.columns)


MOST_TAPS = 64
"""Taps: more are a row, and are folded as such."""


def is_stencil(verb: Reduce, _: Memory) -> bool:
    """Folds over windows of 2 to 64 taps: pooling, depthwise convolution."""
    is_ours = not verb.checks and verb.is_by_row and all(verb.sizes) and len(verb.sizes) > verb.depth
    return is_ours and 1 < math.prod(verb.rows) <= MOST_TAPS


def is_reduce(_verb: Reduce, _: Memory) -> bool:
    """Any folds along rows: an invocation a row, or a workgroup a row."""
    return True


LEAST_LINE = 64
"""Elements of a line that are worth a workgroup."""
MANY_LINES = 4096
"""Neighbours that keep a device busy with an invocation each."""


def is_tiled(verb: Scan, memory: Memory) -> bool:
    """Lines of 64 elements and more, but for many that lie side by side: by tiles, each of a workgroup."""
    length, lines = verb.target.sizes[verb.axis], math.prod(verb.target.sizes) // max(verb.target.sizes[verb.axis], 1)
    if length < LEAST_LINE or (lines >= MANY_LINES and verb.source.strides[verb.axis] != 1):
        return False
    has_range = "shader-f64" in memory.gpu.features or not verb.source.data_type.is_float
    return has_range or verb.function == "sum"


def is_scan(_verb: Scan, _: Memory) -> bool:
    """Running sums and products: an invocation a line, one element after the other."""
    return True


LEAST_TUPLES = 16
"""Fewer are written one after the other."""


def has_many_tuples(verb: Scatter, memory: Memory) -> bool:
    """From 16 tuples on: the last one of each place is found first."""
    rank, batch = len(verb.indices.sizes) - 1, verb.batch_rank
    places = math.prod(verb.target.sizes[: batch + verb.tuple_size])
    elements = math.prod(verb.updates.sizes)
    is_room = 0 < 4 * places <= memory.gpu.largest_binding and 0 < elements < 2**32
    return math.prod(verb.indices.sizes[batch:rank]) >= LEAST_TUPLES and is_room


def is_scatter(_verb: Scatter, _: Memory) -> bool:
    """Few tuples, in their order: an invocation an element of the blocks."""
    return True


LONG_LINE = 64
"""Elements of a line from which on it is sorted in runs."""


def is_long(verb: Sort, memory: Memory) -> bool:
    """Lines of more than 64 elements: runs of 1,024 in workgroup memory, merged two by two."""
    size = math.prod(verb.source.sizes) * 12
    return verb.source.sizes[verb.axis] > LONG_LINE and all(verb.target.sizes) and size <= memory.gpu.largest_binding


def is_sort(_verb: Sort, _: Memory) -> bool:
    """Short lines: an element's rank is counted."""
    return True


FEWEST_QUERIES = 16
"""Fewer are quicker as products of few rows, which keep more of the device busy."""
WIDEST_VALUE = 256
"""Numbers: sums of values of more have no room in registers."""
LONGEST_SCORE = 200
"""Nodes of a score, whose text is there for each score of an invocation."""


def is_attention(verb: Attend, _: Memory) -> bool:
    """Attention of FLOAT32 or FLOAT16 from 16 queries on, with values of at most 256 numbers."""
    kinds = {view.data_type for view in (*verb.sources[:3], verb.target)}
    nodes = list(walk(verb.seen))
    is_known = kinds <= {DataType.FLOAT16, DataType.FLOAT32} and not any(node.op == "fetch" for node in nodes)
    is_large = verb.scores[-2] >= FEWEST_QUERIES and all(verb.scores) and min(verb.depths) > 0
    return is_known and is_large and verb.depths[1] <= WIDEST_VALUE and len(nodes) <= LONGEST_SCORE


def takes(primitive: Primitive, memory: Memory) -> bool:
    """Whether there is a schedule for a verb that could be spelled out in others."""
    return isinstance(primitive, Attend) and is_attention(primitive, memory)


SCHEDULES: dict[type[Primitive], tuple[Route, ...]] = {
    Map: (
        Route("copy", is_moved, "move.copy:plan_copy"),
        Route("gather", is_fetched, "move.gather:plan_gather"),
        Route("map", is_map, "rows.map:plan_map"),
    ),
    Reduce: (
        Route("GEMV", has_few_rows, "gemm.few_rows:plan_few_rows"),
        Route("weight-only GEMM", has_narrow_weights, "quant.weight_only:plan_weights"),
        Route("implicit GEMM", is_windowed, "conv.implicit_gemm:plan_windows", with_constants=True),
        Route("GEMM", is_product, "gemm.gemm:plan_product"),
        Route("stencil", is_stencil, "conv.stencil:plan_stencil"),
        Route("reduction", is_reduce, "rows.reduce:plan_reduce"),
    ),
    Attend: (Route("attention", is_attention, "attention.attention:plan_attention"),),
    Scan: (
        Route("tiled scan", is_tiled, "move.scan:plan_tiles"),
        Route("scan", is_scan, "move.scan:plan_scan"),
    ),
    Scatter: (
        Route("last-writer scatter", has_many_tuples, "move.scatter:plan_winners"),
        Route("scatter", is_scatter, "move.scatter:plan_scatter"),
    ),
    Sort: (
        Route("merge sort", is_long, "move.sort:plan_runs"),
        Route("rank", is_sort, "move.sort:plan_sort"),
    ),
}
TABLES = Tables(__name__.rpartition(".")[0], SCHEDULES)
