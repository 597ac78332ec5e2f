"""Fuse: a map that reads what a map wrote computes it for itself."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from anydml.enums import DataType
from anydml.graph.rules.steps import Draft, joined
from anydml.graph.views import trace
from anydml.ir.expressions import FUNCTIONS, LEAVES, call, coordinate, load
from anydml.ir.numerics import expand
from anydml.ir.plan import loops_of, simplify
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.expressions import Expr

Computed = TypeVar("Computed", bound=Map | Reduce)

MOST_SOURCES = 8
"""Of a map, each of which takes an address that a loop must keep."""
MOST_WORK = 400
"""Operations of a map: some 50 ms of compiling for every hundred."""
REPEATED_WORK = 32
"""Operations, over all of its readers, of what may be computed more than once for each element."""


def fuse(recipe: Recipe) -> Recipe:
    """A map into scratch goes if each of its readers is a map that can compute it where it reads it.

    What several readers take, or one takes repeatedly, is computed again each time: only where that is little work,
    and moves no more memory. What depends on constants alone stays, to be computed once.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        step = draft.steps[number]
        if draft.is_own(step.target) and (changed := _fused(draft, step)):
            draft.put(changed)
            draft.drop(number)
    return draft.recipe()


def _fused(draft: Draft, step: Step) -> dict[int, Step] | None:
    """By number, the readers of a map with what it computes in them."""
    made = step.primitive
    if not isinstance(made, Map):
        return None
    if draft.is_constant(step):
        return None
    readers = draft.readers(step.target.tensor)
    if not readers or not _is_worth_it(step, readers):
        return None
    changed = {}
    for number, reader in readers.items():
        fused = inlined(made, reader.primitive) if isinstance(reader.primitive, Map) else None
        if fused is None:
            return None
        changed[number] = replace(reader, primitive=fused, nodes=joined(step.nodes, reader.nodes))
    return changed


def _is_worth_it(step: Step, readers: Mapping[int, Step]) -> bool:
    made, name = step.primitive, step.target.tensor
    assert isinstance(made, Map)  # noqa: S101 - for type checkers
    # What a reader takes twice from the same place it computes once.
    views = [view for reader in readers.values() for view in dict.fromkeys(reader.sources) if view.tensor == name]
    times = sum(math.prod(view.sizes) for view in views) / math.prod(step.target.sizes)
    if len(views) == 1 and times <= 1:
        return True
    width = step.target.data_type.size_in_bytes
    written = math.prod(step.target.sizes) * width
    taken = step.bytes_moved - written
    return work(made.value) * times <= REPEATED_WORK and taken * len(views) <= taken + written * (1 + len(views))


def work(value: Expr) -> int:
    """The operations of a tree, about."""
    return sum(_work_of(node.op) if node.op in FUNCTIONS else node.op not in LEAVES for node in walk(value))


@functools.cache
def _work_of(function: str) -> int:
    """The operations that a function is written out in."""
    args = (load(slot, DataType.FLOAT32) for slot in range(FUNCTIONS[function]))
    return work(expand(call(function, *args)))


def inlined(made: Map, reader: Computed) -> Computed | None:
    """A reader that computes what it would read; None where it cannot, or would become too large."""
    sources: dict[View, int] = {}
    instead: dict[int, Expr] = {}
    for slot, view in enumerate(reader.sources):
        if view.tensor != made.target.tensor:
            instead[slot] = load(sources.setdefault(view, len(sources)), view.data_type)
            continue
        seen = _seen_from(made, view)
        if seen is None:
            return None
        slots = [sources.setdefault(source, len(sources)) for source in seen.sources]
        loads = {i: load(slots[i], source.data_type) for i, source in enumerate(seen.sources)}
        instead[slot] = with_leaves(seen.value, loads).bits(view.data_type)
    value = with_leaves(reader.value, instead)
    if len(sources) > MOST_SOURCES or work(value) > MOST_WORK:
        return None
    return replace(reader, sources=tuple(sources), value=value)


def with_leaves(value: Expr, loads: Mapping[int, Expr], coordinates: Mapping[int, Expr] | None = None) -> Expr:
    """A tree with others in the place of its loads, and of coordinates."""
    instead = {"load": loads, "coordinate": coordinates or {}}
    if all(found.op == op and found.value == k for op, several in instead.items() for k, found in several.items()):
        return value  # as in a long chain, whose tree is not gone through again for each link
    # The value of another leaf is a number, and may be infinite.
    return rewrite(value, lambda node: instead[node.op].get(int(node.value), node) if node.op in instead else node)


def _seen_from(made: Map, view: View) -> Map | None:
    """A map of the elements alone that a view takes of its target, in the view's order."""
    target = made.target
    if view.data_type.size_in_bytes != target.data_type.size_in_bytes:
        return None
    if (view.sizes, view.strides, view.offset) == (target.sizes, target.strides, target.offset):
        return made
    sources = made.sources
    counts = any(node.op == "coordinate" for node in walk(made.value))
    if not counts:  # lines that follow one another are one, so that the view may run on from one to the next
        loops = simplify(loops_of(*sources, target), len(sources))
        *sources, target = (  # type: ignore[assignment]  # a list does as well
            replace(one, sizes=loops.sizes, strides=strides, offset=offset)
            for one, strides, offset in zip((*sources, target), loops.strides, loops.offsets, strict=True)
        )
    found = trace(view, target)
    if found is None:
        return None
    value = made.value
    if counts:
        indices = []
        for first, steps in zip(found.first, found.steps, strict=True):
            index = coordinate(0) * 0 + first
            for k, step in enumerate(steps):
                index = index + coordinate(k) * step if step else index
            indices.append(index)
        value = with_leaves(value, {}, dict(enumerate(indices)))
    moved = []
    for source in sources:
        rows = list(zip(source.strides, found.first, found.steps, strict=True))
        strides = tuple(sum(stride * steps[m] for stride, _, steps in rows) for m in range(len(view.sizes)))
        offset = source.offset + sum(stride * index for stride, index, _ in rows)
        moved.append(View(source.tensor, source.data_type, view.sizes, strides, offset))
    return Map(tuple(moved), view, value)
