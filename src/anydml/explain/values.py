"""Where the values in a picture come from: the caller's arrays, or numbers made up as they are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.arrays import read_bytes, view
from anydml.arrays.nibbles import pack, unpack
from anydml.core.errors import BindingError, Fault, show
from anydml.core.memory import HOST, numpy_view, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import DataType
    from anydml.explain.picture import Coordinate
    from anydml.ir.fetches import Gathered

_LONGEST_NUMBER = 10
_MOST_COPIED = 1 << 28


class Values(Protocol):
    """The elements of a tensor, one at a time: a picture shows few of what may be 2^32 - 1."""

    @property
    def note(self) -> str:
        """A remark on them; empty for the caller's own."""

    def at(self, coordinate: Coordinate) -> Any:
        """The value at a coordinate, as a NumPy scalar of the tensor's type; leading dimensions may be left away."""


@dataclass(frozen=True, slots=True)
class ArrayValues:
    """The caller's."""

    array: np.ndarray[Any, Any]
    note: str = ""
    memory: object = None
    """The memory behind the array, where the array does not keep it alive."""

    def at(self, coordinate: Coordinate) -> Any:
        """Read it."""
        return self.array[(0,) * (self.array.ndim - len(coordinate)) + coordinate]


@dataclass(frozen=True, slots=True)
class CountedValues:
    """1, 2, 3 … as the elements lie in memory, so that a repeated element has one value."""

    tensor: TensorDesc
    before: int = 0
    """The number after which they begin."""

    @property
    def _most(self) -> int:
        kind = self.tensor.data_type
        return 2 ** (np.finfo(kind.dtype).nmant + 1) if kind.is_float else kind.limits[1]

    @property
    def note(self) -> str:
        """Say that they are numbers and no data."""
        order = "" if self.tensor.element_strides == packed_strides(self.tensor.sizes) else " as they lie in memory"
        again = f", from 1 again after {self._most}" if self.before + self.tensor.extent > self._most else ""
        return f"No data was given: the values number the elements{order}{again}."

    def at(self, coordinate: Coordinate) -> Any:
        """Number it."""
        number = self.before + _place(self.tensor, coordinate)
        return self.tensor.data_type.number_dtype.type(number % self._most + 1)


def _place(tensor: TensorDesc, coordinate: Coordinate) -> int:
    """Where an element lies in memory, from the one that lies first."""
    sizes, strides = tensor.sizes, tensor.element_strides
    below, _ = span(sizes, strides)
    places = zip(coordinate, strides[len(strides) - len(coordinate) :], strict=True)
    return sum(c * stride for c, stride in places) - below


