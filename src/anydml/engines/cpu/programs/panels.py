"""Right factors of contractions that are constants, laid out ahead: panels of columns, as tiles read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.octets import FOUR
from anydml.engines.cpu.programs.sides import Lie, element_of
from anydml.enums import DataType
from anydml.ir.expressions import coordinate, fetch, fold, given, load, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.programs.octets import OctetPlan
    from anydml.engines.cpu.programs.sides import Section, Sides
    from anydml.ir.expressions import Expr

WASTE = 8
"""For this many columns one may be filled up with others: few columns that fill no panel stay as they lie."""


class Panels(NamedTuple):
    """A right factor in panels: for each its steps, for each of those its columns side by side.

    Bytes come by four steps of each column, and then with the sums of columns, where zero points need those.
    """

    section: Section
    layouts: Mapping[str, Map | Reduce]
    """By the names of stores, to the program."""
    width: int
    """Of an element, in bytes."""


def lay_out_panels(sides: Sides, width: int, octets: OctetPlan | None, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns; None where the right factor is no constant's elements, or gains nothing.

    In the last panel the last column stands for those that there are not: nobody reads what is computed from them.
    """
    leaf, sources = octets.right if octets else element_of(sides.right), sides.primitive.sources
    if leaf.op != "load":
        return None
    view, count = sources[int(leaf.value)], -(-sides.n // width)
    tensors = [one.tensor for one in sources]
    if view.tensor not in constants or tensors.count(view.tensor) > 1 or (count * width - sides.n) * WASTE > sides.n:
        return None
    name = f"{view.tensor} in panels"
    while name in (*tensors, sides.target.tensor):
        name += " more"
    kind, together = view.data_type, FOUR if octets else 1
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes = tuple(sides.found.sizes[k] for k in batch)
    packed = -(-sides.k // together)
    target = _packed(name, kind, (*sizes, count, packed, width, *([FOUR] if octets else [])))
    outer = tuple(view.strides[k] for k in batch)
    across, along = (view.strides[side[-1]] if side else 0 for side in (sides.columns, sides.folded))
    source = View(view.tensor, kind, (*sizes, sides.n, sides.k), (*outer, across, along), view.offset)
    flips = octets is not None and octets.flips
    if sides.n % width or sides.k % together or flips:
        layout = Map((source,), target, _element(source, len(sizes), width, together, flips=flips))
    else:
        strides = (*outer, across * width, along * together, across, *([along] if octets else []))
        layout = copy_of(View(view.tensor, kind, target.sizes, strides, view.offset), target)
    layouts: dict[str, Map | Reduce] = {name: layout}
    bytes_of = kind.size_in_bytes

    def lie(of: View) -> Lie:
        own = dict(zip(batch, of.strides, strict=False))
        wide = of.data_type.size_in_bytes
        return Lie(of.tensor, 0, tuple(wide * own.get(k, 0) for k in range(len(view.strides))), wide)

    # A column begins that far after the one before only where a panel does: others are not asked for.
    lies, steps, on = [lie(target)], [bytes_of * width], [bytes_of * packed * together]
    if octets and octets.zeros:
        total = _packed(f"{name} summed", DataType.INT32, (*sizes, sides.n, 1))
        number = _signed(load(0, kind), flips=flips).to(DataType.INT32)
        layouts = {total.tensor: Reduce((source,), total, fold("sum", number), 1), **layouts}
        lies, steps, on = [*lies, lie(total)], [*steps, 0], [*on, 4]
    return Panels(sides.section((), lies, steps, on), layouts, bytes_of)


def _element(source: View, rank: int, width: int, together: int, *, flips: bool) -> Expr:
    """The element of a place in panels: by batch, panel, step and column, and by step again where some are together."""
    *_, columns, steps = source.sizes
    column = coordinate(rank) * width + coordinate(rank + 2)
    step = coordinate(rank + 1)
    if together > 1:
        step = step * together + coordinate(rank + 3)
    at = [minimum(x, given(size - 1, DataType.INT64)) for x, size in ((column, columns), (step, steps))]
    found = _signed(fetch(0, source.data_type, [*map(coordinate, range(rank)), *at]), flips=flips)
    found = found.bits(source.data_type)
    # Whatever lies past the end of the steps is 0.
    return where(step < steps, found, 0) if steps % together else found


def _signed(byte: Expr, *, flips: bool) -> Expr:
    """A byte less 128, signed, where that is how it is multiplied."""
    return (byte ^ 128).bits(DataType.INT8) if flips else byte


def _packed(name: str, kind: DataType, sizes: tuple[int, ...]) -> View:
    strides = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    return View(name, kind, sizes, strides)
