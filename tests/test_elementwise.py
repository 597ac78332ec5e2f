"""The element-wise operators: what they compute, which tensors they take, and at which levels."""

from __future__ import annotations

import pytest

import anydml as dml
from elementwise import (
    EITHER_ZERO,
    ELEMENT_WISE,
    STEPS,
    assert_within,
    examples,
    expected,
    short_name,
)
from elementwise_oracle import ORACLE
from places import get, put

each = pytest.mark.parametrize("cls", ELEMENT_WISE, ids=lambda cls: cls.type.name)


def test_every_operator_has_an_oracle() -> None:
    assert {cls.type.name for cls in ELEMENT_WISE} - {"CAST"} == set(ORACLE)
    assert len(ELEMENT_WISE) == 85


@pytest.mark.parametrize("cls", [cls for cls in ELEMENT_WISE if cls is not dml.Cast], ids=lambda cls: cls.type.name)
def test_every_type_gives_what_the_oracle_gives(cls: type[dml.OperatorDesc], engine: str) -> None:
    device, name = dml.Device(engine), short_name(cls)
    # The reference engine computes functions in float64; the others come within a step more.
    steps = STEPS.get(name, 0) + (engine != "reference" and name in STEPS)
    for desc, arrays in examples(cls):
        got = get(device.compile(desc)(*(put(array, device) for array in arrays)))
        assert_within(got, expected(desc, arrays), steps, either_zero=name in EITHER_ZERO, about=desc)
