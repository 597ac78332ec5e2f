"""Padding as reads outside of a tensor.

For engines that read so as fast as from memory: what is saved is a pass over the tensor, and one for each side.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType
from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.fusion import with_leaves
from anydml.graph.passes.redundancy import dce
from anydml.graph.views import Trace, trace
from anydml.ir.contraction import match_contraction
from anydml.ir.expressions import const
from anydml.ir.fetches import Line
from anydml.ir.padded_reads import reach
from anydml.ir.patterns import copy_of, is_copy, match_filled
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.expressions import Expr


FEW = 64
"""Elements of a window that is folded otherwise than by products."""


class _Frame(NamedTuple):
    """A store in which a tensor lies, with one number around it."""

    inner: View
    """The tensor's place in the store."""
    source: View
    """The tensor."""
    outside: Expr
    nodes: tuple[str, ...]


def padding(recipe: Recipe) -> Recipe:
    """Padding: windows over a tensor with padding around it read the tensor, and a number outside of it.

    A store that holds a tensor with a number around it goes, where all of its readers fold windows of it.
    """
    draft = Draft(recipe)
    draft.put({n: step for n, one in draft.steps.items() if (step := _as_copy(one)) is not one})
    for store in [name for name, one in recipe.stores.items() if one.kind == "scratch"]:
        writers, readers = draft.writers(store), draft.readers(store)
        frame = _frame(writers) if len(writers) > 1 and readers else None
        changed = None if frame is None else _read(frame, store, recipe.stores[store].size_in_bytes, readers)
        if changed is not None:
            draft.put(changed)
            for number in writers:
                draft.drop(number)
    after = draft.recipe()
    return after if after is recipe else dce(after)


def _as_copy(step: Step) -> Step:
    """Filters laid out in one piece, for engines that like them so, as a copy: who reads it reads the filters."""
    primitive = step.primitive
    if not isinstance(primitive, Map) or primitive.also or primitive.checks or len(primitive.sources) != 1:
        return step
    source, kind = primitive.source, primitive.value.type
    is_moved = primitive.value.op == "bits" and primitive.value.args[0].op == "bits" and kind is source.data_type
    if not is_moved or primitive.value.args[0].args[0].op != "load":
        return step
    return replace(step, primitive=copy_of(source, primitive.target))


def _frame(writers: Mapping[int, Step]) -> _Frame | None:
    """One copy of a tensor, and fills of one number."""
    copies, numbers = [], set()
    for step in writers.values():
        primitive = step.primitive
        filled = match_filled(primitive) if isinstance(primitive, Map) else None
        if is_copy(primitive):
            copies.append(step)
        elif filled is None or filled.delta:
            return None
        else:
            numbers.add(const(filled.start, filled.target.data_type))
    if len(copies) != 1 or len(numbers) != 1:
        return None
    (copy,), (outside,) = copies, numbers
    wide = [k for k, size in enumerate(copy.target.sizes) if size > 1]
    inner, source = copy.target.pick(wide), copy.primitive.source.pick(wide)
    return _Frame(inner, source, outside, copy.nodes) if wide and outside.type is inner.data_type else None


def _read(frame: _Frame, store: str, size: int, readers: Mapping[int, Step]) -> dict[int, Step] | None:
    """By number, the readers of a store as readers of the tensor in it; None where one of them cannot be."""
    whole = _whole(frame.inner, size // frame.inner.data_type.size_in_bytes)
    changed = {}
    for number, step in readers.items():
        made = None if whole is None else _reader(step, frame, store, whole)
        if made is None:
            return None
        changed[number] = replace(made, nodes=joined(frame.nodes, made.nodes))
    return changed


def _whole(inner: View, count: int) -> View | None:
    """All of a store of so many elements, in the dimensions of a view in it; None where those do not nest."""
    order = sorted(range(len(inner.strides)), key=lambda k: -inner.strides[k])
    sizes, before = [0] * len(order), count
    for k in order:
        if inner.strides[k] <= 0 or before % inner.strides[k]:
            return None
        sizes[k], before = before // inner.strides[k], inner.strides[k]
    return None if before != 1 else View(inner.tensor, inner.data_type, tuple(sizes), inner.strides)


def _reader(step: Step, frame: _Frame, store: str, whole: View) -> Step | None:
    primitive, kind = step.primitive, frame.inner.data_type
    if not isinstance(primitive, Reduce) or primitive.checks or not primitive.is_by_row:
        return None
    if not match_contraction(primitive) and math.prod(primitive.rows) > FEW:
        return None
    slots = [slot for slot, view in enumerate(primitive.sources) if view.tensor == store]
    origin = trace(replace(frame.inner, sizes=(1,) * len(whole.sizes)), whole)
    if origin is None or not fetched(*primitive.values).isdisjoint(slots):
        return None
    loads = {}
    for slot in slots:
        view = primitive.sources[slot]
        found = trace(view, whole) if view.data_type is kind else None
        if found is None:
            return None
        loads[slot] = _element(slot, frame, found, origin.first, view)
    sources = tuple(frame.source if slot in slots else view for slot, view in enumerate(primitive.sources))
    changed = replace(primitive, sources=sources, rows=primitive.rows)
    return replace(step, primitive=changed.computing(lambda value: with_leaves(value, loads)))


def _element(slot: int, frame: _Frame, found: Trace, origin: tuple[int, ...], view: View) -> Expr:
    """The element of a reader's view at the current coordinates."""
    indices, limits = list[Line](), list[int | None]()
    for k, size in enumerate(frame.source.sizes):
        steps = tuple((m, step) for m, step in enumerate(found.steps[k]) if step and view.sizes[m] > 1)
        indices.append(Line(found.first[k] - origin[k], steps))
        low, high = (bound - origin[k] for bound in found.bounds(k, view.sizes))
        limits.append(None if low >= 0 and high < size else size)
    assert frame.outside.type is not None  # noqa: S101 - for type checkers: a number in memory has a type
    return reach(slot, DataType(frame.outside.type), [line.value for line in indices], limits, frame.outside)
