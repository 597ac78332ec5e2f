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


DRAW = np.random.default_rng(3)
CUBE = DRAW.normal(size=(4, 6, 8)).astype("float32")
IMAGES = DRAW.normal(size=(2, 3, 8, 9)).astype("float32")
FILTER = DRAW.normal(size=(4, 3, 3, 3)).astype("float32")
PLACES = DRAW.integers(-6, 6, (4, 3, 8))
TUPLES = np.array([[3, 0], [-1, 5], [1, 1], [3, 0]])
UPDATES = DRAW.normal(size=(4, 3, 8)).astype("float32")

MOVED: list[tuple[str, Callable[[Any], Any]]] = [
    ("slice", lambda x: dml.slice(x, [1, 0, 1], [3, 6, 3], [1, 1, 2])),
    ("slice1, backwards", lambda x: dml.slice1(x, [1, 0, 1], [3, 6, 7], [1, -2, -3])),
    ("slice1, fewer", lambda x: dml.slice1(x, [0, 0, 0], [4, 6, 8], [1, 1, 2], output_sizes=[4, 6, 2])),
    ("join", lambda x: dml.join([x, x[:1]], 0)),
    ("split", lambda x: dml.split(x, [1, 5], 1)),
    ("tile", lambda x: dml.tile(x, [1, 2, 3])),
    ("largest", lambda x: dml.top_k(x, 1, 4)),
    ("smallest of equals", lambda x: dml.top_k1(dml.round(x), 0, 3, axis_direction="increasing")),
    *((f"padding, {mode}", lambda x, mode=mode: dml.padding(x, [1, 0, 2], [0, 2, 1], padding_mode=mode))
      for mode in ("constant", "edge", "reflection", "symmetric", "wrap")),
    ("running product", lambda x: dml.cumulative_product(x, 1)),
    *((f"running sum of {kind}", lambda x, kind=kind: dml.cumulative_summation(dml.cast(x, kind), 1))
      for kind in ("float16", "float32", "int32", "int64")),
    *((f"running sum along {axis}", lambda x, axis=axis: dml.cumulative_summation(x, axis, "decreasing", True))
      for axis in (0, 1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("call", [call for _, call in MOVED], ids=[name for name, _ in MOVED])
def test_elements_move_across_blocks(call: Callable[[Any], Any]) -> None:
    same(call(lazy(CUBE, 2, 3, 4)), call(CUBE))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_gather_from_and_by_cut_arrays(axis: int) -> None:
    indices = np.array([[3, 0, -1], [2, 2, 1]])
    same(dml.gather(lazy(CUBE, 2, 3, 4), lazy(indices, 1, 2), axis), dml.gather(CUBE, indices, axis))
    far = indices * 5
    same(dml.gather(lazy(CUBE, 2, 3, 4), lazy(far, 1, 2), axis, "clamp"), dml.gather(CUBE, far, axis, "clamp"))


def test_gathers_of_points_and_along_an_axis() -> None:
    x = lazy(CUBE, 2, 3, 4)
    same(dml.gather_nd(x, lazy(TUPLES, 2, 1)), dml.gather_nd(CUBE, TUPLES))
    points = np.array([[3, 0, 1], [2, 5, 2], [1, 1, 7]], "uint32")
    same(dml.gather_nd(x, lazy(points, 2, 3)), dml.gather_nd(CUBE, points))
    same(dml.gather_nd(x, lazy(PLACES[:, :, :1], 3, 2, 1), 1), dml.gather_nd(CUBE, PLACES[:, :, :1], 1))
    same(dml.gather_elements(x, lazy(PLACES, 3, 2, 5), 1), dml.gather_elements(CUBE, PLACES, 1))


def test_scatters_into_a_cut_base_keep_the_last_of_equals() -> None:
    x = lazy(CUBE, 2, 3, 4)
    updates = UPDATES[:, 0]
    same(dml.scatter_nd(x, lazy(TUPLES, 2, 1), lazy(updates, 3, 2)), dml.scatter_nd(CUBE, TUPLES, updates))
    wanted = dml.scatter(CUBE, PLACES, UPDATES, 1)
    same(dml.scatter(x, lazy(PLACES, 3, 2, 4), lazy(UPDATES, 3, 3, 5), 1), wanted)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: dml.gather(x, i, 1),
        lambda x, i: dml.gather_nd(x, i[:, None] if isinstance(i, np.ndarray) else i.map_blocks(_column, new_axis=1)),
    ],
    ids=["gather", "gather_nd"],
)
def test_an_index_outside_of_a_cut_source_is_named_by_its_place_in_the_whole(call: Callable[[Any, Any], Any]) -> None:
    indices = np.array([0, 1, 2, 3, 9, 0])
    with pytest.raises(dml.IndexRangeError, match=r"indices\[4\] = ") as whole:
        call(CUBE, indices)
    with pytest.raises(dml.IndexRangeError) as caught:
        call(lazy(CUBE, 2, 3, 4), lazy(indices, 2)).compute(scheduler="synchronous")
    assert str(caught.value) == str(whole.value)
    assert "in block (2" in caught.value.__notes__[0]


def _column(block: Any) -> Any:
    return block[:, None]


def test_windows_reach_over_blocks() -> None:
    x = lazy(IMAGES, 1, 3, 4, 5)
    padded: Any = {"start_padding": 1, "end_padding": 1}
    bias = DRAW.normal(size=(1, 4, 1, 1)).astype("float32")
    near(dml.convolution(x, FILTER, bias, **padded), dml.convolution(IMAGES, FILTER, bias, **padded), 30)
    strided: Any = {"strides": 2, "dilations": 2, **padded}
    near(dml.convolution(x, FILTER, **strided), dml.convolution(IMAGES, FILTER, **strided), 30)
    same(dml.max_pooling(x, [3, 2], 2, **padded), dml.max_pooling(IMAGES, [3, 2], 2, **padded))
    near(dml.average_pooling(x, [3, 2], **padded), dml.average_pooling(IMAGES, [3, 2], **padded))


def test_images_are_resampled_and_rearranged_across_blocks() -> None:
    x = lazy(IMAGES, 1, 2, 4, 5)
    same(dml.upsample_2d(x, [2, 3]), dml.upsample_2d(IMAGES, [2, 3]))
    same(dml.space_to_depth(x[:, :, :, :8], 2), dml.space_to_depth(IMAGES[:, :, :, :8], 2))
    same(dml.unfold(x, [2, 2]), dml.unfold(IMAGES, [2, 2]))


def test_a_halo_is_cut_where_its_block_is() -> None:
    found = dml.max_pooling(lazy(IMAGES, 2, 3, 4, 9), [3, 3], 1, 1, 1)
    cuts = [key for key in found.dask if isinstance(key, tuple) and str(key[0]).endswith("-cut")]
    assert cuts
    assert found.chunks[2] == (5, 3)


def test_indices_in_memory_read_the_blocks_that_they_point_into() -> None:
    x = np.arange(160, dtype="int32").reshape(40, 4)

    def fail(block: Any, block_info: Any = None) -> Any:
        (at, _) = block_info[0]["chunk-location"]
        if at == 1:
            raise OSError
        return block

    source = lazy(x, 10, 4).map_blocks(fail, dtype="int32")
    indices = np.array([39, -40, 25, 0])
    same(dml.gather(source, indices, 0), dml.gather(x, indices, 0))


def test_what_many_blocks_give_to_few_is_sent_in_groups() -> None:
    x = np.arange(160, dtype="int32").reshape(40, 4)
    indices = np.random.default_rng(3).permutation(40)
    found = dml.gather(lazy(x, 1, 4), lazy(indices, 20), 0)
    same(found, dml.gather(x, indices, 0))
    assert sum(str(key[0]).endswith("-part") for key in found.dask if isinstance(key, tuple)) == 2 * 2
    held = dml.gather(lazy(x, 1, 4), indices[:20].reshape(4, 5), 0)
    same(held, dml.gather(x, indices[:20].reshape(4, 5), 0))


def test_indices_in_memory_come_in_blocks_whose_results_are_no_larger_than_the_source_s() -> None:
    x = np.arange(160, dtype="int32").reshape(40, 4)
    indices = np.arange(40)[::-1].copy()
    found = dml.gather(lazy(x, 8, 4), indices, 0)
    assert found.chunks[0] == (8,) * 5
    same(found, dml.gather(x, indices, 0))
