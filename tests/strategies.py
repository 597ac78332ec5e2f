"""Random descriptions with data for them: valid ones of every operator, level, type and layout, and broken ones."""

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


# Broken descriptions


class Arguments(dict[str, Any]):
    """What TensorDesc is to be called with."""


@dataclass(slots=True)
class Spec:
    """A description before anything of it is checked, to be broken."""

    cls: Operator
    level: Any
    tensors: dict[str, Any]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, case: Case) -> Spec:
        tensors = {name: Arguments(tensor.arguments()) for name, tensor in case.tensors.items()}
        return cls(case.cls, case.level, tensors, dict(case.attributes))

    def create(self) -> dml.Operator:
        """Describe everything, and create the operator on a device."""
        tensors = {
            name: dml.TensorDesc(**tensor) if isinstance(tensor, Arguments) else tensor
            for name, tensor in self.tensors.items()
        }
        desc = describe(self.cls, {**tensors, **self.attributes})
        return dml.Device(feature_level=self.level).create_operator(desc)

    def tensor(self, name: str) -> Arguments:
        """A tensor's arguments, made up anew where an earlier breakage put something else in their place."""
        if not isinstance(self.tensors[name], Arguments):
            self.tensors[name] = Arguments(data_type="float32", sizes=(1, 1, 2, 2), strides=None)
        arguments: Arguments = self.tensors[name]
        if not _are_sizes(arguments["sizes"]):
            arguments["sizes"] = (1, 1, 2, 2)
        return arguments

    def number(self, name: str, position: int | None = None, otherwise: int = 1) -> int:
        """An attribute, or an element of one that is a list; another number where an earlier breakage took it away."""
        value = self.attributes.get(name)
        if position is not None:
            value = value[position] if isinstance(value, list) and position < len(value) else None
        return value if type(value) is int and abs(value) < 2**40 else otherwise

    def lists(self) -> list[str]:
        """The attributes that are lists with something in them."""
        return [name for name, value in self.attributes.items() if isinstance(value, list) and value]


def _are_sizes(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(size) is int for size in value)


