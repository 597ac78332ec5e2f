"""Copy elimination: readers of a copy read its source, or those who write its source write where the copy would be.

Two passes of the optimiser's rounds: `copy_propagation` goes forward, from a copy to its readers, `store_forwarding`
backward, from a copy to the writers of what it reads.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import MOST_TRIES, Draft, joined, redirect
from anydml.graph.passes.splitting import cut
from anydml.graph.views import MOST_DIMENSIONS, parts_of, straightened, through
from anydml.ir.contraction import is_product
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


# Copy propagation


def copy_propagation(recipe: Recipe) -> Recipe:
    """Copy propagation: who reads a copy reads its source instead.

    A copy into scratch goes if each of its readers can take the same elements from its source, by strides alone.

    If one of them cannot, the copy stays and all of them read it: it is the smaller memory, and no pass was saved.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        step = draft.steps[number]
        if is_copy(step.primitive) and draft.is_scratch(step.target) and (changed := _forwarded(draft, step)):
            draft.put(changed)
            draft.drop(number)
    return draft.recipe()


def _forwarded(draft: Draft, step: Step) -> dict[int, Step] | None:
    """By number, the readers of a copy made readers of its source."""
    name = step.target.tensor
    if not draft.is_own(step.target):  # of a thousand parts each is read by others, which the first reader tells
        first = {i: draft.steps[i] for i in draft.who_reads(name)[:1]}
        if not _redirected(step, first):
            return None
    changed = _redirected(step, draft.readers(name))
    return changed and {i: replace(s, nodes=joined(step.nodes, s.nodes)) for i, s in changed.items()}


def _redirected(step: Step, readers: Mapping[int, Step]) -> dict[int, Step] | None:
    copy = step.primitive
    assert is_copy(copy)  # noqa: S101 - for type checkers: it was asked before

    def change(view: View) -> View | None:
        return through(view, copy.target, copy.source)

    changed = redirect(readers, copy.target.tensor, change)
    if changed is None:
        changed = redirect({i: _fitted(s, copy) for i, s in readers.items()}, copy.target.tensor, change)
    return changed


def _fitted(step: Step, copy: Map) -> Step:
    """A copy that reads another's target in other lines than it has, as one that reads it line by line.

    So does a product, along dimensions that it does not fold: heads that share keys and values read each of them from
    where it lies, not from one repetition for each head.
    """
    reader = step.primitive
    if is_copy(reader) and reader.source.tensor == copy.target.tensor:
        return replace(step, primitive=straightened(reader, copy.target, copy.source))
    if not isinstance(reader, Reduce) or reader.also or not is_product(reader):
        return step
    views = [view for view in reader.sources if view.tensor == copy.target.tensor]
    found = parts_of(views[0], copy.target, copy.source) if len(views) == 1 else None
    kept = len(reader.sizes) - reader.depth
    if found is None or any(len(part) > 1 for part in found[kept:]) or sum(map(len, found)) > MOST_DIMENSIONS:
        return step
    return replace(step, primitive=cut(reader, found))


# Store forwarding


def store_forwarding(recipe: Recipe) -> Recipe:
    """Store forwarding: steps write where a copy of their whole result would have put it.

    A copy goes that takes every element of a scratch store once: the store's writers write in the copy's target.

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
