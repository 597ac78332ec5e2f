"""How weights of few bits lie along the sum of a product, and the steps that lay constants out so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType
from anydml.graph.recipe import Step, Store, free_name
from anydml.ir.expressions import coordinate, load
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.ir.weights import BYTE, has_way, number_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from anydml.ir.weights import Dequantised


class Place(NamedTuple):
    """Where a map has the columns and the sum of a product, by its dimensions, the outermost first."""

    column: tuple[int, ...]
    summed: tuple[int, ...]


def find_place(target: View, view: View, column: int, summed: int) -> Place | None:
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
    return Place(*found) if is_all else None


class WeightLayout:
    """How weights, scales and zero points lie along the sum of a product; the steps that lay them out, where needed."""

    def __init__(
        self, made: Map, parts: Dequantised, place: Place, maker: Step, known: Collection[str], taken: Collection[str]
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

    def views(self) -> list[tuple[View, int, tuple[int, ...]]] | None:
        """Of each leaf a view, its stride by column and those along the sum."""
        if not has_way(self.block, self.cut[0]) or len(self.outer) > 1:
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
