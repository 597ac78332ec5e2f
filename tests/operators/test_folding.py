"""The operators that fold: what they compute, in every type, layout and at every level."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

import anydml as dml
from cases import ENGINES
from doors import as_list
from folding import ATTRIBUTES, FOLDING, assert_close, data_types, describe, expected, values
from folding_drawing import folding_cases
from folding_oracle import ORACLE
from places import get, put
from running import Memory, check_other_bytes, run

if TYPE_CHECKING:
    from drawing import Case

pytestmark = pytest.mark.sampled(4)

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
HIGHEST = dml.FeatureLevel.highest()


def test_every_operator_has_an_oracle() -> None:
    assert {cls.type.name for cls in FOLDING} == set(ORACLE)


@pytest.mark.parametrize("cls", FOLDING, ids=lambda cls: cls.type.name)
def test_every_type_gives_what_the_oracle_gives(cls: type[dml.OperatorDesc], engine: str) -> None:
    device = dml.Device(engine)
    is_matrix = cls.type.name in ("ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX")
    sizes, axes = ((1, 1, 4, 70), (3,)) if is_matrix else ((2, 3, 5, 7), (1, 3))
    for attributes in ATTRIBUTES.get(cls.type.name, [{}]):
        for data_type in data_types(cls, attributes, HIGHEST):
            desc = describe(cls, data_type, sizes, axes, attributes)
            arrays = values(desc)
            results = as_list(device.compile(desc)(*(put(array, device) for array in arrays)))
            for result, wanted in zip(results, expected(desc, arrays), strict=True):
                assert_close(get(result), wanted, desc)


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (120 if os.environ.get("CI") else 25))
@given(case=folding_cases(FOLDING))
def test_every_layout_gives_what_the_oracle_gives(engines: list[str], case: Case) -> None:
    desc = case.description()
    arrays = [
        case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes) for slot in case.contents
    ]
    answers = expected(desc, arrays)
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        for got, wanted in zip(run(case, memory, engine), answers, strict=True):
            assert_close(got, wanted, desc)
        check_other_bytes(case, memory, before)
