"""What moves elements across blocks: slices, gathers, scatters, running sums, windows, padding, the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")
from lazies import lazy, near, same  # noqa: E402 - where Dask is

DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(4, 6, 8)).astype("float32")
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
    same(call(lazy(X, 2, 3, 4)), call(X))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_gather_from_and_by_cut_arrays(axis: int) -> None:
    indices = np.array([[3, 0, -1], [2, 2, 1]])
    same(dml.gather(lazy(X, 2, 3, 4), lazy(indices, 1, 2), axis), dml.gather(X, indices, axis))
    far = indices * 5
    same(dml.gather(lazy(X, 2, 3, 4), lazy(far, 1, 2), axis, "clamp"), dml.gather(X, far, axis, "clamp"))


def test_gathers_of_points_and_along_an_axis() -> None:
    x = lazy(X, 2, 3, 4)
    same(dml.gather_nd(x, lazy(TUPLES, 2, 1)), dml.gather_nd(X, TUPLES))
    points = np.array([[3, 0, 1], [2, 5, 2], [1, 1, 7]], "uint32")
    same(dml.gather_nd(x, lazy(points, 2, 3)), dml.gather_nd(X, points))
    same(dml.gather_nd(x, lazy(PLACES[:, :, :1], 3, 2, 1), 1), dml.gather_nd(X, PLACES[:, :, :1], 1))
    same(dml.gather_elements(x, lazy(PLACES, 3, 2, 5), 1), dml.gather_elements(X, PLACES, 1))


def test_scatters_into_a_cut_base_keep_the_last_of_equals() -> None:
    x = lazy(X, 2, 3, 4)
    updates = UPDATES[:, 0]
    same(dml.scatter_nd(x, lazy(TUPLES, 2, 1), lazy(updates, 3, 2)), dml.scatter_nd(X, TUPLES, updates))
    wanted = dml.scatter(X, PLACES, UPDATES, 1)
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
        call(X, indices)
    with pytest.raises(dml.IndexRangeError) as caught:
        call(lazy(X, 2, 3, 4), lazy(indices, 2)).compute(scheduler="synchronous")
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
