"""Segmented reductions: few long rows are cut into segments that threads reduce side by side, then what they gave."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import numpy_address
from anydml.engines.common.program import Program
from anydml.ir.expressions import FOLDS, Expr, coordinate, fold, load
from anydml.ir.row_passes import levels_of
from anydml.ir.trees import loads, rewrite, walk
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


TEMPORARY = "a temporary of a reduce:"
"""The start of the names of temporaries."""


def cut(primitive: Reduce, dimension: int, length: int) -> list[Map | Reduce]:
    """Primitives that together are a reduce, of which a folded dimension is cut, with temporaries between them."""
    return _Cutting(primitive, dimension, length).steps


class _Cutting:
    def __init__(self, primitive: Reduce, dimension: int, length: int) -> None:
        self.primitive, self.dimension, self.length = primitive, dimension, length
        self.first = len(primitive.sizes) - primitive.depth
        self.kept = primitive.sizes[: self.first]
        self.segments = -(-primitive.sizes[dimension] // length)
        self.steps: list[Map | Reduce] = []
        values, targets = primitive.values, primitive.targets
        self.elsewhere = {*range(len(primitive.sources))} - {node.value for node in loads(*values)}
        """Sources that are fetched from, which stay whole."""
        self.sources = list(primitive.sources)
        """With results of folds, repeated along the rows."""
        self.known: dict[Expr, Expr] = {}
        """Loads of these results."""
        self._names = (f"{TEMPORARY} {k}" for k in itertools.count())
        folds = [node for node in walk(*values) if node.op in FOLDS]
        inner = {part for node in folds for part in walk(node.args[0])}
        parts: dict[Expr, View] = {}
        for beside in _levels(values, folds):
            for node, partial in zip(beside, self._partials(beside), strict=True):
                if primitive.is_by_row and node not in inner:
                    parts[node] = partial
                else:
                    self._result(node, partial)
        if primitive.is_by_row:
            self._finish(parts)
            return
        pairs = [Write(target, self._with_results(value)) for target, value in zip(targets, values, strict=True)]
        by_row = [pair for pair in pairs if primitive.has_rows(pair.target)]
        if by_row:  # before the others, which may be written over a source
            sources = (view if slot in self.elsewhere else self._once(view) for slot, view in enumerate(self.sources))
            self._map(tuple(sources), by_row)
        self._map(tuple(self.sources), [pair for pair in pairs if pair not in by_row])

    def _map(self, sources: tuple[View, ...], pairs: list[Write]) -> None:
        first, *others = pairs
        self.steps.append(Map(sources, *first, also=tuple(others)))

    def _once(self, view: View) -> View:
        """A view of the rows' first elements alone."""
        return replace(view, sizes=(*self.kept, *(1,) * self.primitive.depth))

    def _with_results(self, root: Expr) -> Expr:
        return replaced(root, self.known)

    def _partials(self, nodes: Sequence[Expr]) -> list[View]:
        """Fold each segment, several folds in one pass; the last may be shorter, and is then a primitive of its own."""
        size, length, k, first = self.primitive.sizes[self.dimension], self.length, self.dimension, self.first
        count, packed = math.prod(self.kept), _packed(self.kept)
        kinds = [node.type for node in nodes if node.type is not None]  # truths are not folded
        partials = [View(next(self._names), kind, (*self.kept, self.segments), (*packed, count)) for kind in kinds]
        whole = size // length
        for start, number, part in ((0, whole, length), (whole, 1, size - whole * length)):
            if not number or not part:
                continue

            def moved(inner: Expr, start: int = start) -> Expr:
                if inner.op != "coordinate" or inner.value < first:
                    return inner
                on = coordinate(int(inner.value) + 1)
                return on + (coordinate(first) + start) * length if inner.value == k else on

            def split(view: View, start: int = start, number: int = number, part: int = part) -> View:
                sizes = (*view.sizes[:first], number, *view.sizes[first:k], part, *view.sizes[k + 1 :])
                strides = (*view.strides[:first], view.strides[k] * length, *view.strides[first:])
                return View(view.tensor, view.data_type, sizes, strides, view.offset + start * length * view.strides[k])

            ones = (1,) * self.primitive.depth
            pairs = []
            for node, partial in zip(nodes, partials, strict=True):
                sizes, strides = (*self.kept, number, *ones), (*partial.strides, *(0 for _ in ones))
                term = rewrite(self._with_results(node.args[0]), moved)
                target = replace(partial, sizes=sizes, strides=strides, offset=start * count)
                pairs.append(Write(target, fold(node.op.removeprefix("fold_"), term)))
            sources = tuple(s if slot in self.elsewhere else split(s) for slot, s in enumerate(self.sources))
            rows = (*self.primitive.rows[: k - first], part, *self.primitive.rows[k - first + 1 :])
            main, *others = pairs
            self.steps.append(Reduce(sources, *main, self.primitive.depth, rows=rows, also=tuple(others)))
        return partials

    def _result(self, node: Expr, partial: View) -> None:
        """Fold the segments' results, to be read by what follows."""
        assert node.type is not None  # noqa: S101 - for type checkers: truths are not folded
        strides, name = _packed(self.kept), next(self._names)
        target = View(name, node.type, (*self.kept, 1), (*strides, 0))
        value = fold(node.op.removeprefix("fold_"), load(0, node.type))
        self.steps.append(Reduce((partial,), target, value, 1))
        self.known[node] = load(len(self.sources), node.type)
        depth = self.primitive.depth
        self.sources.append(View(name, node.type, self.primitive.sizes, (*strides, *[0] * depth)))

    def _finish(self, parts: dict[Expr, View]) -> None:
        """The value of each row, of the segments' results."""
        first = self.first
        sources = [
            view
            if slot in self.elsewhere
            else View(view.tensor, view.data_type, (*self.kept, self.segments), (*view.strides[:first], 0), view.offset)
            for slot, view in enumerate(self.sources)
        ]
        known = dict(self.known)
        for node, partial in parts.items():
            assert node.type is not None  # noqa: S101 - for type checkers: truths are not folded
            known[node] = fold(node.op.removeprefix("fold_"), load(len(sources), node.type))
            sources.append(partial)
        rest = replace(self.primitive, sources=tuple(sources), depth=1, rows=(self.segments,), checks=())
        rest = rest.computing(lambda value: replaced(value, known))
        self.steps.append(
            rest.writing(lambda view: replace(view, sizes=(*self.kept, 1), strides=(*view.strides[:first], 0)))
        )


