"""What graph passes change recipes by: a draft that knows readers and writers, steps that become several, readers sent
elsewhere, and the nodes of steps made one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.locks import cached_property
from anydml.ir.verbs import Computation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.graph.recipe import Recipe, Step, Store
    from anydml.ir.views import View

MOST_TRIES = 4
"""Of what is tried with one reader after another, so that a step with many takes no longer for each of them."""


class _Known(NamedTuple):
    """Who reads and writes a store, by number and in order, and the stores that depend on constants alone."""

    readers: dict[str, list[int]]
    writers: dict[str, list[int]]
    fixed: set[str]
    raising: list[int]
    """The steps that may raise, in order."""

    def note(self, number: int, step: Step) -> None:
        for views, known in ((step.primitive.reads, self.readers), (step.primitive.targets, self.writers)):
            for view in views:
                if (found := known.get(view.tensor)) is None:
                    known[view.tensor] = [number]
                else:
                    _add(found, number)
        if step.may_raise:
            _add(self.raising, number)

    def forget(self, number: int, step: Step) -> None:
        for view in step.sources:
            _remove(self.readers[view.tensor], number)
        for target in step.targets:
            _remove(self.writers[target.tensor], number)
        if step.may_raise:
            _remove(self.raising, number)

    def is_constant(self, step: Step) -> bool:
        read, fixed = step.primitive.reads, self.fixed
        if not read or read[0].tensor not in fixed:  # as of most
            return False
        return all(view.tensor in fixed for view in read)


def _add(numbers: list[int], number: int) -> None:
    """Put a number among others in order, once."""
    if not numbers or numbers[-1] < number:  # as when a recipe is gone through
        numbers.append(number)
    elif numbers[(place := bisect_left(numbers, number))] != number:
        numbers.insert(place, number)


def _remove(numbers: list[int], number: int) -> None:
    """Take a number out of others in order, if it is there."""
    place = bisect_left(numbers, number)
    if place < len(numbers) and numbers[place] == number:
        del numbers[place]


class Draft:
    """A recipe that a pass is at work on: it knows who reads a store, and steps keep their numbers when others go."""

    def __init__(self, recipe: Recipe) -> None:
        self._before, self._is_changed = recipe, False
        self.stores = dict(recipe.stores)
        self.steps = dict(enumerate(recipe.steps))

    @cached_property
    def _known(self) -> _Known:
        """Found out where it is first asked for: half of the passes find nothing to ask about."""
        known = _Known({}, {}, {name for name, store in self.stores.items() if store.kind == "constant"}, [])
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
        return {number: self.steps[number] for number in self.who_reads(store)}

    def writers(self, store: str) -> dict[int, Step]:
        """By number and in their order, the steps that write parts of a store."""
        return {number: self.steps[number] for number in self.who_writes(store)}

    def who_reads(self, store: str) -> Sequence[int]:
        """The numbers of the steps that read a store, in order: for passes that need a few, of thousands of them."""
        return self._known.readers.get(store, ())

    def who_writes(self, store: str) -> Sequence[int]:
        """The numbers of the steps that write parts of a store, in order."""
        return self._known.writers.get(store, ())

    def may_raise(self, first: int, last: int, *, but: Collection[int] = ()) -> bool:
        """Whether a step between two others may raise, before which a check must stay."""
        numbers = self._known.raising
        return any(numbers[k] not in but for k in range(bisect_right(numbers, first), bisect_left(numbers, last)))

    def drop(self, number: int) -> None:
        """Let a step go."""
        self._is_changed = True
        self._known.forget(number, self.steps[number])
        del self.steps[number]

    def put(self, steps: Mapping[int, Step]) -> None:
        """Let steps take the places of others, without sources that their values do not read any more.

        Such a source would be taken for one that is loaded from, which has the sizes of the walk.
        """
        for number, given in steps.items():
            step, made = given, given.primitive
            if isinstance(made, Computation) and (read := made.without_unread()) is not made:
                step = replace(given, primitive=read)
            self._known.forget(number, self.steps[number])
            self._is_changed |= step is not self.steps[number]
            self.steps[number] = step
            self._known.note(number, step)

    def recipe(self) -> Recipe:
        """The recipe after the pass: itself, where nothing was changed."""
        if not self._is_changed:
            return self._before
        return replace(self._before, stores=self.stores, steps=tuple(self.steps.values()))


def expanded(recipe: Recipe, expand: Callable[[Step, dict[str, Store]], Sequence[Step] | None]) -> Recipe:
    """A recipe some of whose steps become several: `expand` gives those that stand in the place of one, and adds the
    stores that they write; None for a step that stays.
    """
    stores, steps, is_changed = dict(recipe.stores), list["Step"](), False
    for step in recipe.steps:
        made = expand(step, stores)
        is_changed |= made is not None
        steps += (step,) if made is None else made
    return replace(recipe, stores=stores, steps=tuple(steps)) if is_changed else recipe


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
