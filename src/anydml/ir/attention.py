"""The verb of attention: a product, a softmax of its rows, and a product, whose scores nobody else sees."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.ir.expressions import Expr, call, const, coordinate, fold, load, where
from anydml.ir.trees import moved, rewrite
from anydml.ir.verbs import Primitive, Reduce
from anydml.ir.views import IndexRange, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


F32, INT64 = DataType.FLOAT32, DataType.INT64
MOST_SCORES, MOST_BLOCKS = 2**23, 32
"""Scores that are held at once where they are written, 32 MiB of them, unless there were more parts than that."""
_BESIDE = 3
"""The sources before those that scores are computed from beside the product."""


@dataclass(frozen=True, slots=True)
class Attend(Primitive):
    """target[…, i, d] = Σ weights[…, i, j]·value[…, j, d], the weights being the softmax along j of the scores.

    The sources are the query […, i, k], the key […, j, k], the value […, j, d], and what scores are computed from
    beside their product, […, i, j]; the dimensions before the last two are common to all. `score` is of FLOAT32, over
    […, i, j]: its load 0 is the sum of query·key along k, and those from 1 on are the sources after the value.

    A query sees the keys before its `limit`, of INT64, which varies along i alone of the last two and does not decrease
    there; the keys from the last one's limit on are not looked at, whatever they are. Sums and the softmax are of
    FLOAT32, in any order: an engine need not know a row's largest score before it takes exponents, since it may scale
    what it has when a larger one comes, and may round weights to the values' type, where that is all that its hardware
    multiplies. One that has no way for it has `spelled`.
    """

    score: Expr
    limit: Expr | None = None

    @property
    def scores(self) -> tuple[int, ...]:
        """The sizes of all scores."""
        return (*self.target.sizes[:-1], self.sources[1].sizes[-2])

    @property
    def depths(self) -> tuple[int, int]:
        """The numbers that are multiplied for a score, and those of a value."""
        return self.sources[0].sizes[-1], self.target.sizes[-1]

    @property
    def beside(self) -> tuple[View, ...]:
        """The parts of scores beside the product."""
        return self.sources[_BESIDE:]

    @property
    def seen(self) -> Expr:
        """The scores, those of keys that a query does not see being -∞."""
        if self.limit is None:
            return self.score
        return where(coordinate(len(self.scores) - 1) < self.limit, self.score, const(float("-inf"), F32))

    def may_overwrite(self, target: View) -> bool:  # noqa: ARG002 - as others
        """Every query looks at all keys."""
        return False

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:  # noqa: ARG002 - as others
        """All of it."""
        return [IndexRange(0, 1, size) for size in self.target.sizes]

    def spelled(self) -> tuple[Primitive, ...]:
        """Block by block the scores, their softmax and the sums of values: one block's scores are all that is held."""
        return tuple(step for number, block in enumerate(blocks(self.scores)) for step in self._block(number, block))

    def _block(self, number: int, block: Block) -> Iterator[Reduce]:
        query, key, value, *_ = self.sources
        *places, i = range(len(self.scores) - 1)
        (size, value_size), keys, name = self.depths, self.scores[-1], f"{number or ''}"
        scores, weights = (_temporary(f"{of}{name}", block.sizes) for of in ("scores", "weights"))

        def widened(view: View, *strides: int, sizes: tuple[int, ...]) -> View:
            """A view of the walk's places and of two dimensions more, given its strides from the queries on."""
            return replace(
                view, sizes=(*self.target.sizes[:i], *sizes), strides=(*view.strides[: len(places)], *strides)
            )

        whole = (self.scores[i], keys, size)
        factors = (
            widened(query, query.strides[i], 0, query.strides[-1], sizes=whole),
            widened(key, 0, key.strides[-2], key.strides[-1], sizes=whole),
        )
        numbers = [load(slot, view.data_type).to(F32) for slot, view in enumerate(factors)]
        yield Reduce(tuple(map(block.of, factors)), _by_row(scores), fold("sum", numbers[0] * numbers[1]), 1)
        x = moved(self.seen, [(start, 1) for start in block.first])
        power = call("exp", x - fold("max", x))
        yield Reduce((scores, *map(block.of, self.beside)), weights, power * (1 / fold("sum", power)), 1)
        sizes, last = (self.scores[i], value_size, keys), len(self.scores)
        rest = [widened(value, 0, value.strides[-1], value.strides[-2], sizes=sizes)]
        element = load(1, value.data_type).to(F32)
        if self.limit is not None:  # the last query's: it is the largest
            rest += [widened(view, 0, 0, 0, sizes=sizes) for view in self.beside]
            end = rewrite(self.limit, lambda node: self._of_last(node, i))
            element = where(coordinate(last) < moved(end, [(at, 1) for at in block.first]), element, const(0.0, F32))
        total = fold("sum", load(0, F32) * element).to(self.target.data_type)
        w = weights.strides
        first = replace(weights, sizes=(*block.sizes[: i + 1], value_size, keys), strides=(*w[: i + 1], 0, w[-1]))
        yield Reduce((first, *map(block.of, rest)), _by_row(block.of(self.target)), total, 1)

    def _of_last(self, node: Expr, dimension: int) -> Expr:
        """A node of a limit as it is for the last query, of sources that come after the weights and the value."""
        if node.op == "coordinate" and node.value == dimension:
            return const(self.scores[dimension] - 1, INT64)
        return load(int(node.value) + 1, node.type) if node.op == "load" and node.type is not None else node


def _temporary(name: str, sizes: tuple[int, ...]) -> View:
    return View(name, F32, sizes, packed_strides(sizes))


def _by_row(view: View) -> View:
    return replace(view, sizes=(*view.sizes, 1), strides=(*view.strides, 0))


class Block(NamedTuple):
    """Some of the rows of scores."""

    first: tuple[int, ...]
    sizes: tuple[int, ...]

    def of(self, view: View) -> View:
        """The part of a view that belongs to it: the first dimensions are the rows'."""
        rows = len(self.sizes) - 1
        rest, depth = view.sizes[rows:], len(view.sizes)
        return view.window((*self.first[:rows], *(0,) * len(rest)), (1,) * depth, (*self.sizes[:rows], *rest))


def blocks(sizes: tuple[int, ...]) -> Iterator[Block]:
    """Rows of scores that are held at once, so that they take no more memory than `MOST_SCORES`.

    Their results are the same bits whatever the block.
    """
    rows = len(sizes) - 1
    most = max(MOST_SCORES, -(-math.prod(sizes) // MOST_BLOCKS))
    inner = [math.prod(sizes[k + 1 :]) for k in range(rows)]
    cut = next((k for k in range(rows) if inner[k] <= most), rows - 1)
    steps = [1 if k < cut else max(most // inner[k], 1) if k == cut else sizes[k] for k in range(rows)]
    # A range asks for the numbers of its bounds, which symbolic sizes then are for good.
    starts = [(0,) if step >= size else range(0, size, step) for size, step in zip(sizes[:rows], steps, strict=True)]
    for first in itertools.product(*starts):
        ends = zip(first, steps, sizes[:rows], strict=True)
        yield Block((*first, 0), (*(min(step, size - at) for at, step, size in ends), sizes[rows]))
