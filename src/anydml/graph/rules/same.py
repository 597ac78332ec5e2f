"""Same: what two steps would compute alike is computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.rules.steps import joined, redirect
from anydml.graph.views import through
from anydml.primitives import Primitive, StridedCopy, View

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe, Step


def same(recipe: Recipe) -> Recipe:
    """Of two steps that differ in their targets alone the second goes, and its readers read the first's result.

    Where only the second writes an output, the first writes it in its place. Where both do, the second copies what
    the first wrote; two copies stay as they are.
    """
    while changed := _changed(recipe):
        recipe = changed
    return recipe


def _changed(recipe: Recipe) -> Recipe | None:
    known: dict[Primitive, int] = {}
    for number, step in enumerate(recipe.steps):
        first = known.setdefault(_without_target(step.primitive), number)
        if first != number and (once := _once(recipe, first, number)):
            return once
    return None


def _without_target(primitive: Primitive) -> Primitive:
    target = primitive.target
    return replace(primitive, target=View("", target.data_type, target.sizes, ()))


def _once(recipe: Recipe, first: int, second: int) -> Recipe | None:
    one, other = recipe.steps[first], recipe.steps[second]
    kinds = recipe.stores[one.target.tensor].kind, recipe.stores[other.target.tensor].kind
    if kinds[1] == "scratch":
        return _read_instead(recipe, other.target, one.target, first, second)
    if kinds[0] == "scratch" and (once := _read_instead(recipe, one.target, other.target, first, second)):
        return once
    if isinstance(other.primitive, StridedCopy):
        return None
    copy = replace(other, primitive=StridedCopy(one.target, other.target))
    return replace(recipe, steps=tuple(copy if i == second else s for i, s in enumerate(recipe.steps)))


def _read_instead(recipe: Recipe, old: View, new: View, first: int, second: int) -> Recipe | None:
    """Let the first step write one of the two targets and everybody read it; the second step goes."""
    changed = redirect(recipe.steps, old.tensor, lambda view: through(view, old, new))
    if changed is None:
        return None
    one: Step = changed.get(first, recipe.steps[first])
    changed[first] = replace(one.writing(new), nodes=joined(one.nodes, recipe.steps[second].nodes))
    return replace(recipe, steps=tuple(changed.get(i, s) for i, s in enumerate(recipe.steps) if i != second))
