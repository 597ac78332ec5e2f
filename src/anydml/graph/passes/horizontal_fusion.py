"""Horizontal fusion: steps over the same elements become one with several targets.

It comes after all passes that make steps of one target; only layouts and split-K follow.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.fusion import MOST_SOURCES, MOST_WORK, Sources, with_leaves, work
from anydml.graph.passes.row_fusion import WORK_IN_ROWS, merged_with, work_in_passes
from anydml.ir.blocked_weights import match_weights
from anydml.ir.contraction import is_product
from anydml.ir.expressions import load
from anydml.ir.fetches import match_gathered, match_reversed
from anydml.ir.patterns import is_copy, match_filled, match_scaled
from anydml.ir.trees import fetched
from anydml.ir.verbs import Computation, Map, Reduce, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


MOST_TARGETS = 4
MOST_BESIDE = 32
"""Of the steps before another that read the same, how many are tried with it: each takes some 0.2 ms."""
SAVED = 1 / 8
"""The part of the bytes that two steps move which they must share to become one."""
NEAR = 4 * 1024 * 1024
"""Bytes of a result from which on it is not written by a reduce that reads it: 768 numbers, added to others and
normalised, take 0.82 to 0.91 of the time up to 1,024 rows so, 0.9 to 1.2 of it for 2,048, and 1.0 to 1.2 for 4,096 (one
thread of an Arm Neoverse-N1)."""
FEW_ROWS, LONG_ROW = 32, 64 * 1024
"""Rows so few and so long stay by themselves where elements are written beside them: engines cut them."""


def horizontal_fusion(recipe: Recipe) -> Recipe:
    """Horizontal fusion: steps over the same elements become one with several targets, which reads what they share
    once.

    A result that is read by the next step and needed later is written by that step, which computes it.

    Then steps that go through the same elements, and share much of what they read, become one.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        while number in draft.steps and _taken_in(draft, number):
            pass
    beside = _Beside(draft)
    for number in reversed(range(len(recipe.steps))):
        while number in draft.steps and beside.join(number):
            pass
    return draft.recipe()


def _is_ours(primitive: Primitive) -> bool:
    """Whether no schedule of an engine's is made for it alone."""
    matches = _ALONE.get(type(primitive))
    return matches is not None and not any(match(primitive) for match in matches)


_ALONE: dict[type[Primitive], tuple[Callable[[Any], object], ...]] = {
    Map: (is_copy, match_filled, match_scaled, match_gathered, match_reversed),
    Reduce: (is_product, match_weights),
}
"""The patterns that engines have schedules for, of the verbs that may have several targets."""


def _may_wait(draft: Draft, first: int, number: int) -> bool:
    """Whether a step can be carried out as part of a later one: nobody reads its results before."""
    step = draft.steps[first]
    if step.may_raise:
        return False
    readers = [draft.who_reads(target.tensor) for target in step.targets]
    return not any(bisect_right(several, first) < bisect_left(several, number) for several in readers)


def _put(draft: Draft, first: int, number: int, made: Computation) -> bool:
    one, other = draft.steps[first], draft.steps[number]
    whole = replace(other, primitive=made, nodes=joined(one.nodes, other.nodes))
    if len(made.targets) > MOST_TARGETS or len(made.sources) > MOST_SOURCES or work(*made.values) > MOST_WORK:
        return False
    apart = one.bytes_moved + other.bytes_moved
    if whole.bytes_moved > apart * (1 - SAVED):
        return False
    draft.drop(first)
    draft.put({number: whole})
    return True


# What a step reads, and writes besides


def _taken_in(draft: Draft, number: int) -> bool:
    """Let a step compute what it reads of the last step before it that allows for that, and write that too."""
    reader = draft.steps[number].primitive
    if not isinstance(reader, Computation) or not _is_ours(reader):
        return False
    writers = {view.tensor: draft.who_writes(view.tensor) for view in reader.sources}
    alone = [(found[0], store) for store, found in writers.items() if len(found) == 1]
    for first, store in sorted(alone, key=lambda item: -item[0]):
        step = draft.steps[first]
        made = step.primitive
        if not isinstance(made, Computation) or made.also or not _is_ours(made) or draft.is_constant(step):
            continue
        if first == number:  # it keeps part of what an output has
            continue
        if not _may_wait(draft, first, number):
            continue
        merged = _with_target(made, reader, store)
        if merged is not None and _put(draft, first, number, merged):
            return True
    return False


