"""What an element is computed from: values, and the elements of inputs that they follow from.

Both come of the verbs' own index expressions, from the actual values: a fetch reads where its indices say, a choice
takes one of its ways. An input element is used for a result in one of three ways:

- *made of*: the result is computed from its number;
- *decided by*: its number decides what the result is computed from, as an index, a condition or a number past a limit;
- *compared*: it was looked at, and another number there could have led elsewhere; with this one others won.

Whatever the elements that are not used hold, the result is the same: what a choice does not take is not used, and
neither is what stands beside a false term of an `and`.
"""

from __future__ import annotations

import enum
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.reference.evaluate import evaluate
from anydml.explain.formula import recognise
from anydml.explain.picture import Element
from anydml.explain.tale import Landing
from anydml.explain.values import coordinate_of
from anydml.ir.contraction import match_contraction
from anydml.ir.expressions import FOLDS, FUNCTIONS, Expr
from anydml.ir.trees import loads, walk
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.contraction import Contraction
    from anydml.ir.verbs import Computation
    from anydml.ir.views import View

    Array = np.ndarray[Any, Any]

MOST_READ = 100_000
"""Elements that a picture reads to compute those that it draws: some tenths of a second."""
_MOST_MERGED = 200_000
"""Uses of elements between the inputs and the result that are put together: likewise."""
_MOST_KEPT = 4096
"""Places of a row whose nodes are kept for when they are asked for again."""
_MOST_USED = 256
"""Of the elements that one is made of, those that are drawn as such; and of the others likewise."""
MOST_COMPUTED = 600
"""Elements between the inputs and results that are computed, one by one, for a picture: a second or two. Of an LSTM of
400 steps 20,000 took 22 s, and were still not enough; the reference engine computes it whole in half a second."""


class Use(enum.IntEnum):
    """The use of an input element for a result, the closest first."""

    MADE_OF = 0
    DECIDED_BY = 1
    COMPARED = 2


_NONE = len(Use)


class TooMuch(Exception):  # noqa: N818 - no error: a picture leaves it out
    """More to read than a picture is worth."""


class Uses(NamedTuple):
    """The input elements that a result uses, those of each tensor in the order in which they are taken."""

    made_of: tuple[Element, ...] = ()
    decided_by: tuple[Element, ...] = ()
    compared: tuple[Element, ...] = ()
    is_cut: bool = False
    """Whether there may be more."""

    def landing(self, value: str, says: str, hue: int = 0) -> Landing:
        """The facts of the result, with what is said of it."""
        return Landing(value, says, self.made_of, self.decided_by, hue=hue, is_cut=self.is_cut, compared=self.compared)


class Row(NamedTuple):
    """Where a step computes an element: at a coordinate of its walk."""

    step: Computation
    at: Coordinate

    @property
    def place(self) -> Coordinate:
        """The element's own place among what is evaluated."""
        kept = len(self.at) - self.step.depth
        return tuple(c if k >= kept else 0 for k, c in enumerate(self.at))

    def shape(self) -> tuple[int, ...]:
        """Of what is evaluated: one place, but for what is folded."""
        kept = len(self.at) - self.step.depth
        return (1,) * kept + self.step.sizes[kept:]

    def numbers(self, slot: int) -> Array:
        """Where a source's elements lie that a row reads."""
        shape, strides = self.shape(), self.step.sources[slot].strides
        places = np.indices(shape, sparse=True)
        found = sum((along * stride for along, stride in zip(places, strides, strict=True)), np.int64(0))
        return np.broadcast_to(found + self._start(slot), shape)

    def ends(self, slot: int) -> tuple[int, int]:
        """The least and the greatest of these places."""
        steps = [
            (size - 1) * stride for size, stride in zip(self.shape(), self.step.sources[slot].strides, strict=True)
        ]
        start = self._start(slot)
        return start + sum(min(step, 0) for step in steps), start + sum(max(step, 0) for step in steps)

    def number(self, slot: int) -> int:
        """Where the element lies that a source has at the very coordinate."""
        return placed(self.step.sources[slot], self.at)

    def _start(self, slot: int) -> int:
        return placed(self.step.sources[slot], self.at[: len(self.at) - self.step.depth])


