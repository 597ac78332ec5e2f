"""Folds along cut dimensions: parts of each row in its blocks, put together in a tree, and what is made of them.

An operator's verbs are run one after the other, each as a lazy array. A reduce whose rows are cut is taken apart at its
folds: those that need no other first, in one pass over the blocks, and a softmax's sum in the same pass as its largest.
Sums are added up in float64, within a block and across blocks, and rounded once; those of products (`gemm`) within a
block as in memory. Blocks that are read from a store are read anew for every pass, so that none waits in memory.

TOP_K along a cut axis goes the same way: the best of each block, and the best of those.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Task, TaskRef

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.core.operator_type import function_name
from anydml.dask.arrays import Chunks, Key, Layer, common, edges, lazy, meta_like, places, read_anew
from anydml.dask.blocks import Block, run, seen
from anydml.dask.fused import Fused
from anydml.dask.tensors import Tensor
from anydml.dask.walked import Dims, Walked, dims_of, is_plain
from anydml.ir.expressions import FOLDS, Expr, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Computation, Map, Reduce, Write
from anydml.ir.views import View
from anydml.operators.select import TopK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.operator_type import OperatorType
    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Layout
    from anydml.operators import OperatorDesc


# Parts put together


_AT_ONCE = 8
"""Blocks that are put together by one task."""
_TOGETHER = {"fold_sum": np.add, "fold_product": np.multiply, "fold_max": np.maximum, "fold_min": np.minimum}


@dataclass(frozen=True)
class Joining:
    """How one fold of several blocks is put together."""

    function: str
    """The fold's."""
    shift: int | None = None
    """For a sum of exponentials, the number of the fold that gives the largest exponent."""

    def together(self, parts: Sequence[Sequence[Any]], number: int) -> Any:
        """The fold of a certain number, of blocks that come with all their folds."""
        own = [part[number] for part in parts]
        if own[0].dtype.kind == "f" and self.function in ("fold_sum", "fold_product"):
            own[0] = own[0].astype(np.float64)
        with np.errstate(all="ignore"):
            if self.shift is not None:
                own = _shifted(own, [part[self.shift] for part in parts])
            found = own[0]
            for part in own[1:]:
                found = _TOGETHER[self.function](found, part)
        return found


def _shifted(sums: Sequence[Any], largest: Sequence[Any]) -> list[Any]:
    """Sums of exponentials that blocks shifted by their own largest exponent, shifted by the largest of all."""
    whole = largest[0]
    for one in largest[1:]:
        whole = np.maximum(whole, one)
    found = []
    for total, own in zip(sums, largest, strict=True):
        scale = np.where(own == whole, 1.0, np.exp(own.astype(np.float64) - whole))
        # A block of -inf alone adds nothing to others; its own sum is NaN, as it is where the whole row is -inf.
        found.append(np.where((own == -np.inf) & (whole != -np.inf), 0.0, total * scale))
    return found


@dataclass(frozen=True)
class Combined(Layer):
    """Folds of blocks put together along some dimensions, in which each block's has a size of 1."""

    joinings: tuple[Joining, ...]
    grid: tuple[int, ...]
    along: tuple[int, ...]

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """A tree for each row of blocks."""
        made: dict[Key, Any] = {}
        rest = tuple((1,) if k in self.along else (1,) * count for k, count in enumerate(self.grid))
        inner = tuple((1,) * count if k in self.along else (1,) for k, count in enumerate(self.grid))
        for at in places(rest):
            refs = [TaskRef((inputs[0], *(a + b for a, b in zip(at, by, strict=True)))) for by in places(inner)]
            level = 0
            while len(refs) > _AT_ONCE:
                groups = [refs[i : i + _AT_ONCE] for i in range(0, len(refs), _AT_ONCE)]
                refs = []
                for number, group in enumerate(groups):
                    key = (f"{name}-{level}", *at, number)
                    made[key] = Task(key, _combine, self.joinings, *group)
                    refs.append(TaskRef(key))
                level += 1
            made[name, *at] = Task((name, *at), _combine, self.joinings, *refs)
        return made


def _combine(joinings: Sequence[Joining], *parts: Any) -> Any:
    """The folds of several blocks: an array, or a tuple where there are several folds."""
    if len(joinings) == 1:
        return joinings[0].together([(part,) for part in parts], 0)
    return tuple(joining.together(parts, number) for number, joining in enumerate(joinings))


def folds_at_once(value: Expr) -> dict[Expr, Joining]:
    """The folds of a tree that one pass over the blocks gives: those that need no other, and sums that these shift."""
    folds = [node for node in walk(value) if node.op in FOLDS]
    found = {one: Joining(one.op) for one in folds if not any(n.op in FOLDS for n in walk(one.args[0]))}
    numbers = {one: number for number, one in enumerate(found)}
    for one in folds:
        if (largest := _shift(one)) in numbers:
            found[one] = Joining(one.op, numbers[largest])
    return found


def _shift(one: Expr) -> Expr | None:
    """Of a FLOAT32 sum of exponentials of e - max(e), that largest; None of other folds.

    Those that memory adds up in float64 have bits that do not depend on their order, which a shift would change.
    """
    (power,) = one.args
    if one.op != "fold_sum" or power.op != "exp" or power.args[0].op != "sub":
        return None
    e, largest = power.args[0].args
    return largest if largest.op == "fold_max" and largest.args[0] is e else None


