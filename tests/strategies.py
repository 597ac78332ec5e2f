"""Random descriptions with data for them: valid ones of every operator, level, type and layout."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from hypothesis import strategies as st

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array: TypeAlias = np.ndarray[Any, Any]
Operator: TypeAlias = type[dml.OperatorDesc]
T = TypeVar("T")

OPERATORS: tuple[Operator, ...] = tuple(dml.OPERATORS.values())
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


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A valid description with its data, and a way to run it."""

    cls: Operator
    level: dml.FeatureLevel
    tensors: dict[str, Tensor]
    """By field, inputs first, in binding order."""
    attributes: dict[str, Any]
    contents: dict[str, Array]
    """Of each input, `extent` elements, the gaps between the tensor's own included."""
    door: str = "bind"
    is_in_place: bool = False
    shift: int = 0
    """Bytes by which arrays are moved off an aligned address."""

    def description(self) -> dml.OperatorDesc:
        tensors = {name: dml.TensorDesc(**tensor.arguments()) for name, tensor in self.tensors.items()}
        return describe(self.cls, {**tensors, **self.attributes})


def describe(cls: Operator, fields: dict[str, Any]) -> dml.OperatorDesc:
    """Make a description of any operator from its fields."""
    make: Callable[..., dml.OperatorDesc] = cls
    return make(**fields)


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


def random_values(data_type: dml.DataType, count: int, style: str, seed: int) -> Array:
    """Fill a tensor's memory."""
    rng, dtype = np.random.default_rng(seed), data_type.dtype
    if style == "wild":
        bits = np.frombuffer(rng.bytes(count * dtype.itemsize), f"u{dtype.itemsize}").copy()
        if data_type.is_float:  # NaNs of every kind are rare among random bits
            bits[::4] |= np.array(np.inf, dtype).view(bits.dtype)
        return bits.view(dtype)
    if style in ("special", "zeros"):
        chosen = special_values(data_type)[: 2 if style == "zeros" else None]
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
        strides = _digits(draw(upto(12 ** len(sizes) - 1)), 12, len(sizes))
        found = places(sizes, strides)
        return tuple(strides) if not is_output or len(set(found)) == len(found) else None
    strides = _nested(draw, sizes)
    if kind == "repeated":
        # An output has no repeated elements; but the stride of a single element means nothing, so it may be any.
        mask = _digits(draw(upto(3 ** len(sizes) - 1)), 3, len(sizes))
        strides = [
            stride if not change or (is_output and size > 1) else UINT32_MAX if size == 1 and change == 2 else 0
            for size, stride, change in zip(sizes, strides, mask, strict=True)
        ]
    return tuple(strides)


def _nested(draw: st.DrawFn, sizes: Sequence[int]) -> list[int]:
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


