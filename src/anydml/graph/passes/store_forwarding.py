"""Store forwarding: steps write where a copy of their whole result would have put it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import MOST_TRIES, Draft, joined, redirect
from anydml.graph.views import through
from anydml.ir.patterns import is_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.views import View


def store_forwarding(recipe: Recipe) -> Recipe:
    """A copy goes that takes every element of a scratch store once: the store's writers write in the copy's target.

    Seen from there the copy is turned round, which makes a transposed or reversed target of its reader's strides.
    Other readers of the scratch store read the copy's target. Joins of joins write their parts once; the last comes
    first, so that those of a thousand joins on end are sent to their place once, and not from each join to the next.
    """
    draft = Draft(recipe)
    for store in reversed(dict.fromkeys(step.target.tensor for step in recipe.steps)):
        if recipe.stores[store].kind == "scratch":
            _absorb(draft, store)
    return draft.recipe()


def _absorb(draft: Draft, store: str) -> None:
    writers, readers = draft.writers(store), draft.readers(store)
    if any(len(step.targets) > 1 for step in writers.values()):
        return
    for reader in _candidates(readers, [step.target for step in writers.values()])[:MOST_TRIES]:
        copy = readers[reader].primitive
        assert is_copy(copy)  # noqa: S101 - for type checkers: candidates are copies
        # An answer means that every element written is among those that the copy reads, each of them once; and it
        # reads no others, because nobody reads what was not written.
        change = partial(through, target=copy.source, source=copy.target)
        new = _changed(writers, change)
        changed = redirect({i: s for i, s in readers.items() if i != reader}, store, change) if new else None
        if new and changed is not None:
            nodes = readers[reader].nodes
            draft.drop(reader)
            draft.put(changed)
            for i, view in new.items():  # some of which may have been among the readers
                step = draft.steps[i]
                draft.put({i: replace(step.writing(view), nodes=joined(step.nodes, nodes))})
            return


def _changed(writers: Mapping[int, Step], change: Callable[[View], View | None]) -> dict[int, View] | None:
    """By number, the targets of writers in another place; None where one of them has none."""
    new = {}
    for number, step in writers.items():
        view = change(step.target)
        if view is None:
            return None
        new[number] = view
    return new


def _candidates(readers: Mapping[int, Step], written: Sequence[View]) -> list[int]:
    """The copies of all that is written, without those that leave a reader which can read nothing but what it does."""
    copies = [i for i, reader in readers.items() if is_copy(reader.primitive)]
    if len(copies) > 1:
        size = sum(math.prod(view.sizes) for view in written)
        copies = [i for i in copies if math.prod(readers[i].primitive.sizes) == size]
    if not copies or len(written) > 1:
        return copies
    (old,) = written
    views = {view for reader in readers.values() for view in reader.sources if view.tensor == old.tensor}
    fixed = {view for view in views if through(view, old, old) is None}
    stuck = [i for i, reader in readers.items() if not fixed.isdisjoint(reader.sources)] if fixed else []
    return [i for i in copies if stuck in ([], [i])]