@dataclass(frozen=True, slots=True)
class SpreadValues:
    """Numbers to compute with: every other input's lie around 0, and the others' fall to 1."""

    tensor: TensorDesc
    slot: int
    """The input's position."""
    is_truth: bool
    """Whether there is nothing to be seen but whether a number is 0."""
    note: str = "No data was given: these numbers are made up."

    def at(self, coordinate: Coordinate) -> Any:
        """Make one up."""
        kind, place = self.tensor.data_type, _place(self.tensor, coordinate)
        if self.is_truth:
            return kind.dtype.type(1 - (place >> self.slot % 2) % 2)
        make = kind.number_dtype.type
        count = min(self.tensor.extent, 127 if kind.is_float else min(kind.limits[1], 127))  # what INT8 has room for
        number = place % count
        if self.slot % 2:
            return make(count - number)
        if kind.number_dtype.kind == "u":
            return make(number + 1)
        return make((number - count // 2) / (2 if kind.is_float else 1))


_POSITIVE = ("VarianceTensor", "SecondMomentTensor")
"""How the fields' names end that a root is taken of: below 0 there is nothing to be seen but NaN."""


def spread(field: str, tensor: TensorDesc, slot: int, *, is_truth: bool = False) -> SpreadValues:
    """Numbers for an input to compute with, of which a root is taken where its name says so."""
    return SpreadValues(tensor, slot | 1 if field.endswith(_POSITIVE) else slot, is_truth)


@dataclass(frozen=True, slots=True)
class Changed:
    """Values of which some are others."""

    values: Values
    others: Mapping[Coordinate, float]

    @property
    def note(self) -> str:
        """As of what was changed."""
        return self.values.note

    def at(self, coordinate: Coordinate) -> Any:
        """The other one, or the value as it was."""
        found = self.values.at(coordinate)
        return type(found)(self.others[coordinate]) if coordinate in self.others else found


@dataclass(frozen=True, slots=True)
class CountedLengths:
    """Lengths that grow shorter from line to line, and begin again: the first leaves something as it is."""

    tensor: TensorDesc
    most: int
    note: str = "No lengths were given: these grow shorter from line to line."

    def at(self, coordinate: Coordinate) -> Any:
        """Make one up."""
        return self.tensor.data_type.dtype.type((self.most - 2 - _place(self.tensor, coordinate)) % self.most + 1)


@dataclass(frozen=True, slots=True)
class CountedIndices:
    """Tuples that pick from the end to the beginning: always valid, and no picture of the identity."""

    tensor: TensorDesc
    primitive: Gathered
    frame: tuple[int, ...]
    """The sizes of the dimensions that count."""
    note: str = "No indices were given: these pick the elements from the last to the first."

    def at(self, coordinate: Coordinate) -> Any:
        """Make one up."""
        index_type = self.tensor.data_type.dtype.type
        if self.tensor.overlaps_itself:  # one element is part of several tuples: 0 is in every dimension
            return index_type(0)
        number, k = divmod(number_of(coordinate, self.frame), self.primitive.tuple_size)
        indexed = self.primitive.indexed_sizes
        return index_type(coordinate_of((-1 - number) % math.prod(indexed), indexed)[k])


def number_of(coordinate: Sequence[int], sizes: Sequence[int]) -> int:
    """An element's number, the last dimension running fastest."""
    number = 0
    for c, size in zip(coordinate, sizes, strict=True):
        number = number * size + c
    return number


def coordinate_of(number: int, sizes: Sequence[int]) -> Coordinate:
    """The coordinate that has a number."""
    found = []
    for size in reversed(sizes):
        number, c = divmod(number, size)
        found.append(c)
    return tuple(reversed(found))


def read_array(array: object, tensor: TensorDesc, operator: str, field: str) -> ArrayValues:
    """Take an array of any library, laid out in any way; its type and sizes are the described ones."""
    if isinstance(array, (list, tuple, int, float)):
        try:
            array = np.asarray(array, tensor.data_type.number_dtype)
            array = pack(array) if tensor.data_type.is_half_byte else array
        except Exception as error:
            rule = f"{field} could not be made an array of {tensor.data_type.name} ({show(error)})"
            raise BindingError(operator, Fault(field=field, rule=rule, found=show(array))) from error
    seen = view(array, operator, field, memory=None)
    if tensor.data_type.is_half_byte and seen.buffer.device == HOST:
        return _halves(seen, tensor, operator, field)
    faults = []
    if seen.data_type != tensor.data_type:
        rule = f"{field} must be an array of {tensor.data_type.name}, as described"
        faults.append(Fault(field=field, rule=rule, value=seen.data_type, found=seen.data_type.name))
    if seen.sizes != tensor.sizes:
        rule = f"{field} must be an array of sizes {tensor.sizes}, as described"
        faults.append(Fault(field=field, rule=rule, value=seen.sizes, found=str(seen.sizes)))
    if faults:
        raise BindingError(operator, faults)
    return ArrayValues(seen.numpy(), memory=seen) if seen.buffer.device == HOST else _copied(seen, operator, field)


def _halves(seen: ArrayView, tensor: TensorDesc, operator: str, field: str) -> ArrayValues:
    """The numbers of 4 bits in bytes that lie without gaps."""
    needed = tensor.data_type.bytes_of(tensor.extent)
    data = np.ascontiguousarray(seen.numpy()).reshape(-1)
    if data.dtype != np.uint8 or data.size != needed:
        rule = f"{field} must be {needed} bytes, with two elements of {tensor.data_type.name} in each"
        raise BindingError(operator, Fault(field=field, rule=rule, found=f"{data.size} of {seen.data_type.name}"))
    numbers = unpack(data, tensor.data_type)
    steps = [stride * numbers.itemsize for stride in tensor.element_strides]
    return ArrayValues(np.lib.stride_tricks.as_strided(numbers, tensor.sizes, steps), memory=numbers)


def _copied(seen: ArrayView, operator: str, field: str) -> ArrayValues:
    """An array on a GPU is copied to be shown, as printing it does, unless that would take long."""
    if seen.buffer.size > _MOST_COPIED:
        rule = f"{field} of {seen.buffer.device} must be at most {_MOST_COPIED >> 20} MiB to be shown"
        way_out = "move it to the host first, for instance with .cpu() or .get()"
        found = f"{seen.buffer.size >> 20} MiB"
        raise BindingError(operator, Fault(field=field, rule=rule, found=found, way_out=way_out))
    copy = read_bytes(seen.buffer)
    address = copy.__array_interface__["data"][0] + seen.offset
    return ArrayValues(numpy_view(address, seen.sizes, seen.strides, seen.data_type.dtype), memory=copy)


def write_value(value: Any) -> str:
    """Write a number into a cell: short, and a whole number without a point."""
    if not isinstance(value, np.floating):
        return str(value)
    number = float(value)
    if number.is_integer() and abs(number) < 10**_LONGEST_NUMBER:
        return f"{number:.0f}"
    shortest = str(value)
    return shortest if len(shortest) <= _LONGEST_NUMBER else f"{number:.5g}"


def write_single(number: float) -> str:
    """A FLOAT, as short as it can be written."""
    return write_value(np.float32(number))


def write_number(number: float, data_type: DataType) -> str:
    """A number of a description as its type writes it; a step down may be one that an unsigned type does not have."""
    return write_value(data_type.dtype.type(number)) if data_type.is_float else str(number)
