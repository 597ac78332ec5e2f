"""The operators that move and interpolate: what they compute, in every type, layout and at every level."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from cases import DOCUMENTS, ENGINES, FLOAT32
from moving import MOVING, assert_moved, expected
from moving_drawing import moving_cases
from running import Memory, check_other_bytes, run

if TYPE_CHECKING:
    from cases import Case as Example
    from drawing import Case

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


@pytest.mark.parametrize("case", [case for case in DOCUMENTS if case.operator in MOVING], ids=str)
def test_the_oracle_does_as_the_documents_do(case: Example) -> None:
    (wanted,) = case.outputs(FLOAT32)
    assert_moved(wanted, expected(case.desc(FLOAT32), case.inputs(FLOAT32))[0])


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (1000 if os.environ.get("CI") else 80))
@given(case=moving_cases(MOVING))
def test_every_layout_gives_what_the_oracle_gives(engines: list[str], case: Case) -> None:
    desc = case.description()
    arrays = [
        case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes) for slot in case.contents
    ]
    wanted = expected(desc, arrays)
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        for got, want in zip(run(case, memory, engine), wanted, strict=True):
            assert_moved(got, want.ravel(), desc)
        check_other_bytes(case, memory, before)
