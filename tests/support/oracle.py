"""Six operators in plain Python, coordinate by coordinate, as documents word them: slow and obviously right."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Coordinate: TypeAlias = tuple[int, ...]
Function: TypeAlias = Literal["sum", "product"]
V = TypeVar("V")

# struct's letters for the float types that are accumulated in a wider one.
_FLOATS = {"FLOAT16": "e", "FLOAT32": "f"}


class OutsideError(Exception):
    """An index outside its dimension: where its tuple stands, what that holds, the dimension and its size."""

    def __init__(self, position: Coordinate, indices: Coordinate, dimension: int, size: int) -> None:
        super().__init__(position, indices, dimension, size)
        self.position, self.indices, self.dimension, self.size = position, indices, dimension, size


def coordinates(sizes: Sequence[int]) -> Iterator[Coordinate]:
    """Every coordinate of a tensor, the last dimension running fastest."""
    return itertools.product(*(range(size) for size in sizes))


def tensor(sizes: Sequence[int], values: Iterable[V]) -> dict[Coordinate, V]:
    """A tensor as this module has it, from its values in order."""
    return dict(zip(coordinates(sizes), values, strict=True))


# SLICE and SLICE1


def slice_(
    source: Mapping[Coordinate, V], offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> dict[Coordinate, V]:
    """OutputTensor[OutputCoordinates] = InputTensor[Offsets + Strides * OutputCoordinates]."""
    return {
        target: source[tuple(o + s * i for o, s, i in zip(offsets, strides, target, strict=True))]
        for target in coordinates(sizes)
    }


def slice1(
    source: Mapping[Coordinate, V],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> dict[Coordinate, V]:
    """SLICE from CopyStart on, which is the window's last element in a dimension of negative stride."""
    copy_start = list(window_offsets)
    for i, stride in enumerate(window_strides):
        if stride < 0:
            copy_start[i] += window_sizes[i] - 1
    return slice_(source, copy_start, output_sizes, window_strides)


# GATHER_ND and GATHER_ND1


def gather_nd(
    source: Mapping[Coordinate, V],
    source_sizes: Sequence[int],
    indices: Mapping[Coordinate, int],
    indices_sizes: Sequence[int],
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int = 0,
    *,
    clamp: bool = False,
) -> dict[Coordinate, V]:
    """output[batch, ...] = input[batch, indices[batch, ...], ...], all tensors with 1s in front up to one rank."""
    rank = len(source_sizes)
    meant = source_sizes[rank - input_dimension_count :]
    *places, tuple_size = indices_sizes[rank - indices_dimension_count :]
    block = meant[batch_dimension_count + tuple_size :]
    result = {}
    for place in coordinates(places):
        found = tuple(indices[_padded((*place, k), rank)] for k in range(tuple_size))
        chosen = []
        for k, index in enumerate(found):
            dimension = batch_dimension_count + k
            element = _element(index, meant[dimension], clamp)
            if element is None:
                raise OutsideError(place, found, dimension, meant[dimension])
            chosen.append(element)
        batch = place[:batch_dimension_count]
        for rest in coordinates(block):
            result[_padded((*place, *rest), rank)] = source[_padded((*batch, *chosen, *rest), rank)]
    return result


def _padded(coordinate: Coordinate, rank: int) -> Coordinate:
    return (0,) * (rank - len(coordinate)) + coordinate


def _element(index: int, size: int, clamp: bool) -> int | None:
    if index < 0:
        index += size
    if clamp:
        return 0 if index < 0 else size - 1 if index >= size else index
    return index if 0 <= index < size else None


# CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT


class Apart:
    """A float whose exponent has no bounds, so that no product leaves its range on the way."""

    def __init__(self, value: float, exponent: int = 0) -> None:
        self.fraction, more = math.frexp(value)
        self.exponent = exponent + more

    def __mul__(self, other: Apart) -> Apart:
        return Apart(self.fraction * other.fraction, self.exponent + other.exponent)

    def __float__(self) -> float:
        try:
            return math.ldexp(self.fraction, self.exponent)
        except OverflowError:
            return math.copysign(math.inf, self.fraction)


def cumulative(
    source: Mapping[Coordinate, float],
    sizes: Sequence[int],
    axis: int,
    function: Function,
    data_type: str,
    *,
    decreasing: bool = False,
    exclusive: bool = False,
    number: Callable[[float], Any] = float,
) -> dict[Coordinate, float]:
    """The running tally along an axis; the tally of no element is 0 or 1, that of one element is the element.

    `number` is what floats are tallied as.
    """
    result: dict[Coordinate, float] = {}
    for line in coordinates([1 if i == axis else size for i, size in enumerate(sizes)]):
        tally: Any = None
        for i in reversed(range(sizes[axis])) if decreasing else range(sizes[axis]):
            here = (*line[:axis], i, *line[axis + 1 :])
            before = tally
            value = number(source[here]) if data_type in _FLOATS else source[here]
            tally = value if tally is None else _step(tally, value, function, data_type)
            written = before if exclusive else tally
            if written is None:
                written = 0 if function == "sum" else 1
            result[here] = written_as(written, data_type)
    return result


def _step(tally: Any, value: Any, function: Function, data_type: str) -> Any:
    total: Any = tally + value if function == "sum" else tally * value
    return wrapped(total, data_type) if isinstance(total, int) else total


def written_as(value: float, data_type: str) -> float:
    """A tally as its type stores it."""
    return rounded(float(value), data_type) if data_type in _FLOATS else wrapped(int(value), data_type)


def wrapped(value: int, data_type: str) -> int:
    """Two's complement in the width of a type such as INT32."""
    kind, width = ("INT", data_type[3:]) if data_type.startswith("INT") else ("UINT", data_type[4:])
    bits = int(width)
    value %= 2**bits
    return value - 2**bits if kind == "INT" and value >= 2 ** (bits - 1) else value


def rounded(value: float, data_type: str) -> float:
    """The nearest number of a float type, infinity above its largest."""
    letter = _FLOATS.get(data_type, "d")
    try:
        number: float = struct.unpack(letter, struct.pack(letter, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return number


def exact_float16_sums(values: Sequence[float], *, decreasing: bool = False, exclusive: bool = False) -> list[float]:
    """The running sum of finite FLOAT16 numbers without any error, each rounded once to FLOAT16."""
    total, are_negative_zeros, sums = Fraction(0), False, []
    for i, value in enumerate(reversed(values) if decreasing else values):
        before = -0.0 if are_negative_zeros else float16_of(total)
        total += Fraction(value)
        # A sum of nothing but -0.0 is -0.0; every other sum that is zero is +0.0.
        are_negative_zeros = (i == 0 or are_negative_zeros) and value == 0 and math.copysign(1, value) < 0
        after = -0.0 if are_negative_zeros else float16_of(total)
        sums.append(before if exclusive else after)
    return sums[::-1] if decreasing else sums


def float16_of(number: Fraction) -> float:
    """The FLOAT16 nearest to a number, the even one of two; 65504 is the largest, 2^-24 the smallest step."""
    units = number * 2**24
    step = 2 ** max(int(abs(units)).bit_length() - 11, 0)
    nearest = Fraction(round(units / step) * step, 2**24)  # of a Fraction, round() takes the even one of two
    return math.copysign(math.inf, nearest) if abs(nearest) > 65504 else float(nearest)
