"""Gathers from a cut source: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1, all by the tuples that they come to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import List, Task, TaskRef

from anydml.api.written import gather_nd
from anydml.core.memory import packed_strides
from anydml.core.operator_type import function_name
from anydml.dask.arrays import Chunks, Key, Layer, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, beside, empty_like, part_of
from anydml.dask.routes import Shown, Tuples, route
from anydml.dask.tensors import Layout
from anydml.dask.walked import dims_of
from anydml.ir.trees import walk
from anydml.operators.gather import Gather, GatherElements, _GatherDesc

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
    routes: tuple[Route, ...] = field(repr=False)
    """By block of indices, where the tuples go; none where only tasks know the indices."""

    @property
    def chosen(self) -> tuple[int, ...]:
        """The dimensions of the source that tuples choose from."""
        return (*self.varying, *range(self.batch, self.batch + self.size))

    @property
    def rest(self) -> tuple[int, ...]:
        """The dimensions of the source that no tuple chooses from."""
        return tuple(k for k in range(self.source.rank) if k not in self.chosen)

    @property
    def pointed(self) -> Tuples:
        """The source of tuples."""
        found = tuple(tuple(edges(self.source.chunks[k])) for k in self.chosen)
        return Tuples(found, len(self.varying), self.batch)

    def first(self, at: Sequence[int]) -> list[int]:
        """Where a block of indices begins in the whole."""
        return [edges(own)[a] for own, a in zip(self.indices.chunks, at, strict=True)]

    def route_in_memory(self, indices: Any, chunks: Chunks) -> Gathered:
        """The same with routes of indices that lie in memory, of which no task need know."""
        found = []
        for at in places(self.indices.chunks):
            place = self.indices.key("", at)[1:]
            ends = [edges(own)[i : i + 2] for own, i in zip(chunks, place, strict=True)]
            block = self.indices.seen(indices[tuple(slice(*pair) for pair in ends)])
            found.append(route(block, self.first(at), self.varying, self.pointed, self.clamp, self.desc))
        return replace(self, routes=tuple(found))

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """Indices are sorted, each block of the source is read once, and blocks of the result are put together.

        A task picks from a block of the source for all blocks of the result. Where there are more of the former, those
        picks are joined in groups, so that there are no more small parts to send than blocks of the result, squared.
        """
        made: dict[Key, Any] = {}
        blocks = list(places(self.indices.chunks))
        rest = self.rest
        others = tuple(self.source.chunks[k] for k in rest)
        sources = list(places(tuple((1,) * count for count in self.pointed.counts)))
        touched = [s for s in range(len(sources)) if not self.routes or any(r.has(s, s + 1) for r in self.routes)]
        routes: Sequence[Any] = self.routes or self._route(made, name, inputs[1], touched)
        each = max(len(touched) // len(blocks), 1)
        groups = [touched[i : i + each] for i in range(0, len(touched), each)]
        for away in places(others):
            for s in touched:
                at = self._placed(sources[s], away)
                key = (f"{name}-pick", s, *away)
                source = TaskRef(self.source.key(inputs[0], at))
                wants: Any = [route.of(s, s + 1)[0] for route in self.routes]
                if not self.routes:
                    wants = List(*(TaskRef((f"{name}-want", i, s)) for i in range(len(blocks))))
                order = (*self.chosen, *rest)
                made[key] = Task(key, _pick, source, self.source, order, wants, Block(self.prefix, at))
            for g, group in enumerate(groups):
                key = (f"{name}-group", g, *away)
                picks = [TaskRef((f"{name}-pick", s, *away)) for s in group]
                if len(picks) > 1:
                    made[key] = Task(key, _grouped, *picks)
            for i, where in enumerate(blocks):
                spans, parts = [], []
                for g, group in enumerate(groups):
                    span = (group[0], group[-1] + 1)
                    if not self.routes or self.routes[i].has(*span):
                        part = (f"{name}-part", i, g, *away)
                        whole = (f"{name}-group", g, *away) if len(group) > 1 else (f"{name}-pick", group[0], *away)
                        made[part] = Task(part, part_of, TaskRef(whole), i)
                        spans.append(span)
                        parts.append(TaskRef(part))
                to_place = self._target(where, away)
                key = (name, *(0 if k is None else to_place[k] for k in self.target.dims[self.drop :]))
                sizes = tuple(own[a] for own, a in zip(self.indices.chunks[:-1], where[:-1], strict=True))
                shape = (self.batch, sizes, rest, tuple(own[a] for own, a in zip(others, away, strict=True)))
                made[key] = Task(
                    key, _merge, routes[i], List(*parts), spans, shape, self.varying, self.target, self.drop
                )
        return made

    def _route(self, made: dict[Key, Any], name: str, indices: str, touched: Sequence[int]) -> list[TaskRef]:
        """Tasks that sort blocks of indices, and tasks that say what is wanted of each block of the source."""
        found = []
        for i, at in enumerate(places(self.indices.chunks)):
            key = (f"{name}-route", i)
            source = TaskRef(self.indices.key(indices, at))
            block = Block(f"the indices of {self.prefix}", self.indices.key("", at)[1:])
            how = (self.indices, self.first(at), self.varying, self.pointed, self.clamp, self.desc, block)
            made[key] = Task(key, route_block, source, *how)
            found.append(TaskRef(key))
            for s in touched:
                want = (f"{name}-want", i, s)
                made[want] = Task(want, _want, TaskRef(key), s)
        return found

    def _placed(self, place: Sequence[int], away: Sequence[int]) -> tuple[int, ...]:
        """The place of a block of the source."""
        at = [0] * self.source.rank
        for k, i in (*zip(self.chosen, place, strict=True), *zip(self.rest, away, strict=True)):
            at[k] = i
        return tuple(at)

    def _target(self, where: Sequence[int], away: Sequence[int]) -> list[int]:
        """The place of a block of the result: batches, then the indices' own dimensions, then the rest."""
        rest = self.rest
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
    return found.of(block, block + 1)[0]


