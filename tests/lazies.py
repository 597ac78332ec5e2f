"""Dask arrays for tests: made of arrays in memory, and compared with what functions give for those."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

Array = np.ndarray[Any, Any]


def lazy(x: Array, *chunks: Any) -> Any:
    """A dask array in blocks of these sizes."""
    return da.from_array(x, chunks=chunks)


def computed(found: Any, wanted: Array) -> Array:
    """A lazy result, which has the shape and the type that it says, and those of the result in memory."""
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    result = np.asarray(found.compute(scheduler="synchronous"))
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    return result


def same(found: Any, wanted: Any) -> None:
    """The same bits, in one result or several."""
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
