"""Copy propagation: who reads a copy reads its source instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft, joined, redirect
from anydml.graph.passes.splitting import cut
from anydml.graph.views import MOST_DIMENSIONS, parts_of, straightened, through
from anydml.ir.contraction import is_product
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


def copy_propagation(recipe: Recipe) -> Recipe:
    """A copy into scratch goes if each of its readers can take the same elements from its source, by strides alone.

    If one of them cannot, the copy stays and all of them read it: it is the smaller memory, and no pass was saved.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        step = draft.steps[number]
        if is_copy(step.primitive) and draft.is_scratch(step.target) and (changed := _forwarded(draft, step)):
            draft.put(changed)
            draft.drop(number)
    return draft.recipe()


def _forwarded(draft: Draft, step: Step) -> dict[int, Step] | None:
    """By number, the readers of a copy made readers of its source."""
    name = step.target.tensor
    if not draft.is_own(step.target):  # of a thousand parts each is read by others, which the first reader tells
        first = {i: draft.steps[i] for i in draft.who_reads(name)[:1]}
        if not _redirected(step, first):
            return None
    changed = _redirected(step, draft.readers(name))
    return changed and {i: replace(s, nodes=joined(step.nodes, s.nodes)) for i, s in changed.items()}


def _redirected(step: Step, readers: Mapping[int, Step]) -> dict[int, Step] | None:
    copy = step.primitive
    assert is_copy(copy)  # noqa: S101 - for type checkers: it was asked before

    def change(view: View) -> View | None:
        return through(view, copy.target, copy.source)

    changed = redirect(readers, copy.target.tensor, change)
    if changed is None:
        changed = redirect({i: _fitted(s, copy) for i, s in readers.items()}, copy.target.tensor, change)
    return changed


def _fitted(step: Step, copy: Map) -> Step:
    """A copy that reads another's target in other lines than it has, as one that reads it line by line.

    So does a product, along dimensions that it does not fold: heads that share keys and values read each of them from
    where it lies, not from one repetition for each head.
    """
    reader = step.primitive
    if is_copy(reader) and reader.source.tensor == copy.target.tensor:
        return replace(step, primitive=straightened(reader, copy.target, copy.source))
    if not isinstance(reader, Reduce) or reader.also or not is_product(reader):
        return step
    views = [view for view in reader.sources if view.tensor == copy.target.tensor]
    found = parts_of(views[0], copy.target, copy.source) if len(views) == 1 else None
    kept = len(reader.sizes) - reader.depth
    if found is None or any(len(part) > 1 for part in found[kept:]) or sum(map(len, found)) > MOST_DIMENSIONS:
        return step
    return replace(step, primitive=cut(reader, found))