def _with_target(made: Computation, reader: Computation, store: str) -> Computation | None:
    """A reader that computes what it reads of a store, each element once, and writes it there."""
    slots = [slot for slot, view in enumerate(reader.sources) if view.tensor == store]
    view = reader.sources[slots[0]]
    if len(slots) > 1 or view.data_type is not made.target.data_type:
        return None
    extended = replace(reader, also=(*reader.also, Write(view, load(slots[0], view.data_type))))
    merged = merged_with(made, extended, is_first=False)
    if merged is None or work_in_passes(merged) > work_in_passes(reader) + work_in_passes(made) + WORK_IN_ROWS:
        return None
    if merged.depth:
        size = math.prod(made.target.sizes) * made.target.data_type.size_in_bytes
        if not made.depth and size >= NEAR:
            return None
        merged = replace(merged, also=(*merged.also[:-1], merged.also[-1]._replace(target=_by_row(merged))))
        if not merged.is_by_row and _has_few_rows(merged):
            return None
    last = merged.also[-1].target
    is_once = all(stride or size == 1 for size, stride in zip(last.sizes, last.strides, strict=True))
    return merged if is_once and math.prod(last.sizes) == math.prod(made.target.sizes) else None


def _has_few_rows(made: Computation) -> bool:
    """Whether rows are few and long."""
    kept = len(made.sizes) - made.depth
    return math.prod(made.sizes[:kept]) < FEW_ROWS and math.prod(made.sizes[kept:]) > LONG_ROW


def _by_row(merged: Computation) -> View:
    """The last target, with one element for each row where it repeats that along the rows."""
    target, kept = merged.also[-1].target, len(merged.sizes) - merged.depth
    if any(target.strides[kept:]):
        return target
    return replace(target, sizes=(*target.sizes[:kept], *(1,) * merged.depth))


# Steps beside one another


class _Beside:
    """The steps that may do the work of earlier ones, by what they read: those that share no view save no bytes.

    They are gone through from the last to the first, and of those that share a view the next few are tried: a step for
    each of a thousand outputs takes no longer for each of them than one for ten.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._readers: dict[View, list[int]] = {}
        for number, step in draft.steps.items():
            if _is_ours(step.primitive):
                for view in dict.fromkeys(step.sources):
                    self._readers.setdefault(view, []).append(number)

    def join(self, number: int) -> bool:
        """Let a step do the work of an earlier one that reads the same."""
        draft, step = self._draft, self._draft.steps[number]
        if not _is_ours(step.primitive) or len(step.targets) == MOST_TARGETS:
            return False
        found = {reader for view in step.sources for reader in self._before(view, number)}
        for first in sorted(found, reverse=True):
            made = _both(draft.steps[first], step) if self._may_join(first, number) else None
            if made is not None and _put(draft, first, number, made):
                return True
        return False

    def _before(self, view: View, number: int) -> list[int]:
        """The last few steps before another that read a view; what comes later, or went, is not asked for again."""
        readers, found = self._readers.get(view, []), list[int]()
        while readers and (readers[-1] >= number or readers[-1] not in self._draft.steps):
            readers.pop()
        for reader in reversed(readers[-2 * MOST_BESIDE :]):
            if reader in self._draft.steps and len(found) < MOST_BESIDE:
                found.append(reader)
        return found

    def _may_join(self, first: int, number: int) -> bool:
        draft, one, other = self._draft, self._draft.steps[first], self._draft.steps[number]
        views, stores = {*one.sources, *other.sources}, {target.tensor for target in one.targets}
        if len(one.targets) + len(other.targets) > MOST_TARGETS or len(views) > MOST_SOURCES:
            return False
        return not any(view.tensor in stores for view in other.sources) and _may_wait(draft, first, number)


def _both(one: Step, other: Step) -> Computation | None:
    """Two steps over the same elements as one, the second's targets first."""
    a, b = one.primitive, other.primitive
    if not isinstance(a, Computation) or not isinstance(b, Computation) or a.sizes != b.sizes:
        return None
    if a.depth and b.depth and a.depth != b.depth:
        return None
    sources = Sources()
    first, second = (_moved(primitive, sources) for primitive in (a, b))
    writes = [
        Write(target, value)
        for primitive in (second, first)
        for target, value in zip(primitive.targets, primitive.values, strict=True)
    ]
    (target, value), *also = writes
    whole, checks = b if b.depth else a, (*a.checks, *b.checks)
    made = replace(whole, sources=sources.views(), target=target, value=value, checks=checks, also=tuple(also))
    is_mixed = any(map(made.has_rows, made.targets)) and not made.is_by_row
    return None if is_mixed and _has_few_rows(made) else made


def _moved(primitive: Computation, sources: Sources) -> Computation:
    """A verb whose sources are among others."""
    places = fetched(*primitive.values)
    loads = {slot: sources.load(view) for slot, view in enumerate(primitive.sources) if slot not in places}

    def fetch(slot: int, indices: Sequence[Expr]) -> Expr:
        return sources.fetch(primitive.sources[slot], indices)

    return primitive.computing(lambda value: with_leaves(value, loads, fetches=fetch if places else None))
