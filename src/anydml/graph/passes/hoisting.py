"""Hoisting: what a step computes of constants alone, for one channel after the other, is computed once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft
from anydml.graph.passes.fusion import Sources, with_leaves, work
from anydml.graph.recipe import Step, Store, distinct_sizes, free_name
from anydml.ir.expressions import FOLDS, load
from anydml.ir.trees import fetched, loads, rewrite, walk
from anydml.ir.verbs import Computation, Map
from anydml.ir.views import View
from anydml.memory import packed_strides

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr


LITTLE_WORK = 2
"""Operations from which on it is done ahead: one takes no longer than to load what it would give."""
TIMES = 4
"""How often each number must be used, at least."""


def hoisting(recipe: Recipe) -> Recipe:
    """The parts of steps that depend on constants alone become steps of their own, before.

    As in a batch normalisation: its factor, scale / √(variance + ε), takes more work than all else that is done with
    an element. What is folded stays as it is: engines read numbers of few bits as they lie.
    """
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft, stores, steps = Draft(recipe), dict(recipe.stores), list[Step]()
    for step in recipe.steps:
        made = step.primitive
        if isinstance(made, Computation) and not draft.is_constant(step):
            while (part := next(_parts(made, draft), None)) is not None:
                ahead = map_ahead(made, part, name_ahead(step, stores))
                size = math.prod(ahead.target.sizes) * ahead.target.data_type.size_in_bytes
                stores[ahead.target.tensor] = Store("scratch", size)
                steps.append(replace(step, primitive=ahead))
                made = reading(made, ahead.target, {part: number_ahead(made, ahead.target)})
        steps.append(step if made is step.primitive else replace(step, primitive=made))
    return recipe if len(steps) == len(recipe.steps) else replace(recipe, stores=stores, steps=tuple(steps))


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
            if views and is_less and TIMES * math.prod(sizes) <= math.prod(made.sizes):
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
