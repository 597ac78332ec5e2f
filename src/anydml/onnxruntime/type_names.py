"""ONNX Runtime's names of types: `tensor(float)`, `seq(tensor(int64))`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import show
from anydml.onnx.library import half_dtype
from anydml.onnx.protobuf import ELEMENT_NAMES, ELEMENT_NUMBERS
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from anydml.onnx.ir import ValueType

STRING: int = ELEMENT_NUMBERS["STRING"]


def tensor_type(number: int) -> str:
    """The name of a tensor's type, by ONNX's number of its elements'."""
    return f"tensor({ELEMENT_NAMES[number].lower()})"


def type_of(declared: ValueType) -> str:
    """The name of a type, as a model declares it."""
    kind, inner = declared.kind, "" if declared.inner is None else type_of(declared.inner)
    if kind in ("tensor", ""):
        return tensor_type(declared.element) if declared.element else ""
    if kind == "sparse_tensor":
        return f"sparse_{tensor_type(declared.element)}"
    if kind == "map":
        return f"map({ELEMENT_NAMES[declared.element].lower()},{inner})"
    return f"{'seq' if kind == 'sequence' else kind}({inner})"


def dtype_of(number: int) -> np.dtype[Any]:
    """NumPy's type of ONNX's number; bfloat16 and smaller floats are those of ml_dtypes."""
    try:
        return np.dtype(object) if number == STRING else half_dtype(number)
    except (KeyError, TypeError, ValueError):
        raise refuse("OrtValue", "element_type", f"there is no element type {show(number)}") from None


@functools.cache
def number_of(dtype: np.dtype[Any]) -> int:
    """ONNX's number of NumPy's type."""
    if dtype.kind in "OSU":
        return STRING
    for number in ELEMENT_NAMES:
        if number not in (0, STRING) and half_dtype(number) == dtype:
            return number
    raise refuse("OrtValue", "element_type", f"ONNX has no element type for {show(str(dtype))}")


def read_dtype(given: Any) -> np.dtype[Any]:
    """A type as it is given: NumPy's, or ONNX's number."""
    if isinstance(given, int) and not isinstance(given, bool):
        return dtype_of(given)
    try:
        found: np.dtype[Any] = np.dtype(given)
    except (TypeError, ValueError, SyntaxError):
        raise refuse("OrtValue", "element_type", f"there is no element type {show(given)}") from None
    return found
