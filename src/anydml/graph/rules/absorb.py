"""Absorb: a step writes where a copy of its whole result would have put it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.rules.steps import joined, redirect
from anydml.graph.views import through
from anydml.primitives import StridedCopy

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


def absorb(recipe: Recipe) -> Recipe:
    """A copy goes that takes every element of a scratch store once: the store's writer writes in the copy's target.

    Seen from there the copy is turned round, which makes a transposed or reversed target of its reader's strides.
    Other readers of the scratch store read the copy's target.
    """
    number = 0
    while number < len(recipe.steps):
        readers = recipe.readers(recipe.steps[number].target.tensor)
        absorbed = next(filter(None, (_absorbed(recipe, number, reader) for reader in readers)), None)
        number += absorbed is None
        recipe = absorbed or recipe
    return recipe


def _absorbed(recipe: Recipe, number: int, reader: int) -> Recipe | None:
    step, copy = recipe.steps[number], recipe.steps[reader].primitive
    old = step.target
    if recipe.stores[old.tensor].kind != "scratch" or not isinstance(copy, StridedCopy):
        return None
    # An answer means that every element written is among those that the copy reads, each of them once; and it reads
    # no others, because nobody reads what was not written.
    new = through(old, copy.source, copy.target)
    if new is None:
        return None
    others = [s for i, s in enumerate(recipe.steps) if i != reader]
    changed = redirect(others, old.tensor, lambda view: through(view, old, new))
    if changed is None:
        return None
    changed[number] = replace(step.writing(new), nodes=joined(step.nodes, recipe.steps[reader].nodes))
    return replace(recipe, steps=tuple(changed.get(i, s) for i, s in enumerate(others)))