def _pick(block: Any, source: Shown, order: Sequence[int], wants: Sequence[Any], at: Block) -> list[Any]:
    """The elements that every block of indices wants of one block of the source."""
    with at:
        counts = [len(want) for want in wants]
        if not sum(counts):
            return [None] * len(wants)
        seen = source.seen(block).transpose(order)
        found = gather_nd(seen, beside(np.concatenate(wants), seen), 0, "clamp")  # looked at before
        ends = np.cumsum(counts)
        return [found[end - count : end] if count else None for end, count in zip(ends, counts, strict=True)]


def _grouped(*picks: Sequence[Any]) -> list[Any]:
    """The elements that several tasks picked, by block of indices."""
    found = [[part for part in parts if part is not None] for parts in zip(*picks, strict=True)]
    return [np.concatenate(parts) if parts else None for parts in found]


def _merge(
    found: Route,
    parts: Sequence[Any],
    spans: Sequence[tuple[int, int]],
    shape: Any,
    varying: Sequence[int],
    target: Shown,
    drop: int,
) -> Any:
    """A block of the result: the parts, each from some blocks of the source, in the indices' own order."""
    batch, sizes, rest, others = shape
    first = next(part for part in parts if part is not None)
    result = empty_like(first, (len(found.order), *first.shape[1:]))
    for span, part in zip(spans, parts, strict=True):
        if part is not None:
            result[beside(found.of(*span)[1], result)] = part
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
    if indices.held is not None and source is not None:  # results in blocks that are no larger than the source's
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
    layer = Gathered(function_name(desc.type), desc, source, shown, target, batch, size, varying, clamp, drop, ())
    if isinstance(indices.held, np.ndarray):
        layer = layer.route_in_memory(indices.held, indices.array.chunks)
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
