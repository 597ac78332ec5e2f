"""UINT4 and INT4: two elements to a byte, the first in its low half."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.arrays.view import ArrayView, no_array
from anydml.core.enums import DataType
from anydml.core.memory import Buffer, packed_strides

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_NAMES = ("uint4", "int4")


def is_unpacked(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array has 4-bit numbers in a byte each, as the package ml_dtypes has them."""
    return array.dtype.kind == "V" and array.dtype.name in _NAMES


def pack(numbers: np.ndarray[Any, Any]) -> Bytes:
    """Numbers of 4 bits in as few bytes as hold them."""
    halves = np.append(numbers.astype(np.int8).view(np.uint8).reshape(-1) & 15, np.zeros(numbers.size % 2, np.uint8))
    found: Bytes = halves[::2] | (halves[1::2] << 4)
    return found


def unpack(data: Bytes, data_type: DataType) -> np.ndarray[Any, Any]:
    """The numbers in bytes, two in each, as INT8 or UINT8."""
    halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)
    return (halves ^ 8).view(np.int8) - np.int8(8) if data_type is DataType.INT4 else halves


def numbers_in(data: Bytes, data_type: DataType) -> np.ndarray[Any, Any]:
    """The numbers of a type that bytes hold."""
    return unpack(data, data_type) if data_type.is_half_byte else data.view(data_type.dtype)


def view_packed(array: np.ndarray[Any, Any], convert: bool) -> ArrayView:
    """Look at such an array as DirectML has it: a packed copy of an input, and no output."""
    if not convert:
        raise no_array(array, "must be an array of packed bytes for an output of 4 bits", "pass one of uint8")
    data = pack(array)
    buffer = Buffer(data.__array_interface__["data"][0], data.size, False, data)
    strides = packed_strides(array.shape)
    return ArrayView(data, buffer, 0, DataType(array.dtype), array.shape, strides)
