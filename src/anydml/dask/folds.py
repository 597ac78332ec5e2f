"""Folds along cut dimensions: parts of each row in its blocks, put together in a tree, and what is made of them.

An operator's verbs are run one after the other, each as a lazy array. A reduce whose rows are cut is taken apart at its
folds: those that need no other first, in one pass over the blocks, and a softmax's sum in the same pass as its largest.
Sums are added up in float64, within a block and across blocks, and rounded once; those of products (`gemm`) within a
block as in memory. Blocks that are read from a store are read anew for every pass, so that none waits in memory.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.dask.arrays import Chunks, common, lazy, meta_like, read_anew
from anydml.dask.combining import Combined, folds_at_once, kept_type, rounded_once, widened
from anydml.dask.fused import Fused
from anydml.dask.tensors import Tensor
from anydml.dask.walked import Dims, Walked, dims_of, is_plain
from anydml.ir.expressions import Expr, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Computation, Map, Reduce, Write
from anydml.ir.views import View
from anydml.memory import packed_strides
from anydml.operator_type import function_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.operator_type import OperatorType
    from anydml.operators import OperatorDesc


@dataclass(frozen=True)
class Part(Fused):
    """One of several arrays, whose blocks come together."""

    number: int
    chunks: Chunks

    @property
    def grid(self) -> tuple[int, ...]:
        """All blocks."""
        return tuple(map(len, self.chunks))

    def along(self) -> list[list[int | None]]:
        """One by one."""
        return [list(range(len(self.chunks)))]

    def at(self, place: Sequence[int], known: dict[Any, Any]) -> Callable[..., Any]:  # noqa: ARG002 - the same anywhere
        """Its part."""
        return operator.itemgetter(self.number)


@dataclass
class Program:
    """The verbs of an operator as lazy arrays, one after the other."""

    kind: OperatorType
    asked: Asked
    tensors: dict[str, Tensor]
    """The tensors so far, by the names that views have."""
    passes: Counter[str] = field(default_factory=Counter)
    """By name of a dask array, how often its blocks are passed over so far."""

    @property
    def called(self) -> str:
        """The function's name."""
        return function_name(self.kind)

    def _pass_over(self, x: Tensor) -> Tensor:
        """A source for one more pass over its blocks."""
        name = x.array.name
        self.passes[name] += 1
        return replace(x, array=read_anew(x.array, self.passes[name] - 1))

    def run(self, verb: Computation, outputs: Mapping[str, Any], ranks: Mapping[str, int]) -> None:
        """Add what a verb computes, of which each target is a tensor of its own."""
        for one in verb.apart():
            self._run_one(one, outputs, ranks)

    def _run_one(self, verb: Computation, outputs: Mapping[str, Any], ranks: Mapping[str, int]) -> None:
        name = verb.target.tensor
        sizes = outputs[name].sizes if name in outputs else tuple(s for s in verb.target.sizes)
        dims = dims_of(verb.target, sizes, packed_strides(sizes))
        assert dims is not None  # noqa: S101 - `can_run` has looked
        sources = [self.tensors[view.tensor] for view in verb.sources]
        walks = [_dims(view, x) for view, x in zip(verb.sources, sources, strict=True)]
        sources, chunks = _aligned(verb, sources, walks)
        folded = range(len(verb.sizes) - verb.depth, len(verb.sizes))
        cut = [k for k in folded if len(chunks[k]) > 1]
        if cut:
            verb, sources, walks = self._staged(verb, sources, walks, chunks, cut)
            if verb.has_rows(verb.target):
                chunks = tuple((1,) if k in folded else own for k, own in enumerate(chunks))
        drop = len(sizes) - ranks[name] if name in ranks else 0
        kept = tuple(chunks[k] if k is not None else (1,) for k in dims[drop:])
        sources = [self._pass_over(x) for x in sources]
        layouts = tuple((x.layout, walked) for x, walked in zip(sources, walks, strict=True))
        layer = Walked(self.called, self.kind, verb, layouts, (dims,), chunks, drop, self.asked)
        first = next(iter(self.tensors.values())).array
        meta = meta_like(first, len(kept), verb.target.data_type.dtype)
        array = lazy(layer, [x.array for x in sources], kept, meta)
        self.tensors[name] = Tensor.of(array, verb.target.data_type).padded(len(sizes))

    def _staged(
        self, verb: Computation, sources: list[Tensor], walks: list[Dims], chunks: Chunks, cut: Sequence[int]
    ) -> tuple[Computation, list[Tensor], list[Dims]]:
        """The verb with what its folds give read from arrays that others make, level by level."""
        sources, walks, views = list(sources), list(walks), list(verb.sources)
        rank, value = len(verb.sizes), verb.value
        folded = range(rank - verb.depth, rank)
        row = tuple(1 if k in folded else size for k, size in enumerate(verb.sizes))
        rounded: set[Expr] = set()
        while joinings := folds_at_once(value):
            folds = [widened(one) for one in joinings]
            target = _row_view("target", folds[0], row)
            also = tuple(Write(_row_view(f"target{i}", one, row), one) for i, one in enumerate(folds[1:], 1))
            part = Reduce(tuple(views), target, folds[0], verb.depth, verb.sizes[rank - verb.depth :], also=also)
            used, part = _used(part)
            mine = [self._pass_over(sources[i]) for i in used]
            walks_of = tuple((x.layout, walks[i]) for x, i in zip(mine, used, strict=True))
            targets = (tuple(range(rank)),) * len(folds)
            layer = Walked(self.called, self.kind, part, walks_of, targets, chunks, 0, self.asked)
            grid = tuple((1,) * len(own) if k in folded else own for k, own in enumerate(chunks))
            meta = meta_like(mine[0].array, rank, target.data_type.dtype)
            parts = lazy(layer, [x.array for x in mine], grid, meta)
            whole = tuple((1,) if k in folded else own for k, own in enumerate(chunks))
            together = Combined(f"{self.called}-combine", tuple(joinings.values()), tuple(map(len, grid)), tuple(cut))
            found = lazy(together, [parts], whole, meta)
            made = {}
            for number, one in enumerate(joinings):
                kind = kept_type(one)
                own = meta_like(mine[0].array, rank, kind.dtype)
                called = f"{self.called}-{one.op.removeprefix('fold_')}"
                array = found if len(joinings) == 1 else lazy(Part(called, number, whole), [found], whole, own)
                made[one] = load(len(views), kind).to(one.type or kind)
                rounded |= {made[one]} if kind is not one.type else set()
                strides = tuple(s if n > 1 else 0 for s, n in zip(packed_strides(row), row, strict=True))
                views.append(View(f"row{len(views)}", kind, verb.sizes, strides))
                sources.append(Tensor(array, kind, row, tuple(range(rank))))
                walks.append(tuple(k if size > 1 else None for k, size in enumerate(row)))
            for shifted in (True, False):  # sums first, which hold the largest that they are shifted by
                some = {one: new for one, new in made.items() if (joinings[one].shift is not None) is shifted}
                value = rewrite(value, lambda node, some=some: some.get(node, node))  # type: ignore[misc]  # bound now
        value = rounded_once(value, rounded)
        target, sizes = verb.target, verb.sizes
        if verb.has_rows(target):  # nothing varies along the rows any more
            views = [replace(view, sizes=row) for view in views]
            sizes = row
        used, last = _used(Map(tuple(views), target, value))
        return last, [sources[i] for i in used], [_within(walks[i], sizes) for i in used]


