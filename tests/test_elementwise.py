"""The element-wise operators: what they compute, which tensors they take, and at which levels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

import anydml as dml
from cases import ENGINES
from elementwise import (
    EITHER_ZERO,
    ELEMENT_WISE,
    STEPS,
    assert_within,
    examples,
    expected,
    short_name,
)
from elementwise_drawing import element_wise_cases
from elementwise_oracle import ORACLE
from places import get, put
from running import Memory, check_other_bytes, run

if TYPE_CHECKING:
    from drawing import Case

CLASSES = [cls for cls in ELEMENT_WISE if cls is not dml.Cast]
"""Those with an oracle here; conversions have tests of their own."""
FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


def test_every_operator_has_an_oracle() -> None:
    assert {cls.type.name for cls in CLASSES} == set(ORACLE)
    assert len(ELEMENT_WISE) == 85


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.type.name)
def test_every_type_gives_what_the_oracle_gives(cls: type[dml.OperatorDesc], engine: str) -> None:
    device, name = dml.Device(engine), short_name(cls)
    # The reference engine computes functions in float64; the others come within a step more.
    steps = STEPS.get(name, 0) + (engine != "reference" and name in STEPS)
    for desc, arrays in examples(cls):
        got = get(device.compile(desc)(*(put(array, device) for array in arrays)))
        assert_within(got, expected(desc, arrays), steps, either_zero=name in EITHER_ZERO, about=desc)


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (400 if os.environ.get("CI") else 100))
@given(case=element_wise_cases(CLASSES))
def test_every_layout_gives_what_the_oracle_gives(engines: list[str], case: Case) -> None:
    desc, name = case.description(), short_name(case.cls)
    arrays = [
        case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes) for slot in case.contents
    ]
    wanted = expected(desc, arrays).ravel()
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        (got,) = run(case, memory, engine)
        steps = STEPS.get(name, 0) + (engine != "reference" and name in STEPS)
        assert_within(got, wanted, steps, either_zero=name in EITHER_ZERO, about=desc)
        check_other_bytes(case, memory, before)
