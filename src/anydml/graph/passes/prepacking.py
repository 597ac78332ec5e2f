"""Prepacking: constants such as filters and weights are laid out once, as kernels read them fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


ROOM = 1.25
"""The most memory of constants that an engine lays out ahead, as a multiple of their own."""


def constants_to_lay_out(recipe: Recipe, room: int) -> frozenset[str]:
    """The stores that an engine may lay out ahead: constants, where so many bytes are room enough."""
    fixed = {name: store.size_in_bytes for name, store in recipe.stores.items() if store.kind == "constant"}
    return frozenset(fixed if sum(fixed.values()) * ROOM <= room else ())
