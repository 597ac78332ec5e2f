"""Tales of folds: reduces, operators that take several steps, and scans."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.reference import scan
from anydml.engines.reference.evaluate import evaluate
from anydml.explain.formula import ROW, Formula, name_index
from anydml.explain.picture import Element, spoken, written
from anydml.explain.tale import Landing, Tale, chained, computing, element_at, first_few, wrapped
from anydml.explain.values import coordinate_of, number_of, spread, write_value
from anydml.ir.expressions import FOLDS, Expr
from anydml.ir.trees import fetched, loads, moved, rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.verbs import Computation, Scan
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc


# Reduces, and several steps: what each element is folded and computed from


_LONGEST = 80
"""Of a formula in a sentence, which has it with names and with numbers."""
_MOST_READ = 100_000
"""Elements that a picture reads to compute those that it draws: some tenths of a second."""
_MOST_SOURCES = 256
"""Of an element, those that are drawn as such."""
_UNKNOWN = "…"


class _Row(NamedTuple):
    """Where a step computes an element: at a coordinate of its walk."""

    step: Computation
    at: Coordinate

    def shape(self) -> tuple[int, ...]:
        """Of what is evaluated: one place, but for what is folded."""
        kept = len(self.at) - self.step.depth
        return (1,) * kept + self.step.sizes[kept:]

    def numbers(self, slot: int, most: int = _MOST_READ) -> np.ndarray[Any, Any]:
        """Where a source's elements lie that a row reads, the first of them."""
        shape, strides = self.shape(), self.step.sources[slot].strides
        places = np.unravel_index(np.arange(min(most, math.prod(shape))), shape)
        found = sum(along * stride for along, stride in zip(places, strides, strict=True))
        return np.asarray(found, np.int64) + self._start(slot)

    def ends(self, slot: int) -> tuple[int, int]:
        """The least and the greatest of these places."""
        steps = [
            (size - 1) * stride for size, stride in zip(self.shape(), self.step.sources[slot].strides, strict=True)
        ]
        start = self._start(slot)
        return start + sum(min(step, 0) for step in steps), start + sum(max(step, 0) for step in steps)

    def number(self, slot: int) -> int:
        """Where the element lies that a source has at the very coordinate."""
        return _placed(self.step.sources[slot], self.at)

    def _start(self, slot: int) -> int:
        return _placed(self.step.sources[slot], self.at[: len(self.at) - self.step.depth])


class _TooMuch(Exception):  # noqa: N818 - no error: a picture leaves it out
    """More to read than a picture is worth."""


class _Reads:
    """The elements of inputs that a result is made of, and those that only choose, as many as are drawn."""

    def __init__(self) -> None:
        self._met: set[tuple[str, int, bool]] = set()
        self._found: dict[bool, dict[Element, None]] = {False: {}, True: {}}
        self.is_cut = False
        """Whether there are more."""

    def has(self, tensor: str, number: int, chooses: bool) -> bool:
        """Whether an element was met before, which it is then."""
        if (tensor, number, chooses) in self._met or (tensor, number, False) in self._met:
            return True
        self._met.add((tensor, number, chooses))
        return False

    def add(self, element: Element, chooses: bool) -> None:
        """One more, where there is room."""
        if len(self._found[chooses]) < _MOST_SOURCES:
            self._found[chooses][element] = None
        else:
            self.is_cut = True

    def elements(self) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
        """What it is made of, and what chooses and is no part of it."""
        sources, choosing = self._found[False], self._found[True]
        return tuple(sources), tuple(one for one in choosing if one not in sources)


