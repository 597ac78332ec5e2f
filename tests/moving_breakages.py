"""Breakages of the operators that gather along an axis, convert, put together, fill and reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anydml as dml
from breaking import NO_NUMBERS, NO_TYPES, Hostile, always_wrong, with_value
from drawing import UINT32_MAX

if TYPE_CHECKING:
    import random

    from breaking import Arguments, Spec


# GATHER and GATHER_ELEMENTS


@always_wrong(dml.Gather)
def _index_dimensions_out_of_range(spec: Spec, chance: random.Random) -> None:
    spec.attributes["index_dimensions"] = chance.choice(
        (len(spec.tensor("indices_tensor")["sizes"]) + 1, -1, UINT32_MAX)
    )


@always_wrong(dml.Gather)
def _index_dimensions_that_are_none(spec: Spec, chance: random.Random) -> None:
    spec.attributes["index_dimensions"] = chance.choice((True, *NO_NUMBERS))


@always_wrong(dml.Gather)
def _index_sizes_before_those_that_count(spec: Spec, chance: random.Random) -> None:
    indices = spec.tensor("indices_tensor")
    spec.attributes["index_dimensions"] = len(indices["sizes"]) - 1
    _set_size(indices, 0, chance.choice((2, 7)))


@always_wrong(dml.Gather)
def _a_result_of_too_many_dimensions(spec: Spec, chance: random.Random) -> None:
    count = max(len(spec.tensor("input_tensor")["sizes"]), 2)
    given = chance.randrange(2, count + 1)
    spec.attributes["index_dimensions"] = given
    for name, sizes in (("input_tensor", (2,) * count), ("indices_tensor", (1,) * (count - given) + (2,) * given)):
        spec.tensor(name).update(sizes=sizes, strides=None, total_tensor_size_in_bytes=None)


@always_wrong(dml.GatherElements)
def _indices_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    _enlarge_off_axis(spec, "indices_tensor", chance)


# ELEMENT_WISE_IDENTITY


@always_wrong(dml.ElementWiseIdentity)
def _scale_and_bias_that_are_none(spec: Spec, chance: random.Random) -> None:
    wrong = ((), (1.0,), (1.0, 2.0, 3.0), (None, 1.0), ("1", 1.0), (1.0, True), (Hostile(), 0.0), *NO_NUMBERS[1:])
    spec.attributes["scale_bias"] = chance.choice(wrong)


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
    _enlarge_off_axis(spec, chance.choice(spec.inputs()), chance)


@always_wrong(dml.Split)
def _results_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    _enlarge_off_axis(spec, chance.choice(spec.outputs()), chance)


# Fills


@always_wrong(dml.FillValueConstant, dml.FillValueSequence)
def _value_that_is_no_number(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([name for name in spec.attributes if name != "value_data_type"])
    wrong: tuple[Any, ...] = (None, "", "two", b"2", True, 2j, [[1]], {}, object(), Hostile(), int)
    spec.attributes[name] = chance.choice(wrong)


@always_wrong(dml.FillValueConstant, dml.FillValueSequence)
def _value_that_its_type_does_not_have(spec: Spec, chance: random.Random) -> None:
    kind = chance.choice(("int8", "uint8", "int32", "uint32"))
    spec.tensor("output_tensor").update(data_type=kind, total_tensor_size_in_bytes=None, strides=None)
    spec.attributes["value_data_type"] = kind
    name = chance.choice([name for name in spec.attributes if name != "value_data_type"])
    spec.attributes[name] = chance.choice((1.5, -0.1, float("nan"), float("-inf"), 2**32, -(2**32), 1e20, 10**400))


@always_wrong(dml.FillValueConstant, dml.FillValueSequence)
def _value_of_another_type(spec: Spec, chance: random.Random) -> None:
    own = spec.tensor("output_tensor")["data_type"]
    spec.attributes["value_data_type"] = chance.choice([other for other in dml.DataType if other != dml.DataType(own)])


@always_wrong(dml.FillValueConstant, dml.FillValueSequence)
def _value_of_no_type(spec: Spec, chance: random.Random) -> None:
    spec.attributes["value_data_type"] = chance.choice(NO_TYPES)


# REVERSE_SUBSEQUENCES


@always_wrong(dml.ReverseSubsequences)
def _lengths_of_another_type(spec: Spec, chance: random.Random) -> None:
    wrong = ("float32", "int32", "int64", "uint16", "float64")
    spec.tensor("sequence_lengths_tensor")["data_type"] = chance.choice(wrong)


@always_wrong(dml.ReverseSubsequences)
def _lengths_of_other_sizes(spec: Spec, chance: random.Random) -> None:
    lengths = spec.tensor("sequence_lengths_tensor")
    position = chance.randrange(len(lengths["sizes"]))
    _set_size(lengths, position, lengths["sizes"][position] + chance.choice((1, 7)))


# What they share


def _set_size(tensor: Arguments, position: int, size: int) -> None:
    tensor.update(sizes=with_value(tensor["sizes"], position, size), strides=None, total_tensor_size_in_bytes=None)


def _enlarge_off_axis(spec: Spec, name: str, chance: random.Random) -> None:
    """Make a tensor larger in a dimension that is not the axis, all tensors having two of them at least."""
    for slot in spec.tensors:
        tensor = spec.tensor(slot)
        if len(tensor["sizes"]) < 2:
            tensor.update(sizes=(1, *tensor["sizes"]), strides=None, total_tensor_size_in_bytes=None)
    sizes = spec.tensor(name)["sizes"]
    axis = spec.number("axis", otherwise=0) % len(sizes)
    position = chance.choice([k for k in range(len(sizes)) if k != axis])
    spec.attributes["axis"] = axis
    _set_size(spec.tensor(name), position, sizes[position] + chance.choice((1, 9)))
