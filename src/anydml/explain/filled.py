"""The tale of a fill: elements that come from nowhere but a number, or are counted on from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.explain.tale import Landing, Tale, first_few, wrapped
from anydml.explain.values import number_of, write_number, write_value
from anydml.ir.patterns import match_filled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Element
    from anydml.explain.values import Values
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc


class FilledTale(Tale):
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
