"""Absorb: a step writes where a copy of its whole result would have put it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anydml.graph.rules.steps import MOST_TRIES, Draft, joined, redirect
from anydml.graph.views import through
from anydml.ir.patterns import is_copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.views import View


def absorb(recipe: Recipe) -> Recipe:
    """A copy goes that takes every element of a scratch store once: the store's writer writes in the copy's target.

    Seen from there the copy is turned round, which makes a transposed or reversed target of its reader's strides.
    Other readers of the scratch store read the copy's target.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        while number in draft.steps and _absorbed(draft, number):
            pass
    return draft.recipe()


def _absorbed(draft: Draft, number: int) -> bool:
    step = draft.steps[number]
    old = step.target
    if not draft.is_own(old):
        return False
    readers = draft.readers(old.tensor)
    tries = 0
    for reader in _candidates(readers, old):
        copy = readers[reader].primitive
        assert is_copy(copy)  # noqa: S101 - for type checkers: candidates are copies
        # An answer means that every element written is among those that the copy reads, each of them once; and it
        # reads no others, because nobody reads what was not written.
        new = through(old, copy.source, copy.target)
        if new is None:
            continue
        others = {i: s for i, s in readers.items() if i != reader}
        changed = redirect(others, old.tensor, partial(through, target=old, source=new))
        if changed is not None:
            draft.drop(reader)
            draft.put(changed)
            draft.put({number: replace(step.writing(new), nodes=joined(step.nodes, readers[reader].nodes))})
            return True
        tries += 1
        if tries == MOST_TRIES:
            break
    return False


def _candidates(readers: Mapping[int, Step], old: View) -> list[int]:
    """The copies among the readers, without those that leave another reader which can read nothing but what it does."""
    copies = [i for i, reader in readers.items() if is_copy(reader.primitive)]
    if not copies:
        return []
    views = {view for reader in readers.values() for view in reader.sources if view.tensor == old.tensor}
    fixed = {view for view in views if through(view, old, old) is None}
    stuck = [i for i, reader in readers.items() if not fixed.isdisjoint(reader.sources)] if fixed else []
    return [i for i in copies if stuck in ([], [i])]
