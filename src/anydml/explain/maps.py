"""The tale of a map: every element is computed from those of the inputs that stand in its place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.enums import DataType
from anydml.explain.formula import Formula, name_index
from anydml.explain.picture import spoken
from anydml.explain.place import Place
from anydml.explain.tale import Landing, Tale, chained, computing, first_few, place_in
from anydml.explain.values import number_of, spread, write_single, write_value
from anydml.ir.expressions import load
from anydml.ir.patterns import match_scaled
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.explain.picture import Coordinate, Element
    from anydml.explain.values import Values
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc
    from anydml.tensor import TensorDesc

_MOST_MARKED = 3
"""Of the sentences, those that tell of marked elements before any others are told."""
_LONGEST = 80
"""Of a formula in a sentence, which has it with names and with numbers."""
_CUT = "without its fraction"


class ComputedTale(Tale):
    """How each element is computed, and which are no numbers, or not those that were computed."""

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive, self._values, self._tensors = primitive, values, desc.tensors()
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
        is_index = node.op == "coordinate"
        return name_index(node) if is_index else spoken(self._primitive.sources[int(node.value)].tensor)

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
        says = [str(element), self._formula.text(place.name, is_chained=True), self._formula.numbers(place.value)]
        change = "" if isinstance(after, np.floating) and not self._is_conversion else _change(before, after)
        if change or not self._is_conversion:
            says.append(write_value(before) if change else value)
        told = chained(says)
        is_marked = self._mark(place, after, change)
        taken = _taken(place, self._primitive.value)
        sources = tuple(dict.fromkeys(place.element(node) for node in self._read if node in taken))
        return Landing(value, f"{told}, {change}: {value}" if change else told, sources, hue=int(is_marked))

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


def _taken(place: Place, root: Expr) -> set[Expr]:
    """The nodes that count at a place: not those of the way that a `where` does not take."""
    found: set[Expr] = set()
    ahead = [root]
    while ahead:
        node = ahead.pop()
        if node in found:
            continue
        found.add(node)
        args = node.args
        if node.op == "where":
            args = (args[0], args[1 if place.value(args[0]) else 2])
        ahead += args
    return found


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
