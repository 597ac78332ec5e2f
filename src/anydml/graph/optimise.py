"""The optimiser: the rules over a recipe, until it stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.graph.rules import RULES

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


def optimise(recipe: Recipe) -> Recipe:
    """A recipe that leaves the same bits in every output, with fewer and smaller passes over memory.

    Every rule takes away a step, elements of a step or a reversed walk, so that two or three rounds are the usual,
    and one more finds nothing left to do.
    """
    for _ in range(len(recipe.steps) + 2):
        before = recipe
        for rule in RULES:
            recipe = rule(recipe)
        if recipe is before:
            break
    return recipe
