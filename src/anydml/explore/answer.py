"""The answer itself, every element of it, where that is not too much to read."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.nibbles import numbers_in, pack
from anydml.explain import shown_inputs
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.operators import OperatorDesc

MOST_ELEMENTS = 4096
"""Of all tensors together: more is neither read nor computed while somebody types."""


def answers_of(desc: OperatorDesc, arrays: Sequence[Any]) -> list[dict[str, str]]:
    """Every output as NumPy writes it; none where the tensors have too many elements."""
    if not is_small(desc):
        return []
    outputs = compute(reference(), desc, inputs_of(desc, arrays))
    return [
        {"name": name, "text": _written(output, tensor)}
        for (name, tensor), output in zip(desc.outputs().items(), outputs, strict=True)
    ]


def is_small(desc: OperatorDesc) -> bool:
    """Whether every element may be written out."""
    return sum(math.prod(tensor.sizes) for tensor in desc.tensors().values()) <= MOST_ELEMENTS


def inputs_of(desc: OperatorDesc, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The inputs that an answer is computed of: those given, and those made up."""
    pairs = zip(shown_inputs(desc, *arrays), desc.inputs().values(), strict=True)
    return [pack(array) if tensor.data_type.is_half_byte else array for array, tensor in pairs]


def compute(device: Device, desc: OperatorDesc, inputs: Sequence[Any], out: Sequence[Any] = ()) -> Sequence[Any]:
    """Every output, in `out` where that is given."""
    more = {"out": out if len(out) > 1 else out[0]} if out else {}
    found = device.compile(desc)(*inputs, **more)
    return found if isinstance(found, (list, tuple)) else [found]


@functools.cache
def reference() -> Device:
    """The engine that compiles nothing: every change of a size is a new operator."""
    return Device("reference")


def _written(output: Any, tensor: TensorDesc) -> str:
    array = np.asarray(output)
    if tensor.data_type.is_half_byte:
        array = numbers_in(array.reshape(-1), tensor.data_type)[: tensor.element_count].reshape(tensor.sizes)
    text = np.array2string(array, separator=", ", threshold=MOST_ELEMENTS, max_line_width=100)
    return re.sub(r"\n\n+", "\n", text)
