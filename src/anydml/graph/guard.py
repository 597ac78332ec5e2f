"""The guard of outputs, after constant folding: steps that check indices run first, and no output is written before the
last of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.recipe import Recipe, Step, Store, free_name
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from anydml.ir.views import View


def guard(recipe: Recipe) -> Recipe:
    """Run the steps that may raise first, with what they need, and keep outputs untouched until they are through.

    An output that such a step needs, or that is written before the last of them, is written to scratch memory, and
    copied at the end. The last of them may write an output itself: it raises before it writes.
    """
    needed: set[int] = set()
    pending = [i for i, step in enumerate(recipe.steps) if step.may_raise]
    if not pending:
        return recipe
    writers: dict[str, list[int]] = {}
    for i, step in enumerate(recipe.steps):
        for target in step.targets:
            writers.setdefault(target.tensor, []).append(i)
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += [i for view in recipe.steps[number].sources for i in writers.get(view.tensor, ())]
    order = [*sorted(needed), *(i for i in range(len(recipe.steps)) if i not in needed)]
    steps = [recipe.steps[i] for i in order]
    last = max(i for i, step in enumerate(steps) if step.may_raise)
    stores, moved = dict(recipe.stores), {}
    for step in steps[:last]:
        output = step.target.tensor
        if stores[output].kind == "output" and output not in moved:
            name = moved[output] = free_name(f"{output} held back", stores)
            stores[name] = Store("scratch", stores[output].size_in_bytes)
    copies = [
        Step(copy_of(replace(step.target, tensor=moved[step.target.tensor]), step.target), step.nodes)
        for step in steps
        if step.target.tensor in moved
    ]

    def redirect(view: View) -> View:
        return replace(view, tensor=moved.get(view.tensor, view.tensor))

    written: set[str] = set()

    def held_back(step: Step) -> Step:
        # What the first step to write an output keeps of it is there; what others read of it is what was held back.
        made = step.primitive.reading(lambda view: redirect(view) if view.tensor in written else view)
        written.update(target.tensor for target in step.targets)
        return replace(step, primitive=made.writing(redirect))

    kept = list(map(held_back, steps))
    return Recipe(stores, (*kept, *copies))
