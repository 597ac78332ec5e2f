"""Data: the arrays that are bound to inputs, and what holds a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anydml.core.display import describe
from anydml.core.enums import DataType
from anydml.core.errors import BindingError, Fault
from anydml.pydirectml.arguments import an, refuse
from anydml.pydirectml.expressions import Expression

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from anydml.arrays.tensor import TensorDesc


class TensorData(np.ndarray[Any, np.dtype[Any]]):
    """The data of a tensor: what `Device.compute` gives, or a copy of an array as float32.

    It has the buffer protocol, and is an array besides: `np.array(data)`, `memoryview(data)`, `data.max()`.
    """

    def __new__(cls, data: ArrayLike) -> Self:
        """A copy, packed."""
        return np.array(_floats("TensorData", data), order="C").view(cls)


class Binding:
    """An array for an input: as many elements as the tensor has in memory, in any shape.

    They are converted to float32 for a tensor of FLOAT32. For one of another type they must be of that type, or the
    tensor's very bytes seen as float32, which is all that Microsoft's module takes.
    """

    def __init__(self, expr: Expression, data: ArrayLike) -> None:
        self.desc: TensorDesc = an("Binding", "expr", Expression, expr).get_output_desc().desc
        self.data = _elements(data, self.desc)

    def __repr__(self) -> str:
        return f"dml.Binding of {describe(self.desc)}"


def _elements(data: ArrayLike, desc: TensorDesc) -> np.ndarray[Any, Any]:
    """A copy of an array as the elements that a tensor has in memory."""
    kind = desc.data_type.dtype
    if desc.data_type is DataType.FLOAT32:
        array = _floats("Binding", data)
    else:
        array = np.ascontiguousarray(_read("Binding", data))
        if array.dtype == np.float32 and array.nbytes == desc.data_type.bytes_of(desc.extent):
            array = array.reshape(-1).view(kind)
        if array.dtype != kind:
            way_out = f'pass data.astype("{kind.name}")'
            refuse("Binding", "data", f"an array of {kind.name}, as the tensor is", data, way_out)
    counts = (desc.extent, desc.total_tensor_size_in_bytes // kind.itemsize)
    if array.size not in counts:
        rule = f"data must have {desc.extent} elements, which the tensor has in memory"
        raise BindingError("Binding", Fault(field="data", rule=rule, value=array.shape, found=f"{array.size}"))
    found = array.reshape(-1)[: desc.extent].copy()
    found.flags.writeable = False
    return found


def _floats(subject: str, data: ArrayLike) -> np.ndarray[Any, Any]:
    array = _read(subject, data)
    if array.dtype.kind not in "fiub":
        refuse(subject, "data", "an array of numbers", data)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


def _read(subject: str, data: ArrayLike) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(data)
    except Exception:  # noqa: BLE001 - of a list of lists of unequal lengths, or whatever an object's __array__ raises
        refuse(subject, "data", "an array of numbers", data)
