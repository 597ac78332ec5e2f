"""What rules share: to send readers elsewhere, and to name the nodes of steps that become one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.graph.recipe import Recipe, Step
    from anydml.primitives import View


def joined(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The nodes of two steps that become one, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def redirect(steps: Sequence[Step], store: str, change: Callable[[View], View | None]) -> dict[int, Step] | None:
    """By number, the steps that read a store, with their views of it changed; None where one of them has no answer."""
    changed = {}
    for number, step in enumerate(steps):
        views = {view: change(view) for view in step.sources if view.tensor == store}
        if None in views.values():
            return None
        if views:
            changed[number] = step.reading(lambda view, views=views: views.get(view) or view)  # type: ignore[misc]  # bound now
    return changed


def with_steps(recipe: Recipe, steps: Sequence[Step]) -> Recipe:
    """The recipe with other steps, or itself where they are the same."""
    if len(steps) == len(recipe.steps) and all(a is b for a, b in zip(steps, recipe.steps, strict=True)):
        return recipe
    return replace(recipe, steps=tuple(steps))
