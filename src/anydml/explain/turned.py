"""The tale of a reverse: the beginning of each line is turned round, as far as its length says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.explain.picture import Element, spoken, written
from anydml.explain.tale import HUES, Landing, Tale, first_few
from anydml.explain.values import CountedLengths, number_of, write_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.fetches import Turned
    from anydml.operators import OperatorDesc
    from anydml.tensor import TensorDesc


class TurnedTale(Tale):
    """Which line is turned round how far."""

    def __init__(
        self,
        desc: OperatorDesc,  # noqa: ARG002 - every tale is told of a description
        primitive: Turned,
        values: Mapping[str, Values],
    ) -> None:
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self._lengths = values[primitive.lengths.tensor]
        self._size = primitive.source.sizes[primitive.axis]
        self._line_count = math.prod(primitive.lengths.sizes)
        lines = f"{self._line_count} line{'' if self._line_count == 1 else 's'}"
        self.summary = f"turns round the beginning of {lines} along dimension {primitive.axis}"
        self.legend = (("marked", "turned round, with the number of its line"),)

    @classmethod
    def made_up(cls, desc: OperatorDesc, primitive: Turned, field: str, tensor: TensorDesc, before: int) -> Values:
        """Lengths that differ, and numbers for the rest."""
        if field == primitive.lengths.tensor:
            return CountedLengths(tensor, primitive.source.sizes[primitive.axis])
        return super().made_up(desc, primitive, field, tensor, before)

    def _line(self, coordinate: Coordinate) -> Element:
        """The length that an element's line has."""
        p = self._primitive
        return Element(p.lengths.tensor, (*coordinate[: p.axis], 0, *coordinate[p.axis + 1 :]))

    def _length(self, line: Element) -> int:
        return min(int(self._lengths.at(line.coordinate)), self._size)

    def landing(self, element: Element) -> Landing:
        """One element, from the other end of what is turned round, or from its own place."""
        p, at = self._primitive, element.coordinate
        line, i = self._line(at), at[self._primitive.axis]
        length = self._length(line)
        is_turned = i < length
        source = Element(p.source.tensor, (*at[: p.axis], length - 1 - i if is_turned else i, *at[p.axis + 1 :]))
        value = write_value(self._values.at(source.coordinate))
        number = number_of(line.coordinate, p.lengths.sizes)
        if not is_turned:
            says = f"{element} = {source} = {value}, past the first {length} as {line} says"
            return Landing(value, says, (source,), (line,))
        steps = ", ".join(f"{length} - 1 - {i}" if k == p.axis else str(c) for k, c in enumerate(at))
        says = f"{element} = {spoken(p.source.tensor)}[{steps}] = {source} = {value}, within the first {length}"
        return Landing(value, says, (source,), (line,), str(number + 1), 1 + number % HUES)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """One for each line."""
        lines = dict.fromkeys(self._line(element.coordinate) for element in landings)
        return first_few([self._told(line) for line in lines], self._line_count, "lines")

    def _told(self, line: Element) -> str:
        p, length, given = self._primitive, self._length(line), self._lengths.at(line.coordinate)
        at = line.coordinate

        def part(tensor: str, along: str) -> str:
            return written(tensor, (*at[: p.axis], along, *at[p.axis + 1 :]))

        here = f"{line} = {given}"
        here += f", more than the {self._size} there are:" if int(given) > self._size else ":"
        if length <= 1:
            return f"{here} {part(p.source.tensor, ':')} lands in {part(p.target.tensor, ':')} as it is"
        turned = ":" if length == self._size else f"0:{length}"
        said = f"{here} {part(p.source.tensor, turned)} lands in {part(p.target.tensor, turned)} backwards"
        return said if length == self._size else f"{said}, and {part(p.source.tensor, f'{length}:')} as it is"
