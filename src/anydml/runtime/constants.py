"""The constants of a graph in memory of the engine's: those it was given, and what is computed of them once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anydml.arrays import upload
from anydml.arrays.cuda import synchronize
from anydml.errors import BindingError, Fault, show
from anydml.graph.arena import ALIGNMENT, lay_out
from anydml.memory import HOST
from anydml.primitives import IndexFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.engines.protocol import Engine
    from anydml.graph.recipe import Recipe
    from anydml.memory import Buffer


def hold_constants(
    engine: Engine, subject: str, data: Mapping[str, bytes], once: Recipe, always: Recipe
) -> tuple[Buffer | None, dict[str, int]]:
    """Copy the constants that every dispatch reads, and compute those that `once` computes of others.

    Gives the memory, which whoever runs `always` keeps, and the place of each constant in it.
    """
    kept, places = _fill(engine, subject, data, always)
    if once.steps:
        passing, passing_places = _fill(engine, subject, data, once)
        arena = lay_out(once)
        scratch = engine.reserve(arena.size_in_bytes) if arena.offsets else None
        stores = {**passing_places, **places}
        if scratch is not None:
            stores.update({name: scratch.address + offset for name, offset in arena.offsets.items()})
        for number, step in enumerate(once.steps):
            try:
                engine.compile(step.primitive).bind(stores)()
            except IndexFault as fault:
                fault.step = number
                raise
        if engine.memory != HOST:
            synchronize(engine.memory)  # whatever stream it is then read on
        del passing, scratch
    return kept, places


def _fill(
    engine: Engine, subject: str, data: Mapping[str, bytes], recipe: Recipe
) -> tuple[Buffer | None, dict[str, int]]:
    """Memory for the constants of a recipe, with the data of those that have some."""
    sizes = {name: store.size_in_bytes for name, store in recipe.stores.items() if store.kind == "constant"}
    if not sizes:
        return None, {}
    offsets, size = _place(sizes.items())
    try:
        memory = np.zeros(size, np.uint8)
        for name in sizes.keys() & data.keys():
            memory[offsets[name] : offsets[name] + len(data[name])] = np.frombuffer(data[name], np.uint8)
        buffer = upload(memory, engine.memory)
    except Exception as error:
        rule = f"{size} bytes of {engine.memory} memory could not be allocated ({show(error)})"
        raise BindingError(subject, Fault(field="constants", rule=rule, value=size)) from error
    return buffer, {name: buffer.address + offset for name, offset in offsets.items()}


def _place(sizes: Iterable[tuple[str, int]]) -> tuple[dict[str, int], int]:
    """One after the other, aligned."""
    offsets, end = {}, 0
    for name, size in sizes:
        offsets[name] = end
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, end
