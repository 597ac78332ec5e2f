"""Constant folding: what depends on constants alone is computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.prologue_fusion import unpacks
from anydml.graph.recipe import Recipe, Step, free_name
from anydml.ir.patterns import copy_of, is_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from anydml.graph.recipe import Store, StoreKind
    from anydml.ir.views import View


MOST_UNPACKED = 2**30
"""Bytes of what is unpacked once, numbers of 4 bits as FLOAT32 for instance: more is unpacked at every dispatch, into
memory that a graph's steps share. A language model's weights would take eight times their memory."""
MOST_READ_OFTEN = 2**26
"""The same where products unpack them as they read: 64 rows by 4096 x 4096 of 4 bits take 76 ms so, 62 with weights
unpacked once, in eight times their memory, and 105 unpacked into memory before (one thread of a Neoverse-N1)."""


def split_constants(recipe: Recipe, unpack: Callable[[Recipe], Recipe] | None = None) -> tuple[Recipe, Recipe]:
    """The steps for when a graph is compiled, and those for every dispatch; after `optimise`.

    The first recipe reads constants alone, and its outputs are constants of the second, under the same names: the
    runtime runs it once, on the engine that will run the second, and binds what it wrote as it binds any constant.
    It has no steps where there is nothing to fold. A constant that the second does not name is needed no more.

    What several steps write parts of is put together at every dispatch. An output of the graph is written then, too:
    one that depends on constants alone, and is more than a copy of one, is computed once into a constant that is named
    after it, and copied from there. `unpack` has products unpack weights as they read, where there are many.
    """
    once, always = _split(recipe)
    large = {step.target.tensor: step for step in once.steps if unpacks(step.primitive)}
    left = set[str]()
    if large and unpack is not None:
        _, lean = _split(recipe, large)
        found = large.keys() - unpack(lean).stores.keys()
        left = found if _size(once, found) > MOST_READ_OFTEN else left
    if _size(once, large.keys() - left) > MOST_UNPACKED:
        left = set(large)
    if not left:
        return once, always
    once, always = _split(recipe, left)
    return once, always if unpack is None else unpack(always)


def _size(recipe: Recipe, names: Collection[str]) -> int:
    return sum(store.size_in_bytes for name, store in recipe.stores.items() if name in names)


def _split(recipe: Recipe, left: Collection[str] = ()) -> tuple[Recipe, Recipe]:
    """The same, but for what is left for every dispatch though it depends on constants alone."""
    stores = dict(recipe.stores)
    shared = {*recipe.shared(), *left}
    known = {name for name, store in stores.items() if store.kind == "constant"}
    once: list[Step] = []
    always: list[Step] = []
    held: dict[str, str] = {}

    def instead(view: View) -> View:
        return view.named(held.get(view.tensor, view.tensor))

    for given in recipe.steps:
        step = given.reading(instead) if held else given
        target = step.target
        is_output = stores[target.tensor].kind == "output"
        is_constant = all(view.tensor in known for view in step.sources) and target.tensor not in shared
        if not is_constant or (is_output and is_copy(step.primitive)):
            always.append(step)
            continue
        if is_output:
            name = free_name(f"{target.tensor} once", stores)
            held[target.tensor], stores[name] = name, stores[target.tensor]
            always.append(replace(step, primitive=copy_of(instead(target), target)))
        once.append(step.writing(instead(target)))
        known.add(once[-1].target.tensor)
    made = {step.target.tensor for step in once}
    read = {view.tensor for step in always for view in step.sources}
    before = _used(once, stores, {name: "output" if name in read else "scratch" for name in made})
    after = _used(always, stores, dict.fromkeys(made, "constant"))
    untouched = {name: store for name, store in recipe.stores.items() if store.kind in ("input", "output")}
    return Recipe(before, tuple(once)), Recipe({**untouched, **after}, tuple(always))


def _used(steps: Sequence[Step], stores: dict[str, Store], kinds: dict[str, StoreKind]) -> dict[str, Store]:
    """The stores that steps name, those of other kinds changed."""
    names = dict.fromkeys(view.tensor for step in steps for view in (*step.sources, *step.targets))
    return {name: replace(stores[name], kind=kinds.get(name, stores[name].kind)) for name in names}
