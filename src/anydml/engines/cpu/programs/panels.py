"""Right factors of contractions that are constants, laid out ahead: panels of columns, as tiles read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.programs.sides import Lie
from anydml.enums import DataType
from anydml.ir.expressions import coordinate, fetch, given, minimum
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.engines.cpu.programs.sides import Section, Sides

WASTE = 8
"""For this many columns one may be filled up with others: few columns that fill no panel stay as they lie."""


class Panels(NamedTuple):
    """A right factor in panels: for each its steps, for each of those its columns side by side."""

    section: Section
    name: str
    """Of the store, to the program."""
    layout: Map


def lay_out_panels(sides: Sides, width: int, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns; None where the right factor is no constant's elements, or gains nothing.

    In the last panel the last column stands for those that there are not: nobody reads what is computed from them.
    """
    leaf, sources = sides.right, sides.primitive.sources
    tensors = [view.tensor for view in sources]
    if leaf.op != "load" or sides.lie(leaf).width != 4:
        return None
    view = sources[int(leaf.value)]
    count = -(-sides.n // width)
    if view.tensor not in constants or tensors.count(view.tensor) > 1 or (count * width - sides.n) * WASTE > sides.n:
        return None
    name = f"{view.tensor} in panels"
    while name in (*tensors, sides.target.tensor):
        name += " more"
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes = tuple(sides.found.sizes[k] for k in batch)
    target = _packed(name, view.data_type, (*sizes, count, sides.k, width))
    outer = tuple(view.strides[k] for k in batch)
    across, along = (view.strides[side[-1]] if side else 0 for side in (sides.columns, sides.folded))
    if sides.n % width:
        source = View(view.tensor, view.data_type, (*sizes, sides.n, sides.k), (*outer, across, along), view.offset)
        rank = len(batch)
        column = minimum(coordinate(rank) * width + coordinate(rank + 2), given(sides.n - 1, DataType.INT64))
        at = [*map(coordinate, range(rank)), column, coordinate(rank + 1)]
        layout = Map((source,), target, fetch(0, view.data_type, at))
    else:
        strides = (*outer, across * width, along, across)
        layout = copy_of(View(view.tensor, view.data_type, target.sizes, strides, view.offset), target)
    own = dict(zip(batch, target.strides, strict=False))
    lie = Lie(name, 0, tuple(4 * own.get(k, 0) for k in range(len(view.strides))), 4)
    # A column begins that far after the one before only where a panel does: others are not asked for.
    return Panels(sides.section((), [lie], [4 * width], [4 * sides.k]), name, layout)


def _packed(name: str, kind: DataType, sizes: tuple[int, ...]) -> View:
    strides = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    return View(name, kind, sizes, strides)
