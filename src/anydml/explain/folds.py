"""Tales of folds: reduces, operators that take several steps, and scans."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import scan
from anydml.explain.formula import (
    ALONG,
    NOTHING,
    ROW,
    Formula,
    extreme_place,
    function_shape,
    is_readable,
    name_index,
    name_shape,
    term_text,
    write_expanded,
    written_out,
)
from anydml.explain.picture import Element, spoken, written
from anydml.explain.tale import HUES, Landing, Tale, chained, compute_whole, computing, element_at, first_few, wrapped
from anydml.explain.uses import TooMuch, Work, located, placed
from anydml.explain.values import Changed, coordinate_of, number_of, spread, write_value
from anydml.ir.expressions import FOLDS, Expr
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.explain.formula import Shape
    from anydml.explain.picture import Coordinate
    from anydml.explain.uses import Row, Uses
    from anydml.explain.values import Values
    from anydml.ir.verbs import Computation, Scan
    from anydml.operators import OperatorDesc


# Reduces, and several steps: what each element is folded and computed from


_LONGEST = 80
"""Of a formula in a sentence, which has it with names and with numbers."""
_LONGEST_SUM = 140
"""Of a formula with the terms of its fold."""
_LONGEST_STEPS = 200
"""Of a formula that goes through several steps."""
_LONGEST_CHAIN = 240
"""Of a formula with names and with terms, to which the results of its folds are added."""
_MOST_TERMS = 16
_MOST_STEP_TERMS = 6
"""Likewise of a formula that goes through several steps."""
_MOST_STEPS = 4
"""Steps that a formula goes through, from an output element back."""
_MOST_WRITTEN = 100
"""Names and numbers that a formula is tried with before it is called long."""
_MOST_TRIED = 4000
"""Of these in all formulas of a picture: some tenths of a second."""
_MOST_PROBES = 150
"""Results that a picture computes to find weights: some tenths of a second."""
_NEGATIVE = re.compile(r"·(-[\w.]+)")
_UNKNOWN = "…"
_KNOWN = ("scores", "weights")
"""What steps leave to one another and readers know by that name: attention's."""


class _Unwritten(Exception):  # noqa: N818 - no error: a picture says less
    """A formula that no reader would read to its end."""


@dataclass
class _Writing:
    """How a formula is written that goes through several steps."""

    is_named: bool
    drops: bool
    """Whether corrections that are 0 here are left out."""
    left: int = _MOST_WRITTEN
    known: dict[tuple[Row, Coordinate, int, Expr], Shape] = field(default_factory=dict)
    """What leaves were written as."""


