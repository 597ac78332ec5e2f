"""Gathers from a cut source: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1, all by the tuples that they come to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import List, Task, TaskRef

from anydml.dask.arrays import Chunks, Key, Layer, edges, lazy, meta_like, places
from anydml.dask.blocks import Block
from anydml.dask.routes import Shown, Tuples, route
from anydml.dask.tensors import Layout
from anydml.dask.walked import dims_of
from anydml.functions.gathering import gather_nd
from anydml.ir.trees import walk
from anydml.memory import packed_strides
from anydml.operator_type import function_name
from anydml.operators.gather import _GatherDesc
from anydml.operators.gather_along import Gather, GatherElements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.routes import Route
    from anydml.dask.tensors import Tensor
    from anydml.operators import OperatorDesc


@dataclass(frozen=True)
class Gathered(Layer):
    """The blocks of what is gathered."""

    desc: OperatorDesc
    source: Shown
    indices: Shown
    target: Shown
    batch: int
    """The verb's batch dimensions."""
    size: int
    """Of a tuple."""
    varying: tuple[int, ...]
    """The batch dimensions that indices vary along, which become part of tuples."""
    clamp: bool
    drop: int

    @property
    def prefix(self) -> str:
        """The function's name."""
        return function_name(self.desc.type)

    @property
    def chosen(self) -> tuple[int, ...]:
        """The dimensions of the source that tuples choose from."""
        return (*self.varying, *range(self.batch, self.batch + self.size))

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """Indices are sorted, each block of the source is read once, and blocks of the result are put together."""
        made: dict[Key, Any] = {}
        key: Key
        chosen, rank = self.chosen, self.source.rank
        rest = tuple(k for k in range(rank) if k not in chosen)
        to = Tuples(tuple(tuple(edges(self.source.chunks[k])) for k in chosen), len(self.varying), self.batch)
        starts = [edges(own) for own in self.indices.chunks]
        blocks = list(places(self.indices.chunks))
        for i, at in enumerate(blocks):
            first = [own[a] for own, a in zip(starts, at, strict=True)]
            key = (f"{name}-route", i)
            source = TaskRef(self.indices.key(inputs[1], at))
            block = Block(f"the indices of {self.prefix}", self.indices.key("", at)[1:])
            made[key] = Task(
                key, route_block, source, self.indices, first, self.varying, to, self.clamp, self.desc, block
            )
        picked = list(places(tuple((1,) * count for count in to.counts)))
        for s in range(len(picked)):
            for i in range(len(blocks)):
                key = (f"{name}-want", i, s)
                made[key] = Task(key, _want, TaskRef((f"{name}-route", i)), s)
        others = tuple(self.source.chunks[k] for k in rest)
        for away in places(others):
            for s, place in enumerate(picked):
                at = self._placed(chosen, place, rest, away)
                key = (f"{name}-pick", s, *away)
                wants = List(*(TaskRef((f"{name}-want", i, s)) for i in range(len(blocks))))
                source = TaskRef(self.source.key(inputs[0], at))
                made[key] = Task(key, _pick, source, self.source, (*chosen, *rest), wants, Block(self.prefix, at))
                for i in range(len(blocks)):
                    part = (f"{name}-part", i, s, *away)
                    made[part] = Task(part, _part, TaskRef(key), i)
            for i, where in enumerate(blocks):
                to_place = self._target(where, rest, away)
                key = (name, *(0 if k is None else to_place[k] for k in self.target.dims[self.drop :]))
                parts = List(*(TaskRef((f"{name}-part", i, s, *away)) for s in range(len(picked))))
                sizes = tuple(own[a] for own, a in zip(self.indices.chunks[:-1], where[:-1], strict=True))
                shape = (self.batch, sizes, rest, tuple(own[a] for own, a in zip(others, away, strict=True)))
                made[key] = Task(
                    key, _merge, TaskRef((f"{name}-route", i)), parts, shape, self.varying, self.target, self.drop
                )
        return made

    def _placed(
        self, chosen: Sequence[int], place: Sequence[int], rest: Sequence[int], away: Sequence[int]
    ) -> tuple[int, ...]:
        at = [0] * self.source.rank
        for k, i in (*zip(chosen, place, strict=True), *zip(rest, away, strict=True)):
            at[k] = i
        return tuple(at)

    def _target(self, where: Sequence[int], rest: Sequence[int], away: Sequence[int]) -> list[int]:
        """The place of a block of the result: batches, then the indices' own dimensions, then the rest."""
        found = dict(zip(rest, away, strict=True))
        batches = [where[k] if k in self.varying else found.get(k, 0) for k in range(self.batch)]
        return [*batches, *where[self.batch : -1], *(found[k] for k in rest if k >= self.batch)]


def route_block(
    block: Any,
    indices: Shown,
    first: Sequence[int],
    varying: Sequence[int],
    to: Tuples,
    clamp: bool,
    desc: Any,
    at: Block,
) -> Route:
    """Sort the tuples of a block of indices."""
    with at:
        return route(indices.seen(block), first, varying, to, clamp, desc)


