"""The rules, a file each: a recipe becomes another that leaves the same bits in every output, or stays itself.

But for sums and products of floats: in which order an engine adds them up may change with their layout and with what
is computed beside them, as it may on another engine. And but for attention that a graph spells out, of which
`attend` says what may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.graph.rules.absorb import absorb
from anydml.graph.rules.dead import dead
from anydml.graph.rules.direction import direction
from anydml.graph.rules.forward import forward
from anydml.graph.rules.fuse import fuse
from anydml.graph.rules.hoist import hoist
from anydml.graph.rules.known import known
from anydml.graph.rules.narrow import narrow
from anydml.graph.rules.order import order
from anydml.graph.rules.parts import parts
from anydml.graph.rules.rows import rows
from anydml.graph.rules.same import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.graph.recipe import Recipe

RULES: tuple[Callable[[Recipe], Recipe], ...] = (
    dead, same, known, hoist, forward, narrow, absorb, parts, order, rows, fuse, direction,
)  # fmt: skip
"""In the order in which they are tried, again and again until none changes anything."""