class ReduceTale(Tale):
    """How each element is computed, from whole rows or in several steps."""

    verb = "goes into"

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        steps = primitive if isinstance(primitive, tuple) else (primitive,)
        self._desc = desc
        self._probes = self._tried = 0
        self._whole: dict[str, np.ndarray[Any, Any]] | None = None
        self._steps: tuple[Computation, ...] = tuple(one for step in steps for one in step.apart())
        self._values, self._outputs = values, desc.outputs()
        self._tensors = desc.tensors()
        self._sizes = {name: tensor.sizes for name, tensor in self._tensors.items()}
        for step in self._steps:
            self._sizes.setdefault(step.target.tensor, step.target.sizes)
        self._work = Work(self._steps, values, self._sizes)
        count = sum(math.prod(tensor.sizes) for tensor in self._outputs.values())
        self._shown = {step: _shown(step) for step in self._steps}
        told = dict.fromkeys(f"{spoken(step.target.tensor)} = {self._told(step)}" for step in self._steps)
        names = {view.tensor for step in self._steps for view in (*step.sources, step.target)}
        is_known = names <= {*self._tensors, *_KNOWN} and len(told) == len({step.target.tensor for step in self._steps})
        self.summary = computing(desc, count, ", ".join(told) if is_known else "")
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

    def landing(self, element: Element) -> Landing:
        """One element, computed."""
        number = number_of(element.coordinate, self._sizes[element.tensor])
        row = self._told_of(self._work.row(element.tensor, number))
        inner, origin = self._shown[row.step]
        formula = Formula(inner, lambda node: self._name(row, node), _LONGEST)
        uses = self._work.uses(element.tensor, number)
        says = [str(element)]
        try:
            value = write_value(self._work.element(element.tensor, number))
            named = self._told_in_names(uses, row, formula, value)
            told = [named, ""]
            if not named or _UNKNOWN in named:
                steps = self._told_in_steps(row)
                told = steps if steps[0] else self._weighted(element, uses) or (told if named else steps)
            says += told
            if not told[1]:
                says.append(self._written_out(row, formula, origin))
            is_copied = told[0] in map(str, uses.made_of)
            if sum(map(len, says)) <= _LONGEST_CHAIN and not told[2:] and not is_copied:
                says.append(formula.numbers(partial(self._result, row, origin)))
            says.append(value)
        except TooMuch:
            value = self._computed(element)
            with contextlib.suppress(TooMuch):  # names of elements that are fetched are not known then
                named = formula.text(lambda node: self._name(row, node), is_chained=True)
                says[1:] = [] if any(self._is_between(row.step, node) for node in _leaves(inner)) else [named]
            says.append(value)
        return self._marked(element, uses, uses.landing(value, chained(says)))

    def _computed(self, element: Element) -> str:
        """The value of an element that many steps lead to."""
        if self._whole is None:
            self._whole = compute_whole(self._desc, self._values)
        found = self._whole.get(element.tensor)
        return _UNKNOWN if found is None else write_value(found[element.coordinate])

    def _told_in_names(self, uses: Uses, row: Row, formula: Formula, value: str) -> str:
        """The formula of one step with the names of what it reads, where a reader knows them all."""
        inner, origin = self._shown[row.step]
        named = formula.text(
            lambda node: self._name(row, node), is_chained=True, value=partial(self._result, row, origin)
        )
        is_whole = not any(self._is_between(row.step, node) for node in _leaves(inner)) and is_readable(named)
        if is_whole and not (_UNKNOWN in named and " if " in named):  # a choice that is cut short is a riddle
            return named
        if len(uses.made_of) == 1 and self._written(uses.made_of[0]) == value:
            return str(uses.made_of[0])
        return ""

    # Formulas that go through several steps

    def _told_in_steps(self, row: Row) -> list[str]:
        """The formula with names and with numbers, each from the inputs on or from as near to them as is short."""
        return [self._shortened(row, is_named=is_named) for is_named in (True, False)]

    def _shortened(self, row: Row, *, is_named: bool) -> str:
        """The formula from as far back as is short; one with names may in the end have numbers for what is between."""
        is_single = not any(self._is_between(row.step, node) for node in walk(row.step.value))
        for depth in range(_MOST_STEPS, -is_named, -1):
            for drops in (False, True)[: 1 + is_single]:
                with contextlib.suppress(_Unwritten):
                    how = _Writing(is_named=is_named, drops=drops)
                    text = term_text(self._expanded(row, depth, how), is_first=True)
                    if len(text) <= _LONGEST_STEPS:
                        return text if depth or "[" in text else ""
        return ""

    def _expanded(self, row: Row, depth: int, how: _Writing) -> Shape:
        value = row.step.value.args[0] if row.step.value.op == "cast" else row.step.value
        nodes = self._work.nodes(row)
        leaf = partial(self._leaf, row, row.place, depth, how)
        return write_expanded(value, leaf, lambda node: nodes[node][row.place], drops=how.drops)

    def _leaf(self, row: Row, at: Coordinate, depth: int, how: _Writing, node: Expr) -> Shape:
        """An element that is read: by its name or as its number, and one between as what it is computed from."""
        key = row, at, depth, node
        if key not in how.known:
            how.left -= 1
            self._tried += 1
            if how.left < 0 or self._tried > _MOST_TRIED:
                raise _Unwritten
            how.known[key] = self._written_leaf(row, at, depth, how, node)
        return how.known[key]

    def _written_leaf(self, row: Row, at: Coordinate, depth: int, how: _Writing, node: Expr) -> Shape:
        nodes = self._work.nodes(row)
        number_shape = name_shape(_plain(nodes[node][at]))
        if node.op in FOLDS and not depth and how.is_named:
            return number_shape
        if node.op in FOLDS:
            return self._folded(row, node, depth, how)
        if node.op == "coordinate":
            return number_shape
        view = row.step.sources[int(node.value)]
        if node.op == "load":
            number = int(row.numbers(int(node.value))[at])
        else:
            steps = zip(node.args, view.strides, strict=True)
            number = view.offset + sum(int(nodes[index][at]) * stride for index, stride in steps)
        known = self._known_as(view.tensor, number)
        if known is not None:
            return name_shape(str(known)) if how.is_named else number_shape
        inner = self._told_of(self._work.row(view.tensor, number))
        root = inner.step.value
        if root.op in ("const", "given"):
            return number_shape if root.value else NOTHING
        if root.op != "load":
            depth -= 1
        if depth < 0 or (how.is_named and not depth):
            if how.is_named and depth > -1:
                raise _Unwritten
            return number_shape
        return self._expanded(inner, depth, how)

    def _known_as(self, tensor: str, number: int) -> Element | None:
        """An element by the name that a reader knows it by: that of an output too, which it is copied into."""
        if tensor in self._tensors or tensor in _KNOWN:
            return Element(tensor, coordinate_of(number, self._sizes[tensor]))
        for step in self._steps:
            if step.value.op == "load" and step.target.tensor in self._outputs:
                source = step.sources[int(step.value.value)]
                at = located(source, number) if source.tensor == tensor else None
                if at is not None:
                    name = step.target.tensor
                    return Element(name, coordinate_of(placed(step.target, at), self._sizes[name]))
        return None

    def _folded(self, row: Row, fold: Expr, depth: int, how: _Writing) -> Shape:
        """A fold: of names of whole rows, or of terms."""
        nodes, named = self._work.nodes(row), extreme_place(fold)
        name = named.name if named else _name_of_places(fold) or fold.op
        (term,) = named.args if named else fold.args
        if math.prod(row.shape()) == 1 and name in ("fold_sum", "fold_product"):
            leaf = partial(self._leaf, row, row.place, depth, how)
            return write_expanded(term, leaf, lambda node: nodes[node][row.place], drops=how.drops)
        write = partial(self._leaf, depth=depth, how=how)
        if how.is_named:
            with contextlib.suppress(_Unwritten):
                inner = write_expanded(term, partial(self._along, row, depth, how), _no_choice)
                return function_shape(name.removeprefix("fold_"), inner)
        if math.prod(row.shape()) > (_MOST_TERMS if how.is_named else _MOST_STEP_TERMS):
            if how.is_named:
                raise _Unwritten
            return name_shape(_plain(nodes[fold][row.place]))
        terms: list[str] = []
        chosen = term.args[0] if term.op == "cast" else term
        for at in np.ndindex(row.shape()):
            if chosen.op == "where":
                test, yes, no = chosen.args
                if (yes if nodes[test][at] else no).op in ("const", "given"):
                    continue
            shape = write_expanded(
                term,
                lambda node, at=at: (  # type: ignore[misc]  # the place of this turn
                    name_shape(_plain(nodes[node][at]))
                    if node.op in FOLDS and not how.is_named
                    else write(row, at, node=node)
                ),
                lambda node, at=at: nodes[node][at],  # type: ignore[misc]  # likewise
            )
            if shape is not NOTHING:
                text = term_text(shape, is_first=not terms)
                terms.append(text if how.is_named else _NEGATIVE.sub("·(\\1)", text.replace(" * ", "·")))
        if how.is_named and len(terms) > _MOST_STEP_TERMS:
            raise _Unwritten
        if not terms:
            return NOTHING if fold.op == "fold_sum" else name_shape(_plain(nodes[fold][row.place]))
        return written_out(name, terms)

    def _along(self, row: Row, depth: int, how: _Writing, node: Expr) -> Shape:
        """What a fold reads, by the name of the part that it goes through; the same all along by its own."""
        if node.op not in ("load", *FOLDS):
            raise _Unwritten
        slot = int(node.value or 0)
        kept = len(row.at) - row.step.depth
        if node.op == "load" and any(row.step.sources[slot].strides[kept:]):
            if self._is_between(row.step, node):
                raise _Unwritten
            return name_shape(self._name(row, Expr(ROW, node.type, node.args, node.value)))
        return self._leaf(row, row.place, depth, how, node)

    # Sums of elements with weights

    def _weighted(self, element: Element, uses: Uses) -> list[str]:
        """A result that is a weighted sum of elements of the first tensor that it is made of; nothing of others.

        The weights are found by the computation itself: they are its results where one element is 1 and others are 0.
        """
        tensor = uses.made_of[0].tensor if uses.made_of else element.tensor
        made_of = [one for one in uses.made_of if one.tensor == tensor]
        is_float = all(self._tensors[name].data_type.is_float for name in (tensor, element.tensor))
        if uses.is_cut or not is_float or not 0 < len(made_of) <= _MOST_TERMS:
            return []
        self._probes += len(made_of) + 3
        if self._probes > _MOST_PROBES:
            return []
        given = np.array([self._values[tensor].at(one.coordinate) for one in made_of], np.float64)

        def result(numbers: np.ndarray[Any, Any]) -> float:
            changed = Changed(
                self._values[tensor], {one.coordinate: n for one, n in zip(made_of, numbers, strict=True)}
            )
            work = Work(self._steps, {**self._values, tensor: changed}, self._sizes)
            return float(work.element(element.tensor, number_of(element.coordinate, self._sizes[element.tensor])))

        if not np.isfinite(given).all() or result(given * 0):
            return []
        weights = np.array([result(unit) for unit in np.eye(len(made_of))])
        is_sum = all(
            np.isclose(result(numbers), weights @ numbers, rtol=1e-4, atol=1e-5)
            for numbers in (given, -2 * given, 1.0 + np.arange(len(given)) % 3)
        )
        if not is_sum:
            return []
        found = [(one, number, weight) for one, number, weight in zip(made_of, given, weights, strict=True) if weight]
        texts = [
            [_times(str(one), weight, " * ") for one, _, weight in found],
            [_times(_plain(np.float32(number)), weight, "·") for _, number, weight in found],
        ]
        if not 0 < len(found) <= _MOST_WEIGHTS:
            return []
        return [*(" + ".join(terms) for terms in texts), ""]

    def _marked(self, element: Element, uses: Uses, landing: Landing) -> Landing:
        """A result that is an element as it was, marked by the index that decided, or by its own number."""
        if not uses.made_of or any(self._written(one) != landing.value for one in uses.made_of):
            return landing
        others = {one.tensor for one in (*uses.decided_by, *uses.compared)}
        if uses.decided_by and {one.tensor for one in uses.decided_by} == {"IndicesTensor"}:
            first = uses.decided_by[0]
            number = number_of(first.coordinate, self._sizes[first.tensor]) // len(uses.decided_by)
            words = "placed by indices, with the number of the index"
        elif others - {"IndicesTensor"}:
            number = number_of(element.coordinate, self._sizes[element.tensor])
            words = "taken as it is, with the number of the output element"
        else:
            return landing
        self.legend = (("marked", words),)
        is_placed = words.startswith("placed")
        return replace(landing, badge=str(number + 1), hue=1 + number % HUES, marks_chosen=is_placed)

    def _written(self, element: Element) -> str:
        return write_value(self._values[element.tensor].at(element.coordinate))

    def _told_of(self, row: Row) -> Row:
        """The step that computes an element, which another may have copied from between."""
        node = row.step.value.args[0] if row.step.value.op == "cast" else row.step.value
        if node.op == "load" and self._is_between(row.step, node):
            return self._told_of(self._work.row(row.step.sources[int(node.value)].tensor, row.number(int(node.value))))
        return row

    def _is_between(self, step: Computation, node: Expr) -> bool:
        """Whether a leaf is of what one step leaves to another, and has no name that a reader knows."""
        if node.op not in ("load", "fetch", ROW):
            return False
        tensor = step.sources[int(node.value)].tensor
        return tensor not in self._tensors and tensor not in _KNOWN

    def _result(self, row: Row, origin: Mapping[Expr, Expr], node: Expr) -> Any:
        return self._work.result(row, origin[node])

    def _written_out(self, row: Row, formula: Formula, origin: Mapping[Expr, Expr]) -> str:
        """The formula with numbers, its folds with all of their terms; nothing where that is long."""
        met: set[Expr] = set()

        def expand(node: Expr) -> Any:
            met.add(node)
            terms = self._terms(row, origin[node])
            named = extreme_place(origin[node])
            name = named.name if named else _name_of_places(origin[node]) or node.op
            return written_out(name, terms) if terms else None

        text = formula.numbers(partial(self._result, row, origin), expand)
        return text if met and len(text) <= _LONGEST_SUM else ""

    def _terms(self, row: Row, fold: Expr) -> list[str]:
        """The terms of a fold in numbers, without those that add nothing."""
        if math.prod(row.shape()) > _MOST_TERMS:
            return []
        nodes, named = self._work.nodes(row), extreme_place(fold)
        (term,) = named.args if named else fold.args
        formula, found = Formula(term, lambda _: "x"), []
        chosen = term.args[0] if term.op == "cast" else term
        for at in np.ndindex(row.shape()):
            if chosen.op == "where":
                test, yes, no = chosen.args
                if (yes if nodes[test][at] else no).op in ("const", "given"):
                    continue
            text = formula.numbers(lambda node, at=at: nodes[node][at])  # type: ignore[misc]  # the place of this turn
            found.append(_NEGATIVE.sub("·(\\1)", text.replace(" * ", "·")))
        return found

    def _name(self, row: Row, node: Expr) -> str:
        """The name of a leaf: an element, or the part of a tensor that a row goes through."""
        slot = int(node.value)
        if node.op == ALONG:
            return name_index(node)
        if node.op == "coordinate":
            return str(row.at[slot])
        view = row.step.sources[slot]
        sizes = self._sizes[view.tensor]
        if node.op == "fetch":
            return self._fetched(row, node)
        if node.op == "load":
            return written(view.tensor, coordinate_of(row.number(slot), sizes))
        ends = [coordinate_of(end, sizes) for end in row.ends(slot)]
        places = []
        for low, high, size in zip(*ends, sizes, strict=True):
            first, last = sorted((low, high))
            places.append(str(low) if low == high else ":" if last - first == size - 1 else f"{first}:{last + 1}")
        return written(view.tensor, tuple(places))

    def _fetched(self, row: Row, node: Expr) -> str:
        """The element that is fetched for a result; of a fold they are many."""
        view, origin = row.step.sources[int(node.value)], self._shown[row.step][1]
        if node not in origin:
            return written(view.tensor, (_UNKNOWN,))
        nodes = self._work.nodes(row)
        at = [nodes[one] for one in origin[node].args]
        number = view.offset + sum(int(one[row.place]) * stride for one, stride in zip(at, view.strides, strict=True))
        return written(view.tensor, coordinate_of(number, self._sizes[view.tensor]))

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")