class ReduceTale(Tale):
    """How each element is computed, from whole rows or in several steps."""

    verb = "goes into"

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        steps = primitive if isinstance(primitive, tuple) else (primitive,)
        self._steps: tuple[Computation, ...] = tuple(one for step in steps for one in step.apart())
        self._values, self._outputs = values, desc.outputs()
        self._sizes = {name: tensor.sizes for name, tensor in desc.tensors().items()}
        for step in self._steps:
            self._sizes.setdefault(step.target.tensor, step.target.sizes)
        self._known: dict[tuple[str, int], Any] = {}
        self._fetched: dict[View, np.ndarray[Any, Any]] = {}
        self._read = 0
        count = sum(math.prod(tensor.sizes) for tensor in self._outputs.values())
        self._shown = {step: _shown(step) for step in self._steps}
        told = dict.fromkeys(f"{spoken(step.target.tensor)} = {self._told(step)}" for step in self._steps)
        self.summary = computing(desc, count, ", ".join(told))
        self._count = count

    def _told(self, step: Computation) -> str:
        def name(node: Expr) -> str:
            is_read = node.op in ("load", "fetch", ROW)
            return spoken(step.sources[int(node.value)].tensor) if is_read else name_index(node)

        inner, _ = self._shown[step]
        return Formula(inner, name).text(name)

    @classmethod
    def made_up(cls, desc: OperatorDesc, primitive: Any, field: str, tensor: TensorDesc, before: int) -> Values:  # noqa: ARG003 - as the base has it
        """Numbers around 0 for what is computed with."""
        return spread(field, tensor, list(desc.inputs()).index(field))

    # What is computed

    def _row(self, tensor: str, number: int) -> _Row:
        """The step that leaves an element, and where: the last that writes it."""
        for step in reversed(self._steps):
            if step.target.tensor == tensor and (at := _located(step.target, number)) is not None:
                return _Row(step, at)
        raise LookupError(tensor)

    def _element(self, tensor: str, number: int) -> Any:
        if tensor in self._values:
            self._read += 1
            if self._read > _MOST_READ:
                raise _TooMuch
            return self._values[tensor].at(coordinate_of(number, self._sizes[tensor]))
        if (tensor, number) not in self._known:
            row = self._row(tensor, number)
            self._known[tensor, number] = self._result(row, row.step.value)
        return self._known[tensor, number]

    def _result(self, row: _Row, node: Expr) -> Any:
        """A node at the row's own coordinate."""
        kept = len(row.at) - row.step.depth
        return self._evaluated(row, node)[tuple(c if k >= kept else 0 for k, c in enumerate(row.at))]

    def _evaluated(self, row: _Row, node: Expr) -> np.ndarray[Any, Any]:
        """Have the reference engine compute it, so that a picture rounds and wraps as an operator does."""
        shape = row.shape()
        if self._read + math.prod(shape) > _MOST_READ:
            raise _TooMuch
        sources: list[Any] = [None] * len(row.step.sources)
        for one in loads(node):
            slot = int(one.value)
            view, numbers = row.step.sources[slot], row.numbers(slot)
            found = [self._element(view.tensor, int(number)) for number in numbers]
            sources[slot] = np.array(found, view.data_type.dtype).reshape(shape)
        for slot in fetched(node):
            sources[slot] = self._whole(row.step.sources[slot])
        kept = len(shape) - row.step.depth
        cuts = [(c if k < kept else 0, 1) for k, c in enumerate(row.at)]
        return np.broadcast_to(evaluate(moved(node, cuts), sources, shape, row.step.depth), shape)

    def _whole(self, view: View) -> np.ndarray[Any, Any]:
        """All elements of what is fetched from."""
        if view not in self._fetched:
            found = [self._element(view.tensor, _placed(view, at)) for at in np.ndindex(*view.sizes)]
            self._fetched[view] = np.array(found, view.data_type.dtype).reshape(view.sizes)
        return self._fetched[view]

    # What is told

    def landing(self, element: Element) -> Landing:
        """One element, computed."""
        row = self._row(element.tensor, number_of(element.coordinate, self._sizes[element.tensor]))
        inner, origin = self._shown[row.step]
        formula = Formula(inner, lambda node: self._name(row, node), _LONGEST)
        says = [str(element), formula.text(lambda node: self._name(row, node), is_chained=True)]
        value = _UNKNOWN
        try:
            value = write_value(self._result(row, row.step.value))
            says += [formula.numbers(lambda node: self._result(row, origin[node])), value]
        except _TooMuch:
            says.append(_UNKNOWN)
        found = _Reads()
        try:
            self._collect(row, found, is_choice=False)
        except _TooMuch:
            found.is_cut = True
        return Landing(value, chained(says), *found.elements(), is_cut=found.is_cut)

    def _name(self, row: _Row, node: Expr) -> str:
        """The name of a leaf: an element, or the part of a tensor that a row goes through."""
        if node.op == "fetch":
            return spoken(row.step.sources[int(node.value)].tensor)
        if node.op not in ("load", ROW):
            return name_index(node)
        slot = int(node.value)
        view = row.step.sources[slot]
        sizes = self._sizes[view.tensor]
        if node.op == "load":
            return written(view.tensor, coordinate_of(row.number(slot), sizes))
        ends = [coordinate_of(end, sizes) for end in row.ends(slot)]
        places = []
        for low, high, size in zip(*ends, sizes, strict=True):
            first, last = sorted((low, high))
            places.append(str(low) if low == high else ":" if last - first == size - 1 else f"{first}:{last + 1}")
        return written(view.tensor, tuple(places))

    def _collect(self, row: _Row, found: _Reads, *, is_choice: bool) -> None:
        """Add the elements of inputs that one is made of, and those that only choose among others."""
        for slot, numbers, chooses in self._read_by(row):
            tensor, chooses = row.step.sources[slot].tensor, chooses or is_choice
            for number in numbers:
                if found.has(tensor, number, chooses):
                    continue
                if tensor in self._values:
                    found.add(Element(tensor, coordinate_of(number, self._sizes[tensor])), chooses)
                else:
                    self._collect(self._row(tensor, number), found, is_choice=chooses)

    def _read_by(self, row: _Row) -> Iterator[tuple[int, list[int], bool]]:
        """By load and fetch, where the elements lie that count for one result, and whether they only choose others.

        From the root to the leaves, each node has the places of the walk at which it counts: of a `where` the way that
        is not taken does not, its test and the indices of a fetch choose, and of what is folded all places count.
        """
        shape, kept = row.shape(), len(row.at) - row.step.depth
        if math.prod(shape) > _MOST_READ:
            raise _TooMuch
        here = np.zeros(shape, bool)
        here[tuple(c if k >= kept else 0 for k, c in enumerate(row.at))] = True
        counts: dict[tuple[Expr, bool], np.ndarray[Any, Any]] = {(row.step.value, False): here}

        def need(node: Expr, where: np.ndarray[Any, Any], chooses: bool) -> None:
            counts[node, chooses] = counts.get((node, chooses), False) | where

        for node in reversed(list(walk(row.step.value))):
            for chooses in (False, True):
                where = counts.get((node, chooses))
                if where is None or not where.any():
                    continue
                if node.op == "where":
                    test, *ways = node.args
                    is_first = self._evaluated(row, test)
                    need(test, where, True)
                    need(ways[0], where & is_first, chooses)
                    need(ways[1], where & ~is_first, chooses)
                elif node.op in FOLDS:
                    need(node.args[0], np.ones(shape, bool), chooses)
                elif node.op == "fetch":
                    slot = int(node.value)
                    view = row.step.sources[slot]
                    at = [self._evaluated(row, index) for index in node.args]
                    places = sum(index * stride for index, stride in zip(at, view.strides, strict=True)) + view.offset
                    yield slot, list(dict.fromkeys(np.broadcast_to(places, shape)[where].tolist())), chooses
                    for index in node.args:
                        need(index, where, True)
                elif node.op == "load":
                    slot = int(node.value)
                    yield slot, list(dict.fromkeys(row.numbers(slot).reshape(shape)[where].tolist())), chooses
                else:
                    for arg in node.args:
                        need(arg, where, chooses)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")


