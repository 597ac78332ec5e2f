"""Descriptions broken on purpose, rule by rule: each breakage takes a valid one and spoils a field of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import anydml as dml
import moving_breakages  # noqa: F401 - it enters its own in the list
from breaking import (
    ALWAYS_WRONG,
    NO_LEVELS,
    NO_NUMBERS,
    NO_TYPES,
    Hostile,
    Spec,
    always_wrong,
    any_tensor,
    junk_anywhere,
    with_value,
)
from drawing import OPERATORS, SEEDS, UINT32_MAX, Case, Operator
from strategies import cases

SLICES: tuple[Operator, ...] = (dml.Slice, dml.Slice1)
GATHERS: tuple[Operator, ...] = (dml.GatherND, dml.GatherND1)
TALLIES: tuple[Operator, ...] = (dml.CumulativeSummation, dml.CumulativeProduct)


WITH_AXIS = tuple(cls for cls in OPERATORS if "axis" in cls.field_types())
WITH_INDICES = tuple(cls for cls in OPERATORS if "indices_tensor" in cls.input_names())
FILLS: tuple[Operator, ...] = (dml.FillValueConstant, dml.FillValueSequence)
NO_FILLS = tuple(cls for cls in OPERATORS if cls not in FILLS)
"""Operators whose tensors hang together: a fill may be of any sizes."""


def _replace_size(spec: Spec, chance: random.Random, value: Any) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = with_value(tensor["sizes"], chance.randrange(len(tensor["sizes"])), value)


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
    any_tensor(spec, chance)["sizes"] = chance.choice(NO_NUMBERS)


@always_wrong()
def _too_many_dimensions(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = (1,) * (9 - len(tensor["sizes"])) + tuple(tensor["sizes"])


@always_wrong()
def _too_many_elements(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = (UINT32_MAX,) * max(len(tensor["sizes"]), 2)


@always_wrong(*NO_FILLS)
def _another_dimension_count(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = tensor["sizes"][1:] or (1, *tensor["sizes"])
    tensor["strides"] = None


@always_wrong()
def _strides_of_another_length(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["strides"] = (1,) * (len(tensor["sizes"]) + chance.choice((-1, 1)))


def _replace_stride(spec: Spec, chance: random.Random, value: Any) -> None:
    tensor = any_tensor(spec, chance)
    strides = (1,) * len(tensor["sizes"])
    tensor["strides"] = with_value(strides, chance.randrange(len(strides)), value)


@always_wrong()
def _stride_out_of_range(spec: Spec, chance: random.Random) -> None:
    _replace_stride(spec, chance, chance.choice((-1, 2**32)))


@always_wrong()
def _stride_that_is_none(spec: Spec, chance: random.Random) -> None:
    _replace_stride(spec, chance, chance.choice(NO_NUMBERS))


@always_wrong()
def _elements_far_apart(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = with_value(tensor["sizes"], 0, 3)
    tensor["strides"] = (2**31,) * len(tensor["sizes"])


@always_wrong()
def _small_total(spec: Spec, chance: random.Random) -> None:
    any_tensor(spec, chance)["total_tensor_size_in_bytes"] = chance.choice((0, 1, -1, 1.5, "4", 10**6000, Hostile()))


@always_wrong()
def _odd_alignment(spec: Spec, chance: random.Random) -> None:
    wrong = (3, 48, -16, None, "16", 16.0, 10**6000, Hostile())
    any_tensor(spec, chance)["guaranteed_base_offset_alignment"] = chance.choice(wrong)


@always_wrong()
def _unknown_flags(spec: Spec, chance: random.Random) -> None:
    wrong: tuple[Any, ...] = (None, 2, "", "OWNED", 1.5, 10**6000, [], {}, Hostile())
    any_tensor(spec, chance)["flags"] = chance.choice(wrong)


@always_wrong()
def _unknown_data_type(spec: Spec, chance: random.Random) -> None:
    any_tensor(spec, chance)["data_type"] = chance.choice(NO_TYPES)


@always_wrong(*(cls for cls in OPERATORS if cls is not dml.Cast))
def _data_types_that_differ(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([*spec.inputs(), *spec.outputs()])
    own = spec.tensor(name)["data_type"]
    spec.tensor(name)["data_type"] = chance.choice([other for other in dml.DataType if other is not own])


@always_wrong(*NO_FILLS)
def _large_output(spec: Spec, chance: random.Random) -> None:
    output = spec.tensor(chance.choice(spec.outputs()))
    position = chance.randrange(len(output["sizes"]))
    most = output["sizes"][position]
    if spec.cls is dml.Slice1:  # whose output may also be smaller than it could be
        size, stride = (spec.number(f"input_window_{name}", position) for name in ("sizes", "strides"))
        most = max(most, 1 + (size - 1) // abs(stride or 1))
    output["sizes"] = with_value(output["sizes"], position, most + chance.choice((1, 1000)))


@always_wrong()
def _output_that_overlaps_itself(spec: Spec, chance: random.Random) -> None:
    output = spec.tensor(chance.choice(spec.outputs()))
    if max(output["sizes"]) == 1:
        output["sizes"] = with_value(output["sizes"], 0, 2)
    output["strides"] = (chance.choice((0, 0, 1)),) * len(output["sizes"])
    if sum(size > 1 for size in output["sizes"]) < 2:
        output["strides"] = (0,) * len(output["sizes"])


@always_wrong()
def _output_owned_by_dml(spec: Spec, chance: random.Random) -> None:
    spec.tensor(chance.choice(spec.outputs()))["flags"] = chance.choice(
        (1, "OWNED_BY_DML", dml.TensorFlags.OWNED_BY_DML)
    )


@always_wrong()
def _unknown_level(spec: Spec, chance: random.Random) -> None:
    spec.level = chance.choice(NO_LEVELS)


@always_wrong()
def _low_level(spec: Spec, chance: random.Random) -> None:
    spec.level = chance.choice(("1_0", "2_0", "DML_FEATURE_LEVEL_1_0", 0x1000))
    for name in (*spec.inputs(), *spec.outputs()):
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
        spec.attributes[name] = list(with_value(values, chance.randrange(len(values)), chance.choice(NO_NUMBERS)))


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


@always_wrong(dml.Slice1)
def _window_stride_beyond_32_bits(spec: Spec, chance: random.Random) -> None:
    count = len(spec.tensor("input_tensor")["sizes"])
    spec.attributes["input_window_strides"] = [chance.choice((2**31, -(2**31) - 1))] * count


@always_wrong(*WITH_AXIS)
def _axis_out_of_range(spec: Spec, chance: random.Random) -> None:
    count = len(spec.tensor(spec.inputs()[0])["sizes"])
    spec.attributes["axis"] = chance.choice((-1, count, UINT32_MAX))


@always_wrong(*WITH_AXIS)
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
    indices["sizes"] = with_value(indices["sizes"], -1, chance.choice((most + 1, 9, UINT32_MAX)))


@always_wrong(*GATHERS)
def _count_out_of_range(spec: Spec, chance: random.Random) -> None:
    name = chance.choice(("input_dimension_count", "indices_dimension_count"))
    count = len(spec.tensor("input_tensor")["sizes"])
    spec.attributes[name] = chance.choice((0, -1, count + 1))


@always_wrong(*GATHERS)
def _count_that_is_none(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([name for name in spec.attributes if name.endswith("count")])
    spec.attributes[name] = chance.choice((True, *NO_NUMBERS))


@always_wrong(*WITH_INDICES)
def _indices_of_another_type(spec: Spec, chance: random.Random) -> None:
    spec.tensor("indices_tensor")["data_type"] = chance.choice(("float32", "float16", "int8", "uint16", "float64"))


@always_wrong(*WITH_INDICES)
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
    indices["sizes"] = with_value(indices["sizes"], 0, indices["sizes"][0] + chance.randrange(1, 9) + 64)


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
