"""Attention, found in what networks spell out (a product, a softmax and a product), becomes one verb.

This pass alone may change bits other than by the order of sums: weights are divided by their sum after they were
multiplied with the values, not before, and those of FLOAT16 are not rounded in between, nor are keys that are scaled as
they are read. It comes after the rounds of the optimiser, of what those made, and an operator that is attention is the
same verb without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.splitting import cut_for
from anydml.ir.attention import Attend
from anydml.ir.contraction import match_contraction
from anydml.ir.expressions import Expr, call, const, coordinate, fold, load
from anydml.ir.trees import walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.graph.recipe import Recipe
    from anydml.ir.contraction import Contraction
    from anydml.ir.verbs import Primitive


F32 = DataType.FLOAT32


def attention(recipe: Recipe, takes: Callable[[Primitive], bool]) -> Recipe:
    """Attention: a product, a softmax of its rows and a product become one pass, where the engine has such a way."""
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        found = _Found.of(draft, number)
        made = found.attend() if found else None
        if found and made and takes(made):
            nodes = draft.steps[number].nodes
            for one in reversed(found.numbers):
                nodes = joined(draft.steps[one].nodes, nodes)
            draft.put({number: replace(draft.steps[number], primitive=made, nodes=nodes)})
            for one in found.numbers:
                draft.drop(one)
    return draft.recipe()


@dataclass(frozen=True, slots=True)
class _Found:
    """Three reduces, each of which alone reads what the one before it writes."""

    numbers: tuple[int, int]
    """Of the first two."""
    scores: Reduce
    product: Contraction
    """That of the scores."""
    weights: Reduce
    x: Expr
    """The argument of the softmax."""
    total: Reduce
    places: dict[str, dict[int, int]]
    """By verb, where the last one has the dimensions of its walk."""
    outer: tuple[int, ...]
    """The dimensions of the last one's walk: common ones, queries, the numbers of a value, keys."""
    query: int
    number: int | None
    key: int

    @classmethod
    def of(cls, draft: Draft, number: int) -> _Found | None:
        """Those that end with a step."""
        total = draft.steps[number].primitive if number in draft.steps else None
        last = _product_of(total)
        if not isinstance(total, Reduce) or last is None or _plain(total.value) is not last.fold:
            return None
        for factor, is_left in ((last.left, True), (last.right, False)):
            leaf = _plain(factor)
            before = _maker(draft, total, leaf, number)
            if before is None or _plain(last.right if is_left else last.left).op != "load":
                continue
            weights = _cut(draft, before, total.sources[int(leaf.value)])
            x = _softened(weights)
            rows, columns = (last.rows, last.columns) if is_left else (last.columns, last.rows)
            if x is None or not isinstance(weights, Reduce) or len(columns) > 1 or len(last.folded) != 1:
                continue
            rows = rows or _alone(total, last)
            if not rows:
                continue
            for node in walk(x):
                first = _maker(draft, weights, node, before)
                scores = None if first is None else _cut(draft, first, weights.sources[int(node.value)])
                product = _product_of(scores)
                if first is None or product is None or len(product.folded) != 1:
                    continue
                assert isinstance(scores, Reduce)  # noqa: S101 - for type checkers: products are
                to_weights = _dimensions(total.sources[int(leaf.value)], weights.target)
                to_scores = _dimensions(weights.sources[int(node.value)], scores.target)
                if to_weights is None or to_scores is None:
                    continue
                places = {
                    "weights": to_weights,
                    "scores": {k: to_weights[m] for k, m in to_scores.items() if m in to_weights},
                }
                outer = (*last.batch, *rows[:-1])
                one = columns[0] if columns else None
                return cls(
                    (first, before), scores, product, weights, x, total, places, outer, rows[-1], one, last.folded[0]
                )
        return None

    def attend(self) -> Attend | None:
        """The verb, where keys are the keys of the softmax, and queries and keys vary as they are to."""
        if self.places["weights"].get(len(self.weights.sizes) - 1) != self.key or self.weights.depth != 1:
            return None
        if any(len(self.places[name]) < _wide(verb) for name, verb in self._verbs):
            return None
        turned = {m: k for k, m in self.places["scores"].items()}
        (left, by_left), (right, by_right) = (
            _scaled(factor, self.scores) for factor in (self.product.left, self.product.right)
        )
        is_there = self.query in turned or self.total.sizes[self.query] == 1
        if left.op != "load" or right.op != "load" or not is_there or self.key not in turned:
            return None
        one, other = (self.scores.sources[int(leaf.value)] for leaf in (left, right))
        if one.strides[turned[self.key]]:
            one, other = other, one
        if one.strides[turned[self.key]] or (self.query in turned and other.strides[turned[self.query]]):
            return None
        sizes, depth = self.total.sizes, self.product.folded[0]
        queries, keys = (self._view(view, turned, last, depth) for view, last in ((one, self.query), (other, self.key)))
        own = {m: m for m in range(len(sizes))}
        (values,) = (
            self.total.sources[int(node.value)]
            for node in walk(self.total.value)
            if node.op == "load" and self.total.sources[int(node.value)].tensor != self.weights.target.tensor
        )
        value = self._view(values, own, self.key, self.number)
        target = self._view(self.total.target, own, self.query, self.number)
        beside: list[View] = []
        score = self._score((*by_left, *by_right), beside)
        return Attend((queries, keys, value, *beside), target, score)

    @property
    def _verbs(self) -> tuple[tuple[str, Reduce], ...]:
        return ("weights", self.weights), ("scores", self.scores)

    def _view(self, view: View, turned: Mapping[int, int], row: int, end: int | None) -> View:
        """A view of a verb's walk as one over the common dimensions, one more of the last verb's, and one of its own.

        `turned` leads from the last verb's dimensions to its own.
        """
        wanted = [*(turned.get(m) for m in (*self.outer, row)), end]
        sizes = (*(self.total.sizes[m] for m in (*self.outer, row)), 1 if end is None else view.sizes[end])
        strides = tuple(0 if k is None else view.strides[k] for k in wanted)
        return View(view.tensor, view.data_type, sizes, strides, view.offset)

    def _score(self, scales: tuple[Expr, ...], beside: list[View]) -> Expr:
        """The argument of the softmax, from the sum of products on; the views that it reads join those beside."""
        total: Expr = load(0, F32)
        for scale in scales:
            total = total * self._placed("scores", self.scores, scale, {}, beside).to(F32)
        first = self._placed("scores", self.scores, self.scores.value, {self.product.fold: total}, beside)
        sums = (node for node in walk(self.x) if node.op == "load")
        name = self.scores.target.tensor
        known = {node: first for node in sums if self.weights.sources[int(node.value)].tensor == name}
        return self._placed("weights", self.weights, self.x, known, beside)

    def _placed(self, name: str, verb: Reduce, root: Expr, known: Mapping[Expr, Expr], beside: list[View]) -> Expr:
        """A tree of a verb's, with what is known of it, over the scores."""
        order, made = (*self.outer, self.query, self.key), dict(known)
        sizes, places = tuple(self.total.sizes[m] for m in order), self.places[name]
        turned = {m: k for k, m in places.items()}
        for node in walk(root, known=known):
            if node.op == "load" and node.type is not None:
                view = verb.sources[int(node.value)]
                strides = tuple(view.strides[turned[m]] if m in turned else 0 for m in order)
                placed = View(view.tensor, view.data_type, sizes, strides, view.offset)
                if placed not in beside:
                    beside.append(placed)
                made[node] = load(1 + beside.index(placed), node.type)
            elif node.op == "coordinate":
                m = places.get(int(node.value))
                made[node] = const(0, DataType.INT64) if m is None else coordinate(order.index(m))
            else:
                made[node] = Expr(node.op, node.type, tuple(made[arg] for arg in node.args), node.value)
        return made[root]


