"""Padding as masked reads: windows read outside of a tensor, and nothing materialises the padding.

It comes before the optimiser's rounds, for engines that read so as fast as from memory: what is saved is a pass over
the tensor, and one for each side.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.fusion import with_leaves
from anydml.graph.passes.redundancy import dce
from anydml.ir.contraction import match_contraction
from anydml.ir.expressions import const
from anydml.ir.fetches import Line
from anydml.ir.padded_reads import match_padded, reach
from anydml.ir.patterns import copy_of
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.ir.windows import walked_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.expressions import Expr
    from anydml.ir.padded_reads import Padded


FEW = 64
"""Elements of a window that is folded otherwise than by products."""


def padding(recipe: Recipe) -> Recipe:
    """Padding: windows over a tensor with padding around it read the tensor, and a number outside of it.

    A store that holds a tensor with a number around it goes, where all of its readers fold windows of it.
    """
    draft = Draft(recipe)
    draft.put({n: step for n, one in draft.steps.items() if (step := _as_copy(one)) is not one})
    for store in [name for name, one in recipe.stores.items() if one.kind == "scratch"]:
        writers, readers = draft.writers(store), draft.readers(store)
        verbs = [step.primitive for step in writers.values()]
        padded = match_padded(verbs) if len(writers) > 1 and readers else None
        copied = next((step.nodes for step in writers.values() if step.primitive.reads), ())
        changed = None if padded is None else _read(padded, copied, readers)
        if changed is not None:
            draft.put(changed)
            for number in writers:
                draft.drop(number)
    after = draft.recipe()
    return after if after is recipe else dce(after)


def _as_copy(step: Step) -> Step:
    """Filters laid out in one piece, for engines that like them so, as a copy: who reads it reads the filters."""
    primitive = step.primitive
    if not isinstance(primitive, Map) or primitive.also or primitive.checks or len(primitive.sources) != 1:
        return step
    source, kind = primitive.source, primitive.value.type
    is_moved = primitive.value.op == "bits" and primitive.value.args[0].op == "bits" and kind is source.data_type
    if not is_moved or primitive.value.args[0].args[0].op != "load":
        return step
    return replace(step, primitive=copy_of(source, primitive.target))


def _read(padded: Padded, nodes: tuple[str, ...], readers: Mapping[int, Step]) -> dict[int, Step] | None:
    """By number, the readers of a padded tensor as readers of the one in it; None where one of them cannot be."""
    outside = padded.outside
    if isinstance(outside, View) or outside.type is not padded.inner.data_type:
        return None
    number, changed = const(outside.value, outside.type), {}
    for at, step in readers.items():
        made = _reader(step, padded, number)
        if made is None:
            return None
        changed[at] = replace(made, nodes=joined(nodes, made.nodes))
    return changed


def _reader(step: Step, padded: Padded, outside: Expr) -> Step | None:
    primitive, store = step.primitive, padded.inner.tensor
    if not isinstance(primitive, Reduce) or primitive.checks or not primitive.is_by_row:
        return None
    if not match_contraction(primitive) and math.prod(primitive.rows) > FEW:
        return None
    slots = [slot for slot, view in enumerate(primitive.sources) if view.tensor == store]
    if not fetched(*primitive.values).isdisjoint(slots):
        return None
    loads, views = {}, dict[int, View]()
    for slot in slots:
        walked = walked_within(primitive.sources[slot], padded)
        if walked is None or not walked.axes:
            return None
        indices = [Line(axis.first, tuple(axis.steps.items())).value for axis in walked.axes]
        limits = [axis.size if axis.is_limited else None for axis in walked.axes]
        loads[slot], views[slot] = reach(slot, walked.kind, indices, limits, outside), walked.view
    sources = tuple(views.get(slot, view) for slot, view in enumerate(primitive.sources))
    changed = replace(primitive, sources=sources, rows=primitive.rows)
    return replace(step, primitive=changed.computing(lambda value: with_leaves(value, loads)))
