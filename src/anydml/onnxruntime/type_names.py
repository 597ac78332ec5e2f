"""ONNX Runtime's names of types: `tensor(float)`, `seq(tensor(int64))`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from anydml.core.errors import show
from anydml.onnx.library import TensorProto, half_dtype
from anydml.onnxruntime.ort_errors import refuse

STRING: int = TensorProto.STRING


def tensor_type(number: int) -> str:
    """The name of a tensor's type, by ONNX's number of its elements'."""
    return f"tensor({TensorProto.DataType.Name(number).lower()})"


def type_of(proto: Any) -> str:
    """The name of a type, as a model declares it."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", None):
        number = proto.tensor_type.elem_type
        return tensor_type(number) if number else ""
    if kind == "sparse_tensor_type":
        return f"sparse_{tensor_type(proto.sparse_tensor_type.elem_type)}"
    if kind == "map_type":
        key = TensorProto.DataType.Name(proto.map_type.key_type).lower()
        return f"map({key},{type_of(proto.map_type.value_type)})"
    outer = "seq" if kind == "sequence_type" else "optional"
    return f"{outer}({type_of(getattr(proto, kind).elem_type)})"


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
    for number in TensorProto.DataType.values():
        if number not in (TensorProto.UNDEFINED, STRING) and half_dtype(number) == dtype:
            return int(number)
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