def _wide(verb: Reduce) -> int:
    """The dimensions of a verb's results that are wider than 1."""
    return sum(size > 1 for size in verb.target.sizes)


def _plain(value: Expr) -> Expr:
    """A value, or what it is converted from."""
    return value.args[0] if value.op == "cast" and value.args[0].type in (F32, DataType.FLOAT16) else value


def _bare(value: Expr) -> Expr:
    """A value without any of its conversions."""
    while (inner := _plain(value)) is not value:
        value = inner
    return value


def _scaled(factor: Expr, verb: Reduce) -> tuple[Expr, tuple[Expr, ...]]:
    """The factor itself, and the numbers, the same everywhere, that it is multiplied by."""
    node, scales = _bare(factor), list[Expr]()
    while node.op == "mul":
        others = [arg for arg in node.args if _is_single(arg, verb)]
        if len(others) != 1:
            break
        scales += others
        (node,) = (_bare(arg) for arg in node.args if arg is not others[0])
    return node, tuple(scales)


def _is_single(value: Expr, verb: Reduce) -> bool:
    """Whether a value is one number for the whole walk."""
    return not any(
        node.op == "coordinate" or (node.op == "load" and any(verb.sources[int(node.value)].strides))
        for node in walk(value)
    )


def _alone(total: Reduce, found: Contraction) -> tuple[int, ...]:
    """The dimension of one query, which is in no group of a product."""
    taken = {*found.batch, *found.rows, *found.columns, *found.folded}
    return tuple(k for k, size in enumerate(total.sizes) if size == 1 and k not in taken)[-1:]