def _want(found: Route, block: int) -> Any:
    return found.of(block)[0]


def _pick(block: Any, source: Shown, order: Sequence[int], wants: Sequence[Any], at: Block) -> list[Any]:
    """What every block of indices wants of one block of the source."""
    with at:
        counts = [len(want) for want in wants]
        if not sum(counts):
            return [None] * len(wants)
        seen = source.seen(block).transpose(order)
        found = gather_nd(seen, beside(np.concatenate(wants), seen), 0, "clamp")  # looked at before
        ends = np.cumsum(counts)
        return [found[end - count : end] if count else None for end, count in zip(ends, counts, strict=True)]


def beside(indices: Any, array: Any) -> Any:
    """Indices of the host's in the memory of an array."""
    return indices if isinstance(array, np.ndarray) else np.asarray(indices, like=array)


def _part(parts: Sequence[Any], number: int) -> Any:
    return parts[number]


def _merge(found: Route, parts: Sequence[Any], shape: Any, varying: Sequence[int], target: Shown, drop: int) -> Any:
    """A block of the result: what came of each block of the source, in the indices' own order."""
    batch, sizes, rest, others = shape
    first = next(part for part in parts if part is not None)
    result = np.empty_like(first, shape=(len(found.order), *first.shape[1:]))
    for s, part in enumerate(parts):
        if part is not None:
            result[beside(found.of(s)[1], result)] = part
    own = [size for k, size in enumerate(sizes) if k >= batch or k in varying]
    result = result.reshape((*own, *others))
    # From varying batches, indices and the rest to batches, indices and the rest.
    indexed = [("index", k) for k in range(len(sizes) - batch)]
    names: list[Any] = [*varying, *indexed, *rest]
    wanted: list[Any] = [*range(batch), *indexed, *(k for k in rest if k >= batch)]
    return target.back(result.transpose([names.index(k) for k in wanted]), drop)


def gathered(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The result of a gather as a lazy array; None of other operators."""
    del asked
    if not isinstance(desc, (Gather, GatherElements, _GatherDesc)):
        return None
    (verb,) = desc.lower()
    (check,) = verb.checks or (None,)
    clamp = check is None
    own = next(iter(node for node in walk(verb.value) if node.op == "fetch"))
    x, indices = tensors["InputTensor"], tensors["IndicesTensor"]
    view = replace(desc, index_mode="raise").lower()[0].checks[0]
    batch, size = view.dimension, view.indices.sizes[-1]
    last = next((d for d, k in enumerate(_dims(indices, view.indices)) if k == len(view.indices.sizes) - 1), None)
    if last is not None:
        indices = indices.rechunked({last: (indices.sizes[last],)})
    output = desc.outputs()["OutputTensor"]
    source = Shown.of(x, verb.sources[int(own.value)])
    varying = tuple(k for k in range(batch) if view.indices.strides[k])
    if indices.is_made and source is not None:  # results in blocks that are no larger than the source's
        chosen = (*varying, *range(batch, batch + size))
        indices = _in_parts(indices, last, math.prod(max(source.chunks[k]) for k in chosen))
    shown = Shown.of(indices, view.indices)
    if source is None or shown is None:
        return None
    chosen = (*varying, *range(batch, batch + size))
    rest = [k for k in range(source.rank) if k not in chosen]
    batches = [shown.chunks[k] if k in varying else source.chunks[k] for k in range(batch)]
    chunks: Chunks = (*batches, *shown.chunks[batch:-1], *(source.chunks[k] for k in rest if k >= batch))
    target = _target(verb.target, output.sizes, chunks)
    if target is None:
        return None
    drop = len(output.sizes) - ranks["OutputTensor"]
    layer = Gathered(desc, source, shown, target, batch, size, varying, clamp, drop)
    made = tuple((1,) if k is None else chunks[k] for k in target.dims[drop:])
    return [lazy(layer, [x.array, indices.array], made, meta_like(x.array, len(made), output.data_type.dtype))]


def _in_parts(indices: Tensor, last: int | None, most: int) -> Tensor:
    """Indices that came whole, in blocks of at most so many tuples."""
    count = math.prod(size for d, size in enumerate(indices.sizes) if d != last)
    d = next((d for d, size in enumerate(indices.sizes) if size > 1 and d != last), None)
    if d is None or count <= most:
        return indices
    each = max(most * indices.sizes[d] // count, 1)
    whole, rest = divmod(indices.sizes[d], each)
    return indices.rechunked({d: (each,) * whole + ((rest,) if rest else ())})


def _dims(x: Tensor, view: Any) -> Any:
    return dims_of(view, x.sizes, packed_strides(x.sizes)) or ()


def _target(view: Any, sizes: Sequence[int], chunks: Chunks) -> Shown | None:
    dims = dims_of(view, sizes, packed_strides(sizes))
    if dims is None or math.prod(map(len, chunks)) == 0:
        return None
    return Shown(Layout(tuple(range(len(sizes))), len(sizes)), dims, len(view.sizes), chunks)
