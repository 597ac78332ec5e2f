"""Every operator on dask arrays gives what it gives in memory, whatever the blocks, or says what to rechunk."""

from __future__ import annotations

import random
from typing import Any

import pytest

import anydml as dml

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")
from lazies import REFERENCE, TAKEN, agree, arrays_of, cut  # noqa: E402 - where Dask is


@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_an_operator_gives_in_blocks_what_it_gives_in_memory(case: Any) -> None:
    case = case.bare()
    found = arrays_of(case)
    if found is None:
        pytest.skip("of 4 bits, or of types that the function does not read from whole numbers")
    arrays, wanted = found
    whole = [da.from_array(x, chunks=-1) for x in arrays]
    agree(case.call(*whole, device=REFERENCE), wanted)  # never refused in one block
    draw = random.Random(str(case))  # noqa: S311 - a test's
    for _ in range(3):
        try:
            result = case.call(*[cut(x, draw) for x in arrays], device=REFERENCE)
        except dml.UnsupportedError as error:
            refused = str(error)
            if "one block" not in refused or "rechunk" not in refused:
                raise
            continue
        agree(result, wanted)
