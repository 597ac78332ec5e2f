"""The tale of a map: every element is made a number of another type, or scaled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference.evaluate import evaluate
from anydml.enums import DataType
from anydml.explain.tale import Landing, Tale, element_at, first_few
from anydml.explain.values import write_single, write_value
from anydml.ir.patterns import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Element
    from anydml.explain.values import Values
    from anydml.ir.patterns import Scaled
    from anydml.operators import OperatorDesc

_MOST_CHANGED = 3
"""Of the sentences, those that tell of numbers that change before any others are told."""


class MappedTale(Tale):
    """What becomes of each element, and which are no longer the numbers that they were."""

    verb = "becomes"

    def __init__(self, desc: OperatorDesc, primitive: Scaled, values: Mapping[str, Values]) -> None:
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self._sizes = desc.tensors()[primitive.source.tensor].sizes
        count = math.prod(primitive.target.sizes)
        what = f"{count} element{'' if count == 1 else 's'}"
        if primitive.is_conversion:
            source, target = primitive.source.data_type.name, primitive.target.data_type.name
            self.summary = f"converts {what} from {source} to {target}"
            self.legend = (("marked", f"a number that {target} does not have, and that becomes another"),)
        else:
            scale, bias = write_single(primitive.scale), write_single(primitive.bias)
            self.summary = f"multiplies {what} by {scale}, and adds {bias}"

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
        scaling = f"* {write_single(self._primitive.scale)} {_added(self._primitive.bias)}"
        exact = np.float64(float(before) * self._primitive.scale + self._primitive.bias)
        change = "" if isinstance(after, np.floating) else _change(exact, after)
        result = f"{write_value(exact)}, {change}: {value}" if change else value
        says = f"{element} = {source} {scaling} = {write_value(before)} {scaling} = {result}"
        return Landing(value, says, (source,))

    def _convert(self, number: Any) -> Any:
        """Have the reference engine convert it, so that a picture rounds and wraps as an operator does."""
        number = np.array([number], self._primitive.source.data_type.dtype)
        return evaluate(scaled(*self._primitive).value, [number], (1,))[0]

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements, and before them the first of those that change."""
        shown = [landing.says for landing in landings.values()]
        changed = [landing.says for landing in landings.values() if landing.hue]
        return first_few(list(dict.fromkeys((*changed[:_MOST_CHANGED], *shown))), math.prod(self._sizes), "elements")


def _added(bias: float) -> str:
    return f"- {write_single(-bias)}" if bias < 0 else f"+ {write_single(bias)}"


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
    return "outside, the nearest end of the range" if is_outside else "without its fraction"


def _exact(number: Any) -> int | float:
    """A number that compares with others of any type: NumPy rounds large integers before it compares them."""
    return float(number) if isinstance(number, np.floating) else int(number)
