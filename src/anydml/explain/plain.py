"""The tale of a verb that has none of its own: what the reference engine computes from whole tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.explain.picture import spoken
from anydml.explain.tale import Landing, Tale, first_few
from anydml.explain.values import write_value
from anydml.explain.view_words import word_verb
from anydml.runtime.device import Device
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Element
    from anydml.explain.values import Values
    from anydml.operators import OperatorDesc

_MOST_READ = 100_000
"""Elements that a picture reads: some tenths of a second."""


class PlainTale(Tale):
    """Each element's value, and the tensors that it comes from."""

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        steps = primitive if isinstance(primitive, tuple) else (primitive,)
        read = ", ".join(dict.fromkeys(spoken(view.tensor) for step in steps for view in step.sources))
        self._how = f"{', '.join(dict.fromkeys(map(word_verb, steps)))} of {read}"
        self._count = sum(math.prod(tensor.sizes) for tensor in desc.outputs().values())
        self.summary = f"computes {self._count} element{'' if self._count == 1 else 's'}: {self._how}"
        self._found: dict[str, np.ndarray[Any, Any]] = {}
        if self._count + sum(math.prod(tensor.sizes) for tensor in desc.inputs().values()) <= _MOST_READ:
            packed = desc.with_tensors(lambda _, tensor: TensorDesc(tensor.data_type, tensor.sizes))
            given = [_array(values[name], tensor) for name, tensor in packed.inputs().items()]
            found = Device("reference").compile(packed)(*given)
            found = found if isinstance(found, tuple) else (found,)
            self._found = dict(zip(packed.outputs(), found, strict=True))

    def landing(self, element: Element) -> Landing:
        """One element; a tensor that is too large for a picture to compute has none."""
        found = self._found.get(element.tensor)
        value = "…" if found is None else write_value(found[element.coordinate])
        return Landing(value, f"{element} = {self._how} = {value}", is_cut=True)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")


def _array(values: Values, tensor: TensorDesc) -> np.ndarray[Any, Any]:
    found = [values.at(at) for at in np.ndindex(*tensor.sizes)]
    return np.array(found, tensor.data_type.dtype).reshape(tensor.sizes)
