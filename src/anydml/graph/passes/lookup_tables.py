"""Lookup tables: what is computed of one byte and of constants is looked up, in a table of all its values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.fusion import inlined, with_leaves, work
from anydml.graph.recipe import Step, Store, free_name
from anydml.ir.expressions import coordinate, load
from anydml.ir.patterns import BYTE_VALUES, is_copy, looked_up
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe


LITTLE_WORK = 3
"""Operations from which on a byte is looked up."""
FEW = 1024
"""Elements below which they are computed: a table takes 256 of them."""
MOST_SOURCES = 64
"""Of what is computed once, for a table."""
_BYTES = (DataType.INT8, DataType.UINT8)


def lookup_tables(recipe: Recipe) -> Recipe:
    """A map to bytes that depends on one byte, through any number of maps, becomes a lookup.

    As an activation of a quantised network does: it dequantises a byte, computes, and quantises again. The table is
    computed once, by the same expression, so that it holds the same bits.
    """
    if not any(_is_lookup_worth_it(step) for step in recipe.steps):
        return recipe
    draft, stores, steps = Draft(recipe), dict(recipe.stores), list[Step]()
    functions: dict[str, Step] = {}
    """Steps known to depend on one byte, by their stores: a map of that byte and constants."""
    for step in recipe.steps:
        found = None if draft.is_constant(step) else _of_byte(draft, step, functions)
        if found is not None and draft.is_own(step.target):
            functions[step.target.tensor] = found
        if found is None or not _is_lookup_worth_it(found) or work(found.primitive.values[0]) < LITTLE_WORK:
            steps.append(step)
            continue
        name = free_name(f"{step.target.tensor} by byte", stores)
        made = found.primitive
        assert isinstance(made, Map)  # noqa: S101 - for type checkers: functions of a byte are maps
        slot = _byte(draft, made)
        assert slot is not None  # noqa: S101 - for type checkers: it was asked before
        table = _table(made, slot, name)
        stores[name] = Store("scratch", BYTE_VALUES)
        lookup = looked_up(made.sources[slot], table.target, made.target)
        steps += [replace(found, primitive=table), replace(found, primitive=lookup)]
    return recipe if len(steps) == len(recipe.steps) else replace(recipe, stores=stores, steps=tuple(steps))


def _is_lookup_worth_it(step: Step) -> bool:
    made = step.primitive
    is_byte = isinstance(made, Map) and not made.also and made.target.data_type in _BYTES
    return is_byte and not is_copy(made) and math.prod(made.sizes) >= FEW


def _of_byte(draft: Draft, step: Step, functions: dict[str, Step]) -> Step | None:
    """A step as a map of one byte and constants; None where it is none."""
    made = step.primitive
    if not isinstance(made, Map) or made.checks or made.also or is_copy(made) or fetched(made.value):
        return None
    if any(node.op == "coordinate" for node in walk(made.value)):
        return None
    nodes = step.nodes
    for name in dict.fromkeys(view.tensor for view in made.sources):
        if name in functions:
            before = functions[name].primitive
            assert isinstance(before, Map)  # noqa: S101 - for type checkers: likewise
            whole = inlined(before, made, MOST_SOURCES)
            if whole is None:
                return None
            made, nodes = whole, joined(functions[name].nodes, nodes)
    assert isinstance(made, Map)  # noqa: S101 - for type checkers: functions of a byte are maps
    return None if _byte(draft, made) is None else Step(made, nodes)


def _byte(draft: Draft, made: Map) -> int | None:
    """The one source that is a byte for each element, where all others are one constant each."""
    varying = [
        slot
        for slot, view in enumerate(made.sources)
        if not draft.is_fixed(view.tensor) or any(s for s, n in zip(view.strides, view.sizes, strict=True) if n > 1)
    ]
    if len(varying) != 1:
        return None
    (slot,) = varying
    return slot if made.sources[slot].data_type in _BYTES and not draft.is_fixed(made.sources[slot].tensor) else None


def _table(made: Map, own: int, name: str) -> Map:
    """The results of a map for every byte, in the order of their bits."""
    sizes, kind = (BYTE_VALUES,), made.sources[own].data_type
    others = [slot for slot in range(len(made.sources)) if slot != own]
    views = tuple(replace(made.sources[slot], sizes=sizes, strides=(0,)) for slot in others)
    loads = {slot: load(i, views[i].data_type) for i, slot in enumerate(others)}
    loads[own] = coordinate(0).to(DataType.UINT8).bits(kind)
    target = View(name, made.target.data_type, sizes, (1,))
    return Map(views, target, with_leaves(made.value, loads))