def _levels(values: Sequence[Expr], folds: Sequence[Expr]) -> list[list[Expr]]:
    """Folds that need no other, those that need these, and so on."""
    level = levels_of(*values)
    return [[node for node in folds if level[node] == k] for k in sorted({level[node] for node in folds})]


def replaced(root: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """A tree with some nodes replaced."""
    made = dict(known)
    for node in walk(root, known=known):
        args = tuple(made[arg] for arg in node.args)
        made[node] = node if args == node.args else Expr(node.op, node.type, args, node.value)
    return made[root]


def _packed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))


@dataclass(frozen=True, slots=True)
class CutProgram(Program):
    """Programs that run one after the other, with temporaries between them."""

    steps: tuple[Program, ...]
    temporaries: Mapping[str, int]
    """Bytes by name."""

    @classmethod
    def of(cls, primitives: list[Map | Reduce], steps: tuple[Program, ...]) -> CutProgram:
        """The programs of what `cut` gave."""
        sizes: dict[str, int] = {}
        for view in (view for primitive in primitives for view in primitive.targets):
            if not view.tensor.startswith(TEMPORARY):
                continue
            elements = 1 + view.offset + sum((n - 1) * s for n, s in zip(view.sizes, view.strides, strict=True))
            sizes[view.tensor] = max(sizes.get(view.tensor, 0), elements * view.data_type.size_in_bytes)
        return cls(steps, sizes)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return _Steps(self, dict(places))


class _Steps:
    """Several threads may dispatch one binding at once: each takes memory that nobody uses, or makes some."""

    __slots__ = ("_free", "_places", "_program")

    def __init__(self, program: CutProgram, places: dict[str, int]) -> None:
        self._program, self._places = program, places
        self._free: list[tuple[list[Callable[[], Any]], list[Any]]] = [self._make()]

    def _make(self) -> tuple[list[Callable[[], Any]], list[Any]]:
        arrays = {name: np.empty(size, np.uint8) for name, size in self._program.temporaries.items()}
        places = {**self._places, **{name: numpy_address(array) for name, array in arrays.items()}}
        return [step.bind(places) for step in self._program.steps], list(arrays.values())

    def __call__(self) -> None:
        try:
            ready = self._free.pop()
        except IndexError:
            ready = self._make()
        for dispatch in ready[0]:
            dispatch()
        self._free.append(ready)
