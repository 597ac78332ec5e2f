"""Tales of fetches: gathers, whose indices pick elements, rows or blocks, and reversals of the beginnings of lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import find_outside
from anydml.engines.reference.evaluate import evaluate
from anydml.explain.picture import Element, spoken, written
from anydml.explain.tale import HUES, Landing, Tale, element_at, first_few, place_in
from anydml.explain.values import ArrayValues, CountedIndices, CountedLengths, number_of, write_value
from anydml.ir.expressions import load
from anydml.ir.fetches import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.fetches import Gathered, Reversed
    from anydml.ir.verbs import IndexFault
    from anydml.operators import OperatorDesc


# Gathers: indices, alone or in tuples


# Tuples that are checked although they may not be drawn: a second's work at most.
_MOST_CHECKED = 1_000_000


@dataclass(frozen=True, slots=True)
class _Tuple:
    """The meaning of a tuple of indices, or of an index alone."""

    elements: tuple[Element, ...]
    written: str
    """`indices[1] = (-1)`."""
    remark: str
    """The reading of its numbers: `counts from the end: (3)`."""
    chosen: tuple[int, ...] | None
    """Coordinates of 0 .. size - 1; None for a tuple outside its dimensions."""


class GatherTale(Tale):
    """Which tuple picks what, and where that lands."""

    decides = "picks what lands in"

    def __init__(self, desc: OperatorDesc, primitive: Gathered, values: Mapping[str, Values]) -> None:
        self._desc, self._primitive = desc, primitive
        self._frames = self.frames(desc, primitive)
        self._values = values[primitive.source.tensor]
        self._indices = values[primitive.indices.tensor]
        self._tuples: dict[tuple[Element, ...], _Tuple] = {}
        self._place_rank = len(primitive.indices.sizes) - 1
        self._axis: int | None = getattr(desc, "axis", None)
        batch = zip(primitive.indices.sizes, primitive.indices.strides, strict=True)
        is_shared = any(size > 1 and not stride for size, stride in list(batch)[: primitive.batch_rank])
        self._shared_rank = primitive.batch_rank if is_shared else 0
        """The batch dimensions for which the indices are the same: what one index picks reaches through them."""
        rest = primitive.source.sizes[primitive.batch_rank + primitive.tuple_size :]
        self._rest_rank = len(rest)
        whole = (*primitive.source.sizes[: self._shared_rank], *rest)
        self._kind = "element" if not whole else "block" if len(whole) > 1 else "row" if rest else "column"
        self.summary = self._summary(whole)
        what = "index" if self._axis is not None else "tuple"
        self.legend = (("marked", f"picked, with the number of the {what} that picks it"),)

    @classmethod
    def frames(cls, desc: OperatorDesc, primitive: Gathered) -> dict[str, tuple[int, ...]]:
        """The dimensions that count, where an operator says so.

        An operator with an axis has indices that stand alone: what a tuple would add to their dimensions is left away.
        """
        if "axis" not in desc.field_types():
            return {view.tensor: view.sizes for view in (primitive.source, primitive.indices, primitive.target)}
        frames = super().frames(desc, primitive)
        sizes = frames[primitive.indices.tensor]
        counted = getattr(desc, "index_dimensions", len(sizes))
        return {**frames, primitive.indices.tensor: sizes[len(sizes) - counted :]}

    @classmethod
    def made_up(cls, desc: OperatorDesc, primitive: Gathered, field: str, tensor: TensorDesc, before: int) -> Values:
        """Indices that are valid, and numbers for the rest."""
        if field == primitive.indices.tensor:
            return CountedIndices(tensor, primitive, cls.frames(desc, primitive)[field])
        return super().made_up(desc, primitive, field, tensor, before)

    def _summary(self, whole: tuple[int, ...]) -> str:
        p = self._primitive
        count = math.prod(p.indices.sizes[self._shared_rank : -1])
        of = f" of {','.join(map(str, whole))}" if whole else ""
        one = count == 1
        picked = f"pick{'s' if one else ''} {count} {self._kind}{'' if one else 's'}{of}"
        if self._axis is not None:
            return f"{count} {'index' if one else 'indices'} along dimension {self._axis} {picked}"
        batch = f", within {_dimensions(p.batch_rank)} of batches" if p.batch_rank else ""
        return f"{count} tuple{'' if one else 's'} of {p.tuple_size} {picked}{batch}"

    def landing(self, element: Element) -> Landing:
        """One element of what a tuple picks."""
        p = self._primitive
        place, rest = self._split(element)
        found = self._tuple(place)
        number = number_of(found.elements[0].coordinate, self._frames[p.indices.tensor]) // p.tuple_size
        badge, hue = str(number + 1), 1 + number % HUES
        if found.chosen is None:
            says = f"{element} is not written: {found.written} {found.remark}"
            return Landing("?", says, (), found.elements, badge, hue, is_fault=True)
        source = self._source((*place[: p.batch_rank], *found.chosen, *rest))
        value = write_value(self._values.at(source.coordinate))
        remark = f", which {found.remark}" if found.remark else ""
        says = f"{element} = {source} = {value}, picked by {found.written}{remark}"
        return Landing(value, says, (source,), found.elements, badge, hue)

    def _split(self, element: Element) -> tuple[Coordinate, Coordinate]:
        """The place of the tuple that picks an element, and the element's place in what is picked."""
        number = number_of(element.coordinate, self._frames[element.tensor])
        at = place_in(self._primitive.target, number)
        return at[: self._place_rank], at[self._place_rank :]

    def _source(self, coordinate: Coordinate) -> Element:
        source = self._primitive.source
        return element_at(source, coordinate, self._frames[source.tensor])

    def _tuple(self, place: Coordinate) -> _Tuple:
        p = self._primitive
        frame = self._frames[p.indices.tensor]
        elements = tuple(element_at(p.indices, (*place, k), frame) for k in range(p.tuple_size))
        if elements not in self._tuples:
            self._tuples[elements] = self._read(elements)
        return self._tuples[elements]

    def _read(self, elements: tuple[Element, ...]) -> _Tuple:
        """Have the reference engine resolve one tuple, which is how every tuple is resolved."""
        p = self._primitive
        numbers = [self._indices.at(element.coordinate) for element in elements]
        array = np.array([numbers], p.indices.data_type.dtype)
        place = elements[0].coordinate
        here = f"{written(p.indices.tensor, place if self._axis is not None else place[:-1])} = {self._write(numbers)}"
        clamped = tuple(
            int(evaluate(nearest(load(0, p.indices.data_type), size), [array[:, k]], (1,))[0])
            for k, size in enumerate(p.indexed_sizes)
        )
        if fault := find_outside(p.check, array):
            dimension = fault.dimension if self._axis is None else self._axis
            outside = f"is outside dimension {dimension} of size {fault.size}"
            if p.clamp:
                return _Tuple(elements, here, f"{outside} and is clamped to {self._write(clamped)}", clamped)
            return _Tuple(elements, here, outside, None)
        negative = any(number < 0 for number in numbers)
        return _Tuple(elements, here, f"counts from the end: {self._write(clamped)}" if negative else "", clamped)

    def _write(self, numbers: list[Any] | tuple[int, ...]) -> str:
        return str(numbers[0]) if self._axis is not None else f"({', '.join(map(str, numbers))})"

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """One for each tuple."""
        p = self._primitive
        places = {self._tuple(place).elements: place for place in (self._split(element)[0] for element in landings)}
        found = []
        for place in places.values():
            seen = self._tuple(place)
            if seen.chosen is None:
                found.append(f"{seen.written} {seen.remark}: nothing is written")
                continue
            remark = f" {seen.remark}, and" if seen.remark else ""
            found.append(f"{seen.written}{remark} picks {self._kind} {self._picked(place, seen.chosen)}")
        what = "tuples" if self._axis is None else "indices"
        return first_few(found, math.prod(p.indices.sizes[self._shared_rank : -1]), what)

    def _picked(self, place: Coordinate, chosen: tuple[int, ...]) -> str:
        p = self._primitive
        if self._kind == "element":
            source = self._source((*place[: p.batch_rank], *chosen))
            target = element_at(p.target, place, self._frames[p.target.tensor])
            return f"{source} = {write_value(self._values.at(source.coordinate))}, which lands in {target}"
        through, everything = (":",) * self._shared_rank, (":",) * self._rest_rank
        source_at = (*through, *place[self._shared_rank : p.batch_rank], *chosen, *everything)
        target_at = (*through, *place[self._shared_rank :], *everything)
        rank = len(self._frames[p.target.tensor])  # leading sizes of 1 may be more than are gathered, or fewer
        target_at = (0,) * (rank - len(target_at)) + target_at[max(len(target_at) - rank, 0) :]
        return f"{written(p.source.tensor, source_at)}, which lands in {written(p.target.tensor, target_at)}"

    def notes(self) -> Iterator[str]:
        """Whether a dispatch would fail, as far as the tuples can be looked at."""
        if self._primitive.clamp or not isinstance(self._indices, ArrayValues):
            return
        fault = self._first_outside(self._indices.array)
        if fault is not None:
            yield f"A dispatch raises an IndexRangeError and writes nothing: {self._desc.word_index_fault(fault).rule}."

    def _first_outside(self, indices: np.ndarray[Any, Any]) -> IndexFault | None:
        size = self._primitive.tuple_size
        first = indices.flat[: _MOST_CHECKED * size].reshape(-1, size)
        fault = find_outside(self._primitive.check, first)
        if fault is not None:
            fault.position = place_in(self._primitive.indices, fault.position[0] * size)[:-1]
        return fault


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' if count > 1 else ''}"


# Reversals: the beginning of each line, as far as its length says


class ReversalTale(Tale):
    """Which line is turned round how far."""

    def __init__(
        self,
        desc: OperatorDesc,  # noqa: ARG002 - every tale is told of a description
        primitive: Reversed,
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
    def made_up(cls, desc: OperatorDesc, primitive: Reversed, field: str, tensor: TensorDesc, before: int) -> Values:
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
