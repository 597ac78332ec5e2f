"""Splitting: a verb that goes through one dimension as several, and sums that several programs of an engine take.

`cut` and `cut_for` are for passes that meet a change of shape; `split_k` is a pass by itself.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from anydml.graph.lower import temporaries
from anydml.graph.passes.draft import expanded
from anydml.graph.passes.fusion import with_leaves
from anydml.graph.recipe import Step, Store, free_name
from anydml.ir.expressions import coordinate
from anydml.ir.trees import fetched
from anydml.ir.verbs import Computation
from anydml.ir.views import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


Verb = TypeVar("Verb", bound=Computation)


def cut(made: Verb, parts: Sequence[Sequence[int]]) -> Verb:
    """A verb of one target with each dimension in parts, given by their sizes; those that it folds are one part."""
    if all(len(part) == 1 for part in parts):
        return made
    firsts = [sum(map(len, parts[:k])) for k in range(len(parts))]

    def cut_view(one: View) -> View:
        strides = [
            stride * math.prod(part[i + 1 :])
            for stride, part in zip(one.strides, parts, strict=True)
            for i in range(len(part))
        ]
        sizes = [n if one.sizes[k] > 1 else 1 for k, part in enumerate(parts) for n in part]
        return replace(one, sizes=tuple(sizes), strides=tuple(strides))

    def index(k: int) -> Expr:
        whole = coordinate(firsts[k])
        for i, size in enumerate(parts[k][1:], start=1):
            whole = whole * size + coordinate(firsts[k] + i)
        return whole

    places = fetched(made.value)
    sources = tuple(one if slot in places else cut_view(one) for slot, one in enumerate(made.sources))
    value = with_leaves(made.value, {}, {k: index(k) for k in range(len(parts))})
    return replace(made, sources=sources, target=cut_view(made.target), value=value)


def cut_for(made: Verb, view: View) -> Verb:
    """A reduce whose dimensions are cut where a reader of its target has several for one."""
    found = trace(view, made.target)
    kept, parts = len(made.sizes) - made.depth, [[size] for size in made.sizes]
    for k, steps in enumerate(found.steps[:kept] if found else ()):
        along = sorted(
            ((step, view.sizes[m]) for m, step in enumerate(steps) if step and view.sizes[m] > 1), reverse=True
        )
        reach = [step * size for step, size in along]
        if len(along) > 1 and reach == [made.sizes[k], *(step for step, _ in along[:-1])] and along[-1][0] == 1:
            parts[k] = [size for _, size in along]
    return cut(made, parts)


# Split-K


def split_k(recipe: Recipe, split: Callable[[Primitive], Sequence[Primitive] | None]) -> Recipe:
    """Split-K: a long sum of few results is left to several programs of an engine, and what they sum is added up after.

    How many programs an engine runs at once is its own affair, so this comes after the rounds of the optimiser. Sums
    are added up in another order, which is the same at every run.

    Take the steps that an engine has in place of one.
    """

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        found = split(step.primitive)
        if found is None:
            return None
        names: dict[str, str] = {}
        for name, size in temporaries(tuple(found), stores).items():
            names[name] = free_name(f"{step.target.tensor}'s {name}", stores)
            stores[names[name]] = Store("scratch", size)

        def renamed(view: View) -> View:
            return replace(view, tensor=names.get(view.tensor, view.tensor))

        return [Step(one.reading(renamed).writing(renamed), step.nodes) for one in found]

    return expanded(recipe, expand)
