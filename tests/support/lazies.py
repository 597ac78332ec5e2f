"""Dask arrays for tests: made of arrays in memory, and compared with what functions give for those."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

import anydml as dml
from cases import CASES

if TYPE_CHECKING:
    import random

Array = np.ndarray[Any, Any]
KINDS = [dml.DataType[name] for name in ("FLOAT32", "UINT8", "INT32", "UINT32", "INT8", "INT64", "FLOAT16", "FLOAT64")]
REFERENCE = "reference"  # which compiles nothing
TAKEN = [case for case in CASES if case.sources]


def lazy(x: Array, *chunks: Any) -> Any:
    """A dask array in blocks of these sizes."""
    return da.from_array(x, chunks=chunks)


def computed(found: Any, wanted: Array) -> Array:
    """A lazy result, which has the shape and the type that it says, and those of the result in memory."""
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    result = found.compute(scheduler="synchronous")
    result = np.asarray(result.get() if hasattr(result, "get") else result)  # of CuPy
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    return result


def same(found: Any, wanted: Any) -> None:
    """The same bits, in one result or several."""
    if wanted is None:
        assert found is None  # nobody asked for it
        return
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    result = computed(found, wanted)
    assert result.tobytes() == np.ascontiguousarray(wanted).tobytes(), np.argwhere(result != wanted)[:5]


def near(found: Any, wanted: Array, terms: float = 1.0) -> None:
    """As near as float32 sums of numbers up to some size are to one another, whatever their order."""
    result = computed(found, wanted)
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=terms * 1e-6)


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
        if other is None:
            assert one is None  # nobody asked for it
            continue
        result = computed(one, other)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(result, other, rtol=2e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, other)
