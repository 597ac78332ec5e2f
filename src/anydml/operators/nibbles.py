"""4-bit elements in maps: two share a byte, the first in its low half, and views are of the bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.ir.blocked_weights import BYTE, number_in
from anydml.ir.expressions import coordinate, load
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.memory import packed_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.tensor import TensorDesc


def whole_type(data_type: DataType) -> DataType:
    """A type that has the numbers of a 4-bit type, one to a byte; of others the type itself."""
    return {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}.get(data_type, data_type)


def byte_of(low: Expr, high: Expr | None) -> Expr:
    """Two numbers in a byte."""
    halves = [one.bits(BYTE) & 15 for one in (low, high) if one is not None]
    return halves[0] if high is None else halves[0] | (halves[1] << 4)


def pair_dimension(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one dimension along which neighbours may share a byte; -1 where none do, and None where several do."""
    odd = [k for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)) if size > 1 and stride % 2]
    return (odd or [-1])[0] if len(odd) < 2 else None


@dataclass(frozen=True, slots=True)
class Walk:
    """The dimensions of a map as parts of a tensor's: each dimension is a few that follow one another."""

    factors: tuple[tuple[int, ...], ...]
    """By dimension of the tensor, the sizes of its parts."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all parts."""
        return tuple(size for parts in self.factors for size in parts)

    def halved(self, dimension: int) -> Walk:
        """The same with the last part of a dimension as pairs, which must be even."""
        *outer, last = self.factors[dimension]
        parts = (*outer, last // 2, 2)
        return Walk(tuple(parts if k == dimension else own for k, own in enumerate(self.factors)))

    def along(self, view: View) -> View:
        """A view of the tensor's sizes in these."""
        strides = tuple(step for steps in self.steps(view.strides) for step in steps)
        return View(view.tensor, view.data_type, self.sizes, strides, view.offset)

    def steps(self, strides: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """By dimension, the strides of the parts, of a tensor with these strides."""
        return tuple(
            tuple(stride * math.prod(parts[i + 1 :]) for i in range(len(parts)))
            for parts, stride in zip(self.factors, strides, strict=True)
        )


def one_of_pair(view: View, place: int, half: int) -> View:
    """One of each pair, which a dimension of size 2 counts."""
    sizes, strides = (of[:place] + of[place + 1 :] for of in (view.sizes, view.strides))
    return replace(view, sizes=sizes, strides=strides, offset=view.offset + half * view.strides[place])


def has_no_gaps(tensor: TensorDesc) -> bool:
    """Whether the elements lie one after the other in the order of their coordinates."""
    plain = packed_strides(tensor.sizes)
    return all(
        size == 1 or own == step for size, own, step in zip(tensor.sizes, tensor.element_strides, plain, strict=True)
    )


def unpacked(field: str, tensor: TensorDesc, name: str) -> tuple[View, tuple[Map, ...]]:
    """A 4-bit tensor with its numbers one to a byte, in memory of its own, and the steps that make it so."""
    kind, count = whole_type(tensor.data_type), tensor.extent
    pairs = count // 2
    steps = []
    if pairs:
        source, target = View(field, BYTE, (pairs, 2), (1, 0)), View(name, kind, (pairs, 2), (2, 1))
        steps.append(Map((source,), target, number_in(load(0, BYTE), tensor.data_type, coordinate(1))))
    if count % 2:
        source, target = View(field, BYTE, (1,), (0,), pairs), View(name, kind, (1,), (0,), count - 1)
        steps.append(Map((source,), target, number_in(load(0, BYTE), tensor.data_type, None)))
    seen = View.of(name, tensor)
    return View(name, kind, seen.sizes, seen.strides), tuple(steps)


def packed(name: str, field: str, tensor: TensorDesc, pair: int | None) -> tuple[Map, ...]:
    """The steps that put numbers that lie one to a byte, without gaps, into a 4-bit tensor.

    That has no gaps either, or pairs along a dimension.
    """
    kind, count = whole_type(tensor.data_type), tensor.element_count
    if pair is not None:
        walk = Walk(tuple((size,) for size in tensor.sizes)).halved(pair)
        numbers = walk.along(View(name, kind, tensor.sizes, packed_strides(tensor.sizes)))
        low, high, own = (
            one_of_pair(view, pair + 1, half)
            for view, half in ((numbers, 0), (numbers, 1), (walk.along(View.of(field, tensor)), 0))
        )
        target = View(field, BYTE, own.sizes, tuple(step // 2 for step in own.strides))
        return (Map((low, high), target, byte_of(load(0, kind), load(1, kind))),)
    pairs, steps = count // 2, []
    if pairs:
        low, high = (View(name, kind, (pairs,), (2,), half) for half in (0, 1))
        target = View(field, BYTE, (pairs,), (1,))
        steps.append(Map((low, high), target, byte_of(load(0, kind), load(1, kind))))
    if count % 2:
        last, target = View(name, kind, (1,), (0,), count - 1), View(field, BYTE, (1,), (0,), pairs)
        steps.append(Map((last,), target, byte_of(load(0, kind), None)))
    return tuple(steps)
