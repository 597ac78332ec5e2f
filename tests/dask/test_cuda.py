"""Dask arrays whose blocks are CuPy's: the same calls, on the GPU where the blocks lie. Skipped without a GPU."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import anydml as dml

cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed", exc_type=ImportError)
distributed = pytest.importorskip("distributed", reason="Dask is not installed: make test EXTRAS=dask")
if not cupy.is_available():
    pytest.skip("CuPy sees no GPU here", allow_module_level=True)

import dask.array as da  # noqa: E402 - where it is

from lazies import TAKEN, agree, arrays_of, cut  # noqa: E402 - it needs Dask


@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_an_operator_on_blocks_of_a_gpu(case: Any) -> None:
    case = case.bare()
    found = arrays_of(case)
    if found is None:
        pytest.skip("of 4 bits, or of types that the function does not read from whole numbers")
    arrays, wanted = found
    draw = random.Random(str(case))  # noqa: S311 - a test's
    for is_cut in (False, True):
        lazies = [cut(x, draw) if is_cut else da.from_array(x, chunks=-1) for x in arrays]
        try:
            result = case.call(*[x.map_blocks(cupy.asarray) for x in lazies])
        except dml.UnsupportedError as error:
            refused = str(error)
            if "one block" not in refused or "rechunk" not in refused:
                raise
            continue
        agree(result, wanted)
        several = result if isinstance(result, (list, tuple)) else [result]
        assert all(isinstance(one.compute(scheduler="synchronous"), cupy.ndarray) for one in several)


@pytest.mark.filterwarnings("default")  # what Dask's own processes leave open as they end
def test_a_worker_with_a_gpu() -> None:
    x = np.random.default_rng(1).normal(size=(64, 96)).astype("float32")
    weights = np.random.default_rng(2).normal(size=(96, 8)).astype("float32")
    calls: list[Any] = [
        lambda x: dml.cumulative_summation(x, 0),
        lambda x: dml.softmax1(x, axes=[0]),
        lambda x: dml.gather(x, np.array([63, 0, 17]), 0),
        lambda x: dml.gelu(dml.add(x, 1.0)),
        lambda x: dml.gemm(x, weights),
    ]
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster),
    ):
        for call in calls:
            host = da.from_array(x, chunks=(16, 96))
            result = call(host.map_blocks(cupy.asarray)).compute()
            assert isinstance(result, cupy.ndarray)
            np.testing.assert_allclose(result.get(), call(host).compute(), rtol=1e-5, atol=1e-5)