def _product_of(primitive: Primitive | None) -> Contraction | None:
    """The product of matrices that a reduce sums up in FLOAT32."""
    if not isinstance(primitive, Reduce) or primitive.checks or primitive.also:
        return None
    found = match_contraction(primitive)
    return found if found is not None and found.fold.type is F32 else None


def _softened(primitive: Primitive) -> Expr | None:
    """The argument of a reduce that is a softmax, converted or not; None for another."""
    if not isinstance(primitive, Reduce) or primitive.checks or primitive.also or primitive.is_by_row:
        return None
    value = _plain(primitive.value)
    for power in value.args[:1]:
        if power.op == "exp" and power.args[0].op == "sub":
            x = power.args[0].args[0]
            again = call("exp", x - fold("max", x))
            if value in (again * (1 / fold("sum", again)), again / fold("sum", again)):
                return x
    return None


def _maker(draft: Draft, reader: Primitive, leaf: Expr, number: int) -> int | None:
    """The number of the step that writes what a leaf reads, where nobody else reads or writes it."""
    if leaf.op != "load":
        return None
    view = reader.sources[int(leaf.value)]
    if not draft.is_own(view) or draft.who_reads(view.tensor) != [number]:
        return None
    (maker,) = draft.who_writes(view.tensor)
    return maker


def _cut(draft: Draft, number: int, view: View) -> Primitive:
    """The verb of a step, with as many dimensions as its reader has, where heads share keys and values."""
    made = draft.steps[number].primitive
    return cut_for(made, view) if isinstance(made, Reduce) and not made.also else made


def _dimensions(view: View, target: View) -> dict[int, int] | None:
    """By dimension of a target the reader's that goes along it, each whole; None where they are not so."""
    found = trace(view, target)
    if found is None or any(found.first):
        return None
    places: dict[int, int] = {}
    for k, steps in enumerate(found.steps):
        along = [m for m, step in enumerate(steps) if step and view.sizes[m] > 1]
        if target.sizes[k] == 1:
            continue
        if len(along) != 1 or steps[along[0]] != 1 or view.sizes[along[0]] != target.sizes[k]:
            return None
        places[k] = along[0]
    return places if len(set(places.values())) == len(places) else None