def _digits(number: int, base: int, count: int) -> list[int]:
    return [number // base**i % base for i in range(count)]


def draw_tensor(draw: st.DrawFn, data_type: dml.DataType, sizes: tuple[int, ...], *, is_output: bool = False) -> Tensor:
    """Lay a tensor of these sizes out."""
    strides = draw_strides(draw, sizes, is_output=is_output)
    extra = draw(upto(7))
    is_owned = extra == 5 and not is_output
    return Tensor(data_type, sizes, strides, is_owned, spare=12 if extra == 6 else 0, alignment=16 if extra == 7 else 0)


# Valid descriptions


def _choices(cls: Operator, level: dml.FeatureLevel, tensor: str) -> tuple[list[dml.DataType], list[int]] | None:
    row = dml.support(cls, level)
    if row is None or tensor not in row.tensors:
        return None
    return sorted(row.tensors[tensor].data_types), sorted(row.tensors[tensor].dimension_counts)


# The types and dimension counts of an operator's tensor at a level; the highest level first, as the simplest.
CHOICES = {
    (cls, tensor): {level: found for level in reversed(dml.FeatureLevel) if (found := _choices(cls, level, tensor))}
    for cls in OPERATORS
    for tensor in ("InputTensor", "IndicesTensor")
}


@st.composite
def cases(draw: st.DrawFn, cls: Operator) -> Case:
    """A valid description of an operator, with data."""
    levels = CHOICES[cls, "InputTensor"]
    level = pick(draw, tuple(levels))
    data_types, counts = levels[level]
    data_type, count = pick(draw, data_types), pick(draw, counts)
    return _MAKERS[cls](draw, cls, level, data_type, count)


def _case(
    draw: st.DrawFn,
    cls: Operator,
    level: dml.FeatureLevel,
    tensors: dict[str, Tensor],
    attributes: dict[str, Any],
    *,
    indices: Array | None = None,
    is_in_place: bool = False,
) -> Case:
    source = tensors["input_tensor"]
    style = pick(draw, STYLES)
    contents = {"input_tensor": random_values(source.data_type, source.extent, style, draw(SEEDS))}
    if indices is not None:
        contents["indices_tensor"] = indices
    door = pick(draw, ("bind", "table") if is_in_place else DOORS)
    is_movable = door == "bind" and not any(tensor.alignment for tensor in tensors.values())
    shift = pick(draw, (0, 8, 1)) if is_movable else 0
    return Case(cls, level, tensors, attributes, contents, door, is_in_place, shift)


def _slice(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    offsets, sizes, strides = [], [], []
    for limit in input_sizes:
        size = limit - pick(draw, range(limit))
        offset, stride = pick(draw, _steps(limit, size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, tuple(sizes), is_output=True),
    }
    return _case(draw, cls, level, tensors, {"offsets": offsets, "sizes": sizes, "strides": strides})


def _slice1(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    offsets, sizes, strides, output_sizes = [], [], [], []
    for limit in input_sizes:
        output_size = limit - pick(draw, range(limit))
        offset, size, stride = pick(draw, _windows(limit, output_size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
        output_sizes.append(output_size)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, tuple(output_sizes), is_output=True),
    }
    window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
    return _case(draw, cls, level, tensors, window)


@functools.cache
def _steps(limit: int, size: int) -> tuple[tuple[int, int], ...]:
    """Every (offset, stride) that copies `size` elements out of `limit`; one element takes a stride of any length."""
    strides = range(1, (limit - 1) // (size - 1) + 1) if size > 1 else (1, limit + 1, UINT32_MAX)
    return tuple((offset, stride) for stride in strides for offset in range(limit - (size - 1) * stride))


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


def _gather(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_count = count - pick(draw, range(count))
    batch_count = min(pick(draw, (1, 0, 2, 3)), input_count - 1) if cls is dml.GatherND1 else 0
    tuple_size = 1 + draw(upto(input_count - batch_count - 1))
    rest_count = input_count - batch_count - tuple_size
    # The result has indices_count - 1 + rest_count dimensions, which must find room in count.
    indices_count = min(count, count + 1 - rest_count)
    indices_count -= draw(upto(indices_count - batch_count - 1))
    batch, rest, tuples, indexed = (
        draw_sizes(draw, n, most) if n else ()
        for n, most in ((batch_count, 6), (rest_count, 4), (indices_count - 1 - batch_count, 8), (tuple_size, 12))
    )
    index_types, _ = CHOICES[cls, "IndicesTensor"][level]
    sizes = {
        "input_tensor": batch + indexed + rest,
        "indices_tensor": (*batch, *tuples, tuple_size),
        "output_tensor": batch + tuples + rest,
    }
    full = {name: (1,) * (count - len(own)) + own for name, own in sizes.items()}
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, full["input_tensor"]),
        "indices_tensor": draw_tensor(draw, pick(draw, index_types), full["indices_tensor"]),
        "output_tensor": draw_tensor(draw, data_type, full["output_tensor"], is_output=True),
    }
    mode = pick(draw, tuple(dml.IndexMode))
    is_outside = draw(upto(7)) > 5 if mode is dml.IndexMode.RAISE else draw(upto(7)) < 6
    attributes: dict[str, Any] = {"input_dimension_count": input_count, "indices_dimension_count": indices_count}
    if cls is dml.GatherND1:
        attributes["batch_dimension_count"] = batch_count
    attributes["index_mode"] = mode
    indices = _indices(tensors["indices_tensor"], indexed, draw(SEEDS), is_outside=is_outside)
    return _case(draw, cls, level, tensors, attributes, indices=indices)


def _indices(tensor: Tensor, indexed: Sequence[int], seed: int, *, is_outside: bool) -> Array:
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


def _cumulative(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = draw_sizes(draw, count, 64)
    output = draw_tensor(draw, data_type, sizes, is_output=True)
    is_in_place = pick(draw, (False, True))
    tensors = {
        "input_tensor": output if is_in_place else draw_tensor(draw, data_type, sizes),
        "output_tensor": output,
    }
    axis = draw(upto(2 * count))  # an axis of size 1 has no tally to speak of: the longest is taken often
    exclusive = "has_exclusive_sum" if cls is dml.CumulativeSummation else "has_exclusive_product"
    attributes = {
        "axis": axis if axis < count else sizes.index(max(sizes)),
        "axis_direction": pick(draw, tuple(dml.AxisDirection)),
        exclusive: pick(draw, (False, True)),
    }
    return _case(draw, cls, level, tensors, attributes, is_in_place=is_in_place)


_MAKERS: dict[Operator, Callable[[st.DrawFn, Operator, dml.FeatureLevel, dml.DataType, int], Case]] = {
    dml.Slice: _slice,
    dml.Slice1: _slice1,
    dml.GatherND: _gather,
    dml.GatherND1: _gather,
    dml.CumulativeSummation: _cumulative,
    dml.CumulativeProduct: _cumulative,
}
