"""What random descriptions are drawn from: tensors of every layout, values for them, and ways to run them."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml.operators.schema.records import Computed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array: TypeAlias = np.ndarray[Any, Any]
Operator: TypeAlias = type[dml.OperatorDesc]
T = TypeVar("T")

OPERATORS: tuple[Operator, ...] = tuple(
    cls for cls in dml.OPERATORS.values() if not issubclass(cls, Computed) or cls is dml.Cast
)
"""Those that move elements, each with tests of its own; the operators that compute share theirs."""
DOORS = ("bind", "call", "table")
UINT32_MAX = 2**32 - 1
SEEDS = st.integers(0, UINT32_MAX)
STYLES = ("small", "normal", "wild", "special", "zeros")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to be described."""

    data_type: dml.DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    is_owned: bool = False
    spare: int = 0
    """Bytes of TotalTensorSizeInBytes beyond the least."""
    alignment: int = 0

    @property
    def element_strides(self) -> tuple[int, ...]:
        return packed(self.sizes) if self.strides is None else self.strides

    @property
    def places(self) -> list[int]:
        """Where the elements lie, in elements from the first, in the coordinates' order."""
        return places(self.sizes, self.element_strides)

    @property
    def extent(self) -> int:
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.element_strides, strict=True))

    @property
    def total_bytes(self) -> int:
        return -(-self.extent * self.data_type.size_in_bytes // 4) * 4 + self.spare

    def arguments(self) -> dict[str, Any]:
        """What TensorDesc takes."""
        values: dict[str, Any] = {"data_type": self.data_type, "sizes": self.sizes, "strides": self.strides}
        values["flags"] = dml.TensorFlags.OWNED_BY_DML if self.is_owned else dml.TensorFlags.NONE
        values["total_tensor_size_in_bytes"] = self.total_bytes if self.spare else None
        values["guaranteed_base_offset_alignment"] = self.alignment
        values["signed_strides"] = False
        return values


def packed(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, the last dimension contiguous."""
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def places(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Where the elements of a layout lie."""
    found = [0]
    for size, stride in zip(sizes, strides, strict=True):
        found = [place + i * stride for place in found for i in range(size)]
    return found


# Values


@functools.cache
def special_values(data_type: dml.DataType) -> Array:
    """The values at which arithmetic is most often wrong."""
    dtype = data_type.dtype
    if data_type.is_float:
        info = np.finfo(dtype)
        tiny = [info.smallest_subnormal, -info.smallest_subnormal, info.smallest_normal, info.eps]
        return np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, info.max, info.min, *tiny], dtype)
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, limits.max, limits.max - 1, limits.max // 2 + 1, limits.min], dtype)


@functools.cache
def hard_values(data_type: dml.DataType) -> Array:
    """The numbers at which conversions are most often wrong: ties, ends of ranges, and what lies just beyond."""
    ends = [2**bits for bits in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)]
    whole = [sign * (end + more) for end in (*ends, 65504, 65520) for more in (-1, 0, 1, 3) for sign in (1, -1)]
    dtype = data_type.dtype
    if not data_type.is_float:
        limits = np.iinfo(dtype)
        return np.array([number for number in whole if limits.min <= number <= limits.max], dtype)
    halves = [number + half for number in (0, 1, 2, -1, -2, 127, -129, 255, 32767) for half in (0.5, -0.5)]
    with np.errstate(over="ignore"):
        found = np.array([*map(float, whole), *halves, 0.1, 1e-8, 3.5e38, 2.0**-25, 3 * 2.0**-25], dtype)
        return np.concatenate([found, np.nextafter(found, dtype.type(0)), special_values(data_type)])


