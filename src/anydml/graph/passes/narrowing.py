"""Narrowing, a pass of the optimiser's rounds: dead code elimination by elements, of steps whose results are read in
part.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.memory import packed_strides
from anydml.core.symbolic_sizes import gcd
from anydml.graph.passes.draft import Draft, redirect
from anydml.graph.recipe import Store
from anydml.graph.views import through
from anydml.ir.fetches import settled
from anydml.ir.trees import fetched, moved
from anydml.ir.views import IndexRange, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.graph.recipe import Recipe
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


def narrowing(recipe: Recipe) -> Recipe:
    """Narrowing: of a scratch result only what is read is computed.

    A step computes the grid of elements that its readers take between them, and lays it out without gaps.

    Along its axis a scan computes from where it starts as far as somebody reads, and a reduce goes through whole rows.
    What may raise looks at all of its indices, and computes one element where nobody reads any.
    """
    draft = Draft(recipe)
    for number in reversed(range(len(recipe.steps))):
        _narrow(draft, number)
    return draft.recipe()


def _narrow(draft: Draft, number: int) -> None:
    step = draft.steps[number]
    name = step.target.tensor
    if not draft.is_own(step.target):
        return
    readers = draft.readers(name)
    views = dict.fromkeys(view for later in readers.values() for view in later.sources if view.tensor == name)
    whole = step.target
    if any((view.sizes, view.strides, view.offset) == (whole.sizes, whole.strides, whole.offset) for view in views):
        return  # as most do
    cuts = _cuts(step.target, list(views)) if views else [IndexRange(0, 1, 1)] * len(step.target.sizes)
    if cuts is None:
        return
    cuts = step.primitive.needed(cuts)
    if all(cut == (0, 1, size) for cut, size in zip(cuts, step.target.sizes, strict=True)):
        return
    primitive = cut_to(step.primitive, cuts)
    new = packed(primitive.target)
    changed = redirect(readers, name, lambda view: through(view, primitive.target, new))
    if changed is not None:
        draft.put({**changed, number: replace(step, primitive=replace(primitive, target=new))})
        draft.stores[name] = Store("scratch", math.prod(new.sizes) * new.data_type.size_in_bytes)


def _cuts(target: View, views: Sequence[View]) -> list[IndexRange] | None:
    """The coarsest grid of the target's indices that holds all that the views read."""
    traces = [found for view in views if (found := trace(view, target)) is not None]
    if len(traces) < len(views):
        return None
    cuts = []
    for k in range(len(target.sizes)):
        bounds = [found.bounds(k, view.sizes) for found, view in zip(traces, views, strict=True)]
        low, high = min(least for least, _ in bounds), max(most for _, most in bounds)
        step = gcd(*(s for found in traces for s in found.steps[k]), *(least - low for least, _ in bounds)) or 1
        cuts.append(IndexRange(low, step, (high - low) // step + 1))
    return cuts


def cut_to(primitive: Primitive, cuts: Sequence[IndexRange]) -> Primitive:
    """A verb for a part of its target; rows are whole."""
    elsewhere, kept = fetched(*primitive.values), len(cuts) - primitive.depth
    read = [*cuts[:kept], *(IndexRange(0, 1, size) for size in primitive.sizes[kept:])]
    sources = tuple(
        source if slot in elsewhere else _window(source, read) for slot, source in enumerate(primitive.sources)
    )
    changed = primitive.computing(lambda value: moved(value, [(cut.start, cut.step) for cut in cuts]))
    changed = replace(changed, sources=sources, target=_window(primitive.target, cuts))
    return settled(changed) if elsewhere else changed


def _window(view: View, cuts: Sequence[IndexRange]) -> View:
    starts, steps, sizes = zip(*cuts, strict=True)
    return view.window(starts, steps, sizes)


def packed(view: View) -> View:
    """A view at its store's start without gaps, its dimensions nested as they were."""
    order = sorted(range(len(view.sizes)), key=lambda k: abs(view.strides[k]), reverse=True)
    strides = dict(zip(order, packed_strides([view.sizes[k] for k in order]), strict=True))
    return replace(view, strides=tuple(strides[k] if n > 1 else 0 for k, n in enumerate(view.sizes)), offset=0)
