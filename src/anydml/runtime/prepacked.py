"""Prepacked constants: the layouts that programs want ahead, their stores, who writes them, and who reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from anydml.graph.recipe import Recipe, Step, Store, free_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Map, Reduce
    from anydml.ir.views import View

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Layouts:
    """The layouts of the programs of a recipe; programs that want the same share it."""

    maps: Mapping[str, Map | Reduce]
    """By store, what writes it."""
    names: tuple[Mapping[str, str], ...]
    """For each program, the stores by the names that they have there."""
    read: frozenset[str]
    """The stores that programs read as they are."""

    @classmethod
    def of(cls, recipe: Recipe, programs: Sequence[Program], taken: Iterable[str] = ()) -> Layouts:
        """The layouts for the programs of a recipe's steps; the stores have names that are not taken."""
        stores: dict[Map | Reduce, str] = {}
        named, read, names = {*recipe.stores, *taken}, set[str](), []
        for step, program in zip(recipe.steps, programs, strict=True):
            wanted = program.layouts
            own = {}
            for name, layout in wanted.items():
                plain = replace(layout, target=replace(layout.target, tensor=""))
                if plain not in stores:
                    store = free_name(f"{layout.sources[0].tensor} laid out", named)
                    named.add(store)
                    stores[plain] = store
                own[name] = stores[plain]
            names.append(own)
            read |= {view.tensor for view in step.sources} - {layout.sources[0].tensor for layout in wanted.values()}
        maps = {store: replace(plain, target=replace(plain.target, tensor=store)) for plain, store in stores.items()}
        return cls(maps, tuple(names), frozenset(read))

    def bind(self, programs: Sequence[Program], places: Mapping[str, int]) -> list[Callable[[], Any]]:
        """Bind programs to stores, each to its layouts by the names that they have there."""
        if not self.maps:
            return [program.bind(places) for program in programs]
        return [self.bind_one(programs, number, places) for number in range(len(programs))]

    def bind_one(self, programs: Sequence[Program], number: int, places: Mapping[str, int]) -> Callable[[], Any]:
        """Bind the program of some number."""
        return programs[number].bind(self.places(number, places))

    def places(self, number: int, places: Mapping[str, T]) -> Mapping[str, T]:
        """Where the stores of the program of some number lie, by the names that they have there."""
        own = {name: places[store] for name, store in self.names[number].items()}
        return {**places, **own} if own else places

    def once(self, once: Recipe, always: Recipe) -> Recipe:
        """The steps that run once, with the layouts of constants; stores that only they read need not last."""
        known = {name: store for name, store in always.stores.items() if store.kind == "constant"}
        ahead = {name: made for name, made in self.maps.items() if made.sources[0].tensor in known}
        if not ahead:
            return once
        stores = {made.sources[0].tensor: known[made.sources[0].tensor] for made in ahead.values()} | {**once.stores}
        for name, store in stores.items():
            if store.kind == "output" and name not in self.read:
                stores[name] = replace(store, kind="scratch")
        stores |= {name: Store("output", size_of(made.target)) for name, made in ahead.items()}
        # Each as soon as what it reads is there: what nothing else reads gives its place to the next.
        waiting: dict[str, list[Step]] = {made.sources[0].tensor: [] for made in ahead.values()}
        for made in ahead.values():
            waiting[made.sources[0].tensor].append(Step(made, ()))
        last = {view.tensor: number for number, step in enumerate(once.steps) for view in step.targets}
        steps = [step for name, several in waiting.items() if name not in last for step in several]
        for number, step in enumerate(once.steps):
            steps.append(step)
            for view in step.targets:
                if last[view.tensor] == number:
                    steps += waiting.pop(view.tensor, ())
        return Recipe(stores, tuple(steps))

    def did(self, others: Mapping[str, str]) -> dict[str, str]:
        """The effects of graph passes, this one after the others."""
        count = len(self.maps)
        return {**others, "prepacking": f"{count} constant{'s' * (count != 1)} laid out once"} if count else {**others}

    def told(self, recipe: Recipe) -> Recipe:
        """The recipe with what is laid out by the name of that."""
        steps = []
        for step, own in zip(recipe.steps, self.names, strict=True):
            instead = {self.maps[store].sources[0].tensor: store for store in own.values()}
            steps.append(step.reading(lambda view, instead=instead: _renamed(view, instead)))  # type: ignore[misc]  # a default is no parameter
        stores = {name: store for name, store in recipe.stores.items() if store.kind != "constant" or name in self.read}
        stores |= {name: Store("constant", size_of(made.target)) for name, made in self.maps.items()}
        return Recipe(stores, tuple(steps))


def _renamed(view: View, names: Mapping[str, str]) -> View:
    return replace(view, tensor=names.get(view.tensor, view.tensor))


def size_of(view: View) -> int:
    """The bytes of a packed view."""
    return math.prod(view.sizes) * view.data_type.size_in_bytes
