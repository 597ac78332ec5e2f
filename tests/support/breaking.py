"""How descriptions are broken on purpose: what a breakage takes, what it puts there, and those of single rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import anydml as dml
from drawing import OPERATORS, UINT32_MAX, Case, Operator, describe

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from anydml.operators.schema.fields import FieldType

EVERY: tuple[Operator, ...] = tuple(dml.OPERATORS.values())


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
        """What a random case describes."""
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

    def inputs(self) -> list[str]:
        """The slots of the inputs that are data, without indices and lengths."""
        apart = ("indices_tensor", "sequence_lengths_tensor", *self.cls.output_names())
        return [name for name in self.tensors if name.partition("[")[0] not in apart]

    def kinds(self) -> dict[str, FieldType]:
        """The kinds of the attributes."""
        kinds = self.cls.field_types().items()
        return {name: kind for name, kind in kinds if kind.kind not in ("input", "output")}

    def outputs(self) -> list[str]:
        """The slots of the outputs."""
        return [name for name in self.tensors if name.partition("[")[0] in self.cls.output_names()]

    def number(self, name: str, position: int | None = None, otherwise: int = 1) -> int:
        """An attribute, or an element of one that is a list; another number where an earlier breakage took it away."""
        value = self.attributes.get(name)
        if position is not None:
            value = value[position] if isinstance(value, list) and position < len(value) else None
        return value if type(value) is int and abs(value) < 2**40 else otherwise

    def lists(self) -> list[str]:
        """The attributes that are lists with something in them."""
        return [name for name, value in self.attributes.items() if isinstance(value, (list, tuple)) and value]


def _are_sizes(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(size) is int for size in value)


class Hostile:
    """An object that answers no question without an error."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    __index__ = __len__ = __iter__ = __repr__ = __str__ = __bool__ = __getitem__ = __float__ = _refuse


# What is no value of any field.
NOTHING: tuple[Any, ...] = (b"2", "", "two", 2j, [[1]], [[[1, 2], [3]]], {1: 2}, object(), Hostile(), int)
# What is no number of any field, no list and no tensor.
NO_NUMBERS: tuple[Any, ...] = (
    None, 1.5, math.nan, -math.inf, 10**6000, -(10**6000), 2**64, {}, {3}, np.float32(2), np.ones((2, 2)),
    np.array([1, None]), *NOTHING,
)  # fmt: skip
NO_LEVELS: tuple[Any, ...] = (
    "", "9_9", "LEVEL", -1, 7, 10**6000, 5.0, math.nan, [], {}, object(), Hostile(), "5_0\n6_0",
)  # fmt: skip
NO_TYPES: tuple[Any, ...] = (
    None, "", "float99", "bool", "complex64", 99, -1, 10**6000, math.nan, [1], {}, Hostile(), "O",
)  # fmt: skip
# What some field may well take, and others not.
JUNK: tuple[Any, ...] = (
    *NO_NUMBERS, 0, 1, 2, 5, -1, -2, 2**31, UINT32_MAX, 2**32, True, False, (), [], [1], (0,), [True], np.int64(3),
    np.array([1, 2]), range(4), "float16", "decreasing", "clamp", "OWNED_BY_DML", [1] * 100,
)  # fmt: skip

Breakage: TypeAlias = "Callable[[Spec, random.Random], None]"
ALWAYS_WRONG: dict[str, tuple[tuple[Operator, ...], Breakage]] = {}
"""Breakages that leave no description valid: the operators concerned, and what to do to a description."""


def always_wrong(*operators: Operator) -> Callable[[Breakage], Breakage]:
    """Enter a breakage in the list, by the name of its function: of these operators, or of all."""

    def enter(breakage: Breakage) -> Breakage:
        ALWAYS_WRONG[breakage.__name__.strip("_").replace("_", " ")] = (operators or EVERY, breakage)
        return breakage

    return enter


