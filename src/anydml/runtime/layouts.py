"""What programs want laid out ahead, of constants: which stores there are of it, who reads them, and who writes them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.engines.protocol import layouts_of
from anydml.graph.recipe import Recipe, Step, Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.protocol import Program
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of the programs of a recipe; programs that want the same share it."""

    maps: Mapping[str, Map]
    """By store, what writes it."""
    names: tuple[Mapping[str, str], ...]
    """For each program, the stores by the names that they have there."""
    read: frozenset[str]
    """The stores that programs read as they are."""

    @classmethod
    def of(cls, recipe: Recipe, programs: Sequence[Program]) -> Layouts:
        """What the programs of a recipe's steps want."""
        stores: dict[Map, str] = {}
        taken, read, names = set(recipe.stores), set[str](), []
        for step, program in zip(recipe.steps, programs, strict=True):
            wanted = layouts_of(program)
            own = {}
            for name, layout in wanted.items():
                plain = replace(layout, target=replace(layout.target, tensor=""))
                if plain not in stores:
                    store = f"{layout.source.tensor} laid out"
                    while store in taken:
                        store += " more"
                    taken.add(store)
                    stores[plain] = store
                own[name] = stores[plain]
            names.append(own)
            laid_out = {view.tensor for layout in wanted.values() for view in layout.sources}
            read |= {view.tensor for view in step.sources} - laid_out
        maps = {store: replace(map, target=replace(map.target, tensor=store)) for map, store in stores.items()}
        return cls(maps, tuple(names), frozenset(read))

    def bound(self, places: Mapping[str, int]) -> list[Mapping[str, int]]:
        """For each program the places of stores, and of its layouts by the names that they have there."""
        return [{**places, **{name: places[own[name]] for name in own}} if own else places for own in self.names]

    def after(self, once: Recipe, always: Recipe) -> Recipe:
        """What is computed once, with the layouts; what only they read need not last."""
        if not self.maps:
            return once
        sources = {view.tensor for map in self.maps.values() for view in map.sources}
        stores = {name: store for name, store in always.stores.items() if name in sources} | dict(once.stores)
        for name, store in stores.items():
            if store.kind == "output" and name not in self.read:
                stores[name] = replace(store, kind="scratch")
        stores |= {name: Store("output", size_of(map.target)) for name, map in self.maps.items()}
        return Recipe(stores, (*once.steps, *(Step(map, ()) for map in self.maps.values())))

    def told(self, recipe: Recipe) -> Recipe:
        """The recipe as its programs read it: what is laid out by the name of that."""
        steps = []
        for step, own in zip(recipe.steps, self.names, strict=True):
            instead = {self.maps[store].source.tensor: store for store in own.values()}
            steps.append(step.reading(lambda view, instead=instead: _named(view, instead)) if instead else step)  # type: ignore[misc]
        stores = {name: store for name, store in recipe.stores.items() if store.kind != "constant" or name in self.read}
        stores |= {name: Store("constant", size_of(map.target)) for name, map in self.maps.items()}
        return Recipe(stores, tuple(steps))


def _named(view: View, names: Mapping[str, str]) -> View:
    return replace(view, tensor=names.get(view.tensor, view.tensor))


def size_of(view: View) -> int:
    """The bytes of a packed view."""
    return math.prod(view.sizes) * view.data_type.size_in_bytes
