"""Prologue fusion, a part of row fusion: which maps a product of matrices computes as it reads their sources."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.graph.passes.fusion import REPEATED_WORK, inlined, work
from anydml.graph.recipe import distinct_sizes
from anydml.ir.contraction import match_contraction
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from anydml.ir.verbs import Computation, Primitive
    from anydml.ir.views import View


FEW_ROWS = 8
"""Rows up to which a product takes as long as its other factor is read: one row with a scaled and transposed factor of
12 x 64 x 1001 took 1.0 ms in two steps, and takes 0.2 in one (two threads of an Arm Neoverse-N1)."""


def factor(made: Map, reader: Computation, *, is_first: bool) -> Computation | None:
    """A product that computes a map as it reads; None where it had better be apart.

    What comes after a reduce, and is not first, is better computed as that writes.
    """
    # What is only repeated would be computed for each row: parts of cubic samples, 16 times.
    is_wider = any(view.data_type.size_in_bytes < made.target.data_type.size_in_bytes for view in made.sources)
    may = (unpacks(made) and is_wider) or (is_first and _is_read_rarely(made, reader))
    merged = inlined(made, reader) if may else None
    return merged if merged is not None and match_contraction(merged) else None


def unpacks(primitive: Primitive) -> bool:
    """Whether a map writes at least twice what it reads: numbers of few bits, which a product takes as they lie."""
    read, written = sum(map(size_of, primitive.sources)), size_of(primitive.target)
    return isinstance(primitive, Map) and bool(primitive.sources) and 2 * read <= written


def size_of(view: View) -> int:
    """The bytes of a view's elements, each counted once."""
    return math.prod(distinct_sizes(view)) * view.data_type.size_in_bytes


def _is_read_rarely(made: Map, reader: Computation) -> bool:
    """Whether a map is little work on one tensor, and a product multiplies each element with a few others alone."""
    views = [view for view in reader.sources if view.tensor == made.target.tensor]
    times = [math.prod(reader.sizes) // math.prod(distinct_sizes(view)) for view in views]
    tensors = [view for view in made.sources if math.prod(distinct_sizes(view)) > 1]
    is_little = work(made.value) <= REPEATED_WORK and len(tensors) == 1
    return is_little and len(times) == 1 and times[0] <= FEW_ROWS