def with_attributes(*types: str) -> tuple[Operator, ...]:
    """The operators that have an attribute of such a type."""
    return tuple(cls for cls in EVERY if any(kind.type in types for kind in cls.field_types().values()))


def with_value(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    """The same but for one of them."""
    changed = list(values)
    changed[position] = value
    return tuple(changed)


def any_tensor(spec: Spec, chance: random.Random) -> Arguments:
    """One of the tensors."""
    return spec.tensor(chance.choice(list(spec.tensors)))


def junk_anywhere(spec: Spec, chance: random.Random) -> None:
    """Put anything in the place of anything; now and then that is valid."""
    holders: list[dict[str, Any]] = [tensor for tensor in spec.tensors.values() if isinstance(tensor, Arguments)]
    holders += [holder for holder in (spec.tensors, spec.attributes) if holder]
    holder = chance.choice(holders)
    name = chance.choice(list(holder))
    value = holder[name]
    junk = chance.choice(JUNK)
    if isinstance(value, (list, tuple)) and value and chance.random() < 0.5:
        junk = type(value)(with_value(value, chance.randrange(len(value)), junk))
    holder[name] = junk


def set_size(tensor: Arguments, position: int, size: int) -> None:
    """Give a tensor another size, packed."""
    tensor.update(sizes=with_value(tensor["sizes"], position, size), strides=None, total_tensor_size_in_bytes=None)


def enlarge_off_axis(spec: Spec, name: str, chance: random.Random) -> None:
    """Make a tensor larger in a dimension that is not the axis, all tensors having two of them at least."""
    for slot in spec.tensors:
        tensor = spec.tensor(slot)
        if len(tensor["sizes"]) < 2:
            tensor.update(sizes=(1, *tensor["sizes"]), strides=None, total_tensor_size_in_bytes=None)
    sizes = spec.tensor(name)["sizes"]
    axis = spec.number("axis", otherwise=0) % len(sizes)
    position = chance.choice([k for k in range(len(sizes)) if k != axis])
    spec.attributes["axis"] = axis
    set_size(spec.tensor(name), position, sizes[position] + chance.choice((1, 9)))


SLICES: tuple[Operator, ...] = (dml.Slice, dml.Slice1)
GATHERS: tuple[Operator, ...] = (dml.GatherND, dml.GatherND1)
FILLS: tuple[Operator, ...] = (dml.FillValueConstant, dml.FillValueSequence)


@always_wrong(*(cls for cls in OPERATORS if cls is not dml.Cast))
def _data_types_that_differ(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([*spec.inputs(), *spec.outputs()])
    own = spec.tensor(name)["data_type"]
    spec.tensor(name)["data_type"] = chance.choice([other for other in dml.DataType if other is not own])


# Slices


@always_wrong(*SLICES)
def _zero_in_sizes_or_strides(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()[1:]) else []:
        values = spec.attributes[name]
        spec.attributes[name] = list(with_value(values, chance.randrange(len(values)), 0))


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
    spec.attributes[name] = list(with_value(offsets, min(position, len(offsets) - 1), offset))


@always_wrong(*SLICES)
def _offset_far_beyond_the_input(spec: Spec, chance: random.Random) -> None:
    name = "offsets" if spec.cls is dml.Slice else "input_window_offsets"
    spec.attributes[name] = [UINT32_MAX] * len(spec.tensor("input_tensor")["sizes"])


# GATHER_ND and GATHER_ND1


@always_wrong(*GATHERS)
def _large_tuples(spec: Spec, chance: random.Random) -> None:
    indices = spec.tensor("indices_tensor")
    most = spec.number("input_dimension_count") - spec.number("batch_dimension_count", otherwise=0)
    indices["sizes"] = with_value(indices["sizes"], -1, chance.choice((most + 1, 9, UINT32_MAX)))


@always_wrong(dml.GatherND1)
def _batch_count_out_of_range(spec: Spec, chance: random.Random) -> None:
    counts = [spec.number(name) for name in ("input_dimension_count", "indices_dimension_count")]
    spec.attributes["batch_dimension_count"] = chance.choice((*counts, 8, -1))


@always_wrong(dml.GatherND1)
def _batches_that_differ(spec: Spec, chance: random.Random) -> None:
    indices, count = spec.tensor("indices_tensor"), len(spec.tensor("input_tensor")["sizes"])
    spec.attributes["batch_dimension_count"] = 1
    spec.attributes["input_dimension_count"] = spec.attributes["indices_dimension_count"] = count
    indices["sizes"] = with_value(indices["sizes"], 0, indices["sizes"][0] + chance.randrange(1, 9) + 64)


# GATHER and GATHER_ELEMENTS


@always_wrong(dml.Gather)
def _index_sizes_before_those_that_count(spec: Spec, chance: random.Random) -> None:
    indices = spec.tensor("indices_tensor")
    spec.attributes["index_dimensions"] = len(indices["sizes"]) - 1
    set_size(indices, 0, chance.choice((2, 7)))


@always_wrong(dml.Gather)
def _a_result_of_too_many_dimensions(spec: Spec, chance: random.Random) -> None:
    count = max(len(spec.tensor("input_tensor")["sizes"]), 2)
    given = chance.randrange(2, count + 1)
    spec.attributes["index_dimensions"] = given
    for name, sizes in (("input_tensor", (2,) * count), ("indices_tensor", (1,) * (count - given) + (2,) * given)):
        spec.tensor(name).update(sizes=sizes, strides=None, total_tensor_size_in_bytes=None)


@always_wrong(dml.GatherElements)
def _indices_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    enlarge_off_axis(spec, "indices_tensor", chance)


# JOIN and SPLIT


@always_wrong(dml.Join)
def _no_inputs(spec: Spec, chance: random.Random) -> None:
    _replace_several(spec, "input_tensors", chance)


@always_wrong(dml.Split)
def _no_outputs(spec: Spec, chance: random.Random) -> None:
    _replace_several(spec, "output_tensors", chance)


def _replace_several(spec: Spec, name: str, chance: random.Random) -> None:
    for slot in [slot for slot in spec.tensors if slot.startswith(name)]:
        del spec.tensors[slot]
    spec.tensors[name] = chance.choice(((), [], *NO_NUMBERS))


@always_wrong(dml.Join)
def _parts_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    enlarge_off_axis(spec, chance.choice(spec.inputs()), chance)


@always_wrong(dml.Split)
def _results_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    enlarge_off_axis(spec, chance.choice(spec.outputs()), chance)


# Fills


@always_wrong(*FILLS)
def _value_that_its_type_does_not_have(spec: Spec, chance: random.Random) -> None:
    kind = chance.choice(("int8", "uint8", "int32", "uint32"))
    spec.tensor("output_tensor").update(data_type=kind, total_tensor_size_in_bytes=None, strides=None)
    spec.attributes["value_data_type"] = kind
    name = chance.choice([name for name in spec.attributes if name != "value_data_type"])
    spec.attributes[name] = chance.choice((1.5, -0.1, float("nan"), float("-inf"), 2**32, -(2**32), 1e20, 10**400))


@always_wrong(*FILLS)
def _value_of_another_type(spec: Spec, chance: random.Random) -> None:
    own = spec.tensor("output_tensor")["data_type"]
    spec.attributes["value_data_type"] = chance.choice([other for other in dml.DataType if other != dml.DataType(own)])


# REVERSE_SUBSEQUENCES


@always_wrong(dml.ReverseSubsequences)
def _lengths_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    lengths = spec.tensor("sequence_lengths_tensor")
    position = chance.randrange(len(lengths["sizes"]))
    set_size(lengths, position, lengths["sizes"][position] + chance.choice((1, 7)))
