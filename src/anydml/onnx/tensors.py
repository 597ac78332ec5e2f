"""Tensors that a model carries, in its own bytes or in files beside it: every size is checked before it is believed."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.nibbles import unpack
from anydml.core.enums import DataType
from anydml.core.errors import Fault, ModelFileError, printable, show
from anydml.core.files import open_plain
from anydml.onnx.element_types import read_element_type
from anydml.onnx.external_data import ExternalData, Piece
from anydml.onnx.lower.refusals import NowhereError
from anydml.onnx.lower.values import Known, Value, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.files import Files
    from anydml.core.limits import MemoryLimit, StepLimit
    from anydml.onnx.element_types import ElementType
    from anydml.onnx.ir import Tensor

_MOST_ELEMENTS = 2**32 - 1
"""Of a tensor, in DirectML."""
_FIELDS = {"float32": "float", "float64": "double"}
"""What a model's fields of numbers are called by, where that is not NumPy's name of their type."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Where tensors of a model may lie, and how much of them may be read."""

    model: str
    """Errors' name for the model."""
    folder: Files | None
    """None for a model that is in no file."""
    limit: MemoryLimit
    steps: StepLimit


def decode_tensor(tensor: Tensor, subject: str, what: str, beside: Beside) -> Value:
    """The tensor as a known value; files are read when somebody asks for elements."""
    element = read_element_type(tensor.data_type, subject, what)
    shape = read_shape(tensor, subject, what)
    if tensor.is_segment:
        raise NowhereError(subject, Fault(field=what, rule=f"{what}: a tensor in segments is not supported"))
    count, data = math.prod(shape), tensor.data
    if isinstance(data, ExternalData):
        read = functools.partial(_read_external, data.entries, element, count, subject, what, beside, _Seen())
        read(None)
        return _value(element, shape, _readable(read, element, count), tensor)
    if isinstance(data, Piece):
        _check_bytes(data, element, count, subject, what)
        return _value(element, shape, _readable(data.fill, element, count), tensor)
    if isinstance(data, bytes):
        held = _from_bytes(data, element, count, subject, what)
    else:
        held = _from_numbers(np.asarray(data), element, count, subject, what)
    return _value(element, shape, Known(held), tensor)


def _value(element: ElementType, shape: tuple[int, ...], known: Known, tensor: Tensor) -> Value:
    """Elements that are read, as they are known: 4-bit ones one to a byte, beside the bytes that they share."""
    name, count = printable(tensor.name), math.prod(shape)
    if element.is_half:
        kind = DataType[element.name]
        numbers = Known(make=lambda: unpack(known.flat().view(np.uint8), kind)[:count])
        return Value(element, shape, numbers, source=name, halves=known)
    if element.is_bool:
        known = Known(make=functools.partial(_truths, element, known), is_readable=known.is_readable)
    return Value(element, shape, known, source=name)


def _truths(element: ElementType, known: Known) -> np.ndarray[Any, Any]:
    """Booleans as 0 and 1, whatever bytes they were."""
    held = known.flat()
    return (held != 0).astype(held.dtype) if element.is_bool and held.size and held.max() > 1 else held


def read_shape(tensor: Tensor, subject: str, what: str) -> tuple[int, ...]:
    """Its shape, which may promise no more than a tensor can hold."""
    check_dimensions(len(tensor.dims), subject, what)
    shape = tensor.dims
    if any(size < 0 for size in shape):
        raise _broken(subject, what, "must have sizes of at least 0", str(list(shape)))
    if math.prod(shape) > _MOST_ELEMENTS:
        raise _broken(subject, what, f"must have at most 2^32 - 1 = {_MOST_ELEMENTS} elements", str(math.prod(shape)))
    return shape


def _check_bytes(data: bytes | Piece, element: ElementType, count: int, subject: str, what: str) -> None:
    wanted = element.bytes_of(count)
    if len(data) != wanted:
        rule = f"must have {wanted} bytes of raw_data, for {count} elements of {element.name}"
        raise _broken(subject, what, rule, str(len(data)))


