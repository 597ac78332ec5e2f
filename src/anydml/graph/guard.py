"""Nothing is written to an output before the last index is known to be inside its dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.recipe import Recipe, Step, Store
from anydml.primitives import StridedCopy

if TYPE_CHECKING:
    from anydml.primitives import View


def guard(recipe: Recipe) -> Recipe:
    """Run the steps that may raise first, with what they need, and keep outputs untouched until they are through.

    An output that such a step needs, or that is written before the last of them, is written to scratch memory, and
    copied at the end. The last of them may write an output itself: it raises before it writes.
    """
    needed: set[int] = set()
    pending = [i for i, step in enumerate(recipe.steps) if step.may_raise]
    if not pending:
        return recipe
    writers = {step.target.tensor: i for i, step in enumerate(recipe.steps)}
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += [writers[view.tensor] for view in recipe.steps[number].sources if view.tensor in writers]
    order = [*sorted(needed), *(i for i in range(len(recipe.steps)) if i not in needed)]
    steps = [recipe.steps[i] for i in order]
    last = max(i for i, step in enumerate(steps) if step.may_raise)
    stores, moved = dict(recipe.stores), {}
    copies = []
    for step in steps[:last]:
        target = step.target
        if stores[target.tensor].kind == "output":
            name = f"{target.tensor} held back"
            moved[target.tensor] = name
            stores[name] = Store("scratch", stores[target.tensor].size_in_bytes)
            copies.append(Step(StridedCopy(replace(target, tensor=name), target), step.nodes))

    def redirect(view: View) -> View:
        return replace(view, tensor=moved.get(view.tensor, view.tensor))

    kept = [step.reading(redirect).writing(redirect(step.target)) for step in steps]
    return Recipe(stores, (*kept, *copies))
