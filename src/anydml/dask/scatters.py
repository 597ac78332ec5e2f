"""Scatters into a cut base: SCATTER and SCATTER_ND. Updates go to the blocks that their indices point into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import List, Task, TaskRef

from anydml.api.written import scatter_nd
from anydml.core.memory import packed_strides
from anydml.core.operator_type import function_name
from anydml.dask.arrays import Key, Layer, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, beside
from anydml.dask.gathers import route_block
from anydml.dask.routes import Shown, Tuples
from anydml.dask.walked import dims_of
from anydml.ir.verbs import Scatter as Scattering

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.routes import Route
    from anydml.dask.tensors import Tensor
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc


@dataclass(frozen=True)
class Scattered(Layer):
    """The blocks of a base with updates in them, in the base's own blocks."""

    desc: OperatorDesc
    base: Shown
    indices: Shown
    updates: Shown
    batch: int
    size: int
    drop: int

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """Indices are sorted; each block of the base takes the updates that point into it, in the indices' order."""
        made: dict[Key, Any] = {}
        chosen = tuple(range(self.batch + self.size))
        to = Tuples(tuple(tuple(edges(self.base.chunks[k])) for k in chosen), self.batch, self.batch)
        starts = [edges(own) for own in self.indices.chunks]
        blocks = list(places(self.indices.chunks))
        varying = tuple(range(self.batch))
        for i, at in enumerate(blocks):
            first = [own[a] for own, a in zip(starts, at, strict=True)]
            key = (f"{name}-route", i)
            source = TaskRef(self.indices.key(inputs[1], at))
            block = Block(f"the indices of {self.prefix}", self.indices.key("", at)[1:])
            made[key] = Task(key, route_block, source, self.indices, first, varying, to, False, self.desc, block)
        others = self.base.chunks[len(chosen) :]
        for away in places(others):
            for s, place in enumerate(places(tuple((1,) * count for count in to.counts))):
                parts = []
                for i, at in enumerate(blocks):
                    part = (f"{name}-part", i, s, *away)
                    update = TaskRef(self.updates.key(inputs[2], (*at[:-1], *away)))
                    rank = len(at) - 1
                    made[part] = Task(part, _part, TaskRef((f"{name}-route", i)), s, update, self.updates, rank)
                    parts.append(TaskRef(part))
                at = (*place, *away)
                own = self.base.key(inputs[0], at)
                key = (name, *own[1:])
                block = Block(self.prefix, own[1:])
                made[key] = Task(key, _scatter, TaskRef(own), self.base, List(*parts), self.drop, block)
        return made


def _part(found: Route, block: int, updates: Any, shown: Shown, rank: int) -> Any:
    """The tuples that point into a block of the base, and their updates; None where there are none."""
    tuples, numbers = found.of(block, block + 1)
    if not len(tuples):
        return None
    seen = shown.seen(updates)
    flat = seen.reshape((-1, *seen.shape[rank:]))
    return tuples, flat[beside(numbers, flat)]


def _scatter(block: Any, base: Shown, parts: Sequence[Any], drop: int, at: Block) -> Any:
    """A block of the base with its updates; of several for one place the last one stays."""
    with at:
        found = [part for part in parts if part is not None]
        if not found:
            return block
        seen = base.seen(block)
        tuples = np.concatenate([part[0] for part in found])
        updates = np.concatenate([part[1] for part in found])
        return base.back(scatter_nd(seen, beside(tuples, seen), updates), drop)


def _dims(x: Tensor, view: View) -> Any:
    return dims_of(view, x.sizes, packed_strides(x.sizes)) or ()


def scattered(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The result of a scatter as a lazy array; None of other operators."""
    del asked
    verb, *others = desc.lower()
    if others or not isinstance(verb, Scattering):
        return None
    x, indices, updates = (tensors[field] for field in ("InputTensor", "IndicesTensor", "UpdatesTensor"))
    rank = len(verb.indices.sizes) - 1
    whole = [d for d, k in enumerate(_dims(indices, verb.indices)) if k == rank]
    indices = indices.rechunked({d: (indices.sizes[d],) for d in whole})
    base, shown = Shown.of(x, verb.source), Shown.of(indices, verb.indices)
    if base is None or shown is None:
        return None
    # Updates meet the indices along tuples, and the base along the rest.
    wanted = (*shown.chunks[:-1], *base.chunks[verb.batch_rank + verb.tuple_size :])
    updates = updates.rechunked({d: wanted[k] for d, k in enumerate(_dims(updates, verb.updates)) if k is not None})
    given = Shown.of(updates, verb.updates)
    if given is None:
        return None
    drop = len(x.sizes) - ranks["OutputTensor"]
    layer = Scattered(function_name(desc.type), desc, base, shown, given, verb.batch_rank, verb.tuple_size, drop)
    arrays = [x.array, indices.array, updates.array]
    return [lazy(layer, arrays, x.array.chunks, meta_like(x.array, x.array.ndim, x.array.dtype))]
