"""NumPy's .npy files: the header is read by its few fixed words, so that nothing in it is ever evaluated."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from anydml.core.enums import DataType
from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.memory import NUMPY_DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 64 * 1024
_DESCR = re.compile(r"""['"]descr['"]\s*:\s*(?:['"]([^'"]*)['"]|(\[))""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)\b""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([0-9L,\s]*)\)""")
_TYPE = re.compile(r"([<>=|]?)([fiubO])([0-9]{0,2})")
_LETTERS = {"f": "FLOAT", "i": "INT", "u": "UINT"}


def _refuse(rule: str, found: str = "", way_out: str = "") -> ModelFileError:
    return ModelFileError("npy", Fault(field="", rule=rule, found=found, way_out=way_out))


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """The header of a file."""

    data_type: DataType
    sizes: tuple[int, ...]
    is_swapped: bool
    """Whether the bytes of an element are in the other order than this machine's."""
    start: int
    """Bytes before the first element."""

    @property
    def size_in_bytes(self) -> int:
        """The bytes of the elements."""
        return math.prod(self.sizes) * self.data_type.size_in_bytes


def read_header(file: BinaryIO, file_size: int) -> NpyHeader:
    """Read the header of a file, and check that the elements are all there."""
    start = file.read(10)
    if len(start) < 10 or not start.startswith(_MAGIC) or start[6] not in (1, 2, 3):
        raise _refuse("the file must be a NumPy array of format 1 to 3")
    more = b"" if start[6] == 1 else file.read(2)
    length = int.from_bytes(start[8:10] + more, "little")
    if length > _LONGEST_HEADER:
        raise _refuse(f"the array's header must have at most {_LONGEST_HEADER} bytes", str(length))
    header = file.read(length).decode("utf-8", "replace")
    descr, order, shape = _DESCR.search(header), _ORDER.search(header), _SHAPE.search(header)
    if descr is None or order is None or shape is None:
        raise _refuse("the array's header must have descr, fortran_order and shape", show(header, 60))
    data_type, is_swapped = _read_type(descr[1] if descr[2] is None else "[")
    if order[1] == "True":
        raise _refuse("the array must be in C order", "Fortran's", "save np.ascontiguousarray(array)")
    sizes = [part.strip().removesuffix("L") for part in shape[1].split(",") if part.strip()]
    if len(sizes) > NUMPY_DIMENSIONS or not all(size.isdecimal() and len(size) <= 12 for size in sizes):
        raise _refuse(f"the array's shape must be at most {NUMPY_DIMENSIONS} sizes below 10^12", show(shape[1], 60))
    found = NpyHeader(data_type, tuple(map(int, sizes)), is_swapped, 10 + len(more) + length)
    if found.size_in_bytes > file_size - found.start:
        rule = f"the file must hold the {found.size_in_bytes} bytes of elements that its header says"
        raise _refuse(rule, str(max(file_size - found.start, 0)))
    return found


def _read_type(text: str) -> tuple[DataType, bool]:
    match = _TYPE.fullmatch(text)
    if match and match[2] == "O":
        raise _refuse("the array must be one of numbers", "pickled objects", "a pickle from a stranger runs code")
    name = ""
    if match and match[2] + match[3] == "b1":
        name = "INT8"  # booleans, as DxDispatch takes them
    elif match and match[2] in _LETTERS and match[3]:
        name = f"{_LETTERS[match[2]]}{int(match[3]) * 8}"
    if name not in DataType.__members__:
        raise _refuse(f"the array must be of {', '.join(DataType.__members__)}", show(text, 60))
    assert match  # noqa: S101 - for type checkers: there is a name
    big = match[1] == ">" or (match[1] != "<" and sys.byteorder == "big")
    data_type = DataType[name]
    return data_type, data_type.size_in_bytes > 1 and big != (sys.byteorder == "big")


def write_header(data_type: DataType, sizes: Sequence[int]) -> bytes:
    """The header of an array in C order."""
    shape = "(" + "".join(f"{size}, " for size in sizes).rstrip() + ")"
    if len(sizes) > 1:
        shape = shape.replace(",)", ")")
    text = f"{{'descr': '{data_type.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    length = -(-(10 + len(text) + 1) // 64) * 64
    return _MAGIC + b"\x01\x00" + (length - 10).to_bytes(2, "little") + text.ljust(length - 11).encode() + b"\n"