def kept_type(one: Expr) -> DataType:
    """The type that a fold of blocks is put together in."""
    assert one.type is not None  # noqa: S101 - for type checkers: folds are of numbers
    return DataType.FLOAT64 if one.type.is_float and one.op in ("fold_sum", "fold_product") else one.type


def widened(one: Expr) -> Expr:
    """A fold of a block as it is computed: sums in float64, but for those of products, for which there are kernels."""
    (arg,) = one.args
    factors = [a.args[0] if a.op == "cast" else a for a in arg.args] if arg.op == "mul" else []
    is_product = [a.op for a in factors] == ["load", "load"] and factors[0] is not factors[1]
    kind = one.type if is_product else kept_type(one)
    return one if kind is one.type or kind is None else Expr(one.op, kind, (arg.to(kind),))


def rounded_once(value: Expr, rounded: set[Expr]) -> Expr:
    """A tree whose arithmetic with sums in float64, that it has rounded, is done in float64, and rounded at its end."""
    found = set(rounded)

    def change(node: Expr) -> Expr:
        if node.op not in ("add", "sub", "mul", "div") or not found.intersection(node.args) or node.type is None:
            return node
        args = [arg.args[0] if arg in found else arg.to(DataType.FLOAT64) for arg in node.args]
        new = Expr(node.op, DataType.FLOAT64, tuple(args)).to(node.type)
        found.add(new)
        return new

    return rewrite(value, change)


# Reduces


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


# TOP_K


@dataclass(frozen=True)
class Best(Layer):
    """The best along an axis and their places, together."""

    desc: TopK
    layout: Layout
    chunks: Chunks
    drop: int
    asked: Asked

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block, and a tree for each row of blocks: of equals the first one's come first."""
        made: dict[Key, Any] = {}
        axis, starts = self.desc.axis, edges(self.chunks[self.desc.axis])
        rest = tuple((1,) if d == axis else own for d, own in enumerate(self.chunks))
        for at in places(rest):
            refs = []
            for number in range(len(self.chunks[axis])):
                place = tuple(number if d == axis else i for d, i in enumerate(at))
                sizes = tuple(own[i] for own, i in zip(self.chunks, place, strict=True))
                key = (f"{name}-block", *place)
                block = Block(self.prefix, place)
                source = TaskRef(self.layout.key(inputs[0], place))
                shapes = self.layout.local(sizes)
                made[key] = Task(key, _best, self.desc, self.asked, shapes, starts[number], block, source)
                refs.append(TaskRef(key))
            level = 0
            while True:
                groups = [refs[i : i + _AT_ONCE] for i in range(0, len(refs), _AT_ONCE)]
                is_last = len(groups) == 1
                refs = []
                for number, group in enumerate(groups):
                    key = (name, *at[self.drop :]) if is_last else (f"{name}-{level}", *at, number)
                    drop = self.drop if is_last else 0
                    made[key] = Task(key, _best_of, self.desc, self.asked, drop, Block(self.prefix, at), *group)
                    refs.append(TaskRef(key))
                if is_last:
                    break
                level += 1
        return made


def _top(desc: TopK, asked: Asked, x: Any) -> tuple[Any, Any]:
    """The best of an array, at most as many as there are."""
    k = min(desc.k, x.shape[desc.axis])
    sizes = tuple(k if d == desc.axis else size for d, size in enumerate(x.shape))
    values, indices = (TensorDesc(output.data_type, sizes) for output in desc.outputs().values())
    own = TensorDesc(desc.input_tensor.data_type, x.shape)
    local = replace(desc, input_tensor=own, output_value_tensor=values, output_index_tensor=indices, k=k)
    found: tuple[Any, Any] = run(local, [x], asked)
    return found


def _best(desc: TopK, asked: Asked, shapes: Any, start: int, block: Block, x: Any) -> tuple[Any, Any]:
    with block:
        values, indices = _top(desc, asked, seen(x, shapes))
        return values, indices + indices.dtype.type(start)


def _best_of(desc: TopK, asked: Asked, drop: int, block: Block, *parts: tuple[Any, Any]) -> tuple[Any, Any]:
    with block:
        values, indices = (np.concatenate([part[i] for part in parts], axis=desc.axis) for i in (0, 1))
        found, at = _top(desc, asked, values)
        chosen = np.take_along_axis(indices, at.astype(np.int64), axis=desc.axis)
        return found.reshape(found.shape[drop:]), chosen.reshape(chosen.shape[drop:])


def best(desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked) -> list[Any] | None:
    """The results of a TOP_K as lazy arrays; None of other operators."""
    if not isinstance(desc, TopK):
        return None
    x = tensors["InputTensor"]
    drop = len(x.sizes) - ranks["OutputValueTensor"]
    layer = Best(function_name(desc.type), desc, x.layout, x.chunks, drop, asked)
    chunks = tuple((desc.k,) if d == desc.axis else own for d, own in enumerate(x.chunks))[drop:]
    whole = lazy(layer, [x.array], chunks, meta_like(x.array, len(chunks), x.array.dtype))
    found = []
    for number, output in enumerate(desc.outputs().values()):
        meta = meta_like(x.array, len(chunks), output.data_type.dtype)
        found.append(lazy(Part(layer.prefix, number, chunks), [whole], chunks, meta))
    return found