class Work:
    """Steps over values: each element is computed when it is asked for, by the reference engine's arithmetic."""

    def __init__(
        self, steps: Sequence[Computation], values: Mapping[str, Values], sizes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self._writers: dict[str, list[tuple[int, int, Computation]]] = {}
        for step in itertools.chain.from_iterable(one.apart() for one in steps):
            view = step.target
            reach = [(size - 1) * stride for size, stride in zip(view.sizes, view.strides, strict=True)]
            low, high = (view.offset + sum(least(end, 0) for end in reach) for least in (min, max))
            self._writers.setdefault(view.tensor, []).append((low, high, step))
        self._values, self._sizes = values, sizes
        self._known: dict[tuple[str, int], Any] = {}
        self._rows: dict[Row, dict[Expr, Array]] = {}
        self._used: dict[tuple[str, int], dict[tuple[str, int], int]] = {}
        self._read = self._merged = 0

    # Values

    def row(self, tensor: str, number: int) -> Row:
        """The step that leaves an element, and where: the last that writes it."""
        for low, high, step in reversed(self._writers[tensor]):
            if low <= number <= high and (at := located(step.target, number)) is not None:
                return Row(step, at)
        raise LookupError(tensor)

    def element(self, tensor: str, number: int) -> Any:
        """An element of an input, or one that a step computes."""
        if tensor in self._values:
            self._read += 1
            if self._read > MOST_READ:
                raise TooMuch
            return self._values[tensor].at(coordinate_of(number, self._sizes[tensor]))
        pending = [(tensor, number)]
        while (tensor, number) not in self._known:  # a recurrent network's steps are too many to nest
            row = self.row(*pending[-1])
            if missing := self._missing(row):
                pending += missing
                if len(self._known) + len(pending) > MOST_COMPUTED:
                    raise TooMuch
            elif (source := _copied(row)) is not None:
                self._known[pending.pop()] = self.element(*source)
            else:
                self._known[pending.pop()] = self.result(row, row.step.value)
        return self._known[tensor, number]

    def _missing(self, row: Row) -> list[tuple[str, int]]:
        """The elements between that a row loads, and that are not computed yet."""
        slots = dict.fromkeys(int(node.value) for node in loads(row.step.value))
        between = [slot for slot in slots if row.step.sources[slot].tensor not in self._values]
        if between and math.prod(row.shape()) > MOST_COMPUTED:
            raise TooMuch
        read = ((row.step.sources[slot].tensor, n) for slot in between for n in np.unique(row.numbers(slot)).tolist())
        return [one for one in read if one not in self._known]

    def result(self, row: Row, node: Expr) -> Any:
        """A node at the row's own coordinate."""
        return self.nodes(row)[node][row.place]

    def nodes(self, row: Row) -> dict[Expr, Array]:
        """Every node of a row's value, at all places of the row."""
        if row in self._rows:
            return self._rows[row]
        shape, kept = row.shape(), len(row.at) - row.step.depth
        if self._read + math.prod(shape) > MOST_READ:
            raise TooMuch
        found: dict[Expr, Array] = {}
        product = match_contraction(row.step) if isinstance(row.step, Reduce) else None
        for node in walk(row.step.value):
            if node.op == "coordinate":
                k = int(node.value)
                along = np.arange(shape[k]) if k >= kept else np.array([row.at[k]])
                value: Array = along.reshape([-1 if k == m else 1 for m in range(len(shape))])
            elif node.op in ("load", "fetch"):
                value = self._elements(row.step.sources[int(node.value)], self._numbers(row, node, found))
            elif product is not None and node is product.fold:
                value = _summed(product, found, tuple(range(kept, len(shape))))
            else:
                # A function's result is rounded once, with the conversion that follows it.
                arg = node.args[0] if node.op == "cast" else node
                known = {one: found[one] for one in (arg.args if arg.op in FUNCTIONS else node.args)}
                value = evaluate(node, (), shape, row.step.depth, known)
            found[node] = np.broadcast_to(value, shape)
        if math.prod(shape) <= _MOST_KEPT:
            self._rows[row] = found
        return found

    def _numbers(self, row: Row, node: Expr, found: Mapping[Expr, Array]) -> Array:
        """Where a load's or a fetch's elements lie, at all places of a row."""
        if node.op == "load":
            return row.numbers(int(node.value))
        view = row.step.sources[int(node.value)]
        numbers = np.full((1,) * len(row.at), view.offset, np.int64)
        for index, stride in zip(node.args, view.strides, strict=True):
            numbers = numbers + found[index] * stride
        return numbers

    def _elements(self, view: View, numbers: Array) -> Array:
        each, where = np.unique(numbers, return_inverse=True)
        found = np.array([self.element(view.tensor, int(number)) for number in each], view.data_type.dtype)
        return found[where].reshape(numbers.shape)

    # Uses

    def uses(self, tensor: str, number: int) -> Uses:
        """The input elements that an element follows from."""
        found: tuple[list[Element], ...] = tuple([] for _ in Use)
        is_cut = False
        try:
            order = list(self._values)
            used = sorted(self._uses(tensor, number).items(), key=lambda one: order.index(one[0][0]))
            for (name, place), use in used:
                found[use].append(Element(name, coordinate_of(place, self._sizes[name])))
        except TooMuch:
            is_cut = True
        is_cut |= any(len(several) > _MOST_USED for several in found)
        made_of, decided_by, compared = (tuple(several[:_MOST_USED]) for several in found)
        return Uses(made_of, decided_by, compared, is_cut)

    def _uses(self, tensor: str, number: int) -> dict[tuple[str, int], int]:
        if tensor in self._values:
            return {(tensor, number): Use.MADE_OF}
        reads: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
        pending = [(tensor, number)]
        while (tensor, number) not in self._used:
            last = pending[-1]
            if last not in reads:
                if len(self._used) + len(reads) > MOST_COMPUTED:
                    raise TooMuch
                reads[last] = list(self._read_by(self.row(*last)))
                between = ((name, place) for name, place, _ in reads[last] if name not in self._values)
                pending += [one for one in between if one not in self._used]
            else:
                self._used[last] = self._merge(reads[last])
                pending.pop()
        return self._used[tensor, number]

    def _merge(self, reads: Sequence[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
        """The uses of inputs, from those of what was read for a result."""
        found: dict[tuple[str, int], int] = {}
        for name, place, use in reads:
            before = {(name, place): Use.MADE_OF} if name in self._values else self._used[name, place]
            self._merged += len(before)
            if self._merged > _MOST_MERGED:
                raise TooMuch
            for key, own in before.items():
                found[key] = min(found.get(key, _NONE), max(own, use))
        return found

    def _read_by(self, row: Row) -> Iterator[tuple[str, int, int]]:
        """The elements that a step reads for a result, and what for.

        From the root to the leaves, each node has the closest use that it is of, at each place of the row.
        """
        if (source := _copied(row)) is not None:
            yield (*source, Use.MADE_OF)
            return
        root, nodes = row.step.value, self.nodes(row)
        uses = {root: np.full(row.shape(), _NONE, np.int8)}
        uses[root][row.place] = Use.MADE_OF
        neutral: dict[Expr, str] = {}
        order = list(walk(root))
        for node in reversed(order):
            if node not in uses or (uses[node] == _NONE).all():
                uses.pop(node, None)
                continue
            if node.op in FOLDS:
                term = node.args[0]
                neutral[term.args[0] if term.op == "cast" else term] = node.op
            for arg, use in _passed_on(node, uses[node], nodes, row.step.depth, neutral.get(node, "")):
                uses[arg] = np.minimum(uses[arg], use) if arg in uses else use
        for node in order:
            if node.op in ("load", "fetch") and node in uses:
                tensor = row.step.sources[int(node.value)].tensor
                numbers = np.broadcast_to(self._numbers(row, node, nodes), row.shape())
                is_used = uses[node] < _NONE
                met = dict.fromkeys(zip(numbers[is_used].tolist(), uses[node][is_used].tolist(), strict=True))
                yield from ((tensor, number, use) for number, use in met)


def _copied(row: Row) -> tuple[str, int] | None:
    """The element that is the result as it is."""
    if row.step.value.op != "load":
        return None
    slot = int(row.step.value.value)
    return row.step.sources[slot].tensor, row.number(slot)


def _passed_on(
    node: Expr, use: Array, nodes: Mapping[Expr, Array], depth: int, fold: str
) -> Iterator[tuple[Expr, Array]]:
    """The arguments of a node, and what each is used for where the node is used so; `fold` is what folds it."""
    if node.op in FOLDS:
        (term,) = node.args
        axes = tuple(range(use.ndim - depth, use.ndim))
        along = np.broadcast_to(use.min(axes, keepdims=True), use.shape)
        if node.op in ("fold_max", "fold_min"):
            along = np.where(_alike(nodes[term], nodes[node]), along, _at_least(along, Use.COMPARED))
        yield term, along
    elif (named := recognise(node)) is not None:
        if named.name not in ("max", "min"):
            yield from ((arg, use) for arg in named.args)
            return
        a, b = named.args
        for arg, other in ((a, b), (b, a)):
            wins = _alike(nodes[arg], nodes[node]) & ~(np.isnan(nodes[other]) & ~np.isnan(nodes[arg]))
            yield arg, np.where(wins, use, _at_least(use, Use.COMPARED))
    elif node.op == "where":
        test, *ways = node.args
        is_first = nodes[test]
        decided = use if all(map(_is_number, ways)) else _at_least(use, Use.DECIDED_BY)
        for way, other, is_taken in zip(ways, reversed(ways), (is_first, ~is_first), strict=True):
            yield way, np.where(is_taken, use, _NONE)
            if fold and _adds_nothing(fold, way, other):
                decided = np.where(is_taken, _at_least(use, Use.COMPARED), decided)
        yield test, decided
    elif node.type is None and node.op in ("and", "or"):
        a, b = node.args
        settles = node.op == "or"
        for arg, other in ((a, b), (b, a)):
            yield arg, np.where((nodes[other] == settles) & (nodes[arg] != settles), _NONE, use)
    else:
        use = _at_least(use, Use.DECIDED_BY) if node.op == "fetch" else use
        yield from ((arg, use) for arg in node.args)


def _summed(product: Contraction, found: Mapping[Expr, Array], axes: tuple[int, ...]) -> Array:
    """The sum of a row of products, which the reference engine does not round before it adds them up."""
    kind = product.fold.type
    assert kind is not None  # noqa: S101 - for type checkers: truths are not summed
    wide = np.float64 if kind.is_float else kind.dtype
    with np.errstate(all="ignore"):
        terms = found[product.left].astype(wide) * found[product.right].astype(wide)
        return np.asarray(terms.sum(axes, wide, keepdims=True)).astype(kind.dtype)


def _at_least(use: Array, least: Use) -> Array:
    return np.where(use < _NONE, np.maximum(use, least), use)


def _alike(a: Array, b: Array) -> Array:
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _is_number(node: Expr) -> bool:
    return node.op in ("const", "given")


def _adds_nothing(fold: str, way: Expr, other: Expr) -> bool:
    """Whether a way of a choice is a number that leaves a fold as it is, as 0 does a sum."""
    if not _is_number(way):
        return False
    if fold in ("fold_sum", "fold_product"):
        return bool(way.value == (fold == "fold_product"))
    return not _is_number(other) or bool(way.value < other.value if fold == "fold_max" else way.value > other.value)


def placed(view: View, at: Coordinate) -> int:
    """The number of the element that a view has at a coordinate; dimensions that are left away count as 0."""
    return view.offset + sum(c * stride for c, stride in zip(at, view.strides, strict=False))


def located(view: View, number: int) -> Coordinate | None:
    """Where a view whose elements lie apart has the one of a number; None where it has not."""
    found, number = [0] * len(view.sizes), number - view.offset
    backwards = [k for k, stride in enumerate(view.strides) if stride < 0]
    number -= sum((view.sizes[k] - 1) * view.strides[k] for k in backwards)
    for k in sorted(range(len(found)), key=lambda k: -abs(view.strides[k])):
        if view.strides[k]:
            found[k], number = divmod(number, abs(view.strides[k]))
    for k in backwards:
        found[k] = view.sizes[k] - 1 - found[k]
    is_inside = not number and all(0 <= c < size for c, size in zip(found, view.sizes, strict=True))
    return tuple(found) if is_inside else None
