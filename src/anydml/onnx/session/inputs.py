"""The inputs of a session, as its model takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import printable, show
from anydml.onnx.session.ort_errors import refuse, refuse_type
from anydml.onnx.session.ort_value import OrtValue
from anydml.onnx.session.type_names import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.onnx.graphs import TensorInfo


def read_value(name: str, value: Any, kind: Any, known: Mapping[str, TensorInfo], subject: str) -> Any:
    """A value for an input of a declared type: lists become arrays of that type, OrtValues what they hold.

    What ONNX Runtime refuses and the model takes, such as a tensor of PyTorch's, is left to the model.
    """
    if isinstance(value, OrtValue):
        return value.held
    if isinstance(value, np.ndarray):
        is_plain = value.dtype.isnative and type(value) is np.ndarray
        return value if is_plain else np.asarray(value, value.dtype.newbyteorder("="))
    if kind is None or kind.WhichOneof("value") != "tensor_type":
        return value
    if value is None or isinstance(value, (str, dict)):
        raise refuse_type(subject, name, f"an array, being {type_of(kind)}", value)
    if isinstance(value, (list, tuple, int, float)) and name in known:
        dtype = known[name].element.dtype
        try:
            return np.array(value, dtype)
        except Exception as error:
            rule = f"input '{printable(name)}' could not be made an array of {dtype.name} ({show(error)})"
            raise refuse(subject, name, rule) from error
    return value
