"""Padding as a property of reads: elements at lines of coordinates, and one number for all outside a tensor.

Operators lower padding to maps that materialise it: a copy, and fills around it. `match_padded` is where those are
recognised, for all engines and passes; `ir/windows.py` says how windows of a padded tensor walk over the one within.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.ir.expressions import const, fetch, given, maximum, minimum, where
from anydml.ir.fetches import Line, line_of
from anydml.ir.patterns import is_copy, is_plain
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map, Primitive


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


# Padding that maps materialise.


class Padded(NamedTuple):
    """A tensor that is copied into another, with one number all around it there."""

    source: View
    """The tensor."""
    inner: View
    """Its place in the padded one."""
    around: tuple[View, ...]
    """The places of the number."""
    outside: Expr | View
    """The number, or the element that has it."""

    @property
    def whole(self) -> View | None:
        """All of the padded tensor, in those dimensions of what lies in it that have several elements; None where
        their strides do not nest.
        """
        inner = self.inner
        wide = [k for k, size in enumerate(inner.sizes) if size > 1]
        sizes, left = dict[int, int](), 1 + max(map(_last, (inner, *self.around)))
        for k in sorted(wide, key=lambda k: -inner.strides[k]):
            if inner.strides[k] <= 0 or left % inner.strides[k]:
                return None
            sizes[k], left = left // inner.strides[k], inner.strides[k]
        strides = tuple(inner.strides[k] for k in wide)
        return View(inner.tensor, inner.data_type, tuple(sizes[k] for k in wide), strides) if left == 1 else None


def match_padded(verbs: Sequence[Primitive]) -> Padded | None:
    """A copy into a tensor, and fills of one number, or of one element, around it there; None for other verbs."""
    copies, around, outside = list["Map"](), list[View](), set["Expr | View"]()
    for verb in verbs:
        if (number := _filling(verb)) is not None:
            around += verb.targets
            outside.add(number)
        elif is_copy(verb):
            copies.append(verb)
        else:
            return None
    if len(copies) != 1 or len(outside) != 1:
        return None
    (copy,), (number,) = copies, outside
    is_one = all(view.tensor == copy.target.tensor for view in around)
    return Padded(copy.source, copy.target, tuple(around), number) if is_one else None


def match_padded_reduce(verbs: Sequence[Primitive]) -> tuple[Reduce, Padded] | None:
    """A reduce, after the maps that pad a tensor; None for other verbs."""
    *maps, last = verbs
    if not isinstance(last, Reduce) or last.checks or (padded := match_padded(maps)) is None:
        return None
    return last, padded


def _filling(verb: Primitive) -> Expr | View | None:
    """The number, or the element, that a map fills its target with; None where it does something else."""
    if not is_plain(verb):
        return None
    if not verb.sources:
        return verb.value if verb.value.op in ("given", "const") else None
    one = verb.source
    return View(one.tensor, one.data_type, (1,), (0,), one.offset) if is_copy(verb) and not any(one.strides) else None


def _last(view: View) -> int:
    """The number of the last element of a view in memory."""
    return view.offset + sum(max((size - 1) * step, 0) for size, step in zip(view.sizes, view.strides, strict=True))
