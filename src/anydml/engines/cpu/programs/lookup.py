"""Bytes looked up in a table, planned: rows of one kernel, by the walk of maps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.lookup import can_look_up, make_lookup
from anydml.engines.cpu.kernels.rows import FIXED, OUTER_RANK, make_rows
from anydml.engines.cpu.programs.mapped import MapProgram
from anydml.ir.patterns import match_lookup
from anydml.ir.plan import Loops, simplify

if TYPE_CHECKING:
    from anydml.ir.verbs import Map

SEGMENT = 32 * 1024
"""Bytes of a row that one unit of work goes through."""


def plan_lookup(primitive: Map) -> MapProgram | None:
    """Look up bytes that lie side by side, as what is looked up does; None for others."""
    found = match_lookup(primitive)
    if found is None or not can_look_up() or not all(primitive.sizes):
        return None
    views = (found.byte, found.table, primitive.target)
    rank = len(primitive.sizes)
    strides = (found.byte.strides, (0,) * rank, primitive.target.strides)
    loops = simplify(Loops(primitive.sizes, strides, tuple(view.offset for view in views)), len(views) - 1)
    if not loops.sizes or [row[-1] for row in loops.strides] != [1, 0, 1]:
        return None
    # Rows that follow one another are taken at once, as elements of what the walk takes for a row.
    *outer, count = loops.sizes
    length, element = (outer.pop(), len(loops.sizes) - 2) if outer else (0, 0)
    length, count = (count, length) if length else (0, count)
    if len(outer) > OUTER_RANK:
        return None
    steps = [row[element] for row in loops.strides]
    segment = max(SEGMENT // length, 1) if length else SEGMENT
    number = math.prod(outer)
    table = [word for k, size in enumerate(outer) for word in (size, *(row[k] for row in loops.strides))]
    get_kernel("rows", make_rows)
    return MapProgram(
        get_kernel("map of a table", make_lookup),
        tuple(view.tensor for view in views),
        loops.offsets,
        (len(views), HEADER + FIXED + 2 * len(views) + 1, count, number, segment, len(outer)),
        (*steps, length, *table),
        number * -(-count // segment),
        2 * loops.count,
    )
