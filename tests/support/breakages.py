"""Descriptions broken on purpose: each breakage takes a valid one of any operator and spoils a field of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import anydml as dml
from anydml.operators.fused import attributes_of
from anydml.operators.schema.fields import dml_name
from breaking import (
    ALWAYS_WRONG,
    EVERY,
    NO_LEVELS,
    NO_NUMBERS,
    NO_TYPES,
    NOTHING,
    Breakage,
    Hostile,
    Spec,
    always_wrong,
    any_tensor,
    junk_anywhere,
    with_attributes,
    with_value,
)
from cases import CASES
from drawing import SEEDS, UINT32_MAX, Case, Operator, Tensor, slots
from families.products import PRODUCTS
from families.table import cases

NO_FILLS = tuple(cls for cls in EVERY if {*cls.input_names()} - {*cls.optional_inputs()})
"""Operators whose tensors hang together: a fill may be of any sizes."""

OF_ANY_SIZES = ("SLICE_GRAD", "RESAMPLE", "FOLD", "MAX_UNPOOLING", "ROI_ALIGN", "ONE_HOT", "NONZERO", "RANDOM")
"""Operators whose outputs may be larger than their inputs imply."""


# A tensor's arguments

WHOLE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "sizes that are none": ("sizes", NO_NUMBERS),
    "small total": ("total_tensor_size_in_bytes", (0, 1, -1, 1.5, "4", 10**6000, Hostile())),
    "odd alignment": ("guaranteed_base_offset_alignment", (3, 48, -16, None, "16", 16.0, 10**6000, Hostile())),
    "unknown flags": ("flags", (None, 2, "", "OWNED", 1.5, 10**6000, [], {}, Hostile())),
    "unknown data type": ("data_type", NO_TYPES),
}
ELEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "size that is none": ("sizes", (0, -1, -8, *NO_NUMBERS)),
    "stride that is none": ("strides", (-1, 2**32, *NO_NUMBERS)),
}


def _spoil(name: str, values: tuple[Any, ...], *, is_element: bool) -> Breakage:
    def spoil(spec: Spec, chance: random.Random) -> None:
        tensor, wrong = any_tensor(spec, chance), chance.choice(values)
        if is_element:
            known = tensor["sizes"] if name == "sizes" else (1,) * len(tensor["sizes"])
            wrong = with_value(known, chance.randrange(len(known)), wrong)
        tensor[name] = wrong

    return spoil


for table in (WHOLE, ELEMENTS):
    for title, (argument, wrong_values) in table.items():
        ALWAYS_WRONG[title] = (EVERY, _spoil(argument, wrong_values, is_element=table is ELEMENTS))


@always_wrong()
def _no_tensor(spec: Spec, chance: random.Random) -> None:
    spec.tensors[chance.choice(list(spec.tensors))] = chance.choice(NO_NUMBERS[1:])  # None is none that is optional


@always_wrong()
def _too_many_dimensions(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = (1,) * (9 - len(tensor["sizes"])) + tuple(tensor["sizes"])


@always_wrong()
def _too_many_elements(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = (UINT32_MAX,) * max(len(tensor["sizes"]), 2)


@always_wrong(
    *(cls for cls in NO_FILLS if cls not in PRODUCTS and not cls.type.name.startswith(("ROI_ALIGN", "RANDOM")))
)
def _another_dimension_count(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = tensor["sizes"][1:] or (1, *tensor["sizes"])
    tensor["strides"] = None


@always_wrong()
def _strides_of_another_length(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["strides"] = (1,) * (len(tensor["sizes"]) + chance.choice((-1, 1)))


@always_wrong()
def _elements_far_apart(spec: Spec, chance: random.Random) -> None:
    tensor = any_tensor(spec, chance)
    tensor["sizes"] = with_value(tensor["sizes"], 0, 3)
    tensor["strides"] = (2**31,) * len(tensor["sizes"])


@always_wrong()
def _data_type_that_no_level_has(spec: Spec, chance: random.Random) -> None:
    name = chance.choice(list(spec.tensors))
    rows = [row.tensors[dml_name(name.partition("[")[0])].data_types for row in spec.cls.support]
    spec.tensor(name)["data_type"] = chance.choice(
        [kind for kind in dml.DataType if not any(kind in row for row in rows)]
    )


@always_wrong(*(cls for cls in NO_FILLS if not cls.type.name.startswith(OF_ANY_SIZES)))
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


# Attributes, by their type


@always_wrong(*(cls for cls in with_attributes("UINT_ARRAY", "INT_ARRAY") if "axes" not in cls.field_types()))
def _list_of_another_length(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()) else []:
        values = spec.attributes[name]
        spec.attributes[name] = chance.choice((values[1:], [*values, 1], [], [1] * 100))


@always_wrong(*(cls for cls in EVERY if attributes_of(cls)))
def _attribute_that_is_none(spec: Spec, chance: random.Random) -> None:
    name, kind = chance.choice(list(spec.kinds().items()))
    spec.attributes[name] = chance.choice(NO_NUMBERS if kind.type.startswith(("UINT", "INT")) else NOTHING)


@always_wrong(*with_attributes("UINT_ARRAY", "INT_ARRAY"))
def _element_that_is_none(spec: Spec, chance: random.Random) -> None:
    for name in [chance.choice(names)] if (names := spec.lists()) else []:
        values, wrong = spec.attributes[name], chance.choice((*NO_NUMBERS, 2**32, -(2**31) - 1))
        spec.attributes[name] = list(with_value(values, chance.randrange(len(values)), wrong))


@always_wrong(*with_attributes("UINT"))
def _number_out_of_range(spec: Spec, chance: random.Random) -> None:
    name = chance.choice([name for name, kind in spec.kinds().items() if kind.type == "UINT"])
    counts = [len(spec.tensor(slot)["sizes"]) for slot in spec.tensors]
    counts_dimensions = name == "axis" or name.endswith(("dimensions", "count"))
    large = (99, UINT32_MAX, max(counts) + 1) if counts_dimensions else ()
    spec.attributes[name] = chance.choice((-1, 2**32, *large))


# What is broken


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


def typical(cls: Operator) -> Case:
    """The documents' example of an operator that has most dimensions."""
    desc = max((case for case in CASES if case.operator is cls), key=lambda case: case.rank).desc(dml.DataType.FLOAT32)
    tensors: dict[str, Tensor] = {}
    attributes: dict[str, Any] = {}
    for name, kind in cls.field_types().items():
        value: Any = getattr(desc, name)
        if kind.is_tensor_array:
            tensors |= slots(name, [Tensor(one.data_type, one.sizes) for one in value])
        elif kind.kind in ("input", "output") and value is None:
            continue
        elif kind.kind in ("input", "output"):
            tensors[name] = Tensor(value.data_type, value.sizes)
        else:
            attributes[name] = list(value) if kind.type.endswith("_ARRAY") else value
    return Case(cls, dml.FeatureLevel.highest(), tensors, attributes, {})


def breakages_of(cls: Operator) -> tuple[str, ...]:
    """The names of what can be broken in an operator's description."""
    return tuple(name for name, (operators, _) in ALWAYS_WRONG.items() if cls in operators)


@st.composite
def broken(draw: st.DrawFn, cls: Operator) -> Broken:
    """A description with one to three breakages."""
    names = breakages_of(cls)
    choices = st.sampled_from((*names, *["junk anywhere"] * (len(names) // 3)))
    breakages = draw(st.lists(choices, min_size=1, max_size=3))
    has_blocks = cls in (dml.Quantize, dml.Dequantize)  # whose random cases are arrays and a result, in test_blocks
    return Broken(typical(cls) if has_blocks else draw(cases(cls)), tuple(breakages), draw(SEEDS))
