"""The tale of a scan: each output element is the tally of the elements before it, along one axis."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import scan
from anydml.explain.tale import Landing, Tale, element_at, first_few, wrapped
from anydml.explain.values import write_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.explain.picture import Coordinate, Element
    from anydml.explain.values import Values
    from anydml.ir.verbs import Scan
    from anydml.operators import OperatorDesc


class ScannedTale(Tale):
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
