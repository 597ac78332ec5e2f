"""The products of matrices and the operators that quantise: what they compute, in every type, layout and level."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

import anydml as dml
from anydml.operators.fields import dml_name
from cases import ENGINES
from elementwise import STEPS, assert_within
from places import get, put
from products import PRODUCTS, expected, small_example
from products_drawing import product_cases
from running import Memory, check_other_bytes, run

if TYPE_CHECKING:
    from drawing import Case

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


def steps_of(desc: dml.OperatorDesc) -> int:
    """From one float to the next, that results may be off: functions are not rounded correctly, and sums of e^x."""
    activation = getattr(desc, "fused_activation", None)
    if activation is None:
        return 0
    return STEPS.get(activation.type.name.removeprefix("ACTIVATION_"), 0) + 2


@pytest.mark.parametrize("cls", PRODUCTS, ids=lambda cls: cls.type.name)
def test_small_examples(cls: type[dml.OperatorDesc], engine: str) -> None:
    device, (desc, arrays, wanted) = dml.Device(engine), small_example(cls)
    found = device.compile(desc)(*(put(array, device) for array in arrays))
    for got, want in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
        assert_within(get(got), want, 0)


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (600 if os.environ.get("CI") else 150))
@given(case=product_cases(PRODUCTS))
def test_every_layout_gives_what_the_oracle_gives(engines: list[str], case: Case) -> None:
    desc = case.description()
    arrays = {
        dml_name(slot): case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes)
        for slot in case.contents
    }
    wanted = expected(desc, arrays)
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        for got, want in zip(run(case, memory, engine), wanted, strict=True):
            assert_within(got, want.ravel(), steps_of(desc), either_zero=True, about=desc)
        check_other_bytes(case, memory, before)
