"""Weight-only quantisation: products read weights of 4 and 8 bits as they lie, with their scales by block.

It comes before the optimiser's rounds, and is no part of them: a graph that is not optimised has it as well, for it
changes bits. The scale of a block is multiplied with the block's sum, where it would be rounded into each weight.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.core.enums import DataType
from anydml.graph.passes.draft import expanded, joined
from anydml.graph.recipe import Recipe, Step, Store, free_name
from anydml.graph.views import through
from anydml.ir.blocked_weights import BLOCKS, BYTE, SHORT_BLOCK, has_way, match_dequantised, number_in
from anydml.ir.contraction import match_contraction
from anydml.ir.expressions import coordinate, fold, load
from anydml.ir.patterns import is_copy
from anydml.ir.trees import fetched, rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.ir.blocked_weights import Dequantised
    from anydml.ir.expressions import Expr

# How weights of few bits lie along the sum of a product, and the steps that lay constants out so.


class ProductAxes(NamedTuple):
    """Where a map has the columns and the sum of a product, by its dimensions, the outermost first."""

    column: tuple[int, ...]
    summed: tuple[int, ...]


def find_place(target: View, view: View, column: int, summed: int) -> ProductAxes | None:
    """None where a product does not read every element once, or has one dimension in two places."""
    wide = [d for d, size in enumerate(target.sizes) if size > 1]
    wide.sort(key=lambda d: -target.strides[d])
    found: list[tuple[int, ...]] = []
    for m in (column, summed):
        stride, size = view.strides[m], view.sizes[m]
        own = [d for d in wide if stride <= target.strides[d] < stride * size]
        reach = [target.strides[d] * target.sizes[d] for d in own]
        if not own or reach[0] != stride * size or target.strides[own[-1]] != stride:
            return None
        if any(target.strides[d] != one for d, one in zip(own, reach[1:], strict=False)):
            return None
        found.append(tuple(own))
    is_all = sorted((*found[0], *found[1])) == sorted(wide) and view.offset == target.offset
    return ProductAxes(*found) if is_all else None


class WeightLayout:
    """How weights, scales and zero points lie along the sum of a product; the steps that lay them out, where needed."""

    def __init__(
        self,
        made: Map,
        parts: Dequantised,
        place: ProductAxes,
        maker: Step,
        known: Collection[str],
        taken: Collection[str],
    ) -> None:
        self.made, self.parts, self.place = made, parts, place
        self.leaves = [parts.byte, parts.scale, *([parts.zero] if parts.zero is not None else [])]
        self.leaves = [leaf for leaf in self.leaves if leaf.op == "load"]
        self.steps: list[Step] = []
        self.stores: dict[str, Store] = {}
        self._maker, self._known, self._taken = maker, known, taken
        sizes = made.target.sizes
        self.is_paired = parts.data_type.is_half_byte
        self.columns, self.count = (math.prod(sizes[d] for d in own) for own in place)
        inner = place.summed[-1:] if place.summed[-1:] != (parts.half,) or not self.is_paired else place.summed[-2:]
        self.outer = place.summed[: len(place.summed) - len(inner)]
        """The dimensions that count blocks."""
        self.block = math.prod(sizes[d] for d in inner)
        self.inner = inner
        blocks = self.count // self.block
        self.cut = (blocks, self.block // 2, 2) if self.is_paired else (blocks, self.block)
        """The sizes that the sum is cut into."""

    def has_way(self, least: int) -> bool:
        """Whether there is a way for its blocks."""
        return has_way(self.block, self.cut[0], least)

    def views(self) -> list[tuple[View, int, tuple[int, ...]]] | None:
        """Of each leaf a view, its stride by column and those along the sum."""
        if len(self.outer) > 1:
            return None
        found = []
        for leaf in self.leaves:
            view = self.made.sources[int(leaf.value)]
            one = self._weights(view) if leaf is self.parts.byte else self._scale(view)
            if one is None:
                return None
            found.append(one)
        return found

    def _scale(self, view: View) -> tuple[View, int, tuple[int, ...]] | None:
        """One for each block: those of a column side by side."""
        if any(view.strides[d] for d in self.inner) or len(self.place.column) > 1 + self.is_paired:
            return None
        by_block = view.strides[self.outer[0]] if self.outer else 1
        by_column, is_even = self._by_column(view)
        inside = (0,) * (len(self.cut) - 1)
        if by_block == 1 and is_even:
            return view, by_column, (1, *inside)
        if view.tensor not in self._known or not is_even:
            return None
        sizes = (self.columns, self.cut[0])
        source = View(view.tensor, view.data_type, sizes, (by_column, by_block), view.offset)
        return self._lay_out(source, self.cut[0]), self.cut[0], (1, *inside)

    def _by_column(self, view: View) -> tuple[int, bool]:
        """The stride from column to column, and whether there is one."""
        *outer, last = (view.strides[d] for d in self.place.column)
        size = self.made.target.sizes[self.place.column[-1]]
        return last, all(stride == last * size for stride in outer)

    def _weights(self, view: View) -> tuple[View, int, tuple[int, ...]] | None:
        """The bytes, those of a column side by side."""
        strides, wanted = [view.strides[d] for d in self.place.summed], self._wanted()
        (column, *half), sizes = self.place.column, self.made.target.sizes
        if not half and strides == wanted[len(wanted) - len(strides) :]:
            return view, view.strides[column], tuple(wanted)
        inner = zip(strides, strides[1:], self.place.summed[1:], strict=False)
        if view.tensor not in self._known or any(a != b * sizes[d] for a, b, d in inner):
            return None
        step = strides[-1]
        if not self.is_paired:
            both = (self.columns, self.count)
            source = View(view.tensor, view.data_type, both, (view.strides[column], step), view.offset)
            return None if half else (self._lay_out(source, self.count), self.count, tuple(wanted))
        if half != [self.parts.half]:
            return None
        # Two columns share a byte: those of two steps of the sum become a byte of one column.
        pairs, by = (self.columns // 2, 2, self.count // 2), (view.strides[column], 0, 2 * step)
        low, high = (View(view.tensor, BYTE, pairs, by, view.offset + k * step) for k in (0, 1))
        first, second = (number_in(load(k, BYTE), DataType.UINT4, coordinate(1)) for k in (0, 1))
        name = self._name()
        self.stores[name] = Store("scratch", self.columns * self.count // 2)
        target = View(name, BYTE, pairs, (self.count, self.count // 2, 1))
        self.steps.append(replace(self._maker, primitive=Map((low, high), target, first | (second << 4))))
        return target, self.count // 2, tuple(wanted)

    def _wanted(self) -> list[int]:
        return [self.block // 2, 1, 0] if self.is_paired else [self.block, 1]

    def _lay_out(self, source: View, pitch: int) -> View:
        """Parts side by side in a store of their own. It is no copy, which readers would see through."""
        name, kind = self._name(), source.data_type
        self.stores[name] = Store("scratch", math.prod(source.sizes) * kind.size_in_bytes)
        target = View(name, kind, source.sizes, (pitch, 1))
        other = DataType.UINT32 if kind.size_in_bytes == 4 else DataType.INT8 if kind is BYTE else BYTE
        value = load(0, kind).bits(other).bits(kind)
        self.steps.append(replace(self._maker, primitive=Map((source,), target, value)))
        return target

    def _name(self) -> str:
        return free_name(f"{self._maker.target.tensor}'s weights", self._taken, self.stores)


# Rows that are rounded to 8 bits, block by block, before a product with weights of few bits: as whole numbers.


Follow: TypeAlias = "Callable[[View], tuple[list[Step], View | None]]"
"""The steps that a view's elements come from, copies but for the last, and where they lie in what that writes."""


