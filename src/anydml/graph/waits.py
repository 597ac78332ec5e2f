"""Which steps must wait for which: those that write what they touch, or touch what they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe

Touched = dict[str, tuple[int, int]]
"""By store, from where to where it lies in the arena; one that lies elsewhere meets itself alone."""


def find_waits(recipe: Recipe, offsets: Mapping[str, int]) -> list[list[int]]:
    """For each step the earlier ones that it must come after, by number, without those that they come after.

    `offsets` are those of scratch stores in their arena.
    """

    def memory(names: set[str]) -> Touched:
        stores = {name: recipe.stores[name] for name in names}
        at = {name: offsets.get(name, 0) for name in names}
        ends = {name: at[name] + store.size_in_bytes if name in offsets else 0 for name, store in stores.items()}
        return {name: (at[name], ends[name]) for name, store in stores.items() if store.kind != "constant"}

    reads = [memory({view.tensor for view in step.sources}) for step in recipe.steps]
    writes = [memory({view.tensor for view in step.targets}) for step in recipe.steps]
    before: list[int] = []
    """Of each step all that it comes after, a bit for each."""
    waits: list[list[int]] = []
    for i, (read, written) in enumerate(zip(reads, writes, strict=True)):
        own, after = list[int](), 0
        for j in reversed(range(i)):
            if after >> j & 1:
                continue
            if _meet(writes[j], read) or _meet(writes[j], written, are_written=True) or _meet(reads[j], written):
                own.append(j)
                after |= before[j] | 1 << j
        before.append(after)
        waits.append(own)
    return waits


def _meet(these: Touched, those: Touched, *, are_written: bool = False) -> bool:
    """Whether two share memory. What both write of one store are parts that do not meet."""
    if not are_written and not these.keys().isdisjoint(those):
        return True
    return any(
        low < end and start < high
        for name, (low, high) in these.items()
        for other, (start, end) in those.items()
        if name != other
    )
