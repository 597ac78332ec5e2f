"""Reading what a resource holds at first: a list, a constant, a sequence, values of several types, or a file.

It takes no more memory than its text does, whatever the values it stands for would take.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.nibbles import pack
from anydml.core.enums import DataType
from anydml.core.errors import MissingDependencyError, ModelFileError
from anydml.core.files import open_plain
from anydml.core.parse import UINT32_MAX
from anydml.dxdispatch.findings import FILE, UNSUPPORTED
from anydml.dxdispatch.images import FLOATS, IMAGES, FromImage, check_image
from anydml.dxdispatch.named import read_data_type
from anydml.dxdispatch.npy import read_header
from anydml.dxdispatch.source import Items, Node
from anydml.dxdispatch.values import Constant, FromFile, Listed, Sequence

if TYPE_CHECKING:
    from anydml.core.files import Files
    from anydml.dxdispatch.findings import Findings
    from anydml.dxdispatch.values import Values

WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_MOST_FAULTS = 5
"""Faults of one list that are told; a list at fault is mostly at fault throughout."""


class ValueReader:
    """Reads the `initialValues` of resources."""

    def __init__(self, files: Files, findings: Findings) -> None:
        self._files, self._findings = files, findings
        self.resample: tuple[int, int, int] | None = None
        """The channels, height and width of the resource that is read, where it says them."""

    def read(self, node: Node, data_type: DataType | None) -> tuple[Values | None, DataType | None]:
        """The values, and their type where they are of one."""
        if node.is_list and len(node) == 0:
            self._findings.add(FILE, node, "initialValues must not be empty", found="")
        elif node.is_list:
            listed = self._read_typed(node) if data_type is None else self._read_list(node, data_type)
            return listed, data_type
        elif node.is_object:
            return self._read_generator(node, data_type)
        else:
            self._findings.add(FILE, node, "initialValues must be a list or an object")
        return None, data_type

    def _read_generator(self, node: Node, data_type: DataType | None) -> tuple[Values | None, DataType | None]:
        kinds = [name for name in ("value", "valueStart", "sourcePath") if node.get(name)]
        if len(kinds) != 1:
            rule = "initialValues must have one of value, valueStart and sourcePath"
            self._findings.add(FILE, node, rule, found=" and ".join(kinds) or "none of them")
            return None, data_type
        if kinds == ["sourcePath"]:
            return self._read_file(node, data_type)
        if data_type is None:
            rule = "initialValuesDataType must be given, and not be UNKNOWN, where initialValues is an object"
            self._findings.add(FILE, node, rule, found="")
            return None, None
        count = self._read_count(node)
        names = ["value"] if kinds == ["value"] else ["valueStart", "valueDelta"]
        numbers = [self._read_member(node, name, data_type) for name in names]
        if count is None or any(number is None for number in numbers):
            return None, data_type
        first, *others = [number for number in numbers if number is not None]
        if data_type.is_half_byte:
            if others:
                rule = f"valueStart is not for {data_type.name}, of which two share a byte"
                self._findings.add(UNSUPPORTED, node, rule, found="", way_out="write the values out in a list")
                return None, data_type
            first, count = pack(np.array([first, first]))[0], data_type.bytes_of(count)
        return (Sequence(first, others[0], count) if others else Constant(first, count)), data_type

    def _read_count(self, node: Node) -> int | None:
        count = node.get("valueCount")
        if count is None:
            self._findings.add(FILE, node, "valueCount must be given", found="")
        elif type(count.raw) is not int or not 1 <= count.raw <= UINT32_MAX:
            self._findings.add(FILE, count, f"valueCount must be a whole number in 1 .. {UINT32_MAX}")
        else:
            return count.raw
        return None

    def _read_member(self, node: Node, name: str, data_type: DataType) -> np.generic | None:
        child = node.get(name)
        if child is None:
            self._findings.add(FILE, node, f"{name} must be given", found="")
            return None
        return self._read_number(child, name, data_type)

    def _read_number(self, node: Node, name: str, data_type: DataType) -> np.generic | None:
        raw = node.raw
        if data_type.is_float:
            number: Any = WORDS.get(raw.lower()) if isinstance(raw, str) else raw
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                self._findings.add(FILE, node, f'{name} must be a number, "nan", "inf" or "-inf", for {data_type.name}')
                return None
            value = to_float(np.array(number, np.float64), data_type)
            if np.isinf(value) and not np.isinf(number):
                rule, way_out = f"{name} must fit {data_type.name}", 'write "inf" or "-inf" for infinity'
                self._findings.add(FILE, node, rule, way_out=way_out)
                return None
            return data_type.dtype.type(value)  # type: ignore[no-any-return]  # as below
        low, high = data_type.limits
        if type(raw) is not int or not low <= raw <= high:
            self._findings.add(FILE, node, f"{name} must be a whole number in {low} .. {high}, for {data_type.name}")
            return None
        return data_type.number_dtype.type(raw)  # type: ignore[no-any-return]  # a type of NumPy's makes such

    def _read_list(self, node: Node, data_type: DataType) -> Listed | None:
        assert isinstance(node.raw, Items)  # noqa: S101 - for type checkers: it is a list
        values, kinds = node.raw.values, set(map(type, node.raw.values))
        array = None
        if data_type.is_float and kinds <= {int, float}:
            doubles = np.array(values, np.float64)
            array = to_float(doubles, data_type)
            if not np.isfinite(array).all():
                array = None
        elif not data_type.is_float and kinds == {int}:
            low, high = data_type.limits
            if low <= min(values) and max(values) <= high:  # type: ignore[type-var, operator]  # all are ints
                array = np.array(values, data_type.number_dtype)
        if array is None:
            array = self._read_each(node, data_type)
        if array is not None and data_type.is_half_byte:
            array = pack(array)
        return None if array is None else Listed(array.view(np.uint8))

    def _read_each(self, node: Node, data_type: DataType) -> np.ndarray[Any, Any] | None:
        before = len(self._findings)
        numbers: list[np.generic] = []
        for i, element in enumerate(node.elements()):
            number = self._read_number(element, f"initialValues[{i}]", data_type)
            if number is not None:
                numbers.append(number)
            elif len(self._findings) - before >= _MOST_FAULTS:
                break
        return None if len(self._findings) > before else np.array(numbers, data_type.number_dtype)

    def _read_typed(self, node: Node) -> Listed | None:
        before, parts, types = len(self._findings), [], []
        for i, element in enumerate(node.elements()):
            kind, value = element.get("type"), element.get("value")
            if kind is None or value is None:
                rule = f"initialValues[{i}] must be an object with a type and a value"
                way_out = "or give initialValuesDataType, for values of one type"
                self._findings.add(FILE, element, rule, way_out=way_out)
            elif data_type := read_data_type(kind, "type", self._findings):
                number = self._read_number(value, "value", data_type)
                if data_type.is_half_byte:
                    rule = (
                        f"type must not be {data_type.name}, of which two share a byte, among values of several types"
                    )
                    self._findings.add(FILE, kind, rule, found="")
                elif number is not None:
                    parts.append(number.tobytes())
                    types.append(data_type)
            if len(self._findings) - before >= _MOST_FAULTS:
                break
        if len(self._findings) > before:
            return None
        return Listed(np.frombuffer(b"".join(parts), np.uint8), tuple(types))

    def _read_file(self, node: Node, data_type: DataType | None) -> tuple[Values | None, DataType | None]:
        path = node.get("sourcePath")
        assert path  # noqa: S101 - for type checkers: the caller found it
        if not isinstance(path.raw, str):
            self._findings.add(FILE, path, "sourcePath must be a string")
            return None, data_type
        try:
            if path.raw.lower().endswith(IMAGES):
                return self._open_image(path, path.raw, data_type), data_type
            return self._open(path, path.raw, data_type)
        except ModelFileError as error:
            self._findings.put(FILE, path, error.faults[0])
        except MissingDependencyError as error:
            self._findings.put(UNSUPPORTED, path, error.faults[0])
        return None, data_type

    def _open_image(self, node: Node, text: str, data_type: DataType | None) -> FromImage | None:
        """An image, as large as resampleSize says."""
        if data_type not in FLOATS:
            rule = f"initialValuesDataType must be {' or '.join(kind.name for kind in FLOATS)}, for an image"
            self._findings.add(FILE, node, rule, found="" if data_type is None else data_type.name)
            return None
        if self.resample is None:
            rule = "resampleSize must be [1, channels, height, width] with 1, 3 or 4 channels, for an image"
            self._findings.add(FILE, node, rule, found="")
            return None
        found = self._files.find_source(text)
        check_image(found)
        return FromImage(found, self.resample, data_type)

    def _open(self, node: Node, text: str, data_type: DataType | None) -> tuple[Values | None, DataType | None]:
        found = self._files.find_source(text)
        with open_plain(found, text) as file:
            size = os.fstat(file.fileno()).st_size
            header = read_header(file, size) if text.lower().endswith(".npy") else None
        if header is not None:
            size = header.size_in_bytes
            if data_type not in (None, header.data_type):
                rule = f"initialValuesDataType must be {header.data_type.name}, the type of the array in the file"
                self._findings.add(FILE, node, rule, found=data_type.name if data_type else "")
            data_type = header.data_type
        if data_type is None:
            rule = "initialValuesDataType must be given, and not be UNKNOWN, for a raw file"
            self._findings.add(FILE, node, rule, found="")
        elif size == 0 or size % data_type.size_in_bytes:
            rule = f"the file must hold whole elements of {data_type.name}, one at least"
            self._findings.add(FILE, node, rule, found=f"{size} bytes")
        else:
            swapped = data_type.size_in_bytes if header is not None and header.is_swapped else 0
            return FromFile(found, header.start if header else 0, size, swapped), data_type
        return None, data_type


def to_float(doubles: np.ndarray[Any, Any], data_type: DataType) -> np.ndarray[Any, Any]:
    """Round as DxDispatch does: FLOAT16 by way of FLOAT32."""
    with np.errstate(all="ignore"):
        if data_type is DataType.FLOAT16:
            doubles = doubles.astype(np.float32)
        return doubles.astype(data_type.dtype)
