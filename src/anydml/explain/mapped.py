"""The tale of a map: every element is made a number of another type, or scaled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import convert
from anydml.explain.tale import Landing, Tale, element_at, first_few
from anydml.explain.values import write_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Element
    from anydml.explain.values import Values
    from anydml.operators import OperatorDesc
    from anydml.primitives import Map


class MappedTale(Tale):
    """What becomes of each element, and which are no longer the numbers that they were."""

    verb = "becomes"

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self._sizes = desc.tensors()[primitive.source.tensor].sizes
        count = math.prod(primitive.target.sizes)
        what = f"{count} element{'' if count == 1 else 's'}"
        if primitive.is_conversion:
            source, target = primitive.source.data_type.name, primitive.target.data_type.name
            self.summary = f"makes {what} of {source} numbers of {target}"
            self.legend = (("marked", "a number that the type does not have, and that changes"),)
        else:
            self.summary = (
                f"multiplies {what} by {write_single(primitive.scale)}, and adds {write_single(primitive.bias)}"
            )

    def landing(self, element: Element) -> Landing:
        """One element, made another."""
        source = element_at(self._primitive.source, element.coordinate, self._sizes)
        before = self._values.at(source.coordinate)
        after = self._convert(before)
        value = write_value(after)
        if self._primitive.is_conversion:
            change = _change(before, after)
            said = f"{source} = {write_value(before)}" + (f", {change}: {value}" if change else "")
            return Landing(value, f"{element} = {said}", (source,), hue=int(bool(change)))
        terms = f"{_bracketed(before)} * {write_single(self._primitive.scale)} {_added(self._primitive.bias)}"
        exact = float(before) * self._primitive.scale + self._primitive.bias
        change = _change(np.float64(exact), after)
        said = f"{source} {terms[terms.index('*') :]} = {terms} = " + (
            f"{write_value(np.float64(exact))}, {change}: {value}" if change else value
        )
        return Landing(value, f"{element} = {said}", (source,))

    def _convert(self, number: Any) -> Any:
        """Have the reference engine convert it, so that a picture rounds and wraps as an operator does."""
        target = np.empty(1, self._primitive.target.data_type.dtype)
        convert(self._primitive, np.array([number], self._primitive.source.data_type.dtype), target)
        return target[0]

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements; where numbers change, one of those as well."""
        shown = [landing.says for landing in landings.values()]
        changed = [landing.says for landing in landings.values() if landing.hue]
        return first_few(list(dict.fromkeys((*changed[:3], *shown))), math.prod(self._sizes), "elements")


def write_single(number: float) -> str:
    """A FLOAT, as short as it can be written."""
    return write_value(np.float32(number))


def _bracketed(number: Any) -> str:
    text = write_value(number)
    return f"({text})" if text.startswith("-") else text


def _added(bias: float) -> str:
    return f"- {write_single(-bias)}" if bias < 0 else f"+ {write_single(bias)}"


def _change(before: Any, after: Any) -> str:
    """How a number became another, where it did."""
    if isinstance(after, np.floating):
        is_same = float(before) == float(after) if isinstance(before, np.floating) else int(before) == _exact(after)
        return "" if is_same or np.isnan(before) else f"rounded to {_NAMES[after.dtype.itemsize]}"
    if not isinstance(before, np.floating):
        return "" if int(before) == int(after) else f"wrapped to {8 * after.itemsize} bits"
    if np.isnan(before):
        return "no number"
    if float(before) == int(after) and not np.isinf(before):
        return ""
    limits = np.iinfo(after.dtype)
    is_outside = not int(limits.min) - 1 < before < int(limits.max) + 1
    return "outside, the nearest end of the range" if is_outside else "without its fraction"


_NAMES = {2: "FLOAT16", 4: "FLOAT32", 8: "FLOAT64"}


def _exact(number: Any) -> int | None:
    """A float as a whole number, where it is one."""
    return int(number) if np.isfinite(number) and float(number).is_integer() else None
