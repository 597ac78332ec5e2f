"""Tales of folds: reduces, operators that take several steps, and scans."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import scan
from anydml.explain.formula import ALONG, ROW, Formula, extreme_place, is_readable, name_index, written_out
from anydml.explain.picture import Element, spoken, written
from anydml.explain.tale import HUES, Landing, Tale, chained, computing, element_at, first_few, wrapped
from anydml.explain.uses import TooMuch, Work
from anydml.explain.values import coordinate_of, number_of, spread, write_value
from anydml.ir.expressions import FOLDS, Expr
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
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
_MOST_TERMS = 16
_NEGATIVE = re.compile(r"·(-[\w.]+)")
_UNKNOWN = "…"
_KNOWN = ("scores", "weights")
"""What steps leave to one another and readers know by that name: attention's."""


class ReduceTale(Tale):
    """How each element is computed, from whole rows or in several steps."""

    verb = "goes into"

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        steps = primitive if isinstance(primitive, tuple) else (primitive,)
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
        value = _UNKNOWN
        try:
            result = partial(self._result, row, origin)
            value = write_value(self._work.element(element.tensor, number))
            named = formula.text(lambda node: self._name(row, node), is_chained=True, value=result)
            is_whole = not any(self._is_between(row.step, node) for node in _leaves(inner)) and is_readable(named)
            if is_whole and not (_UNKNOWN in named and " if " in named):  # a choice that is cut short is a riddle
                says.append(named)
            elif len(uses.made_of) == 1 and self._written(uses.made_of[0]) == value:
                says.append(str(uses.made_of[0]))
            says += [self._written_out(row, formula, origin), formula.numbers(result), value]
        except TooMuch:
            with contextlib.suppress(TooMuch):  # names of elements that are fetched are not known then
                says += [formula.text(lambda node: self._name(row, node), is_chained=True)][len(says) - 1 :]
            says.append(_UNKNOWN)
        return self._marked(element, uses, uses.landing(value, chained(says)))

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
