"""ONNX's element types, and the DirectML types that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.errors import Fault, UnsupportedError
from anydml.onnx.library import half_dtype
from anydml.onnx.protobuf import ELEMENT_NAMES, ELEMENT_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type that a tensor's elements may have here."""

    name: str
    """ONNX's: `FLOAT`, `BOOL`."""
    data_type: DataType
    """DirectML's, which holds it: a boolean is a UINT8 of 0 or 1, and a number of 4 bits has a byte for itself."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's, as a caller's arrays have it."""
        if self.is_half:
            return half_dtype(ELEMENT_NUMBERS[self.name])
        return np.dtype(np.bool_) if self.is_bool else self.data_type.dtype

    @property
    def held(self) -> np.dtype[Any]:
        """NumPy's, as the operators see it."""
        return self.data_type.dtype

    @property
    def is_bool(self) -> bool:
        """Whether it is ONNX's boolean."""
        return self.name == "BOOL"

    @property
    def is_half(self) -> bool:
        """Whether it has 4 bits."""
        return self.name in _HALVES

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type."""
        return DataType[self.name].limits if self.is_half else self.data_type.limits

    def bytes_of(self, count: int) -> int:
        """The bytes of so many elements, as a model has them: two of 4 bits share one, the first in its low half."""
        return DataType[self.name].bytes_of(count) if self.is_half else count * self.held.itemsize


class ForeignType(ElementType):
    """A type that DirectML lacks, and the host may have: texts, BFLOAT16, a sequence."""

    @classmethod
    def of(cls, name: str) -> ForeignType:
        """The type of that name, which has no DirectML type."""
        return cls(name, None)  # type: ignore[arg-type]  # that there is none is what the class says

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's: that of objects for texts and for what is no tensor."""
        return half_dtype(ELEMENT_NUMBERS[self.name]) if self.is_tensor else np.dtype(object)

    @property
    def is_tensor(self) -> bool:
        """Whether it is of a tensor's elements."""
        return self.name != "UNDEFINED" and self.name in ELEMENT_NUMBERS


_HALVES = {"INT4": DataType.INT8, "UINT4": DataType.UINT8}
_NAMES = {
    "FLOAT": DataType.FLOAT32,
    "DOUBLE": DataType.FLOAT64,
    "FLOAT16": DataType.FLOAT16,
    **{name: DataType[name] for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")},
    "BOOL": DataType.UINT8,
    **{name: held for name, held in _HALVES.items() if name in ELEMENT_NUMBERS},
}
ELEMENT_TYPES: Mapping[int, ElementType] = {
    ELEMENT_NUMBERS[name]: ElementType(name, data_type) for name, data_type in _NAMES.items()
}
"""By ONNX's number."""
INT32, INT64, UINT32, UINT64, FLOAT, DOUBLE, BOOL = (
    ELEMENT_TYPES[ELEMENT_NUMBERS[name]] for name in ("INT32", "INT64", "UINT32", "UINT64", "FLOAT", "DOUBLE", "BOOL")
)


def element_of(data_type: DataType) -> ElementType:
    """The element type of a DirectML type: UINT8 is no boolean."""
    return next(element for element in ELEMENT_TYPES.values() if element.data_type is data_type)


_BY_DTYPE = {element.dtype: element for element in ELEMENT_TYPES.values()}


def element_of_array(array: Any) -> ElementType | None:
    """The element type of an array; None for what is none, or of a type that DirectML lacks."""
    dtype = getattr(array, "dtype", None)
    if not isinstance(dtype, np.dtype):
        name = str(dtype).rpartition(".")[2]
        dtype = np.dtype(name) if name in np.sctypeDict else None
    return None if dtype is None else _BY_DTYPE.get(dtype)


def type_name(number: int) -> str:
    """ONNX's name of an element type; its number, for one that this onnx does not know."""
    return ELEMENT_NAMES.get(number, f"element type {number}")


def read_element_type(number: int, subject: str, what: str) -> ElementType:
    """The element type of that number, or a refusal by its name; `what` is of that type."""
    if (found := ELEMENT_TYPES.get(number)) is not None:
        return found
    rule = f"{what}: DirectML has no {type_name(number)}"
    raise UnsupportedError(subject, Fault(field=what, rule=rule, value=number))


def refuse_kind(kind: str, subject: str, what: str) -> UnsupportedError:
    """The error of a value that is no tensor: a sequence, a map, an optional."""
    return UnsupportedError(subject, Fault(field=what, rule=f"{what}: DirectML has no {kind}", value=kind))