def _row_view(name: str, one: Expr, row: Sequence[int]) -> View:
    assert one.type is not None  # noqa: S101 - for type checkers: folds are of numbers
    strides = tuple(s if n > 1 else 0 for s, n in zip(packed_strides(row), row, strict=True))
    return View(name, one.type, tuple(row), strides)


def _used(verb: Any) -> tuple[list[int], Any]:
    """The sources that a verb loads from, and the verb with those alone."""
    used = sorted({int(node.value) for value in verb.values for node in walk(value) if node.op == "load"})
    places_of = {slot: place for place, slot in enumerate(used)}

    def change(node: Expr) -> Expr:
        return load(places_of[int(node.value)], node.type) if node.op == "load" and node.type else node

    return used, replace(verb, sources=tuple(verb.sources[i] for i in used)).computing(lambda v: rewrite(v, change))


def _within(dims: Dims, sizes: Sequence[int]) -> Dims:
    """The walk along a tensor, without the dimensions in which the walk has one step."""
    return tuple(None if k is None or sizes[k] == 1 else k for k in dims)


def _dims(view: View, x: Tensor) -> Dims:
    found = dims_of(view, x.sizes, packed_strides(x.sizes))
    assert found is not None  # noqa: S101 - `can_run` has looked
    return found


def _aligned(verb: Computation, sources: list[Tensor], walks: list[Dims]) -> tuple[list[Tensor], Chunks]:
    """Sources whose blocks meet along the walk, and those blocks."""
    chunks = []
    for k, size in enumerate(verb.sizes):
        own = [
            x.chunks[w.index(k)]
            for x, w in zip(sources, walks, strict=True)
            if k in w and x.axes[w.index(k)] is not None
        ]
        chunks.append(common(own) if own else (size,))
    fitted = [
        x.rechunked({d: chunks[k] for d, k in enumerate(w) if k is not None})
        for x, w in zip(sources, walks, strict=True)
    ]
    return fitted, tuple(chunks)


def can_run(desc: OperatorDesc) -> list[Computation] | None:
    """The verbs of an operator, where they can be run one after the other on whole tensors; None elsewhere."""
    verbs = list(desc.lower())
    sizes = {name: tensor.sizes for name, tensor in desc.tensors().items()}
    for verb in verbs:
        if not is_plain(verb) or math.prod(verb.sizes) == 0:
            return None
        for view in verb.views:
            own = sizes.setdefault(view.tensor, view.sizes)
            if dims_of(view, own, packed_strides(own)) is None:
                return None
    return verbs  # type: ignore[return-value]  # as was looked


def folded(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The results as lazy arrays; None where the operator's verbs do not walk whole tensors."""
    verbs = can_run(desc)
    if verbs is None:
        return None
    program = Program(desc.type, asked, dict(tensors))
    for verb in verbs:
        program.run(verb, desc.outputs(), ranks)
    return [program.tensors[name].array for name in desc.outputs()]
