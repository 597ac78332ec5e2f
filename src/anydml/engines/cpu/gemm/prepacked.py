"""Prepacked operands: constant factors packed into panels of columns or rows ahead of the first dispatch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.gemm.operands import element_of
from anydml.engines.cpu.quant.dot4 import FOUR
from anydml.enums import DataType
from anydml.ir.contraction import StridedOperand
from anydml.ir.expressions import coordinate, fetch, fold, given, load, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.gemm.microkernel import Tile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import Section
    from anydml.engines.cpu.quant.int8 import Int8Plan
    from anydml.ir.expressions import Expr


WASTE = 8
"""For this many columns one may be filled up with others: few columns that fill no panel stay as they lie."""


class Panels(NamedTuple):
    """A factor in panels: for each its steps, for each of those its columns, or its rows, side by side.

    Bytes come by four steps of each column, and then with the sums of columns, where zero points need those.
    """

    section: Section
    layouts: Mapping[str, Map | Reduce]
    """By the names of stores, to the program."""
    width: int
    """Of an element, in bytes."""
    most: int = 0
    """The most that two neighbours may add up to, so that bytes are small; 0 where nothing asks."""


def lay_out_panels(sides: Operands, width: int, octets: Int8Plan | None, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns; None where the right factor is no constant's elements, or gains nothing.

    In the last panel the last column stands for those that there are not: nobody reads what is computed from them.
    """
    view, count = _constant(sides, octets.right if octets else element_of(sides.right), constants), -(-sides.n // width)
    if view is None or (count * width - sides.n) * WASTE > sides.n:
        return None
    name, kind, together = _name(sides, view), view.data_type, FOUR if octets else 1
    filled = octets.filled if octets else 1
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes = tuple(sides.found.sizes[k] for k in batch)
    packed = -(-sides.k // filled) * (filled // together)
    target = _packed(name, kind, (*sizes, count, packed, width, *([FOUR] if octets else [])))
    outer = tuple(view.strides[k] for k in batch)
    across, along = (view.strides[side[-1]] if side else 0 for side in (sides.columns, sides.folded))
    source = View(view.tensor, kind, (*sizes, sides.n, sides.k), (*outer, across, along), view.offset)
    flips = octets is not None and octets.flips
    if sides.n % width or sides.k % filled or flips:
        layout = Map((source,), target, _element(source, len(sizes), width, together, filled, flips=flips))
    else:
        strides = (*outer, across * width, along * together, across, *([along] if octets else []))
        layout = copy_of(View(view.tensor, kind, target.sizes, strides, view.offset), target)
    layouts: dict[str, Map | Reduce] = {name: layout}
    bytes_of = kind.size_in_bytes
    # A column begins that far after the one before only where a panel does: others are not asked for.
    lies, steps, on = [_lie(sides, target, batch)], [bytes_of * width], [bytes_of * packed * together]
    if octets and octets.zeros:
        total = _packed(f"{name} summed", DataType.INT32, (*sizes, sides.n, 1))
        number = _signed(load(0, kind), flips=flips).to(DataType.INT32)
        layouts = {total.tensor: Reduce((source,), total, fold("sum", number), 1), **layouts}
        lies, steps, on = [*lies, _lie(sides, total, batch)], [*steps, 0], [*on, 4]
    most = octets.most(is_left=False) if octets and octets.small else 0
    if most and sides.k > 1:
        bound = _bound(source, name, flips=flips)
        layouts, lies = {bound.target.tensor: bound, **layouts}, [*lies, _lie(sides, bound.target, ())]
        steps, on = [*steps, 0], [*on, 0]
    return Panels(sides.section((), lies, steps, on), layouts, bytes_of, most if sides.k > 1 else 0)


def lay_out_bytes(sides: Operands, octets: Int8Plan, constants: frozenset[str]) -> Panels | None:
    """A left factor of bytes as it lies, with the most that two neighbours add up to; None where nothing asks."""
    view = _constant(sides, octets.left, constants) if octets.small and sides.k > 1 else None
    if view is None:
        return None
    name = _name(sides, view)
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes, outer = (tuple(some[k] for k in batch) for some in (sides.found.sizes, view.strides))
    across, along = (view.strides[side[-1]] if side else 0 for side in (sides.rows, sides.folded))
    source = View(view.tensor, view.data_type, (*sizes, sides.m, sides.k), (*outer, across, along), view.offset)
    # Rows that lie side by side are packed as such.
    is_across = across == 1
    order = (*range(len(sizes)), len(sizes) + is_across, len(sizes) + (not is_across))
    target = _packed(name, view.data_type, tuple(source.sizes[k] for k in order))
    bound = _bound(source, name)
    layouts: dict[str, Map | Reduce] = {bound.target.tensor: bound, name: copy_of(source.pick(order), target)}
    lies = [_lie(sides, target, batch), _lie(sides, bound.target, ())]
    step, on = (sides.m, 1) if is_across else (1, sides.k)
    return Panels(sides.section((), lies, [step, 0], [on, 0]), layouts, 1, octets.most(is_left=True))


def _bound(source: View, name: str, *, flips: bool = False) -> Reduce:
    """The most that two neighbours along the last dimension add up to, of either sign, in all of a factor of bytes."""
    *outer, steps = source.sizes
    *others, along = source.strides
    halves = tuple(
        View(source.tensor, source.data_type, (*outer, steps // 2), (*others, 2 * along), source.offset + along * i)
        for i in range(2)
    )
    a, b = (_signed(load(i, source.data_type), flips=flips).to(DataType.INT32) for i in range(2))
    above, below = (pick(a, 0) + pick(b, 0) for pick in (maximum, minimum))
    target = _packed(f"{name} bound", DataType.INT32, (1,) * len(source.sizes))
    return Reduce(halves, target, fold("max", maximum(above, 0 - below)), len(source.sizes))


def lay_out_places(sides: Operands, width: int, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns, whose steps lie in the order of the dimensions that are folded; None as above.

    In the last panel the last column stands for those that there are not.
    """
    view = _constant(sides, sides.right, constants)
    if view is None or view.data_type is not DataType.FLOAT32:
        return None
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes, outer = (tuple(some[k] for k in batch) for some in (sides.found.sizes, view.strides))
    steps, along = (tuple(some[k] for k in sides.folded) for some in (sides.found.sizes, view.strides))
    across, count = view.strides[sides.columns[-1]], -(-sides.n // width)
    name = f"{_name(sides, view)} of {width}, places first"
    target = _packed(name, view.data_type, (*sizes, count, *steps, width))
    if sides.n % width:
        source = View(view.tensor, view.data_type, (*sizes, sides.n, *steps), (*outer, across, *along), view.offset)
        rank, last = len(sizes), len(target.sizes) - 1
        column = minimum(coordinate(rank) * width + coordinate(last), given(sides.n - 1, DataType.INT64))
        at = [*map(coordinate, range(rank)), column, *map(coordinate, range(rank + 1, last))]
        layout = Map((source,), target, fetch(0, view.data_type, at))
    else:
        strides = (*outer, across * width, *along, across)
        layout = copy_of(View(view.tensor, view.data_type, target.sizes, strides, view.offset), target)
    section = sides.section((), [_lie(sides, target, batch)], [4 * width], [4 * sides.k])
    return Panels(section, {name: layout}, 4)


def lay_out_rows(sides: Operands, tile: Tile, constants: frozenset[str]) -> Panels | None:
    """Panels of a tile's rows; None where the left factor is no constant's elements of FLOAT32.

    In the last panel the last row stands for those that there are not, and for those past the tile's in each.
    """
    view = _constant(sides, sides.left, constants)
    if view is None or view.data_type is not DataType.FLOAT32:
        return None
    batch = tuple(k for k in sides.batch if view.strides[k])
    sizes, outer = (tuple(some[k] for k in batch) for some in (sides.found.sizes, view.strides))
    across, along = (view.strides[side[-1]] if side else 0 for side in (sides.rows, sides.folded))
    count = -(-sides.m // tile.rows)
    target = _packed(_name(sides, view), view.data_type, (*sizes, count, sides.k, tile.pitch))
    if sides.m % tile.rows or tile.pitch != tile.rows:
        source = View(view.tensor, view.data_type, (*sizes, sides.m, sides.k), (*outer, across, along), view.offset)
        rank = len(sizes)
        row = minimum(coordinate(rank) * tile.rows + coordinate(rank + 2), given(sides.m - 1, DataType.INT64))
        layout = Map(
            (source,), target, fetch(0, view.data_type, [*map(coordinate, range(rank)), row, coordinate(rank + 1)])
        )
    else:
        strides = (*outer, across * tile.rows, along, across)
        layout = copy_of(View(view.tensor, view.data_type, target.sizes, strides, view.offset), target)
    section = sides.section((), [_lie(sides, target, batch)], [4 * tile.pitch], [4 * tile.pitch * sides.k])
    return Panels(section, {target.tensor: layout}, 4)


def _constant(sides: Operands, leaf: Expr, constants: frozenset[str]) -> View | None:
    """The view that a factor is a load of; None where it is no constant's, or other views are of that too."""
    sources = sides.primitive.sources
    view = sources[int(leaf.value)] if leaf.op == "load" else None
    is_alone = view is not None and sum(one.tensor == view.tensor for one in sources) == 1
    return view if view is not None and is_alone and view.tensor in constants else None


def _name(sides: Operands, view: View) -> str:
    name = f"{view.tensor} in panels"
    while name in (*(one.tensor for one in sides.primitive.sources), sides.target.tensor):
        name += " more"
    return name


def _lie(sides: Operands, view: View, batch: tuple[int, ...]) -> StridedOperand:
    """How a store lies whose first dimensions are some of the batch."""
    own, width = dict(zip(batch, view.strides, strict=False)), view.data_type.size_in_bytes
    return StridedOperand(view.tensor, 0, tuple(width * own.get(k, 0) for k in range(len(sides.found.sizes))), width)


def _element(source: View, rank: int, width: int, together: int, filled: int, *, flips: bool) -> Expr:
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
    return where(step < steps, found, 0) if steps % filled else found


def _signed(byte: Expr, *, flips: bool) -> Expr:
    """A byte less 128, signed, where that is how it is multiplied."""
    return (byte ^ 128).bits(DataType.INT8) if flips else byte


def _packed(name: str, kind: DataType, sizes: tuple[int, ...]) -> View:
    strides = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    return View(name, kind, sizes, strides)