def _shown(step: Computation) -> tuple[Expr, dict[Expr, Expr]]:
    """A step's value, in which what is read along a row is a leaf of its own, and what each node of it was."""
    value = step.value.args[0] if step.value.op == "cast" else step.value
    origin: dict[Expr, Expr] = {}

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op in FOLDS:
            args = (rewrite(node.args[0], lambda one: Expr(ROW, one.type, (), one.value) if one.op == "load" else one),)
        return Expr(node.op, node.type, args, node.value)

    for node in walk(value):
        origin.setdefault(node, node)
    made: dict[Expr, Expr] = {}
    for node in walk(value):
        made[node] = change(node, tuple(made[arg] for arg in node.args))
        origin[made[node]] = node
    return made[value], origin


def _placed(view: View, at: Coordinate) -> int:
    """The number of the element that a view has at a coordinate; dimensions that are left away count as 0."""
    return view.offset + sum(c * stride for c, stride in zip(at, view.strides, strict=False))


def _located(view: View, number: int) -> Coordinate | None:
    """Where a view whose elements lie apart has the one of a number; None where it has not."""
    found, number = [0] * len(view.sizes), number - view.offset
    for k in sorted(range(len(found)), key=lambda k: -view.strides[k]):
        if view.strides[k]:
            found[k], number = divmod(number, view.strides[k])
    is_inside = not number and all(0 <= c < size for c, size in zip(found, view.sizes, strict=True))
    return tuple(found) if is_inside else None


