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
from anydml.onnx.external_data import Piece
from anydml.onnx.library import TensorProto
from anydml.onnx.lower.refusals import NowhereError
from anydml.onnx.lower.values import Known, Value, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.core.files import Files
    from anydml.core.limits import MemoryLimit, StepLimit
    from anydml.onnx.element_types import ElementType

_MOST_ELEMENTS = 2**32 - 1
"""Of a tensor, in DirectML."""
# The fields that hold elements one by one, and the types that each holds.
_FIELDS = {
    "float_data": ("FLOAT",),
    "double_data": ("DOUBLE",),
    "int32_data": ("INT32", "INT16", "INT8", "UINT16", "UINT8", "BOOL", "FLOAT16", "INT4", "UINT4"),
    "int64_data": ("INT64",),
    "uint64_data": ("UINT32", "UINT64"),
}
_FIELD_OF = {name: field for field, names in _FIELDS.items() for name in names}


@dataclass(frozen=True, slots=True)
class Beside:
    """Where tensors of a model may lie, and how much of them may be read."""

    model: str
    """Errors' name for the model."""
    folder: Files | None
    """None for a model that is in no file."""
    limit: MemoryLimit
    steps: StepLimit


def is_external(tensor: Any) -> bool:
    """Whether a tensor's elements lie in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def decode_tensor(tensor: Any, subject: str, what: str, beside: Beside, raw: bytes | Piece | None = None) -> Value:
    """The tensor as a known value; files are read when somebody asks for elements.

    `raw` are its bytes, where they were taken out of it.
    """
    element = read_element_type(tensor.data_type, subject, what)
    shape = read_shape(tensor, subject, what)
    if tensor.HasField("segment"):
        raise NowhereError(subject, Fault(field=what, rule=f"{what}: a tensor in segments is not supported"))
    count = math.prod(shape)
    if is_external(tensor):
        read = functools.partial(_read_external, tensor, element, count, subject, what, beside, _Seen())
        read(None)
        return _value(element, shape, _readable(read, element, count), tensor)
    if isinstance(raw, Piece):
        _check_bytes(raw, element, count, subject, what)
        return _value(element, shape, _readable(raw.fill, element, count), tensor)
    if raw is not None or tensor.HasField("raw_data"):
        held = _from_bytes(tensor.raw_data if raw is None else raw, element, count, subject, what)
    else:
        held = _from_field(tensor, element, count, subject, what)
    return _value(element, shape, Known(held), tensor)


def _value(element: ElementType, shape: tuple[int, ...], known: Known, tensor: Any) -> Value:
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


def read_shape(tensor: Any, subject: str, what: str) -> tuple[int, ...]:
    """Its shape, which may promise no more than a tensor can hold."""
    check_dimensions(len(tensor.dims), subject, what)
    shape = tuple(int(size) for size in tensor.dims)
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


def _from_field(tensor: Any, element: ElementType, count: int, subject: str, what: str) -> np.ndarray[Any, Any]:
    field = _FIELD_OF[element.name]
    data = getattr(tensor, field)
    wanted = element.bytes_of(count) if element.is_half else count
    if len(data) != wanted:
        raise _broken(subject, what, f"must have {wanted} elements in {field}, or raw_data", str(len(data)))
    wide = np.array(data, field.removesuffix("_data").replace("float", "float32").replace("double", "float64"))
    is_half = element.name == "FLOAT16"  # whose bits are in whole numbers
    held = wide.astype(np.uint16 if is_half else np.uint8 if element.is_half else element.held)
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
    tensor: Any,
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
    entries = {entry.key: entry.value for entry in tensor.external_data}
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


def _number(entries: dict[str, str], key: str, default: int, subject: str, what: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _broken(subject, what, f"must have a whole number for its external {key}", show(text))
    return int(text)


def _broken(subject: str, what: str, rule: str, found: str, way_out: str = "") -> ModelFileError:
    fault = Fault(field=what, rule=f"{what} {rule}", found=found, way_out=way_out)
    return ModelFileError(subject, fault)
