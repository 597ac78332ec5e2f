"""Descriptions broken on purpose, rule by rule: each breakage takes a valid one and spoils a field of it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from strategies import OPERATORS, SEEDS, UINT32_MAX, Case, Operator, cases, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
