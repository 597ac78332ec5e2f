"""The element-wise operators: what they compute, which tensors they take, and at which levels."""

from __future__ import annotations

import pytest

import anydml as dml
from elementwise import ELEMENT_WISE, assert_computed, examples, expected
from elementwise_oracle import ORACLE
from places import get, put

pytestmark = pytest.mark.sampled(6)

CLASSES = [cls for cls in ELEMENT_WISE if cls is not dml.Cast]
"""Those with an oracle here; conversions have tests of their own."""


def test_every_operator_has_an_oracle() -> None:
    assert {cls.type.name for cls in CLASSES} == set(ORACLE)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.type.name)
def test_every_type_gives_what_the_oracle_gives(cls: type[dml.OperatorDesc], engine: str) -> None:
    device = dml.Device(engine)
    for desc, arrays in examples(cls):
        got = get(device.compile(desc)(*(put(array, device) for array in arrays)))
        assert_computed(got, expected(desc, arrays), desc, engine)
