"""Dead code elimination: what nobody reads is not computed, unless it may raise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


def dce(recipe: Recipe) -> Recipe:
    """Steps go whose scratch nobody reads.

    A gather that may raise stays: its indices are checked in every graph that has its node, so that whether one is
    reported does not depend on what the rules find out. Scratch and constants that no step uses any more go too.
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
