"""Redundancy elimination: common subexpressions (`cse`) and dead code (`dce`), passes of the optimiser's rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import MOST_TRIES, Draft, joined, redirect
from anydml.graph.views import through
from anydml.ir.patterns import copy_of, is_copy
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Collection

    from anydml.graph.recipe import Recipe
    from anydml.ir.verbs import Primitive


def dce(recipe: Recipe) -> Recipe:
    """Dead code elimination: what nobody reads is not computed, unless it may raise.

    Steps go whose scratch nobody reads.

    A gather that may raise stays: its indices are checked in every graph that has its node, so that whether one is
    reported does not depend on what the passes find out. Scratch and constants that no step uses any more go too.
    """
    read: set[str] = set()
    kept = []
    for step in reversed(recipe.steps):
        written = {target.tensor for target in step.targets}
        if step.may_raise or written & read or any(recipe.stores[name].kind == "output" for name in written):
            read |= {view.tensor for view in step.sources}
            kept.append(step)
    used = read | {target.tensor for step in kept for target in step.targets}
    stores = {n: s for n, s in recipe.stores.items() if n in used or s.kind in ("input", "output")}
    if len(kept) == len(recipe.steps) and len(stores) == len(recipe.stores):
        return recipe
    return replace(recipe, stores=stores, steps=tuple(kept[::-1]))


def cse(recipe: Recipe) -> Recipe:
    """Common subexpression elimination: what two steps would compute alike is computed once.

    Of two steps that differ in their targets alone the second goes, and its readers read the first's result.

    Where only the second writes an output, the first writes it in its place. Where both do, the second copies what
    the first wrote; two copies stay as they are, and so does what reads fewer bytes than it writes, such as a fill.
    """
    draft = Draft(recipe)
    known: dict[Primitive, int] = {}
    failed: Counter[int] = Counter()
    for number in range(len(recipe.steps)):
        while number in draft.steps:
            first = known.setdefault(_without_target(draft.steps[number].primitive), number)
            changed = _once(draft, first, number, failed) if first != number else None
            if changed is None:
                break
            for reader in changed:
                if reader < number:
                    known.setdefault(_without_target(draft.steps[reader].primitive), reader)
    return draft.recipe()


def _without_target(primitive: Primitive) -> Primitive:
    target = primitive.target
    return replace(primitive, target=View("", target.data_type, target.sizes, ()))


def _once(draft: Draft, first: int, second: int, failed: Counter[int]) -> Collection[int] | None:
    """Make two steps one, or a copy of the second: who reads something else now, or None where nothing was done."""
    one, other = draft.steps[first], draft.steps[second]
    if draft.is_scratch(other.target):
        return _read_instead(draft, other.target, one.target, first, second)
    if draft.is_scratch(one.target) and failed[first] < MOST_TRIES:
        changed = _read_instead(draft, one.target, other.target, first, second)
        if changed is not None:
            return changed
        failed[first] += 1
    copy = replace(other, primitive=copy_of(one.target, other.target))
    if is_copy(other.primitive) or copy.bytes_moved > other.bytes_moved:
        return None
    draft.put({second: copy})
    return ()


def _read_instead(draft: Draft, old: View, new: View, first: int, second: int) -> Collection[int] | None:
    """Let the first step write one of the two targets and everybody read it; the second step goes."""
    changed = redirect(draft.readers(old.tensor), old.tensor, lambda view: through(view, old, new))
    if changed is None:
        return None
    one = draft.steps[first]
    draft.put({**changed, first: replace(one.writing(new), nodes=joined(one.nodes, draft.steps[second].nodes))})
    draft.drop(second)
    return changed.keys()
