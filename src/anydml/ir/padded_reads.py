"""Padding as a property of reads: elements at lines of coordinates, and one number for all outside a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType
from anydml.ir.expressions import const, fetch, given, maximum, minimum, where
from anydml.ir.fetches import Line, line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr


INT64 = DataType.INT64


class Reached(NamedTuple):
    """An element of a source at a line of indices for each of its dimensions."""

    slot: int
    lines: tuple[Line, ...]
    limits: tuple[int | None, ...]
    """The sizes of dimensions that indices may lie outside of; None where they do not."""
    outside: Expr | None
    """The number that stands outside; None where all indices lie inside."""


def reach(slot: int, type: DataType, indices: Sequence[Expr], limits: Sequence[int | None], outside: Expr) -> Expr:
    """The element of a source at some indices, and another number where one of those lies outside its limit."""
    inside, near = const(True, None), []
    for index, limit in zip(indices, limits, strict=True):
        if limit is None:
            near.append(index)
            continue
        last = given(limit - 1, INT64)
        inside = inside & (index >= 0) & (index <= last)
        near.append(minimum(maximum(index, 0), last))
    found = fetch(slot, type, near)
    return found if all(limit is None for limit in limits) else where(inside, found, outside)


def match_reached(node: Expr) -> Reached | None:
    """The lines of what `reach` makes, and of a fetch at lines; None for other nodes."""
    found, outside = (node.args[1], node.args[2]) if node.op == "where" else (node, None)
    if found.op != "fetch" or found.type is None:
        return None
    indices, limits = [], list[int | None]()
    for near in found.args:
        is_limited = near.op == "where" and near.args[2].op == "given" and near.args[1].op == "where"
        indices.append(near.args[1].args[1] if is_limited else near)
        limits.append(int(near.args[2].value) + 1 if is_limited else None)
    slot = int(found.value)
    again = reach(slot, found.type, indices, limits, found if outside is None else outside)
    lines = [line for index in indices if (line := line_of(index)) is not None]
    if again is not node or len(lines) < len(indices):
        return None
    return Reached(slot, tuple(lines), tuple(limits), outside)
