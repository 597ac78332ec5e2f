"""Rows that are rounded to 8 bits, block by block, before a product with weights of few bits: as whole numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.ir.verbs import Map
from anydml.ir.weights import match_dequantised

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.graph.recipe import Step
    from anydml.ir.views import View
    from anydml.ir.weights import Dequantised

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
