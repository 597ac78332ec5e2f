"""The tale of an indexed copy: tuples of indices pick elements, rows or blocks of the input."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import resolve
from anydml.explain.picture import written
from anydml.explain.tale import HUES, Landing, Tale, element_at, first_few
from anydml.explain.values import ArrayValues, coordinate_of, number_of, write_value
from anydml.primitives import IndexFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.operators import OperatorDesc
    from anydml.primitives import IndexedCopy

# Tuples that are checked although they may not be drawn: a second's work at most.
_MOST_CHECKED = 1_000_000


@dataclass(frozen=True, slots=True)
class _Tuple:
    """What a tuple of indices stands for."""

    written: str
    """`indices[1] = (-1)`."""
    remark: str
    """What becomes of its numbers: `counts from the end: (3)`."""
    chosen: tuple[int, ...] | None
    """Coordinates of 0 .. size - 1; None for a tuple outside its dimensions."""


class IndexedTale(Tale):
    """Which tuple picks what, and where that lands."""

    def __init__(self, desc: OperatorDesc, primitive: IndexedCopy, values: Mapping[str, Values]) -> None:
        self._desc = desc
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self._indices = values[primitive.indices.tensor]
        self._tuples: dict[Coordinate, _Tuple] = {}
        self._place_rank = len(primitive.indices.sizes) - 1
        rest = primitive.source.sizes[primitive.batch_rank + primitive.tuple_size :]
        self._rest_rank = len(rest)
        self._kind = "element" if not rest else "row" if len(rest) == 1 else "block"
        count = math.prod(primitive.indices.sizes[:-1])
        whole = f" of {','.join(map(str, rest))}" if len(rest) > 1 else f" of {rest[0]}" if rest else ""
        plural = "" if count == 1 else "s"
        batch = f", within {_dimensions(primitive.batch_rank)} of batches" if primitive.batch_rank else ""
        self.summary = (
            f"{count} tuple{plural} of {primitive.tuple_size} pick{'s' if count == 1 else ''} {count}"
            f" {self._kind}{plural}{whole}{batch}"
        )
        self.legend = (("marked", "picked, with the number of the tuple that picks it"),)

    def landing(self, coordinate: Coordinate) -> Landing:
        """One element of what a tuple picks."""
        p = self._primitive
        place, rest = coordinate[: self._place_rank], coordinate[self._place_rank :]
        found = self._tuple(place)
        indices = tuple(element_at(p.indices, (*place, k), p.indices.sizes) for k in range(p.tuple_size))
        number = number_of(place, p.indices.sizes[:-1])
        target = written(p.target.tensor, coordinate)
        if found.chosen is None:
            says = f"{target} is not written: {found.written} {found.remark}"
            return Landing("?", says, (), indices, str(number + 1), 1 + number % HUES, is_fault=True)
        source = element_at(p.source, (*place[: p.batch_rank], *found.chosen, *rest), p.source.sizes)
        value = write_value(self._values.at(source.coordinate))
        remark = f", which {found.remark}" if found.remark else ""
        says = f"{target} = {source} = {value}, picked by {found.written}{remark}"
        return Landing(value, says, (source,), indices, str(number + 1), 1 + number % HUES)

    def _tuple(self, place: Coordinate) -> _Tuple:
        if place not in self._tuples:
            self._tuples[place] = self._read(place)
        return self._tuples[place]

    def _read(self, place: Coordinate) -> _Tuple:
        """Have the reference engine resolve one tuple, which is how every tuple is resolved."""
        p = self._primitive
        numbers = [self._indices.at((*place, k)) for k in range(p.tuple_size)]
        array = np.array([numbers], p.indices.data_type.dtype)
        here = f"{written(p.indices.tensor, place)} = ({', '.join(map(str, numbers))})"
        clamped = tuple(int(c[0]) for c in resolve(replace(p, clamp=True), array))
        as_tuple = f"({', '.join(map(str, clamped))})"
        try:
            resolve(replace(p, clamp=False), array)
        except IndexFault as fault:
            outside = f"is outside dimension {fault.dimension} of size {fault.size}"
            if p.clamp:
                return _Tuple(here, f"{outside} and is clamped to {as_tuple}", clamped)
            return _Tuple(here, outside, None)
        negative = any(number < 0 for number in numbers)
        return _Tuple(here, f"counts from the end: {as_tuple}" if negative else "", clamped)

    def sentences(self, landings: Mapping[Coordinate, Landing]) -> list[str]:
        """One for each tuple."""
        p = self._primitive
        everything = (":",) * self._rest_rank
        found = []
        for place in dict.fromkeys(coordinate[: self._place_rank] for coordinate in landings):
            seen = self._tuple(place)
            if seen.chosen is None:
                found.append(f"{seen.written} {seen.remark}: nothing is written")
                continue
            source = (*place[: p.batch_rank], *seen.chosen)
            value = "" if self._rest_rank else f" = {write_value(self._values.at(source))}"
            remark = f" {seen.remark}, and" if seen.remark else ""
            found.append(
                f"{seen.written}{remark} picks {self._kind} {written(p.source.tensor, (*source, *everything))}{value},"
                f" which lands in {written(p.target.tensor, (*place, *everything))}"
            )
        return first_few(found, math.prod(p.indices.sizes[:-1]), "tuples")

    def notes(self) -> Iterator[str]:
        """Whether a dispatch would fail, as far as the tuples can be looked at."""
        if self._primitive.clamp or not isinstance(self._indices, ArrayValues):
            return
        fault = self._first_outside(self._indices.array)
        if fault is not None:
            yield f"A dispatch raises an IndexRangeError and writes nothing: {self._desc.word_index_fault(fault).rule}."

    def _first_outside(self, indices: np.ndarray[Any, Any]) -> IndexFault | None:
        sizes = self._primitive.indices.sizes
        first = indices.flat[: _MOST_CHECKED * sizes[-1]].reshape(-1, sizes[-1])
        try:
            resolve(self._primitive, first)
        except IndexFault as fault:
            place = coordinate_of(fault.position[0], sizes[:-1])
            return IndexFault(place, fault.indices, fault.dimension, fault.size)
        return None


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' if count > 1 else ''}"
