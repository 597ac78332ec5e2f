"""The operators that move and convert data, likewise: gathers along an axis, casts, joins, fills and reversals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from oracle import Coordinate, OutsideError, _element, _padded, coordinates, rounded, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

V = TypeVar("V")
# The binary digits of a float type, and the largest number that it has.
LARGEST = {"FLOAT16": (11, 65504), "FLOAT32": (24, 2**128 - 2**104), "FLOAT64": (53, 2**1024 - 2**971)}


# GATHER and GATHER_ELEMENTS


def gather(
    source: Mapping[Coordinate, V],
    sizes: Sequence[int],
    indices: Mapping[Coordinate, int],
    indices_sizes: Sequence[int],
    axis: int,
    index_dimensions: int,
    *,
    clamp: bool = False,
) -> dict[Coordinate, V]:
    """output[before, place, after] = input[before, indices[place], after], the output's leading 1s added or cut off."""
    rank, result = len(sizes), {}
    for before in coordinates(sizes[:axis]):
        for place in coordinates(indices_sizes[rank - index_dimensions :]):
            index = indices[_padded(place, rank)]
            chosen = _element(index, sizes[axis], clamp)
            if chosen is None:
                raise OutsideError(place, (index,), axis, sizes[axis])
            for after in coordinates(sizes[axis + 1 :]):
                target = _padded((*before, *place, *after), rank)
                assert not any(target[:-rank])
                result[target[-rank:]] = source[(*before, chosen, *after)]
    return result


def gather_elements(
    source: Mapping[Coordinate, V],
    sizes: Sequence[int],
    indices: Mapping[Coordinate, int],
    indices_sizes: Sequence[int],
    axis: int,
    *,
    clamp: bool = False,
) -> dict[Coordinate, V]:
    """output[..., i, ...] = input[..., indices[..., i, ...], ...], line by line along the axis."""
    result = {}
    for line in coordinates(_with(indices_sizes, axis, 1)):
        for i in range(indices_sizes[axis]):
            here = _with(line, axis, i)
            chosen = _element(indices[here], sizes[axis], clamp)
            if chosen is None:
                raise OutsideError(here, (indices[here],), axis, sizes[axis])
            result[here] = source[_with(line, axis, chosen)]
    return result


def _with(values: Sequence[int], position: int, value: int) -> Coordinate:
    return (*values[:position], value, *values[position + 1 :])


# ELEMENT_WISE_IDENTITY and CAST


def scaled(source: Mapping[Coordinate, float], scale: float, bias: float, data_type: str) -> dict[Coordinate, float]:
    """output = input * scale + bias in float64, as numbers of the type; nothing is computed with 1 and 0."""
    if scale == 1 and bias == 0:
        return dict(source)
    scale, bias = rounded(scale, "FLOAT32"), rounded(bias, "FLOAT32")
    return {at: converted(float(number) * scale + bias, data_type) for at, number in source.items()}


def cast(source: Mapping[Coordinate, float], data_type: str) -> dict[Coordinate, float]:
    """Every number as another type has it."""
    return {at: converted(number, data_type) for at, number in source.items()}


def converted(number: float, data_type: str) -> float:
    """A whole number is an int here, and any other a float."""
    if data_type.startswith("FLOAT"):
        return nearest(number, data_type) if isinstance(number, int) else rounded(number, data_type)
    if isinstance(number, int):
        return wrapped(number, data_type)
    if math.isnan(number):
        return 0
    bits, is_signed = int(data_type.lstrip("UINT")), data_type.startswith("INT")
    most: int = 2 ** (bits - 1 if is_signed else bits) - 1
    low, high = -most - 1 if is_signed else 0, most
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(math.trunc(number), low), high)


def nearest(number: int, data_type: str) -> float:
    """The float nearest to a whole number, the even one of two, infinity past the largest."""
    digits, largest = LARGEST[data_type]
    step = 2 ** max(abs(number).bit_length() - digits, 0)
    found = round(Fraction(number, step)) * step  # of a Fraction, round() takes the even one of two
    return float(found) if abs(found) <= largest else math.inf if number > 0 else -math.inf


# JOIN and SPLIT


def join(sources: Sequence[Mapping[Coordinate, V]], lengths: Sequence[int], axis: int) -> dict[Coordinate, V]:
    """One after the other along the axis."""
    result: dict[Coordinate, V] = {}
    start = 0
    for source, length in zip(sources, lengths, strict=True):
        result |= {_with(at, axis, at[axis] + start): value for at, value in source.items()}
        start += length
    return result


def split(source: Mapping[Coordinate, V], lengths: Sequence[int], axis: int) -> list[dict[Coordinate, V]]:
    """Parts of these lengths along the axis."""
    results, start = [], 0
    for length in lengths:
        part = {at: value for at, value in source.items() if start <= at[axis] < start + length}
        results.append({_with(at, axis, at[axis] - start): value for at, value in part.items()})
        start += length
    return results


# FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE


def fill(sizes: Sequence[int], start: float, delta: float, data_type: str) -> dict[Coordinate, float]:
    """output[n] = start + n * delta, where n counts the elements; a delta of 0 leaves the start as it is."""
    start, delta = (_stored(number, data_type) for number in (start, delta))
    return {at: _counted(start, delta, n, data_type) for n, at in enumerate(coordinates(sizes))}


def _stored(number: float, data_type: str) -> float:
    """A number of a description: integers are left to wrap, others take the nearest float of the type."""
    if not data_type.startswith("FLOAT"):
        return int(number)
    return nearest(number, data_type) if isinstance(number, int) else rounded(number, data_type)


def _counted(start: float, delta: float, n: int, data_type: str) -> float:
    if delta == 0:
        return converted(start, data_type)
    return converted(start + n * delta, data_type)


# REVERSE_SUBSEQUENCES


def reverse_subsequences(
    source: Mapping[Coordinate, V], sizes: Sequence[int], lengths: Mapping[Coordinate, int], axis: int
) -> dict[Coordinate, V]:
    """The first so many elements of each line along the axis turned round, the rest as they are."""
    result = {}
    for at in coordinates(sizes):
        length = min(lengths[_with(at, axis, 0)], sizes[axis])
        i = at[axis]
        result[at] = source[_with(at, axis, length - 1 - i if i < length else i)]
    return result