class Rounded(NamedTuple):
    """A factor of 8 bits, times a scale for each block along the sum."""

    path: list[Step]
    """The steps that made it, which nobody else reads."""
    parts: Dequantised
    views: tuple[View, View]
    """Of the numbers and of the scales."""


def find_rounded(view: View, rows: tuple[int, ...], cut: tuple[int, ...], follow: Follow) -> Rounded | None:
    """The parts of a product's left factor that DEQUANTIZE makes of whole numbers of 8 bits, for the same blocks."""
    path, seen = follow(view)
    made = path[-1].primitive if path else None
    if seen is None or not isinstance(made, Map) or made.checks or made.also or made.value.op != "mul":
        return None
    parts = match_dequantised(*made.value.args)
    if parts is None or not parts.is_rounded or len(rows) > 1:
        return None
    target, summed = made.target, len(view.sizes) - 1
    numbers, scales = (made.sources[int(leaf.value)] for leaf in (parts.byte, parts.scale))
    wide = [d for d, size in enumerate(target.sizes) if size > 1]
    block = math.prod(cut[1:])
    inside = [d for d in wide if not scales.strides[d]]
    by_block = [d for d in wide if d not in inside and target.strides[d] == block]
    by_row = [d for d in wide if d not in inside and d not in by_block]
    is_alike = all(numbers.strides[d] == target.strides[d] for d in wide) and seen.offset == target.offset
    is_cut = math.prod(target.sizes[d] for d in inside) == block and all(target.strides[d] < block for d in inside)
    are_rows = [target.strides[d] for d in by_row] == [seen.strides[k] for k in rows]
    if not (is_alike and is_cut and are_rows and seen.strides[summed] == 1 and len(by_block) == (cut[0] > 1)):
        return None
    strides = [0] * summed
    for k, d in zip(rows, by_row, strict=True):
        strides[k] = scales.strides[d]
    steps = (scales.strides[by_block[0]] if by_block else 1, *(0,) * (len(cut) - 1))
    sizes = (*view.sizes[:summed], *cut)
    return Rounded(
        path,
        parts,
        (
            replace(seen, tensor=numbers.tensor, data_type=numbers.data_type, offset=numbers.offset),
            replace(scales, sizes=sizes, strides=(*strides, *steps)),
        ),
    )