def in_a_line(rng: np.random.Generator, count: int, low: int, high: int) -> Array:
    """Numbers of low .. high - 1 that are all the same distance apart."""
    step = int(rng.integers(-1, 1, endpoint=True)) * ((high - 1 - low) // max(count - 1, 1))
    reach = step * (count - 1)
    first = int(rng.integers(low - min(reach, 0), high - max(reach, 0)))
    return np.asarray(first + step * np.arange(count))


def random_values(data_type: dml.DataType, count: int, style: str, seed: int) -> Array:
    """Fill a tensor's memory."""
    rng, dtype = np.random.default_rng(seed), data_type.dtype
    if style == "wild":
        bits = np.frombuffer(rng.bytes(count * dtype.itemsize), f"u{dtype.itemsize}").copy()
        if data_type.is_float:  # NaNs of every kind are rare among random bits
            bits[::4] |= np.array(np.inf, dtype).view(bits.dtype)
        return bits.view(dtype)
    if style in ("special", "zeros", "hard"):
        chosen = hard_values(data_type) if style == "hard" else special_values(data_type)
        chosen = chosen[: 2 if style == "zeros" else None]
        return chosen[rng.integers(0, len(chosen), count)]
    if style == "normal" and data_type.is_float:
        return (rng.standard_normal(count) * 3).astype(dtype)
    return rng.integers(-9 if data_type.is_float or data_type.is_signed else 0, 10, count).astype(dtype)


# Drawing


@functools.cache
def upto(most: int) -> st.SearchStrategy[int]:
    """Whole numbers from 0, as a strategy that is made once: making one takes longer than drawing from it."""
    return st.integers(0, most)


def pick(draw: st.DrawFn, choices: Sequence[T]) -> T:
    """One of these, the first as the simplest."""
    return choices[draw(upto(len(choices) - 1))] if len(choices) > 1 else choices[0]


# Layouts


def draw_sizes(draw: st.DrawFn, count: int, most_elements: int) -> tuple[int, ...]:
    """Sizes of a product within bounds; which dimension gets most of it is drawn too."""
    sizes, left = [1] * count, most_elements
    first = pick(draw, range(count))
    for i in range(count):
        if left == 1:
            break
        sizes[first - i] = 1 + draw(upto(min(left, 12 if count < 3 else 4) - 1))
        left //= sizes[first - i]
    return tuple(sizes)


def draw_strides(draw: st.DrawFn, sizes: Sequence[int], *, is_output: bool) -> tuple[int, ...] | None:
    """Draw a layout: packed, of any order and with gaps, with repeated elements, or of any strides at all."""
    kind = pick(draw, ("packed", "nested", "nested", "repeated", "any"))
    if kind == "packed":
        return None
    if kind == "any":
        strides = digits(draw(upto(12 ** len(sizes) - 1)), 12, len(sizes))
        found = places(sizes, strides)
        return tuple(strides) if not is_output or len(set(found)) == len(found) else None
    strides = nested(draw, sizes)
    if kind == "repeated":
        # An output has no repeated elements; but the stride of a single element means nothing, so it may be any.
        mask = digits(draw(upto(3 ** len(sizes) - 1)), 3, len(sizes))
        strides = [
            stride if not change or (is_output and size > 1) else UINT32_MAX if size == 1 and change == 2 else 0
            for size, stride, change in zip(sizes, strides, mask, strict=True)
        ]
    return tuple(strides)


def nested(draw: st.DrawFn, sizes: Sequence[int]) -> list[int]:
    left = list(range(len(sizes)))
    order = draw(upto(math.factorial(len(sizes)) - 1))
    gaps = draw(upto(3 ** len(sizes) - 1))
    strides, next_stride = [0] * len(sizes), 1
    while left:
        order, which = divmod(order, len(left))
        gaps, gap = divmod(gaps, 3)
        dimension = left.pop(-1 - which)
        strides[dimension] = next_stride + gap
        next_stride = strides[dimension] * sizes[dimension]
    return strides


def digits(number: int, base: int, count: int) -> list[int]:
    return [number // base**i % base for i in range(count)]


def draw_tensor(draw: st.DrawFn, data_type: dml.DataType, sizes: tuple[int, ...], *, is_output: bool = False) -> Tensor:
    """Lay a tensor of these sizes out."""
    strides = draw_strides(draw, sizes, is_output=is_output)
    extra = draw(upto(7))
    is_owned = extra == 5 and not is_output
    return Tensor(data_type, sizes, strides, is_owned, spare=12 if extra == 6 else 0, alignment=16 if extra == 7 else 0)


# Windows of a slice


def draw_window(draw: st.DrawFn, input_sizes: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The sizes of what is sliced, and the attributes."""
    offsets, sizes, strides, output_sizes = [], [], [], []
    for limit in input_sizes:
        output_size = limit - pick(draw, range(limit))
        offset, size, stride = pick(draw, _windows(limit, output_size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
        output_sizes.append(output_size)
    window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
    return tuple(output_sizes), window


@functools.cache
def _windows(limit: int, size: int) -> tuple[tuple[int, int, int], ...]:
    """Every (offset, window size, stride) that lets `size` elements or more be copied out of `limit`."""
    strides = range(1, (limit - 1) // (size - 1) + 1) if size > 1 else (1, 2, limit + 1, 2**31 - 1)
    return tuple(
        (offset, window, -(2**31) if sign * stride == 1 - 2**31 else sign * stride)
        for stride in strides
        for window in range(1 + (size - 1) * stride, limit + 1)
        for offset in range(limit - window + 1)
        for sign in (1, -1)
    )


# Cases


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A valid description with its data, and a way to run it."""

    cls: Operator
    level: dml.FeatureLevel
    tensors: dict[str, Tensor]
    """By slot, inputs first, in binding order; one of several is `input_tensors[0]`."""
    attributes: dict[str, Any]
    contents: dict[str, Array]
    """Of each input, `extent` elements, the gaps between the tensor's own included."""
    door: str = "bind"
    is_in_place: bool = False
    shift: int = 0
    """Bytes by which arrays are moved off an aligned address."""

    @property
    def outputs(self) -> list[str]:
        """The slots that are written."""
        return [name for name in self.tensors if name not in self.contents]

    def description(self) -> dml.OperatorDesc:
        tensors = {name: dml.TensorDesc(**tensor.arguments()) for name, tensor in self.tensors.items()}
        return describe(self.cls, {**tensors, **self.attributes})


def describe(cls: Operator, fields: dict[str, Any]) -> dml.OperatorDesc:
    """Make a description of any operator from its fields, those of several tensors slot by slot."""
    make: Callable[..., dml.OperatorDesc] = cls
    found: dict[str, Any] = {}
    for slot, value in fields.items():
        name, is_one_of_several, _ = slot.partition("[")
        found[name] = (*found.get(name, ()), value) if is_one_of_several else value
    return make(**found)


def slots(name: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """Several tensors by their slots."""
    return {f"{name}[{i}]": tensor for i, tensor in enumerate(tensors)}


def _choices(cls: Operator, level: dml.FeatureLevel, tensor: str) -> tuple[list[dml.DataType], list[int]] | None:
    row = dml.support(cls, level)
    if row is None:
        return None
    allowed = next(iter(row.tensors.values())) if tensor == "data" else row.tensors.get(tensor)
    return None if allowed is None else (sorted(allowed.data_types), sorted(allowed.dimension_counts))


# The types and dimension counts of an operator's tensor at a level, `data` being the first; the highest level first, as
# the simplest.
CHOICES = {
    (cls, tensor): {level: found for level in reversed(dml.FeatureLevel) if (found := _choices(cls, level, tensor))}
    for cls in OPERATORS
    for tensor in ("data", "IndicesTensor", "SequenceLengthsTensor")
}


def make_case(
    draw: st.DrawFn,
    cls: Operator,
    level: dml.FeatureLevel,
    tensors: dict[str, Tensor],
    attributes: dict[str, Any],
    *,
    contents: dict[str, Array] | None = None,
    is_in_place: bool = False,
    styles: Sequence[str] = STYLES,
) -> Case:
    """Fill the inputs whose contents are not given, and choose a door."""
    style, given = pick(draw, styles), contents or {}
    filled = {
        name: given[name] if name in given else random_values(tensor.data_type, tensor.extent, style, draw(SEEDS))
        for name, tensor in tensors.items()
        if name.partition("[")[0] not in cls.output_names()
    }
    door = pick(draw, ("bind", "table") if is_in_place else DOORS)
    is_movable = door == "bind" and not any(tensor.alignment for tensor in tensors.values())
    shift = pick(draw, (0, 8, 1)) if is_movable else 0
    return Case(cls, level, tensors, attributes, filled, door, is_in_place, shift)


def make_indices(tensor: Tensor, indexed: Sequence[int], seed: int, *, is_outside: bool) -> Array:
    """Fill the memory of an indices tensor: an element that several coordinates share must suit all of them."""
    limits = [10**9] * tensor.extent
    for i, place in enumerate(tensor.places):
        limits[place] = min(limits[place], indexed[i % len(indexed)])
    chance = random.Random(seed)  # noqa: S311 - test data
    signed = tensor.data_type.is_signed
    info = np.iinfo(tensor.data_type.dtype)
    found = []
    for limit in limits:
        index = chance.randrange(-limit if signed else 0, limit)
        if is_outside and chance.random() < 0.3:
            index = chance.choice((limit, -limit - 1, info.min, info.max, info.max - 1, info.max // 2 + 1, 2**32))
            index = min(max(index, int(info.min)), int(info.max))
        found.append(index)
    return np.array(found, tensor.data_type.dtype)


Maker: TypeAlias = "Callable[[st.DrawFn, Operator, dml.FeatureLevel, dml.DataType, int], Case]"
