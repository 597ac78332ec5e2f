"""Part fusion: a map of what several steps put together is computed part by part, each from what made the part."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft
from anydml.graph.passes.narrowing import cut_to, packed
from anydml.graph.recipe import Step, Store, free_name
from anydml.graph.views import through
from anydml.ir.contraction import is_product
from anydml.ir.patterns import is_copy, is_plain
from anydml.ir.trees import fetched
from anydml.ir.verbs import Computation, Map
from anydml.ir.views import Cut, View, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.graph.recipe import Recipe


MOST_PARTS = 4
"""Of one map, each of which is a pass unless it can be taken together with others."""


def part_fusion(recipe: Recipe) -> Recipe:
    """Tensors that are joined along one dimension, and read by one map alone, are not joined: the map is cut instead.

    As in rotary positions, where halves of a head change places and one of them its sign. Its target then has several
    writers, which rules for rows and maps leave alone: so that is an output, or only products read it.
    """
    draft, instead, touched = Draft(recipe), dict[int, list[Step]](), set[int]()
    shared = recipe.shared()
    for store in (name for name in recipe.stores if name in shared):
        writers, readers = draft.writers(store), draft.readers(store)
        if not draft.is_scratch_store(store) or len(readers) != 1 or not 1 < len(writers) <= MOST_PARTS:
            continue
        ((number, step),) = readers.items()
        numbers = {number, *writers}
        if numbers & touched or max(writers) > number or not _is_last(draft, step):
            continue
        made = step.primitive
        cuts = _cuts(made, store, [one.target for one in writers.values()]) if isinstance(made, Map) else None
        if cuts is None or any(len(one.targets) > 1 for one in writers.values()):
            continue
        touched |= numbers
        instead[number] = [_part(draft, step, i, cut) for i, cut in zip(writers, cuts, strict=True)]
    if not instead:
        return recipe
    steps = (one for number, step in draft.steps.items() for one in instead.get(number, [step]))
    return replace(recipe, stores=draft.stores, steps=tuple(steps))


def _is_last(draft: Draft, step: Step) -> bool:
    """Whether a step is a map whose result no rule would make part of another step."""
    made, target = step.primitive, step.target
    if not is_plain(made) or is_copy(made) or fetched(made.value):
        return False
    readers = [one.primitive for one in draft.readers(target.tensor).values()]
    return all(not isinstance(one, Computation) or (one.depth and is_product(one)) for one in readers)


def _cuts(made: Map, store: str, targets: Sequence[View]) -> list[list[Cut]] | None:
    """For each part of a store the part of a map that reads it; None where they are not cut along one dimension."""
    views = [view for view in made.sources if view.tensor == store]
    if len(views) != 1:
        return None
    (view,) = views
    whole = [Cut(0, 1, size) for size in view.sizes]
    found = []
    for target in targets:
        place = trace(target, view)
        if place is None:
            return None
        bounds = [place.bounds(k, target.sizes) for k in range(len(view.sizes))]
        found.append([Cut(low, 1, high - low + 1) for low, high in bounds])
        if math.prod(cut.size for cut in found[-1]) != math.prod(target.sizes):
            return None
    along = {k for cuts in found for k, cut in enumerate(cuts) if cut != whole[k]}
    is_all = sum(math.prod(cut.size for cut in cuts) for cuts in found) == math.prod(view.sizes)
    return found if len(along) == 1 and is_all else None


def _part(draft: Draft, step: Step, writer: int, cuts: list[Cut]) -> Step:
    """A part of a map, and what it reads in a store of its own."""
    made, old = step.primitive, draft.steps[writer].target
    name = free_name(f"{old.tensor} part", draft.stores)
    new = packed(replace(old, tensor=name))
    draft.stores[name] = Store("scratch", math.prod(new.sizes) * new.data_type.size_in_bytes)
    draft.put({writer: draft.steps[writer].writing(new)})
    part = cut_to(made, cuts)

    def moved(view: View) -> View:
        found = through(view, old, new) if view.tensor == old.tensor else view
        assert found is not None  # noqa: S101 - for type checkers: the part is all that was written there
        return found

    return replace(step, primitive=part).reading(moved)
