"""Matrix layout: what a product makes for attention alone lies as its rows and columns, and not head by head.

This is no rule of the optimiser's rounds: it takes no step away, and is for engines whose attention reads heads where
they lie. A product that writes matrices of one head each is twelve small ones, or writes every number by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.recipe import Recipe, Step
from anydml.ir.attention import Attend
from anydml.ir.contraction import match_contraction
from anydml.ir.verbs import Reduce
from anydml.ir.views import trace

if TYPE_CHECKING:
    from anydml.ir.views import View


def matrix_layout(recipe: Recipe) -> Recipe:
    """Turn the stores that one product writes, and attention alone reads."""
    writers: dict[str, list[Step]] = {}
    readers: dict[str, list[Step]] = {}
    for step in recipe.steps:
        for view in step.targets:
            writers.setdefault(view.tensor, []).append(step)
        for view in step.sources:
            readers.setdefault(view.tensor, []).append(step)
    turned: dict[str, tuple[View, View]] = {}
    for name, (first, *others) in writers.items():
        is_between = recipe.stores[name].kind == "scratch" and not others
        if is_between and all(isinstance(step.primitive, Attend) for step in readers.get(name, [first])):
            old, new = first.target, _by_rows(first)
            views = [view for step in readers[name] for view in step.sources if view.tensor == name]
            if new is not None and all(_seen(view, old, new) for view in views):
                turned[name] = old, new
    if not turned:
        return recipe

    def read(view: View) -> View:
        return _seen(view, *turned[view.tensor]) or view if view.tensor in turned else view

    steps = list[Step]()
    for step in recipe.steps:
        made = step.reading(read) if any(view.tensor in turned for view in step.sources) else step
        steps.append(made.writing(turned[step.target.tensor][1]) if step.target.tensor in turned else made)
    return Recipe(recipe.stores, tuple(steps))


def _by_rows(step: Step) -> View | None:
    """The target of a product with its columns side by side, row after row; None where it is so, or is no product."""
    made, target = step.primitive, step.target
    found = match_contraction(made) if isinstance(made, Reduce) else None
    if found is None or found.batch or not found.rows or not found.columns or target.offset:
        return None
    strides, reach = [0] * len(target.strides), 1
    for k in (*reversed(found.columns), *reversed(found.rows)):
        strides[k], reach = reach, reach * target.sizes[k]
    new = replace(target, strides=tuple(strides))
    return None if new.strides == target.strides else new


def _seen(view: View, old: View, new: View) -> View | None:
    """The part of the old layout that a view has, in the new one; None where it runs on from line to line."""
    found = trace(view, old)
    if found is None:
        return None
    pairs = list(zip(found.steps, new.strides, strict=True))
    strides = tuple(sum(steps[m] * stride for steps, stride in pairs) for m in range(len(view.sizes)))
    return replace(view, strides=strides, offset=sum(a * b for a, b in zip(found.first, new.strides, strict=True)))
