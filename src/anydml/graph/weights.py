"""Weights: a product of a few rows reads numbers of few bits as they lie, in place of what DEQUANTIZE makes of them.

This is no rule of the optimiser: a graph that is not optimised has it as well, for it changes bits. The scale of a
block is multiplied with the block's sum, where it would be rounded into each weight.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.graph.recipe import Recipe, Step, Store
from anydml.graph.rounded import find_rounded
from anydml.graph.rules.steps import joined
from anydml.graph.views import through
from anydml.graph.weight_layout import WeightLayout, find_place
from anydml.ir.expressions import coordinate, fold, load
from anydml.ir.patterns import is_copy, match_contraction
from anydml.ir.trees import fetched, rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.weights import BYTE, match_dequantised

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from anydml.graph.rounded import Follow
    from anydml.ir.expressions import Expr
    from anydml.ir.views import View


def read_weights(recipe: Recipe, few: Mapping[tuple[DataType, int], int], *, are_many: bool = False) -> Recipe:
    """A map that dequantises goes if one product of a few rows reads it, by their type, which reads what the map reads.

    Rows that were rounded to 8 bits are INT8, of which there may be more. Weights that are constants are laid out along
    what is summed first, where they do not lie so. `are_many` is for products of more rows, of weights that lie so:
    those dequantise as they read, with the bits of the map.
    """
    if not few or not any(isinstance(step.primitive, Reduce) for step in recipe.steps):
        return recipe
    makers = {view.tensor: step for step in recipe.steps for view in step.targets}
    readers: dict[str, set[int]] = {}
    for number, step in enumerate(recipe.steps):
        for view in step.sources:
            readers.setdefault(view.tensor, set()).add(number)
    shared = recipe.shared()
    alone = {
        name
        for name, several in readers.items()
        if len(several) == 1 and recipe.stores[name].kind == "scratch" and name not in shared
    }
    known = _constants(recipe, shared)
    stores, steps, gone = dict(recipe.stores), [], set[str]()
    for step in recipe.steps:
        merged = None
        found = [_followed(view, makers, alone) for view in step.sources] if isinstance(step.primitive, Reduce) else []
        # Of two factors of few bits the weights are what is not computed: the other may be rows that are rounded.
        for slot, (path, seen) in sorted(enumerate(found), key=lambda one: _is_computed(recipe, one[1][0])):
            if merged is None and seen is not None and path:
                follow = functools.partial(_followed, makers=makers, alone=alone)
                merged, away = _merged(step, slot, seen, path[-1], known, stores, follow, few, are_many=are_many)
                gone |= {one.target.tensor for one in (*path, *away)} if merged else set()
        steps += merged or [step]
    if not gone:
        return recipe
    left = {name: store for name, store in stores.items() if name not in gone}
    return Recipe(left, tuple(step for step in steps if step.target.tensor not in gone))


def _is_computed(recipe: Recipe, path: Sequence[Step]) -> bool:
    return any(recipe.stores[view.tensor].kind == "scratch" for step in path[-1:] for view in step.sources[:1])


def _followed(view: View, makers: Mapping[str, Step], alone: Collection[str]) -> tuple[list[Step], View | None]:
    """The steps that a view's elements come from, copies but for the last, and where they lie in what that writes."""
    path: list[Step] = []
    seen: View | None = view
    while seen is not None and seen.tensor in alone:
        path.append(makers[seen.tensor])
        made = path[-1].primitive
        if not is_copy(made):
            return path, seen
        seen = through(seen, made.target, made.source)
    return path, None


def _constants(recipe: Recipe, shared: Collection[str]) -> set[str]:
    """The stores that depend on constants alone."""
    known = {name for name, store in recipe.stores.items() if store.kind == "constant"}
    for step in recipe.steps:
        if step.sources and all(view.tensor in known for view in step.sources):
            known |= {view.tensor for view in step.targets if view.tensor not in shared}
    return known


