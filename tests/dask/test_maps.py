"""Functions on dask arrays: lazy results as in memory, named refusals, in both settings of `array.query-planning`."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")
import dask  # noqa: E402 - where Dask is

from lazies import lazy, near, same  # noqa: E402 - where Dask is

X = np.random.default_rng(1).normal(size=(4, 6, 8)).astype("float32")
Y = np.random.default_rng(2).normal(size=(4, 6, 8)).astype("float32")


def cut(x: np.ndarray[Any, Any] = X) -> Any:
    return lazy(x, 2, 3, 8)


CALLS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("exp", lambda x, y: dml.exp(x)),
    ("scaled", lambda x, y: dml.sqrt(x, scale_bias=(2.0, 1.0))),
    ("add", lambda x, y: dml.add(x, y)),
    ("add a row", lambda x, y: dml.add(x, y[0])),
    ("add a column", lambda x, y: dml.add(x, y[:, :1])),
    ("outer", lambda x, y: dml.multiply(x[:, :, :1], y[:1])),
    ("a number", lambda x, y: dml.add(x, 2.0)),
    ("numbers", lambda x, y: dml.multiply(x, [1, 2, 3, 4, 5, 6, 7, 8])),
    ("truths", lambda x, y: dml.logical_less_than(x, y)),
    ("if", lambda x, y: dml.if_(dml.logical_less_than(x, y), x, y)),
    ("cast", lambda x, y: dml.cast(x, "uint8")),
    ("rows in one block", lambda x, y: dml.softmax1(x, axes=[2])),
    ("a norm in one block", lambda x, y: dml.mean_variance_normalization1(x, [2], y[:1, :1])),
    ("a sum in one block", lambda x, y: dml.reduce(x, "sum", axes=[2])),
    ("a running sum in one block", lambda x, y: dml.cumulative_summation(x, 2)),
    ("indices beside", lambda x, y: dml.gather(x, np.array([1, -1, 0]), 2)),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_blocks_that_need_no_other_give_the_bits_of_the_whole(call: Callable[[Any, Any], Any]) -> None:
    same(call(cut(), cut(Y)), call(X, Y))


def test_a_chain_is_one_task_a_block() -> None:
    x, y = (da.full(X.shape, value, chunks=(2, 3, 8), dtype="float32") for value in (4, -1))
    chain = dml.softmax1(dml.add(dml.sqrt(x), y), axes=[2]).map_blocks(np.abs)
    (found,) = dask.optimize(chain)
    assert len(found.dask) == chain.npartitions
    same(chain, dml.softmax1(np.ones(X.shape, "float32"), axes=[2]))


def test_blocks_lie_in_unused_memory_of_earlier_ones() -> None:
    x = da.ones((4, 2**18), chunks=(1, -1), dtype="float32")
    places = dml.exp(x).map_blocks(place, chunks=(1, 1), dtype=np.int64)
    assert len({*places.compute(scheduler="sync").flat}) == 1
    held = dml.exp(x).persist(scheduler="sync")
    assert len({*held.map_blocks(place, chunks=(1, 1), dtype=np.int64).compute(scheduler="sync").flat}) == 4
    np.testing.assert_array_equal(held.compute(), dml.exp(np.ones(x.shape, "float32")))


def place(block: Any) -> Any:
    return np.array([[block.__array_interface__["data"][0] if block.size else 0]])


def test_blocks_that_do_not_meet_and_arrays_in_memory() -> None:
    wanted = dml.add(X, Y)
    same(dml.add(cut(), lazy(Y, 4, 2, 8)), wanted)
    same(dml.add(cut(), Y), wanted)
    same(dml.add(X, cut(Y)), wanted)


def test_products_of_rows_and_columns_in_blocks() -> None:
    near(dml.gemm(cut(), cut(Y), trans_b="transpose"), dml.gemm(X, Y, trans_b="transpose"), 8)


def test_several_results_come_from_one_task() -> None:
    same(dml.top_k(cut(), 2, 3), dml.top_k(X, 2, 3))


def test_booleans_and_arrays_without_dimensions() -> None:
    truth = X > 0
    same(dml.logical_not(cut(truth)), dml.logical_not(truth))
    same(dml.exp(da.from_array(np.float32(2.0))), dml.exp(np.array(2.0, "float32")))


def test_names_chunks_and_tokens_are_as_dask_has_them() -> None:
    found = dml.exp(cut())
    assert found.name.startswith("exp-")
    assert found.chunks == cut().chunks
    assert found.name == dml.exp(cut()).name
    assert found.name != dml.exp(cut(Y)).name
    assert dml.add(cut(), 0.0).name != dml.add(cut(), -0.0).name
    code = (
        "import dask.array as da, numpy as np, anydml as dml\n"
        "print(dml.exp(da.from_array(np.arange(8, dtype='float32'), chunks=2, name='x')).name)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    x = da.from_array(np.arange(8, dtype="float32"), chunks=2, name="x")
    assert other.stdout.strip() == dml.exp(x).name


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    x = cut().map_blocks(fail, meta=np.empty((0, 0, 0), "float32"))
    assert dml.add(dml.exp(x), x).shape == X.shape
    with pytest.raises(dml.UnsupportedError):
        dml.reverse_subsequences(x, np.full((4, 1, 8), 3, "uint32"), 1)


def test_what_has_no_form_in_blocks_says_what_to_rechunk() -> None:
    lengths = np.full((4, 1, 8), 3, "uint32")
    with pytest.raises(dml.UnsupportedError, match=r"one block along axis 1; got 2 blocks .*x\.rechunk\(\{1: -1\}\)"):
        dml.reverse_subsequences(cut(), lengths, 1)
    same(dml.reverse_subsequences(cut().rechunk({1: -1}), lengths, 1), dml.reverse_subsequences(X, lengths, 1))


def test_rules_are_told_at_the_call() -> None:
    with pytest.raises(dml.DescriptionError, match="ELEMENT_WISE_ADD"):
        dml.add(cut(), cut(Y)[:, :, :3])
    with pytest.raises(dml.DescriptionError, match="out must not be given with a dask array"):
        dml.exp(cut(), out=X)
    unknown = cut()[da.from_array(np.array([True] * 4), chunks=2)]
    with pytest.raises(dml.DescriptionError, match=r"known sizes.*compute_chunk_sizes"):
        dml.exp(unknown)
    with pytest.raises(dml.FeatureLevelError):
        dml.bit_not(cut().astype("int32"), device=dml.Device(feature_level="1_0"))


def test_an_index_outside_is_named_by_its_place_in_the_whole() -> None:
    indices = da.from_array(np.array([0, 1, 2, 3, 9, 0]), chunks=2)
    with pytest.raises(dml.IndexRangeError, match=r"indices\[4\] = 9") as caught:
        dml.gather(cut(), indices, 2).compute(scheduler="synchronous")
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"in block \(\d, \d, 2\) of gather", note)


def test_more_elements_than_a_tensor_of_directml_has() -> None:
    x = da.zeros((2**17, 2**17), chunks=(2**10, 2**17), dtype="float32")
    y = dml.exp(x)
    assert y.shape == x.shape
    same(y[:2, :2], np.ones((2, 2), "float32"))
    with pytest.raises(dml.DescriptionError, match="2\\^32"):
        dml.TensorDesc("float32", (2**17, 2**17))


@pytest.mark.long
def test_the_same_with_query_planning() -> None:
    parts = "bits or several or outside"
    code = f"""
import dask, pytest, sys
dask.config.set({{"array.query-planning": True}})
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", {parts!r}, "-x", {__file__!r}]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert run.returncode == 0, run.stdout[-3000:]