def _readable(fill: Callable[[np.ndarray[Any, Any]], object], element: ElementType, count: int) -> Known:
    """Elements that a function reads from a file, into memory of theirs or of somebody's."""
    held, size = element.held.newbyteorder("<"), element.bytes_of(count)

    def make() -> np.ndarray[Any, Any]:
        found = np.empty(size // held.itemsize, held)
        fill(found.view(np.uint8))
        return found.astype(element.held, copy=False)

    return Known(make=make, is_readable=True, fill=fill if held == element.held else None)


def _from_bytes(data: bytes, element: ElementType, count: int, subject: str, what: str) -> np.ndarray[Any, Any]:
    _check_bytes(data, element, count, subject, what)
    return np.frombuffer(data, element.held.newbyteorder("<")).astype(element.held, copy=False)


def _from_numbers(
    wide: np.ndarray[Any, Any], element: ElementType, count: int, subject: str, what: str
) -> np.ndarray[Any, Any]:
    """Elements that the model has one by one, in a type that may be wider."""
    field = f"{_FIELDS.get(wide.dtype.name, wide.dtype.name)}_data"
    wanted = element.bytes_of(count) if element.is_half else count
    if len(wide) != wanted:
        raise _broken(subject, what, f"must have {wanted} elements in {field}, or raw_data", str(len(wide)))
    is_half = element.name == "FLOAT16"  # whose bits are in whole numbers
    held = wide.astype(np.uint16 if is_half else np.uint8 if element.is_half else element.held, copy=False)
    if wide.dtype.kind in "iu" and not np.array_equal(held, wide):
        outside = wide[held != wide][0]
        raise _broken(subject, what, f"must have values of {element.name} in {field}", str(outside))
    return held.view(np.float16) if is_half else held


@dataclass(slots=True)
class _Seen:
    """A file beside a model as it was when the model was loaded, and whether its elements were counted."""

    stamp: object = None
    is_taken: bool = False


def _read_external(
    entries: Mapping[str, str],
    element: ElementType,
    count: int,
    subject: str,
    what: str,
    beside: Beside,
    seen: _Seen,
    into: np.ndarray[Any, Any] | None,
) -> None:
    """Read elements from a file into memory; without any see whether they are there."""
    folder = beside.folder
    if folder is None:
        rule, way_out = "has its elements in a file", "load the model by its path, which says in which folder"
        raise _broken(subject, what, rule, "", way_out)
    location = entries.get("location", "")
    try:
        path = folder.find_source(location)
        with open_plain(path, location) as file:
            found = os.fstat(file.fileno())
            size, stamp = found.st_size, (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen.stamp not in (None, stamp):
                rule = f"must stay as it was when the model was loaded, in '{printable(location)}'"
                raise _broken(subject, what, rule, "another", "load the model again")
            seen.stamp = stamp
            offset = _number(entries, "offset", 0, subject, what)
            wanted = element.bytes_of(count)
            length = _number(entries, "length", wanted, subject, what)
            if length != wanted:
                rule = f"must have a length of {wanted} bytes, for {count} elements of {element.name}"
                raise _broken(subject, what, rule, str(length))
            if offset + length > size:
                rule = f"must lie within the {size} bytes of '{printable(location)}'"
                raise _broken(subject, what, rule, f"{offset} .. {offset + length}")
            if into is None:
                return
            if not seen.is_taken:
                beside.limit.take(wanted, what, beside.model)
                seen.is_taken = True
            file.seek(offset)
            if file.readinto(into.data) != wanted:
                raise _broken(subject, what, f"could not be read from '{printable(location)}'", "fewer bytes")
    except ModelFileError as error:
        if error.subject in (subject, beside.model):
            raise
        fault = error.faults[0]
        rule = f"{what}: external data: {fault.rule}"
        raise ModelFileError(subject, Fault(field=what, rule=rule, value=location, found=fault.found)) from None
    except (OSError, MemoryError) as error:
        raise _broken(subject, what, f"could not be read ({show(error)})", "") from error


def _number(entries: Mapping[str, str], key: str, default: int, subject: str, what: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _broken(subject, what, f"must have a whole number for its external {key}", show(text))
    return int(text)


def _broken(subject: str, what: str, rule: str, found: str, way_out: str = "") -> ModelFileError:
    fault = Fault(field=what, rule=f"{what} {rule}", found=found, way_out=way_out)
    return ModelFileError(subject, fault)
