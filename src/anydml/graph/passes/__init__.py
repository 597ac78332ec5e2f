"""The passes: a recipe becomes another that leaves the same bits in every output, or stays itself.

A pass is a function, called as `disable_passes` names it; kin share a file. Those of `PASSES` run in rounds, and
`graph/optimise.py` runs the others once. `draft` and `prologue_fusion` are parts of passes.

But for sums and products of floats: in which order an engine adds them up may change with their layout and with what
is computed beside them, as it may on another engine. And but for attention that a graph spells out, of which
`attention` says what may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.graph.passes.constant_folding import hoisting
from anydml.graph.passes.copy_elimination import copy_propagation, store_forwarding
from anydml.graph.passes.fusion import fusion, part_fusion
from anydml.graph.passes.index_folding import index_folding
from anydml.graph.passes.layout import layout_order, scan_direction
from anydml.graph.passes.narrowing import narrowing
from anydml.graph.passes.redundancy import cse, dce
from anydml.graph.passes.row_fusion import row_fusion

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.graph.recipe import Recipe


PASSES: tuple[Callable[[Recipe], Recipe], ...] = (
    dce,
    cse,
    index_folding,
    hoisting,
    copy_propagation,
    narrowing,
    store_forwarding,
    part_fusion,
    layout_order,
    row_fusion,
    fusion,
    scan_direction,
)
"""In the order in which they are tried, again and again until none changes anything."""
