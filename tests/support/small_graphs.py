"""Graphs of a few operators that several tests run."""

from __future__ import annotations

from typing import Any

import numpy as np

import anydml as dml

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6) - 7


def crop_and_sum(device: Any = None) -> tuple[dml.Graph, dml.Expression, dml.Expression]:
    g = dml.Graph(device)
    x = g.input(T("float32", (4, 6)), "x")
    crop = dml.slice1(x, [1, 0], [3, 6], [1, -2]).named("crop")
    return g, crop, dml.cumulative_summation(crop, axis=-1).named("total")


def gathering(device: Any = None) -> dml.CompiledGraph:
    """Three outputs, of which one is needed by a gather that may raise, one is its own, and one is of neither."""
    g = dml.Graph(device)
    x, i = g.input(T("float32", (4, 6)), "x"), g.input(T("int64", (2, 1)), "i")
    total = dml.cumulative_summation(x, axis=1)
    picked = dml.gather_nd(total, i).named("pick")
    return g.compile([total, picked, dml.slice(x, [0, 0], [1, 6])])
