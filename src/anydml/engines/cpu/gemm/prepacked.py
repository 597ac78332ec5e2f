"""Prepacked operands: constant factors packed into panels of columns or rows ahead of the first dispatch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.gemm.blocking import FOUR, tile_for
from anydml.engines.cpu.gemm.operands import element_of
from anydml.engines.cpu.gemm.selection import Supplied, int8_of, operands_of, plan_tiles, reads_once, tile_of
from anydml.ir.contraction import StridedOperand
from anydml.ir.expressions import coordinate, fetch, fold, given, load, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.engines.cpu.launch.program import KernelProgram
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


def plan_gemm_prepacked(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """Tiles over a factor that is a constant, and is laid out in panels ahead; None for others."""
    operands = operands_of(primitive)
    if operands is None:
        return None
    tile = tile_of(operands)
    if operands.windows is None:
        # Panels of all products are alike, so that a weight is laid out once for any number of rows.
        wide = tile._replace(vectors=tile_for(operands.kind).vectors)
        panels = lay_out_panels(operands, wide.vectors * wide.lanes, int8_of(operands, wide), constants)
        if panels is not None:
            return plan_tiles(operands, wide, Supplied(panels))
    int8 = int8_of(operands, tile, constants)
    if int8 is not None:
        known = lay_out_bytes(operands, int8, constants) if operands.m > 1 else None
        return None if known is None else plan_tiles(operands, tile, Supplied(known=(int8, known)))
    is_small_m = operands.windows is None and reads_once(operands, tile)
    rows = lay_out_rows(operands, tile, constants) if operands.m > 1 and not is_small_m else None
    return None if rows is None else plan_tiles(operands, tile, Supplied(rows=rows))


def lay_out_panels(operands: Operands, width: int, int8: Int8Plan | None, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns; None where the right factor is no constant's elements, or gains nothing."""
    view, count = (
        _constant(operands, int8.right if int8 else element_of(operands.right), constants),
        -(-operands.n // width),
    )
    if view is None or (count * width - operands.n) * WASTE > operands.n:
        return None
    name, kind = new_name(f"{view.tensor} in panels", operands.primitive), view.data_type
    batch, source = _by_batch(operands, view, operands.columns)
    flips = int8 is not None and int8.flips
    if int8 is None:
        layout = in_panels(source, name, len(batch), width)
    elif operands.k % int8.filled or flips:
        layout = _k4_panels(source, name, width, int8)
    else:
        *sizes, steps = source.sizes
        *strides, along = source.strides
        source4 = replace(source, sizes=(*sizes, steps // FOUR, FOUR), strides=(*strides, along * FOUR, along))
        layout = in_panels(source4, name, len(batch), width)
    target, bytes_of = layout.target, kind.size_in_bytes
    layouts: dict[str, Map | Reduce] = {name: layout}
    # A column begins that far after the one before only where a panel does: others are not asked for.
    on_panel = bytes_of * target.strides[len(batch)] // width
    lies, steps_of, on = [_lie(operands, target, batch)], [bytes_of * width], [on_panel]
    if int8 and int8.zeros:
        total = packed_view(f"{name} summed", DataType.INT32, (*source.sizes[:-1], 1))
        number = _signed(load(0, kind), flips=flips).to(DataType.INT32)
        layouts = {total.tensor: Reduce((source,), total, fold("sum", number), 1), **layouts}
        lies, steps_of, on = [*lies, _lie(operands, total, batch)], [*steps_of, 0], [*on, 4]
    most = int8.most(is_left=False) if int8 and int8.small and operands.k > 1 else 0
    if most:
        bound = _bound(source, name, flips=flips)
        layouts, lies = {bound.target.tensor: bound, **layouts}, [*lies, _lie(operands, bound.target, ())]
        steps_of, on = [*steps_of, 0], [*on, 0]
    return Panels(operands.section((), lies, steps_of, on), layouts, bytes_of, most)


def lay_out_bytes(operands: Operands, int8: Int8Plan, constants: frozenset[str]) -> Panels | None:
    """A left factor of bytes as it lies, with the most that two neighbours add up to; None where nothing asks."""
    view = _constant(operands, int8.left, constants) if int8.small and operands.k > 1 else None
    if view is None:
        return None
    name = new_name(f"{view.tensor} in panels", operands.primitive)
    batch, source = _by_batch(operands, view, operands.rows)
    # Rows that lie side by side are packed as such.
    is_across = source.strides[-2] == 1
    order = (*range(len(batch)), len(batch) + is_across, len(batch) + (not is_across))
    target = packed_view(name, view.data_type, tuple(source.sizes[k] for k in order))
    bound = _bound(source, name)
    layouts: dict[str, Map | Reduce] = {bound.target.tensor: bound, name: copy_of(source.pick(order), target)}
    lies = [_lie(operands, target, batch), _lie(operands, bound.target, ())]
    step, on = (operands.m, 1) if is_across else (1, operands.k)
    return Panels(operands.section((), lies, [step, 0], [on, 0]), layouts, 1, int8.most(is_left=True))


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
    target = packed_view(f"{name} bound", DataType.INT32, (1,) * len(source.sizes))
    return Reduce(halves, target, fold("max", maximum(above, 0 - below)), len(source.sizes))


def lay_out_places(operands: Operands, width: int, constants: frozenset[str]) -> Panels | None:
    """Panels of so many columns, whose steps lie in the order of the dimensions that are folded; None as above."""
    view = _constant(operands, operands.right, constants)
    if view is None or view.data_type is not DataType.FLOAT32:
        return None
    batch = tuple(k for k in operands.batch if view.strides[k])
    dimensions = (*batch, operands.columns[-1], *operands.folded)
    sizes = [operands.n if k == operands.columns[-1] else operands.found.sizes[k] for k in dimensions]
    source = replace(view, sizes=tuple(sizes), strides=tuple(view.strides[k] for k in dimensions))
    name = new_name(f"{view.tensor} in panels", operands.primitive) + f" of {width}, places first"
    layout = in_panels(source, name, len(batch), width, len(operands.folded))
    section = operands.section((), [_lie(operands, layout.target, batch)], [4 * width], [4 * operands.k])
    return Panels(section, {name: layout}, 4)


def lay_out_rows(operands: Operands, tile: MicroTile, constants: frozenset[str]) -> Panels | None:
    """Panels of a tile's rows; None where the left factor is no constant's elements of FLOAT32."""
    view = _constant(operands, operands.left, constants)
    if view is None or view.data_type is not DataType.FLOAT32:
        return None
    batch, source = _by_batch(operands, view, operands.rows)
    name = new_name(f"{view.tensor} in panels", operands.primitive)
    layout = in_panels(source, name, len(batch), tile.rows, pitch=tile.pitch)
    section = operands.section(
        (), [_lie(operands, layout.target, batch)], [4 * tile.pitch], [4 * tile.pitch * operands.k]
    )
    return Panels(section, {name: layout}, 4)


def in_panels(source: View, name: str, axis: int, width: int, inner: int = 1, pitch: int = 0) -> Map:
    """A dimension cut into panels of some width: their numbers stand in its place, what lies within one after `inner`
    more dimensions, with room for `pitch`.

    In the last panel the last one stands for those that there are not, and for those past the width in each: nobody
    reads what is computed from them.
    """
    sizes, strides, within, pitch = source.sizes, source.strides, axis + 1 + inner, pitch or width
    panels = (*sizes[:axis], -(-sizes[axis] // width), *sizes[axis + 1 : within], pitch, *sizes[within:])
    target = packed_view(name, source.data_type, panels)
    if sizes[axis] % width or pitch != width:
        places = [coordinate(k) for k in range(len(panels))]
        at = minimum(places[axis] * width + places[within], given(sizes[axis] - 1, DataType.INT64))
        index = [*places[:axis], at, *places[axis + 1 : within], *places[within + 1 :]]
        return Map((source,), target, fetch(0, source.data_type, index))
    across = strides[axis]
    moved = (*strides[:axis], across * width, *strides[axis + 1 : within], across, *strides[within:])
    return copy_of(replace(source, sizes=panels, strides=moved), target)


def _k4_panels(source: View, name: str, width: int, int8: Int8Plan) -> Map:
    """The same of bytes, by four steps: whatever lies past the end of the steps is 0, and signs may be the other."""
    *outer, columns, steps = source.sizes
    rank, filled = len(outer), int8.filled
    sizes = (*outer, -(-columns // width), -(-steps // filled) * (filled // FOUR), width, FOUR)
    column = coordinate(rank) * width + coordinate(rank + 2)
    step = coordinate(rank + 1) * FOUR + coordinate(rank + 3)
    at = [minimum(x, given(size - 1, DataType.INT64)) for x, size in ((column, columns), (step, steps))]
    found = _signed(fetch(0, source.data_type, [*map(coordinate, range(rank)), *at]), flips=int8.flips)
    found = found.bits(source.data_type)
    value = where(step < steps, found, 0) if steps % filled else found
    return Map((source,), packed_view(name, source.data_type, sizes), value)


def _by_batch(operands: Operands, view: View, across: tuple[int, ...]) -> tuple[tuple[int, ...], View]:
    """The dimensions of the batch that a factor has, and it by those, its rows or columns, and steps."""
    batch = tuple(k for k in operands.batch if view.strides[k])
    sizes, outer = (tuple(some[k] for k in batch) for some in (operands.found.sizes, view.strides))
    on, along = (view.strides[side[-1]] if side else 0 for side in (across, operands.folded))
    return batch, replace(view, sizes=(*sizes, operands.count(across), operands.k), strides=(*outer, on, along))


def _constant(operands: Operands, leaf: Expr, constants: frozenset[str]) -> View | None:
    """The view that a factor is a load of; None where it is no constant's, or other views are of that too."""
    sources = operands.primitive.sources
    view = sources[int(leaf.value)] if leaf.op == "load" else None
    is_alone = view is not None and sum(one.tensor == view.tensor for one in sources) == 1
    return view if view is not None and is_alone and view.tensor in constants else None


def new_name(stem: str, primitive: Reduce) -> str:
    """A tensor's name that no other has."""
    while stem in (*(one.tensor for one in primitive.sources), primitive.target.tensor):
        stem += " more"
    return stem


def _lie(operands: Operands, view: View, batch: tuple[int, ...]) -> StridedOperand:
    """How a store lies whose first dimensions are some of the batch."""
    own, width = dict(zip(batch, view.strides, strict=False)), view.data_type.size_in_bytes
    return StridedOperand(view.tensor, 0, tuple(width * own.get(k, 0) for k in range(len(operands.found.sizes))), width)


def _signed(byte: Expr, *, flips: bool) -> Expr:
    """A byte less 128, signed, where that is how it is multiplied."""
    return (byte ^ 128).bits(DataType.INT8) if flips else byte


def packed_view(name: str, kind: DataType, sizes: tuple[int, ...]) -> View:
    """A tensor of its own."""
    strides = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    return View(name, kind, sizes, strides)