# Scans: each output element is the tally of the elements before it, along one axis


class ScanTale(Tale):
    """The elements that each output element adds up or multiplies."""

    def __init__(self, desc: OperatorDesc, primitive: Scan, values: Mapping[str, Values]) -> None:  # noqa: ARG002 - as the base has it
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self.axis = primitive.axis
        self.reverse = primitive.reverse
        self._is_sum = primitive.function == "sum"
        self.verb = "is added into" if self._is_sum else "is multiplied into"
        first, last = ("last", "first") if primitive.reverse else ("first", "last")
        when = "before the element itself is taken in" if primitive.exclusive else "the element itself included"
        verb = "adds up" if self._is_sum else "multiplies"
        self._has_lines = math.prod(primitive.source.sizes) > primitive.source.sizes[primitive.axis] > 1
        if self._has_lines:
            self.legend = (("marked", "belongs to the line that is written out"),)
        self.summary = f"{verb} along dimension {primitive.axis}, from the {first} to the {last}, {when}"

    def landing(self, element: Element) -> Landing:
        """The elements up to this one, in the order in which they are taken."""
        coordinate = element.coordinate
        sources = self._sources(coordinate)
        terms = [self._values.at(source.coordinate) for source in sources]
        value = self._tally(terms)
        sign = " + " if self._is_sum else " * "
        words = [f"({text})" if text.startswith("-") and i else text for i, text in enumerate(map(write_value, terms))]
        if not terms:
            said = f"{write_value(value)}, nothing being before it"
        elif len(terms) == 1:
            said = words[0]
        else:
            said = f"{sign.join(words)} = {write_value(value)}{self._wrapped(terms, value)}"
        says = f"{element} = {said}"
        return Landing(write_value(value), says, sources, hue=int(self._is_first_line(coordinate)))

    def _is_first_line(self, coordinate: Coordinate) -> bool:
        return self._has_lines and not any(c for k, c in enumerate(coordinate) if k != self._primitive.axis)

    def _sources(self, coordinate: Coordinate) -> tuple[Element, ...]:
        p = self._primitive
        here = coordinate[p.axis]
        if p.reverse:
            along = range(p.source.sizes[p.axis] - 1, here if p.exclusive else here - 1, -1)
        else:
            along = range(here if p.exclusive else here + 1)
        places = ((*coordinate[: p.axis], i, *coordinate[p.axis + 1 :]) for i in along)
        return tuple(element_at(p.source, place, p.source.sizes) for place in places)

    def _tally(self, terms: list[Any]) -> Any:
        """Have the reference engine add up, so that a picture rounds and wraps as an operator does."""
        dtype = self._primitive.source.data_type.dtype
        if not terms:
            return dtype.type(0 if self._is_sum else 1)
        tallies = np.empty(len(terms), dtype)
        scan(replace(self._primitive, axis=0, reverse=False, exclusive=False), np.array(terms, dtype), tallies)
        return tallies[-1]

    def _wrapped(self, terms: list[Any], value: Any) -> str:
        if isinstance(value, np.floating):
            return ""
        whole = [int(term) for term in terms]
        return wrapped(value, sum(whole) if self._is_sum else math.prod(whole))

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first line along the axis, as it is walked."""
        p = self._primitive
        lines: dict[Coordinate, list[Element]] = {}
        for element in landings:
            at = element.coordinate
            lines.setdefault((*at[: p.axis], 0, *at[p.axis + 1 :]), []).append(element)
        first = sorted(next(iter(lines.values())), key=lambda one: one.coordinate[p.axis], reverse=p.reverse)
        found = first_few([landings[at].says for at in first], p.source.sizes[p.axis], "along the axis")
        others = math.prod(p.source.sizes) // p.source.sizes[p.axis] - 1
        if others:
            found.append(f"… and likewise in the {others} other line{'s' if others > 1 else ''}")
        return found

    def notes(self) -> Iterator[str]:
        """The total that an exclusive tally never writes."""
        if self._primitive.exclusive:
            yield f"The final {self._primitive.function} is not written to any output element."