def weight_only(
    recipe: Recipe, few: Mapping[tuple[DataType, int], int], blocks: Mapping[int, int], *, are_many: bool = False
) -> Recipe:
    """Weight-only quantisation: a product of a few rows reads weights of few bits as they lie, not dequantised.

    A map that dequantises goes if one product of a few rows reads it, by their type, which reads what the map reads.

    Rows that were rounded to 8 bits are INT8, of which there may be more. Weights that are constants are laid out along
    what is summed first, where they do not lie so. `blocks` are the shortest ones, by weights' bits. `are_many` is for
    products of more rows, of weights that lie so: those dequantise as they read, with the bits of the map.
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
    gone = set[str]()

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        merged = None
        found = [_followed(view, makers, alone) for view in step.sources] if isinstance(step.primitive, Reduce) else []
        # Of two factors of few bits the weights are what is not computed: the other may be rows that are rounded.
        for slot, (path, seen) in sorted(enumerate(found), key=lambda one: _is_computed(recipe, one[1][0])):
            if merged is None and seen is not None and path:
                follow = functools.partial(_followed, makers=makers, alone=alone)
                rows = few, blocks
                merged, away = _merged(step, slot, seen, path[-1], known, stores, follow, *rows, are_many=are_many)
                gone.update(one.target.tensor for one in (*path, *away) if merged)
        return merged

    made = expanded(recipe, expand)
    left = {name: store for name, store in made.stores.items() if name not in gone}
    steps = tuple(step for step in made.steps if step.target.tensor not in gone)
    return Recipe(left, steps) if gone else recipe


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
    blocks: Mapping[int, int],
    *,
    are_many: bool,
) -> tuple[list[Step] | None, list[Step]]:
    """A product that reads weights of few bits in a slot, and before it the steps that lay them out.

    The view is of what the maker dequantises to. A left factor that is rounded to 8 bits is read as that, and the steps
    that made FLOAT32 of it are given as well.
    """
    product, made = step.primitive, maker.primitive
    assert isinstance(product, Reduce)  # noqa: S101 - for type checkers: others are not followed
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
    place = find_place(made.target, view, column[0], summed)
    if not most or place is None:
        return None, []
    layout = WeightLayout(made, parts, place, maker, known, stores)
    may_be = layout.has_way(blocks.get(bits, BLOCKS[0]))
    is_few = may_be and count <= most
    may_be = may_be and count <= few.get((DataType.INT8, bits), most)  # of rows that were rounded
    if is_few or not layout.has_way(SHORT_BLOCK) if are_many else not may_be:
        return None, []
    views = layout.views()
    if views is None or (are_many and layout.steps):
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