_MOST_WEIGHTS = 6
"""Elements that a weighted sum names."""


def _times(name: str, weight: float, sign: str) -> str:
    return name if np.float32(weight) == 1 else f"{name}{sign}{_in_brackets(_plain(np.float32(weight)))}"


def _in_brackets(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _plain(value: Any) -> str:
    """A number, or a truth, as a formula has it."""
    return str(bool(value)).lower() if isinstance(value, (bool, np.bool_)) else write_value(value)


def _no_choice(_: Expr) -> Any:
    """A choice goes one way here and another there along a row."""
    raise _Unwritten


def _name_of_places(fold: Expr) -> str:
    """What the least and the greatest are called of places alone: the first and the last."""
    term = fold.args[0]
    is_place = term.op == "where" and not _is_read(term.args[1]) and _is_read(term.args[0])
    return {"fold_min": "first", "fold_max": "last"}.get(fold.op, "") if is_place else ""


def _is_read(root: Expr) -> bool:
    return any(node.op in ("load", "fetch") for node in walk(root))


def _leaves(root: Expr) -> Iterator[Expr]:
    """What a formula reads by name: of a fetch the element, and not its indices."""
    ahead = [root]
    while ahead:
        node = ahead.pop()
        if node.args and node.op != "fetch":
            ahead += node.args
        else:
            yield node


_ALONG = {"load": ROW, "coordinate": ALONG}


def _shown(step: Computation) -> tuple[Expr, dict[Expr, Expr]]:
    """A step's value, in which what is read along a row is a leaf of its own, and what each node of it was."""
    value = step.value.args[0] if step.value.op == "cast" else step.value
    origin: dict[Expr, Expr] = {}

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op in FOLDS:
            args = (rewrite(node.args[0], lambda one: Expr(_ALONG.get(one.op, one.op), one.type, one.args, one.value)),)
        return Expr(node.op, node.type, args, node.value)

    for node in walk(value):
        origin.setdefault(node, node)
    made: dict[Expr, Expr] = {}
    for node in walk(value):
        made[node] = change(node, tuple(made[arg] for arg in node.args))
        origin[made[node]] = node
    return made[value], origin


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
