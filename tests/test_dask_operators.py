"""Every operator on dask arrays gives what it gives in memory, whatever the blocks, or says what to rechunk."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import numpy as np
import pytest

import anydml as dml
from cases import CASES

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")
from lazies import computed  # noqa: E402 - where Dask is

KINDS = [dml.DataType[name] for name in ("FLOAT32", "UINT8", "INT32", "UINT32", "INT8", "INT64", "FLOAT16", "FLOAT64")]
REFERENCE = "reference"  # which compiles nothing
TAKEN = [case for case in CASES if case.sources]


def cut(array: np.ndarray[Any, Any], draw: random.Random) -> Any:
    """An array in blocks of random sizes."""
    chunks = []
    for size in array.shape:
        ends = sorted({0, size, *(draw.randint(0, size) for _ in range(draw.randint(0, 2)))})
        chunks.append(tuple(b - a for a, b in itertools.pairwise(ends)))
    return da.from_array(array, chunks=tuple(chunks))


def arrays_of(case: Any) -> tuple[list[np.ndarray[Any, Any]], Any] | None:
    """The inputs of a case in the first type that its function takes, and what comes out of it."""
    for kind in KINDS:
        try:
            arrays = case.inputs(kind)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return arrays, case.call(*arrays, device=REFERENCE)
        except Exception:  # noqa: BLE001, S112 - another type may do
            continue
    return None


def agree(found: Any, wanted: Any) -> None:
    found, wanted = (x if isinstance(x, (list, tuple)) else [x] for x in (found, wanted))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        result = computed(one, other)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(result, other, rtol=2e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, other)


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
