"""Constant folding: what depends on constants alone is computed once, and constants lie as kernels read them fastest.

`hoisting`, a pass of the optimiser's rounds, makes steps of their own of parts that depend on constants alone;
`constant_folding`, after the rounds, takes such steps out of the dispatch; `prepacking` says which constants an engine
may lay out ahead.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.memory import packed_strides
from anydml.graph.passes.draft import Draft, expanded
from anydml.graph.passes.fusion import Sources, with_leaves, work
from anydml.graph.passes.prologue_fusion import unpacks
from anydml.graph.recipe import Recipe, Step, Store, distinct_sizes, free_name
from anydml.ir.expressions import FOLDS, load
from anydml.ir.patterns import copy_of, is_copy
from anydml.ir.trees import fetched, loads, rewrite, walk
from anydml.ir.verbs import Computation, Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from anydml.graph.recipe import StoreKind
    from anydml.ir.expressions import Expr


# Hoisting


LITTLE_WORK = 2
"""Operations from which on it is done ahead: one takes no longer than to load what it would give."""
LEAST_USES = 4
"""How often each number must be used, at least."""


def hoisting(recipe: Recipe) -> Recipe:
    """Hoisting: what a step computes of constants alone, for one channel after the other, is computed once.

    The parts of steps that depend on constants alone become steps of their own, before.

    As in a batch normalisation: its factor, scale / √(variance + ε), takes more work than all else that is done with
    an element. What is folded stays as it is: engines read numbers of few bits as they lie.
    """
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft = Draft(recipe)

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        made = step.primitive
        if not isinstance(made, Computation) or draft.is_constant(step):
            return None
        return with_parts_ahead(step, made, lambda made: next(_parts(made, draft), None), stores)

    return expanded(recipe, expand)


def with_parts_ahead(
    step: Step, made: Computation, part_of: Callable[[Computation], Expr | None], stores: dict[str, Store]
) -> list[Step] | None:
    """Steps that compute parts of a verb ahead, as long as it has any, and the step of what then is left of the verb;
    None where it has none.
    """
    steps = list[Step]()
    while (part := part_of(made)) is not None:
        ahead = map_ahead(made, part, name_ahead(step, stores))
        size = math.prod(ahead.target.sizes) * ahead.target.data_type.size_in_bytes
        stores[ahead.target.tensor] = Store("scratch", size)
        steps.append(replace(step, primitive=ahead))
        made = reading(made, ahead.target, {part: number_ahead(made, ahead.target)})
    return [*steps, replace(step, primitive=made)] if steps else None


def name_ahead(step: Step, stores: dict[str, Store]) -> str:
    """A store for what is computed once, before a step."""
    return free_name(f"{step.target.tensor} ahead", stores)


def _parts(made: Computation, draft: Draft) -> Iterator[Expr]:
    """The largest parts of a step's values that depend on constants alone, and are worth it."""
    if not any(draft.is_fixed(view.tensor) for view in made.sources):
        return
    fixed: set[Expr] = set()
    outside: set[Expr] = {*made.values}
    nodes = list(walk(*made.values))
    for node in nodes:
        if node.op == "load":
            is_fixed = draft.is_fixed(made.sources[int(node.value)].tensor)
        else:
            is_fixed = node.op not in (*FOLDS, "fetch", "coordinate") and all(arg in fixed for arg in node.args)
        if is_fixed:
            fixed.add(node)
    for node in reversed(nodes):
        if node in outside and node not in fixed and node.op not in (*FOLDS, "fetch"):
            outside.update(node.args)
    for node in nodes:
        if node in outside and node in fixed and node.type is not None and work(node) >= LITTLE_WORK:
            views = [made.sources[int(one.value)] for one in loads(node)]
            sizes = _sizes(made, views)
            is_less = math.prod(sizes) <= sum(math.prod(distinct_sizes(view)) for view in views)
            if views and is_less and LEAST_USES * math.prod(sizes) <= math.prod(made.sizes):
                yield node


def _sizes(made: Computation, views: list[View]) -> tuple[int, ...]:
    """The sizes of the walk, where something varies along it."""
    return tuple(n if any(view.strides[k] for view in views) else 1 for k, n in enumerate(made.sizes))


def map_ahead(made: Computation, part: Expr, name: str) -> Map:
    """A map that computes a part of a step's value, each number once."""
    sources, found = Sources(), loads(part)
    sizes = _sizes(made, [made.sources[int(node.value)] for node in found])
    instead = {}
    for node in found:
        view = made.sources[int(node.value)]
        strides = tuple(stride if n > 1 else 0 for stride, n in zip(view.strides, sizes, strict=True))
        instead[int(node.value)] = sources.load(replace(view, sizes=sizes, strides=strides))
    assert part.type is not None  # noqa: S101 - for type checkers: numbers alone are hoisted
    packed = zip(packed_strides(sizes), sizes, strict=True)
    target = View(name, part.type, sizes, tuple(stride if n > 1 else 0 for stride, n in packed))
    return Map(sources.views(), target, with_leaves(part, instead))


def number_ahead(made: Computation, target: View) -> Expr:
    """The load of a number that was computed before the step."""
    return load(len(made.sources), target.data_type)


def reading(made: Computation, target: View | None, instead: Mapping[Expr, Expr]) -> Computation:
    """A step with others in the place of some nodes of its trees, which may load what was computed before.

    Sources that nothing else reads go.
    """
    more = () if target is None else (replace(target, sizes=made.sizes),)
    changed = made.computing(lambda value: rewrite(value, lambda node: instead.get(node, node)))
    views, sources = (*made.sources, *more), Sources()
    places = fetched(*changed.values)
    own = {int(one.value): sources.load(views[int(one.value)]) for one in loads(*changed.values)}

    def fetch(slot: int, indices: object) -> Expr:
        return sources.fetch(views[slot], indices)  # type: ignore[arg-type]  # as `with_leaves` gives them

    changed = changed.computing(lambda value: with_leaves(value, own, fetches=fetch if places else None))
    return replace(changed, sources=sources.views())


# Constant folding


MOST_UNPACKED = 2**30
"""Bytes of what is unpacked once, numbers of 4 bits as FLOAT32 for instance: more is unpacked at every dispatch, into
memory that a graph's steps share. A language model's weights would take eight times their memory."""
MOST_READ_OFTEN = 2**22
"""The same where products unpack them as they read: 8, 16 and 128 rows by 2048 x 2048 of 4 bits take 1.1, 1.8 and 9.0
ms so, and 1.3, 1.8 and 8.7 with weights unpacked once, in eight times their memory (one thread, 16 lanes)."""


def constant_folding(recipe: Recipe, unpack: Callable[[Recipe], Recipe] | None = None) -> tuple[Recipe, Recipe]:
    """Constant folding: what depends on constants alone is computed once.

    The steps for when a graph is compiled, and those for every dispatch; after `optimise`.

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


# Prepacking


ROOM = 1.25
"""The most memory of constants that an engine lays out ahead, as a multiple of their own."""


def prepacking(recipe: Recipe, room: int) -> frozenset[str]:
    """Prepacking: constants such as filters and weights are laid out once, as kernels read them fastest.

    The stores that an engine may lay out ahead: constants, where so many bytes are room enough.
    """
    fixed = {name: store.size_in_bytes for name, store in recipe.stores.items() if store.kind == "constant"}
    return frozenset(fixed if sum(fixed.values()) * ROOM <= room else ())