class Hostile:
    """An object that answers no question without an error."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    __index__ = __len__ = __iter__ = __repr__ = __str__ = __bool__ = __getitem__ = __float__ = _refuse


# What is no number of any field, no list and no tensor.
NO_NUMBERS: tuple[Any, ...] = (
    None,
    "",
    "two",
    b"2",
    1.5,
    math.nan,
    -math.inf,
    10**6000,
    -(10**6000),
    2**64,
    2j,
    [[1]],
    [[[1, 2], [3]]],
    {},
    {1: 2},
    {3},
    object(),
    Hostile(),
    int,
    np.float32(2),
    np.ones((2, 2)),
    np.array([1, None]),
)
NO_LEVELS: tuple[Any, ...] = (
    "",
    "9_9",
    "LEVEL",
    -1,
    7,
    10**6000,
    5.0,
    math.nan,
    [],
    {},
    object(),
    Hostile(),
    "5_0\n6_0",
)
NO_TYPES: tuple[Any, ...] = (
    None,
    "",
    "float99",
    "bool",
    "complex64",
    99,
    -1,
    10**6000,
    math.nan,
    [1],
    {},
    Hostile(),
    "O",
)
# What some field may well take, and others not.
JUNK: tuple[Any, ...] = (
    *NO_NUMBERS,
    0,
    1,
    2,
    5,
    -1,
    -2,
    2**31,
    UINT32_MAX,
    2**32,
    True,
    False,
    (),
    [],
    [1],
    (0,),
    [True],
)
JUNK = (*JUNK, np.int64(3), np.array([1, 2]), range(4), "float16", "decreasing", "clamp", "OWNED_BY_DML", [1] * 100)

Breakage: TypeAlias = "Callable[[Spec, random.Random], None]"
ALWAYS_WRONG: dict[str, tuple[tuple[Operator, ...], Breakage]] = {}
"""Breakages that leave no description valid: the operators concerned, and what to do to a description."""


def always_wrong(*operators: Operator) -> Callable[[Breakage], Breakage]:
    """Enter a breakage in the list, by the name of its function."""

    def enter(breakage: Breakage) -> Breakage:
        ALWAYS_WRONG[breakage.__name__.strip("_").replace("_", " ")] = (operators or OPERATORS, breakage)
        return breakage

    return enter


SLICES: tuple[Operator, ...] = (dml.Slice, dml.Slice1)
GATHERS: tuple[Operator, ...] = (dml.GatherND, dml.GatherND1)
TALLIES: tuple[Operator, ...] = (dml.CumulativeSummation, dml.CumulativeProduct)


def _with(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    changed = list(values)
    changed[position] = value
    return tuple(changed)


def _any_tensor(spec: Spec, chance: random.Random) -> Arguments:
    return spec.tensor(chance.choice(list(spec.tensors)))


def _replace_size(spec: Spec, chance: random.Random, value: Any) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["sizes"] = _with(tensor["sizes"], chance.randrange(len(tensor["sizes"])), value)


@always_wrong()
def _no_tensor(spec: Spec, chance: random.Random) -> None:
    spec.tensors[chance.choice(list(spec.tensors))] = chance.choice(NO_NUMBERS)


@always_wrong()
def _zero_size(spec: Spec, chance: random.Random) -> None:
    _replace_size(spec, chance, 0)


@always_wrong()
def _negative_size(spec: Spec, chance: random.Random) -> None:
    _replace_size(spec, chance, -chance.randrange(1, 9))


@always_wrong()
def _size_that_is_none(spec: Spec, chance: random.Random) -> None:
    _replace_size(spec, chance, chance.choice(NO_NUMBERS))


@always_wrong()
def _sizes_that_are_none(spec: Spec, chance: random.Random) -> None:
    _any_tensor(spec, chance)["sizes"] = chance.choice(NO_NUMBERS)


@always_wrong()
def _too_many_dimensions(spec: Spec, chance: random.Random) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["sizes"] = (1,) * (9 - len(tensor["sizes"])) + tuple(tensor["sizes"])


@always_wrong()
def _too_many_elements(spec: Spec, chance: random.Random) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["sizes"] = (UINT32_MAX,) * max(len(tensor["sizes"]), 2)


@always_wrong()
def _another_dimension_count(spec: Spec, chance: random.Random) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["sizes"] = tensor["sizes"][1:] or (1, *tensor["sizes"])
    tensor["strides"] = None


@always_wrong()
def _strides_of_another_length(spec: Spec, chance: random.Random) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["strides"] = (1,) * (len(tensor["sizes"]) + chance.choice((-1, 1)))


def _replace_stride(spec: Spec, chance: random.Random, value: Any) -> None:
    tensor = _any_tensor(spec, chance)
    strides = (1,) * len(tensor["sizes"])
    tensor["strides"] = _with(strides, chance.randrange(len(strides)), value)


@always_wrong()
def _stride_out_of_range(spec: Spec, chance: random.Random) -> None:
    _replace_stride(spec, chance, chance.choice((-1, 2**32)))


@always_wrong()
def _stride_that_is_none(spec: Spec, chance: random.Random) -> None:
    _replace_stride(spec, chance, chance.choice(NO_NUMBERS))


@always_wrong()
def _elements_far_apart(spec: Spec, chance: random.Random) -> None:
    tensor = _any_tensor(spec, chance)
    tensor["sizes"] = _with(tensor["sizes"], 0, 3)
    tensor["strides"] = (2**31,) * len(tensor["sizes"])


@always_wrong()
def _small_total(spec: Spec, chance: random.Random) -> None:
    _any_tensor(spec, chance)["total_tensor_size_in_bytes"] = chance.choice((0, 1, -1, 1.5, "4", 10**6000, Hostile()))


@always_wrong()
def _odd_alignment(spec: Spec, chance: random.Random) -> None:
    wrong = (3, 48, -16, None, "16", 16.0, 10**6000, Hostile())
    _any_tensor(spec, chance)["guaranteed_base_offset_alignment"] = chance.choice(wrong)


@always_wrong()
def _unknown_flags(spec: Spec, chance: random.Random) -> None:
    wrong: tuple[Any, ...] = (None, 2, "", "OWNED", 1.5, 10**6000, [], {}, Hostile())
    _any_tensor(spec, chance)["flags"] = chance.choice(wrong)


@always_wrong()
def _unknown_data_type(spec: Spec, chance: random.Random) -> None:
    _any_tensor(spec, chance)["data_type"] = chance.choice(NO_TYPES)


@always_wrong()
def _data_types_that_differ(spec: Spec, chance: random.Random) -> None:
    name = chance.choice(("input_tensor", "output_tensor"))
    own = spec.tensor(name)["data_type"]
    spec.tensor(name)["data_type"] = chance.choice([other for other in dml.DataType if other is not own])


@always_wrong()
def _large_output(spec: Spec, chance: random.Random) -> None:
    output = spec.tensor("output_tensor")
    position = chance.randrange(len(output["sizes"]))
    most = output["sizes"][position]
    if spec.cls is dml.Slice1:  # whose output may also be smaller than it could be
        size, stride = (spec.number(f"input_window_{name}", position) for name in ("sizes", "strides"))
        most = max(most, 1 + (size - 1) // abs(stride or 1))
    output["sizes"] = _with(output["sizes"], position, most + chance.choice((1, 1000)))


@always_wrong()
def _output_that_overlaps_itself(spec: Spec, chance: random.Random) -> None:
    output = spec.tensor("output_tensor")
    if max(output["sizes"]) == 1:
        output["sizes"] = _with(output["sizes"], 0, 2)
    output["strides"] = (chance.choice((0, 0, 1)),) * len(output["sizes"])
    if sum(size > 1 for size in output["sizes"]) < 2:
        output["strides"] = (0,) * len(output["sizes"])


@always_wrong()
def _output_owned_by_dml(spec: Spec, chance: random.Random) -> None:
    spec.tensor("output_tensor")["flags"] = chance.choice((1, "OWNED_BY_DML", dml.TensorFlags.OWNED_BY_DML))


@always_wrong()
def _unknown_level(spec: Spec, chance: random.Random) -> None:
    spec.level = chance.choice(NO_LEVELS)


@always_wrong()
def _low_level(spec: Spec, chance: random.Random) -> None:
    spec.level = chance.choice(("1_0", "2_0", "DML_FEATURE_LEVEL_1_0", 0x1000))
    for name in ("input_tensor", "output_tensor"):
        spec.tensor(name)["data_type"] = "float64"


@always_wrong(*SLICES)
def _list_of_another_length(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()) else []:
        values = spec.attributes[name]
        spec.attributes[name] = chance.choice((values[1:], [*values, 1], [], [1] * 100))


@always_wrong(*SLICES)
def _list_that_is_none(spec: Spec, chance: random.Random) -> None:
    spec.attributes[chance.choice(list(spec.attributes))] = chance.choice(NO_NUMBERS)


@always_wrong(*SLICES)
def _element_that_is_none(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()) else []:
        values = spec.attributes[name]
        spec.attributes[name] = list(_with(values, chance.randrange(len(values)), chance.choice(NO_NUMBERS)))


@always_wrong(*SLICES)
def _zero_in_sizes_or_strides(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()[1:]) else []:
        values = spec.attributes[name]
        spec.attributes[name] = list(_with(values, chance.randrange(len(values)), 0))


@always_wrong(*SLICES)
def _one_element_beyond_the_input(spec: Spec, chance: random.Random) -> None:
    sizes = spec.tensor("input_tensor")["sizes"]
    position = chance.randrange(len(sizes))
    names = ("offsets", "sizes", "strides")
    if spec.cls is dml.Slice:
        _, size, stride = (spec.number(name, position) for name in names)
        offset = sizes[position] - (size - 1) * stride
    else:
        offset = sizes[position] - spec.number("input_window_sizes", position) + 1
    name = "offsets" if spec.cls is dml.Slice else "input_window_offsets"
    offsets = spec.attributes[name] if name in spec.lists() else [0] * len(sizes)
    spec.attributes[name] = list(_with(offsets, min(position, len(offsets) - 1), offset))


@always_wrong(*SLICES)
def _offset_far_beyond_the_input(spec: Spec, chance: random.Random) -> None:
    name = "offsets" if spec.cls is dml.Slice else "input_window_offsets"
    spec.attributes[name] = [UINT32_MAX] * len(spec.tensor("input_tensor")["sizes"])


@always_wrong(dml.Slice1)
def _window_stride_beyond_32_bits(spec: Spec, chance: random.Random) -> None:
    count = len(spec.tensor("input_tensor")["sizes"])
    spec.attributes["input_window_strides"] = [chance.choice((2**31, -(2**31) - 1))] * count


@always_wrong(*TALLIES)
def _axis_out_of_range(spec: Spec, chance: random.Random) -> None:
    count = len(spec.tensor("input_tensor")["sizes"])
    spec.attributes["axis"] = chance.choice((-1, count, UINT32_MAX))


@always_wrong(*TALLIES)
def _axis_that_is_none(spec: Spec, chance: random.Random) -> None:
    spec.attributes["axis"] = chance.choice((True, *NO_NUMBERS))


@always_wrong(*TALLIES)
def _unknown_direction(spec: Spec, chance: random.Random) -> None:
    spec.attributes["axis_direction"] = chance.choice(("sideways", 2, -1, *NO_NUMBERS))


@always_wrong(*TALLIES)
def _exclusive_that_is_no_boolean(spec: Spec, chance: random.Random) -> None:
    name = next(name for name in spec.attributes if name.startswith("has_"))
    spec.attributes[name] = chance.choice((2, -1, "yes", *NO_NUMBERS))


@always_wrong(*GATHERS)
def _large_tuples(spec: Spec, chance: random.Random) -> None:
    indices = spec.tensor("indices_tensor")
    most = spec.number("input_dimension_count") - spec.number("batch_dimension_count", otherwise=0)
    indices["sizes"] = _with(indices["sizes"], -1, chance.choice((most + 1, 9, UINT32_MAX)))


@always_wrong(*GATHERS)
def _count_out_of_range(spec: Spec, chance: random.Random) -> None:
    name = chance.choice(("input_dimension_count", "indices_dimension_count"))
    count = len(spec.tensor("input_tensor")["sizes"])
    spec.attributes[name] = chance.choice((0, -1, count + 1))


@always_wrong(*GATHERS)
def _count_that_is_none(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([name for name in spec.attributes if name.endswith("count")])
    spec.attributes[name] = chance.choice((True, *NO_NUMBERS))


@always_wrong(*GATHERS)
def _indices_of_another_type(spec: Spec, chance: random.Random) -> None:
    spec.tensor("indices_tensor")["data_type"] = chance.choice(("float32", "float16", "int8", "uint16", "float64"))


@always_wrong(*GATHERS)
def _unknown_index_mode(spec: Spec, chance: random.Random) -> None:
    spec.attributes["index_mode"] = chance.choice(("wrap", 0, 1, *NO_NUMBERS))


@always_wrong(dml.GatherND1)
def _batch_count_out_of_range(spec: Spec, chance: random.Random) -> None:
    counts = [spec.number(name) for name in ("input_dimension_count", "indices_dimension_count")]
    spec.attributes["batch_dimension_count"] = chance.choice((*counts, 8, -1))


@always_wrong(dml.GatherND1)
def _batches_that_differ(spec: Spec, chance: random.Random) -> None:
    indices, count = spec.tensor("indices_tensor"), len(spec.tensor("input_tensor")["sizes"])
    spec.attributes["batch_dimension_count"] = 1
    spec.attributes["input_dimension_count"] = spec.attributes["indices_dimension_count"] = count
    indices["sizes"] = _with(indices["sizes"], 0, indices["sizes"][0] + chance.randrange(1, 9) + 64)


def junk_anywhere(spec: Spec, chance: random.Random) -> None:
    """Put anything in the place of anything; now and then that is valid."""
    holders: list[dict[str, Any]] = [tensor for tensor in spec.tensors.values() if isinstance(tensor, Arguments)]
    holders += [spec.tensors, spec.attributes]
    holder = chance.choice(holders)
    name = chance.choice(list(holder))
    value = holder[name]
    junk = chance.choice(JUNK)
    if isinstance(value, (list, tuple)) and value and chance.random() < 0.5:
        junk = type(value)(_with(value, chance.randrange(len(value)), junk))
    holder[name] = junk


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """A valid description, and what is to be broken in it."""

    case: Case
    breakages: tuple[str, ...]
    seed: int

    @property
    def must_raise(self) -> bool:
        """Whether nothing can have made it valid again: two breakages may cancel each other."""
        return len(self.breakages) == 1 and self.breakages[0] in ALWAYS_WRONG

    def create(self) -> dml.Operator:
        """Break it, describe it, and create the operator on a device."""
        spec, chance = Spec.of(self.case), random.Random(self.seed)  # noqa: S311 - test data
        for name in self.breakages:
            breakage = ALWAYS_WRONG[name][1] if name in ALWAYS_WRONG else junk_anywhere
            breakage(spec, chance)
        return spec.create()


def breakages_of(cls: Operator) -> tuple[str, ...]:
    """The names of what can be broken in an operator's description."""
    return tuple(name for name, (operators, _) in ALWAYS_WRONG.items() if cls in operators)


@st.composite
def broken(draw: st.DrawFn, cls: Operator) -> Broken:
    """A description with one to three breakages."""
    names = breakages_of(cls)
    choices = st.sampled_from((*names, *["junk anywhere"] * (len(names) // 3)))
    breakages = draw(st.lists(choices, min_size=1, max_size=3))
    return Broken(draw(cases(cls)), tuple(breakages), draw(SEEDS))
