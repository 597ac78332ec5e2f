"""Descriptions broken on purpose in what is a rule of few operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from breaking import NO_NUMBERS, always_wrong, enlarge_off_axis, set_size, with_value
from drawing import OPERATORS, UINT32_MAX, Operator

if TYPE_CHECKING:
    import random

    from breaking import Spec

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
