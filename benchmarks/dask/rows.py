"""The rows of the table: what is computed of an array in a Zarr store, by anydml and by Dask with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

import anydml as dml

DRAW = np.random.default_rng(1)


@dataclass(frozen=True)
class Row:
    name: str
    most: float
    """The share of Dask's CPU time that is to be reached."""
    mine: Callable[[Any], Any]
    other: Callable[[Any], Any]


@dataclass(frozen=True)
class Alone:
    """A row that is run alone, for its memory."""

    name: str
    mine: Callable[[Any], Any]


def _rows(x: Any) -> Any:
    return np.random.default_rng(1).integers(0, x.shape[0], 16384)


def _points(x: Any) -> Any:
    draw = np.random.default_rng(2)
    return np.stack([draw.integers(0, size, 65536) for size in x.shape], axis=1)


def _softmax(x: Any) -> Any:
    power = da.exp(x - x.max(axis=0, keepdims=True))
    return power / power.sum(axis=0, keepdims=True)


def _exclusive(x: Any) -> Any:
    return da.cumsum(x, axis=0, dtype="float64") - x


ROWS = [
    Row("running sum", 0.5, lambda x: dml.cumulative_summation(x, 0), lambda x: da.cumsum(x, axis=0, dtype="float64")),
    Row("running sum, exclusive", 0.5, lambda x: dml.cumulative_summation(x, 0, "increasing", True), _exclusive),
    Row(
        "running sum, decreasing",
        0.5,
        lambda x: dml.cumulative_summation(x, 0, "decreasing"),
        lambda x: da.cumsum(x[::-1], axis=0, dtype="float64")[::-1],
    ),
    Row("16,384 rows", 0.5, lambda x: dml.gather(x, _rows(x), 0), lambda x: x[_rows(x)]),
    Row("65,536 points", 1.0, lambda x: dml.gather_nd(x, _points(x)), lambda x: x.vindex[tuple(_points(x).T)]),
    Row(
        "slice",
        1.05,
        lambda x: dml.slice1(x, [1, 1], [x.shape[0] - 2, x.shape[1] - 2], [1, -2]),
        lambda x: x[1:-1, x.shape[1] - 2 : 0 : -2],
    ),
    Row("map", 0.6, lambda x: dml.exp(x, (-2.0, 1.0)), lambda x: x.map_blocks(_three, dtype="float32")),
    Row("softmax", 0.5, lambda x: dml.softmax1(x, axes=[0]), _softmax),
    Row("sum", 1.0, lambda x: dml.reduce(x, "sum", axes=[0]), lambda x: x.sum(axis=0, keepdims=True)),
    Row("largest 8", 1.0, lambda x: dml.top_k(x, 0, 8)[0], lambda x: da.topk(x, 8, axis=0)),
]


def _three(block: Any) -> Any:
    return np.exp(np.multiply(block, np.float32(-2.0)) + np.float32(1.0))


def _scatter(x: Any) -> Any:
    return dml.scatter_nd(x, _points(x), np.arange(65536, dtype="float32"))


def _windows(x: Any) -> Any:
    """As one image of one channel."""
    return x[None, None]


FILTER = DRAW.random((1, 1, 3, 3), "float32")
WEIGHTS = DRAW.random((4096, 64), "float32")
PADDED: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1]}
ALONE = [
    Alone("scatter of 65,536 points", _scatter),
    Alone("convolution", lambda x: dml.convolution(_windows(x), FILTER, **PADDED)),
    Alone("largest of 3 x 3", lambda x: dml.max_pooling(_windows(x), [3, 3], 1, **PADDED)),
    Alone("padding", lambda x: dml.padding(x, [100, 100], [100, 100], padding_mode="reflection")),
    Alone("gemm", lambda x: dml.gemm(x, WEIGHTS)),
    Alone("gemm, cut", lambda x: dml.gemm(x, x[:, :64], trans_a="transpose")),
]
