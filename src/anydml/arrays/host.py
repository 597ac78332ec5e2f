"""Arrays in the host's memory: NumPy's, whatever speaks DLPack, and the buffer protocol."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.nibbles import is_unpacked, view_packed
from anydml.arrays.view import (
    describe,
    is_tensor,
    make_view,
    masked,
    no_array,
    no_room,
    read_data_type,
    requires_gradient,
)
from anydml.core.errors import BindingError, Fault, show
from anydml.core.memory import Buffer, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays.view import ArrayView
    from anydml.core.enums import DataType


def view_host(array: Any, convert: bool) -> ArrayView:
    """Look at a host array; a list or a number is made one where `convert` allows it."""
    memory = as_numpy(array, convert)
    if is_unpacked(memory):
        return view_packed(memory, convert)
    return make_view(
        array if not isinstance(array, (list, tuple, int, float)) else memory,
        (array, memory),
        memory.__array_interface__["data"][0],
        read_data_type(memory.dtype),
        memory.shape,
        memory.strides,
        writable=memory.flags.writeable or _is_old_dlpack(array),
    )


def as_numpy(array: Any, convert: bool = True) -> np.ndarray[Any, Any]:
    """A host array as NumPy's: the same memory, or a list's or a number's elements where `convert` allows it."""
    if type(array) is np.ndarray:
        return array
    if isinstance(array, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):  # who has one has imported it
        raise masked(array, "pass its .data, or .filled(...)")
    if isinstance(array, np.ndarray):
        return array
    if hasattr(type(array), "__dlpack__"):
        return _from_dlpack(array)
    if not convert and not _is_memory(array):
        raise no_array(array, "must be an array that can be written to")
    if not isinstance(array, (list, tuple, int, float, np.generic)) and not (
        _is_memory(array) or hasattr(type(array), "__array__")
    ):
        raise no_array(array, "must be an array: NumPy's, one that speaks DLPack, or a list of numbers")
    try:
        found = np.asarray(array)
        is_python = isinstance(array, (list, tuple, float)) and found.dtype == np.float64 and not has_type(array)
    except Exception as error:
        raise no_array(array, f"could not be made an array ({show(error)})") from error
    return _as_float32(array, found) if is_python else found


def has_type(given: Any) -> bool:
    """Whether an array or a number of a library, which has a type of its own, is in a list, or is what is given."""
    return any(map(has_type, given)) if isinstance(given, (list, tuple)) else hasattr(given, "dtype")


def _as_float32(array: Any, wide: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Python's floats, which have no type of their own, in the type that every operator takes."""
    with np.errstate(over="ignore", under="ignore"):
        found = wide.astype(np.float32)
    if not np.array_equal(np.isinf(found), np.isinf(wide)):
        rule = "must have numbers that FLOAT32, which Python's floats are taken for, can hold"
        raise no_array(array, rule, 'np.array(x, "float64") keeps them')
    return found


def _is_memory(array: Any) -> bool:
    """Whether an array made of this is the same memory, not a copy."""
    if isinstance(array, (str, bytes, np.generic)):
        return False
    if hasattr(type(array), "__array_interface__"):
        return True
    try:
        memoryview(array)
    except Exception:  # noqa: BLE001 - no buffer, or one that is closed
        return False
    return True


def _from_dlpack(array: Any) -> np.ndarray[Any, Any]:
    try:
        if is_tensor(array):
            # numpy() keeps the storage from being resized under a bound operator, and refuses a tensor whose
            # values are the negatives of its memory; DLPack does neither.
            return array.numpy()  # type: ignore[no-any-return]  # torch is not there to be asked for its types
        return np.from_dlpack(array)
    except Exception as error:
        if (dtype := getattr(array, "dtype", None)) is not None:
            read_data_type(dtype)  # names a type that DirectML lacks better than DLPack's own refusal does
        if is_tensor(array) and array.requires_grad:
            raise requires_gradient(array) from error
        raise no_array(array, f"could not be read in place ({show(error)})") from error


def _is_old_dlpack(array: Any) -> bool:
    """Whether NumPy calls the memory read-only for no better reason than that DLPack before version 1 cannot tell."""
    if isinstance(array, np.ndarray) or not hasattr(type(array), "__dlpack__"):
        return False
    try:
        array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return True
    except Exception:  # noqa: BLE001 - it was exported a moment ago; whatever this is, it is no sign of an old protocol
        return False
    return False


def allocate(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
    """Make an array for a result, with the layout asked for."""
    try:
        if strides is None or tuple(strides) == packed_strides(sizes):
            return np.empty(sizes, data_type.dtype)
        below, above = span(sizes, strides)
        memory = np.zeros(above - below + 1, data_type.dtype)
    except (MemoryError, ValueError) as error:
        raise no_room(sizes, error) from error
    steps = [stride * data_type.size_in_bytes for stride in strides]
    return np.ndarray(sizes, data_type.dtype, memory, -below * data_type.size_in_bytes, steps)


def raw_memory(buffer: object, field: str) -> Buffer:
    """Look at a raw buffer: bytes in one piece, as a bytearray, an mmap or a ctypes array has them."""
    try:
        memory = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload]  # whether it is one is what is asked
    except Exception as error:
        rule = f"{field} must be a buffer of bytes, such as a bytearray, an mmap or a packed array"
        fault = Fault(field=field, rule=rule, value=buffer, found=describe(buffer))
        raise BindingError("BufferBinding", fault) from error
    return Buffer(memory.__array_interface__["data"][0], memory.size, memory.flags.writeable, (buffer, memory))