def _merged(
    step: Step,
    slot: int,
    view: View,
    maker: Step,
    known: Collection[str],
    stores: dict[str, Store],
    follow: Follow,
    few: Mapping[tuple[DataType, int], int],
    *,
    are_many: bool,
) -> tuple[list[Step] | None, list[Step]]:
    """A product that reads weights of few bits in a slot, and before it the steps that lay them out.

    The view is of what the maker dequantises to. A left factor that is rounded to 8 bits is read as that, and the steps
    that made FLOAT32 of it are given as well.
    """
    product, made = step.primitive, maker.primitive
    assert isinstance(product, Reduce)  # noqa: S101 - for type checkers
    found, weights = match_contraction(product), load(slot, view.data_type).to(DataType.FLOAT32)
    if found is None or weights not in (found.left, found.right) or not isinstance(made, Map) or made.checks:
        return None, []
    is_left = found.left is weights
    column, rows = (found.rows, found.columns) if is_left else (found.columns, found.rows)
    other = found.right if is_left else found.left
    summed = len(found.sizes) - 1
    is_plain = not (
        found.batch
        or product.checks
        or product.also
        or made.also
        or fetched(product.value)
        or _is_odd(product.value, weights, summed)
        or _is_odd(product.value, load(slot, view.data_type), summed)
    )
    value = made.value.args[0] if view.data_type is DataType.FLOAT16 else made.value  # which it is rounded to
    parts = match_dequantised(*value.args) if value.op == "mul" else None
    if parts is None or not is_plain or found.folded != (summed,) or product.depth != 1 or len(column) != 1:
        return None, []
    bits, count = 4 if parts.data_type.is_half_byte else 8, math.prod(found.sizes[k] for k in rows)
    most = few.get((view.data_type, bits), 0)
    is_few, may_be = count <= most, count <= few.get((DataType.INT8, bits), most)  # of rows that were rounded
    if not most or (is_few if are_many else not may_be):
        return None, []
    place = find_place(made.target, view, column[0], summed)
    layout = None if place is None else WeightLayout(made, parts, place, maker, known, stores)
    views = None if layout is None else layout.views()
    if layout is None or views is None or (are_many and layout.steps):
        return None, []
    cut = layout.cut

    def along(one: View) -> View:
        stride = one.strides[summed]
        steps = tuple(stride * math.prod(cut[i + 1 :]) for i in range(len(cut)))
        return replace(one, sizes=(*one.sizes[:summed], *cut), strides=(*one.strides[:summed], *steps))

    def spread(one: View, stride: int, steps: Sequence[int]) -> View:
        """A view of weights, scales or zero points by column and along the sum."""
        strides = tuple(stride if k == column[0] else 0 for k in range(summed))
        return replace(one, sizes=(*found.sizes[:summed], *cut), strides=(*strides, *steps))

    is_load = other.op == "load" and not are_many
    rounded = find_rounded(product.sources[int(other.value)], rows, cut, follow) if is_load else None
    if rounded is not None and _is_odd(product.value, other, summed):
        rounded = None
    if rounded is None and not (is_few or are_many):
        return None, []
    sources = [along(one) for one in product.sources]
    sources[slot] = spread(*views[0])
    loads: dict[Expr, Expr] = {parts.byte: load(slot, parts.byte.type or BYTE)}
    for leaf, one in zip(layout.leaves[1:], views[1:], strict=True):
        loads[leaf] = load(len(sources), one[0].data_type)
        sources.append(spread(*one))
    if rounded is not None:
        byte, by = load(int(other.value), DataType.INT8), load(len(sources), DataType.FLOAT32)
        sources[int(other.value)] = along(rounded.views[0])
        sources.append(rounded.views[1])
        own = {rounded.parts.byte: byte, rounded.parts.scale: by}
        other = rewrite(rounded.parts.number * rounded.parts.scale, lambda node: own.get(node, node))
    half = coordinate(summed + len(cut) - 1)
    number = rewrite(parts.number, lambda node: loads.get(node, half if node.op == "coordinate" else node))
    scale = loads[parts.scale].to(DataType.FLOAT32)
    total = fold("sum", other * (number * scale) if are_many else other * number * scale)
    value = rewrite(product.value, lambda node: total if node is found.fold else node)
    target = product.target
    more = len(cut) - 1
    ending = replace(target, sizes=(*target.sizes, *(1,) * more), strides=(*target.strides, *(0,) * more))
    merged = Reduce(tuple(sources), ending, value, len(cut))
    stores |= layout.stores
    away = rounded.path if rounded is not None else []
    nodes = joined([name for one in (maker, *away) for name in one.nodes], step.nodes)
    return [*layout.steps, replace(step, primitive=merged, nodes=nodes)], away


def _is_odd(value: Expr, weights: Expr, summed: int) -> bool:
    """Whether a product does more with weights than to multiply them, or counts along the sum."""
    readers = sum(weights in node.args for node in walk(value))
    return readers > 1 or any(node.op == "coordinate" and node.value == summed for node in walk(value))
