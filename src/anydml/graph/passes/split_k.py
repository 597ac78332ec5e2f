"""Split-K: a long sum of few results is left to several programs of an engine, and what they sum is added up after.

This is no rule of the optimiser's rounds: how many programs an engine runs at once is its own affair. Sums are added up
in another order, which is the same at every run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.lower import temporaries
from anydml.graph.recipe import Recipe, Step, Store, free_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


def split_k(recipe: Recipe, split: Callable[[Primitive], Sequence[Primitive] | None]) -> Recipe:
    """Take the steps that an engine has in place of one."""
    stores, steps = dict(recipe.stores), list[Step]()
    for step in recipe.steps:
        found = split(step.primitive)
        if found is None:
            steps.append(step)
            continue
        names: dict[str, str] = {}
        for name, size in temporaries(tuple(found), stores).items():
            names[name] = free_name(f"{step.target.tensor}'s {name}", stores)
            stores[names[name]] = Store("scratch", size)

        def renamed(view: View, names: dict[str, str] = names) -> View:
            return replace(view, tensor=names.get(view.tensor, view.tensor))

        steps += [Step(one.reading(renamed).writing(renamed), step.nodes) for one in found]
    return recipe if len(steps) == len(recipe.steps) else Recipe(stores, tuple(steps))
