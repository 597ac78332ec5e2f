"""Shared parts of rules: a recipe in the making, to send readers elsewhere, and to name the nodes of steps made one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.locks import cached_property

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.views import View

MOST_TRIES = 4
"""Of what is tried with one reader after another, so that a step with many takes no longer for each of them."""


class _Known(NamedTuple):
    """Who reads and writes a store, by number, and the stores that depend on constants alone."""

    readers: dict[str, set[int]]
    writers: dict[str, set[int]]
    fixed: set[str]

    def note(self, number: int, step: Step) -> None:
        for views, known in ((step.primitive.reads, self.readers), (step.primitive.targets, self.writers)):
            for view in views:
                if (found := known.get(view.tensor)) is None:
                    known[view.tensor] = {number}
                else:
                    found.add(number)

    def forget(self, number: int, step: Step) -> None:
        for view in step.sources:
            self.readers[view.tensor].discard(number)
        for target in step.targets:
            self.writers[target.tensor].discard(number)

    def is_constant(self, step: Step) -> bool:
        read, fixed = step.primitive.reads, self.fixed
        if not read or read[0].tensor not in fixed:  # as of most
            return False
        return all(view.tensor in fixed for view in read)


class Draft:
    """A recipe that a rule is at work on: it knows who reads a store, and steps keep their numbers when others go."""

    def __init__(self, recipe: Recipe) -> None:
        self._before, self._is_changed = recipe, False
        self.stores = dict(recipe.stores)
        self.steps = dict(enumerate(recipe.steps))

    @cached_property
    def _known(self) -> _Known:
        """Found out where it is first asked for: half of the rules find nothing to ask about."""
        known = _Known({}, {}, {name for name, store in self.stores.items() if store.kind == "constant"})
        for number, step in self.steps.items():
            known.note(number, step)
        for step in self.steps.values():
            if known.is_constant(step):
                known.fixed.update(view.tensor for view in step.targets if len(known.writers[view.tensor]) == 1)
        return known

    def is_scratch(self, view: View) -> bool:
        """Whether a view is of scratch memory."""
        return self.stores[view.tensor].kind == "scratch"

    def is_scratch_store(self, store: str) -> bool:
        """Whether a store is scratch memory."""
        return self.stores[store].kind == "scratch"

    def is_own(self, view: View) -> bool:
        """Whether a view is of scratch memory that one step alone writes."""
        return self.is_scratch(view) and len(self._known.writers[view.tensor]) == 1

    def is_constant(self, step: Step) -> bool:
        """Whether a step depends on constants alone: it is computed once."""
        return self._known.is_constant(step)

    def is_fixed(self, store: str) -> bool:
        """Whether a store depends on constants alone."""
        return store in self._known.fixed

    def readers(self, store: str) -> dict[int, Step]:
        """By number and in their order, the steps that read a store."""
        return {number: self.steps[number] for number in sorted(self._known.readers.get(store, ()))}

    def writers(self, store: str) -> dict[int, Step]:
        """By number and in their order, the steps that write parts of a store."""
        return {number: self.steps[number] for number in sorted(self._known.writers.get(store, ()))}

    def drop(self, number: int) -> None:
        """Let a step go."""
        self._is_changed = True
        self._known.forget(number, self.steps[number])
        del self.steps[number]

    def put(self, steps: Mapping[int, Step]) -> None:
        """Let steps take the places of others."""
        for number, step in steps.items():
            self._known.forget(number, self.steps[number])
            self._is_changed |= step is not self.steps[number]
            self.steps[number] = step
            self._known.note(number, step)

    def recipe(self) -> Recipe:
        """The recipe after the rule: itself, where nothing was changed."""
        if not self._is_changed:
            return self._before
        return replace(self._before, stores=self.stores, steps=tuple(self.steps.values()))


def joined(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The nodes of two steps that become one, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def redirect(readers: Mapping[int, Step], store: str, change: Callable[[View], View | None]) -> dict[int, Step] | None:
    """The readers of a store with their views of it changed; None where one of them has no answer."""
    views: dict[View, View] = {}
    for step in readers.values():
        for view in step.sources:
            if view.tensor == store and view not in views:
                changed = change(view)
                if changed is None:
                    return None
                views[view] = changed
    return {number: step.reading(lambda view: views.get(view, view)) for number, step in readers.items()}
