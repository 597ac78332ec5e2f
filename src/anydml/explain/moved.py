"""The tale of a map that moves: every element is one of the input's, wherever that stands, or a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.explain.picture import spoken
from anydml.explain.place import Place
from anydml.explain.tale import Landing, Tale, first_few, place_in
from anydml.explain.values import number_of, write_value
from anydml.ir.trees import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Element
    from anydml.explain.values import Values
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc


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


class MovedTale(Tale):
    """Where each element comes from."""

    verb = "lands in"

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive, self._values, self._tensors = primitive, values, desc.tensors()
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
        if chosen.op not in ("load", "fetch"):
            return Landing(value, f"{element} = {value}")
        source = place.element(chosen)
        return Landing(value, f"{element} = {source} = {value}", (source,), hue=1)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")
