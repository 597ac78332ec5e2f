"""The optimiser: the rules over a recipe, until it stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.graph.rules import RULES

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


def optimise(recipe: Recipe) -> Recipe:
    """A recipe that leaves the same bits in every output, with fewer and smaller passes over memory.

    But for sums and products of floats: in which order an engine adds them up may change with their layout and with
    what is computed beside them, as it may on another engine.

    Every rule takes away a step, elements of a step or a reversed walk, so that two or three rounds are the usual.
    The rules are through when each of them in turn finds nothing left to do.
    """
    idle = 0
    for rule in RULES * (len(recipe.steps) + 2):
        before, recipe = recipe, rule(recipe)
        idle = idle + 1 if recipe is before else 0
        if idle == len(RULES):
            break
    return recipe
