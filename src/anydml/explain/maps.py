"""Tales of maps: elements that are computed in place, those that are moved, and those that come of a number alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.reference.evaluate import evaluate
from anydml.explain.formula import Formula, name_index
from anydml.explain.picture import spoken
from anydml.explain.tale import Landing, Tale, chained, computing, element_at, first_few, place_in, wrapped
from anydml.explain.uses import Work
from anydml.explain.values import number_of, spread, write_number, write_single, write_value
from anydml.ir.expressions import coordinate, load
from anydml.ir.patterns import match_filled, match_scaled
from anydml.ir.trees import loads, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.explain.picture import Coordinate, Element
    from anydml.explain.values import Values
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc


@dataclass(frozen=True, slots=True)
class Place:
    """A coordinate of a map: what is read there, and what comes of it."""

    primitive: Map
    tensors: Mapping[str, TensorDesc]
    values: Mapping[str, Values]
    at: Coordinate

    def element(self, node: Expr) -> Element:
        """The element that a load or a fetch reads."""
        view = self.primitive.sources[int(node.value)]
        at = self.at if node.op == "load" else [int(self.value(index)) for index in node.args]
        return element_at(view, at, self.tensors[view.tensor].sizes)

    def name(self, node: Expr) -> str:
        """The name of a leaf here."""
        return str(self.element(node)) if node.op in ("load", "fetch") else str(self.at[int(node.value)])

    def value(self, node: Expr) -> Any:
        """Have the reference engine compute it, so that a picture rounds and wraps as an operator does."""
        if node.op in ("load", "fetch"):
            element = self.element(node)
            return self.values[element.tensor].at(element.coordinate)
        shape = (1,) * len(self.at)
        known = {coordinate(k): np.full(shape, c) for k, c in enumerate(self.at)}
        known |= {one: np.full(shape, self.value(one)) for one in walk(node) if one.op in ("load", "fetch")}
        return np.broadcast_to(evaluate(node, (), shape, known=known), shape)[(0,) * len(shape)]


def _work(desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> Work:
    return Work([primitive], values, {name: tensor.sizes for name, tensor in desc.tensors().items()})


# Maps that compute: each element comes from those of the inputs that stand in its place


_MOST_MARKED = 3
"""Of the sentences, those that tell of marked elements before any others are told."""
_LONGEST = 110
"""Of a formula in a sentence, which has it with names and with numbers."""
_CUT = "without its fraction"


class MapTale(Tale):
    """How each element is computed, and which are no numbers, or not those that were computed."""

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive, self._values, self._tensors = primitive, values, desc.tensors()
        self._work = _work(desc, primitive, values)
        root = primitive.value
        self._inner = root.args[0] if root.op == "cast" else root
        """The computed number, before its conversion to the output's type."""
        self._read = [node for node in walk(root) if node.op in ("load", "fetch")]
        self._count = math.prod(primitive.target.sizes)
        self._marks: set[str] = set()
        self.verb = "becomes" if len(self._read) == 1 else "goes into"
        what = f"{self._count} element{'' if self._count == 1 else 's'}"
        simple = match_scaled(primitive)
        self._is_conversion = simple is not None and simple.is_conversion
        if simple is None:
            formula = Formula(self._inner, self._name).text(self._name)
            self.summary = computing(desc, self._count, f"{spoken(primitive.target.tensor)} = {formula}")
        elif simple.is_conversion:
            before, after = primitive.source.data_type.name, primitive.target.data_type.name
            self.summary = f"converts {what} from {before} to {after}"
            self.legend = (("marked", f"a number that {after} does not have, and that becomes another"),)
        else:
            self.summary = f"multiplies {what} by {write_single(simple.scale)}, and adds {write_single(simple.bias)}"
        last = self._place(tuple(size - 1 for size in primitive.target.sizes))
        self._formula = Formula(self._inner, last.name, _LONGEST)

    def _place(self, at: Coordinate) -> Place:
        return Place(self._primitive, self._tensors, self._values, at)

    def _name(self, node: Expr) -> str:
        if node.op == "coordinate":
            return name_index(node)
        view = self._primitive.sources[int(node.value)]
        sizes = self._tensors[view.tensor].sizes
        if node.op == "load" and not any(view.strides) and math.prod(sizes) > 1 and not self._is_repeated(view.tensor):
            return str(element_at(view, (0,) * len(view.sizes), sizes))  # one and the same for all
        return spoken(view.tensor)

    def _is_repeated(self, tensor: str) -> bool:
        """Whether a tensor has one element, which counts as many."""
        return not any(self._tensors[tensor].element_strides)

    @classmethod
    def made_up(cls, desc: OperatorDesc, primitive: Any, field: str, tensor: TensorDesc, before: int) -> Values:
        """Numbers around 0 for what is computed with."""
        if match_scaled(primitive):
            return super().made_up(desc, primitive, field, tensor, before)
        slot = [view.tensor for view in primitive.sources].index(field)
        return spread(field, tensor, slot, is_truth=_is_truth(primitive.value, load(slot, tensor.data_type)))

    def landing(self, element: Element) -> Landing:
        """One element, computed."""
        target = self._primitive.target
        number = number_of(element.coordinate, self._tensors[target.tensor].sizes)
        place = self._place(place_in(target, number))
        before, after = place.value(self._inner), place.value(self._primitive.value)
        value = write_value(after)
        named = self._formula.text(place.name, is_chained=True, value=place.value)
        says = [str(element), named, self._formula.numbers(place.value)]
        change = "" if isinstance(after, np.floating) and not self._is_conversion else _change(before, after)
        if change or not self._is_conversion:
            says.append(write_value(before) if change else value)
        told = chained(says)
        is_marked = self._mark(place, after, change)
        told = f"{told}, {change}: {value}" if change else told
        return self._work.uses(target.tensor, number).landing(value, told, hue=int(is_marked))

    def _mark(self, place: Place, after: Any, change: str) -> bool:
        """Whether an element is worth a mark, which the legend then says the meaning of."""
        if self._is_conversion:
            return bool(change)
        mark = ""
        if not np.isfinite(after) and all(np.isfinite(place.value(one)) for one in self._read):
            mark = "NaN" if np.isnan(after) else "an infinity"
        elif change and change != _CUT:
            mark = f"a number that {self._primitive.target.data_type.name} does not have"
        if mark:
            self._marks.add(mark)
            self.legend = (("marked", f"leads to {' or '.join(sorted(self._marks))}"),)
        return bool(mark)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements, and before them the first of those that are marked."""
        shown = [landing.says for landing in landings.values()]
        marked = [landing.says for landing in landings.values() if landing.hue]
        return first_few(list(dict.fromkeys((*marked[:_MOST_MARKED], *shown))), self._count, "elements")

    def notes(self) -> Iterator[str]:
        """Which inputs are broadcast."""
        for tensor in dict.fromkeys(view.tensor for view in self._primitive.sources):
            strides = zip(self._tensors[tensor].sizes, self._tensors[tensor].element_strides, strict=True)
            again = [str(k) for k, (size, stride) in enumerate(strides) if size > 1 and not stride]
            if again:
                several = "s" if len(again) > 1 else ""
                yield f"{spoken(tensor)} is the same all along dimension{several} {' and '.join(again)}."


def _is_truth(root: Expr, number: Expr) -> bool:
    """Whether a number is asked for nothing but whether it is 0."""
    users = [node for node in walk(root) if number in node.args]
    return bool(users) and all(
        node.op == "eq" and node.args[1].op == "const" and not node.args[1].value for node in users
    )


def _change(before: Any, after: Any) -> str:
    """How a number became another, where it did."""
    if np.isnan(before):
        return "" if isinstance(after, np.floating) else "being no number"
    if float(after) == float(before) and _exact(before) == _exact(after):
        return ""
    if isinstance(after, np.floating):
        return f"rounded to {DataType(after.dtype).name}"
    if not isinstance(before, np.floating):
        return f"wrapped to {8 * after.itemsize} bits"
    limits = np.iinfo(after.dtype)
    is_outside = not int(limits.min) - 1 < float(before) < int(limits.max) + 1
    return "outside, the nearest end of the range" if is_outside else _CUT


def _exact(number: Any) -> int | float:
    """A number that compares with others of any type: NumPy rounds large integers before it compares them."""
    return float(number) if isinstance(number, np.floating) else int(number)


# Maps that move: every element is one of the input's, wherever that stands, or a number


def match_moved(primitive: Map) -> Map | None:
    """A map of which each element is an element of a source or a number, chosen by its place alone; None for others."""
    if primitive.checks:
        return None
    chosen, leaves = _choices(primitive.value)
    is_by_place = not loads(*chosen, *(index for leaf in leaves for index in leaf.args))
    is_moved = any(leaf.op == "fetch" for leaf in leaves) or (
        bool(chosen) and all(leaf.op != "cast" for leaf in leaves)
    )
    return primitive if is_by_place and is_moved and all(leaf.op in _MOVED for leaf in leaves) else None


_MOVED = ("fetch", "load", "given", "const")


def _choices(value: Expr) -> tuple[list[Expr], list[Expr]]:
    """The tests that an element is chosen by, and what it is chosen from."""
    if value.op != "where":
        return [], [value]
    test, *ways = value.args
    found = [_choices(way) for way in ways]
    return [test, *(one for tests, _ in found for one in tests)], [one for _, leaves in found for one in leaves]


class MoveTale(Tale):
    """Where each element comes from."""

    verb = "lands in"

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive, self._values, self._tensors = primitive, values, desc.tensors()
        self._work = _work(desc, primitive, values)
        self._count = math.prod(primitive.target.sizes)
        numbers = [write_value(node.value) for node in _choices(primitive.value)[1] if node.op in ("given", "const")]
        sources = [f"one of {spoken(view.tensor)}'s" for view in primitive.sources[:1]]
        ways = " or ".join([*sources, *dict.fromkeys(numbers)])
        self.summary = f"makes {self._count} element{'' if self._count == 1 else 's'}, each {ways}"
        if sources:
            self.legend = (("marked", "lands in the output"),)

    def _chosen(self, place: Place, node: Expr) -> Expr:
        while node.op == "where":
            node = node.args[1 if place.value(node.args[0]) else 2]
        return node

    def landing(self, element: Element) -> Landing:
        """One element, from its place."""
        target = self._primitive.target
        number = number_of(element.coordinate, self._tensors[target.tensor].sizes)
        place = Place(self._primitive, self._tensors, self._values, place_in(target, number))
        chosen = self._chosen(place, self._primitive.value)
        value: Any = write_value(place.value(chosen))
        uses = self._work.uses(target.tensor, number)
        said = " = ".join([str(element), *map(str, uses.made_of), value])
        return uses.landing(value, said, hue=int(bool(uses.made_of)))

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")


# Fills: elements that come of a number, or are counted on from it


class FillTale(Tale):
    """The number that each element is, by its own number."""

    def __init__(
        self,
        desc: OperatorDesc,  # noqa: ARG002 - every tale is told of a description
        primitive: Map,
        values: Mapping[str, Values],  # noqa: ARG002 - as above, and there is no input
    ) -> None:
        fill = match_filled(primitive)
        assert fill is not None  # noqa: S101 - for type checkers: who tells it has looked
        self._primitive = fill
        self._count = math.prod(fill.target.sizes)
        self._start, self._delta = (write_number(n, fill.target.data_type) for n in (fill.start, fill.delta))
        what = f"{self._count} element{'' if self._count == 1 else 's'}"
        self.summary = f"writes {self._start} into {what}"
        if fill.delta:
            self.summary = f"counts {what} in their order, from {self._start} on, in steps of {self._delta}"

    def landing(self, element: Element) -> Landing:
        """Where it stands in the count."""
        p = self._primitive
        number = number_of(element.coordinate, p.target.sizes)
        value, exact = self._value(number)
        if not p.delta:
            return Landing(write_value(value), f"{element} = {write_value(value)}")
        sign, step = ("-", self._delta.removeprefix("-")) if p.delta < 0 else ("+", self._delta)
        said = f"{self._start} {sign} {number}*{step} = {write_value(value)}"
        return Landing(write_value(value), f"{element} = {said}{wrapped(value, exact)}")

    def _value(self, number: int) -> tuple[Any, int]:
        """Compute one element as `Filled` says it, and for integers what it is before it wraps."""
        p = self._primitive
        kind = p.target.data_type
        if kind.is_float:
            with np.errstate(all="ignore"):
                return kind.dtype.type(float(p.start) + number * float(p.delta) if p.delta else p.start), 0
        exact = int(p.start) + number * int(p.delta)
        bits = exact % (1 << 8 * kind.size_in_bytes)
        return np.array([bits], f"u{kind.size_in_bytes}").view(kind.dtype)[0], exact

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The count's beginning."""
        if not self._primitive.delta:
            return [f"every element is {self._start}"]
        return first_few([landing.says for landing in landings.values()], self._count, "elements")
