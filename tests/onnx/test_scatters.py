"""Scatters in ONNX models that add up, multiply or compare, against NumPy; and what does not fit beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

from anydml.onnx import Backend  # isort: skip - after the models, which leave this out where onnx is missing

REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "int64"])
def test_scatters_that_add_up(reduction: str, kind: str) -> None:
    """Of indices that are given at a run, with many of them alike, and of a corner of the data."""
    rng, fold = np.random.default_rng(3), REDUCTIONS[reduction]
    data = rng.integers(-3, 4, (5, 4, 6)).astype(kind)
    indices = rng.integers(-4, 4, (3, 7, 6))
    updates = rng.integers(-2, 3, indices.shape).astype(kind)
    wanted = data.copy()
    for i, j, k in np.ndindex(indices.shape):
        place = (i, indices[i, j, k], k)
        wanted[place] = fold(wanted[place], updates[i, j, k])
    (got,) = Backend.run_node(
        node("ScatterElements", "x i u", "y", axis=1, reduction=reduction), [data, indices, updates]
    )
    np.testing.assert_array_equal(got, wanted)
    tuples = rng.integers(-4, 4, (9, 2))
    rows = rng.integers(-2, 3, (9, 6)).astype(kind)
    wanted = data.copy()
    for place, row in zip(tuples, rows, strict=True):
        wanted[tuple(place)] = fold(wanted[tuple(place)], row)
    (got,) = Backend.run_node(node("ScatterND", "x i u", "y", reduction=reduction), [data, tuples, rows])
    np.testing.assert_array_equal(got, wanted)
    with pytest.raises(dml.IndexRangeError):
        Backend.run_node(node("ScatterND", "x i u", "y", reduction=reduction), [data, tuples + 4, rows])


@pytest.mark.parametrize("step", [-1, -2, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_of_a_scatter(axis: int, step: int) -> None:
    """The slice is where the scatter writes to: rows, and their elements, may run backwards there."""
    data, indices = np.arange(42, dtype="float32").reshape(6, 7), np.array([[4], [-6], [4]])
    updates = -np.arange(21, dtype="float32").reshape(3, 7)
    ends = {"s": [-1 if step < 0 else 0], "e": [-100 if step < 0 else 100], "a": [axis], "t": [step]}
    made = model(
        [node("ScatterND", "x i u", "y"), node("Slice", "y s e a t", "z")],
        {name: (array.dtype, array.shape) for name, array in (("x", data), ("i", indices), ("u", updates))},
        "z",
        {name: np.array(number) for name, number in ends.items()},
    )
    (got,) = Backend.run_model(made, [data, indices, updates])
    wanted = data.copy()
    wanted[indices[:, 0]] = updates
    np.testing.assert_array_equal(got, wanted[::step] if axis == 0 else wanted[:, ::step])


BROKEN = [
    (node("ScatterND", "x i u", "y", reduction="sum"), [np.ones(2, "float32"), np.array([[0]]), np.ones(1, "float32")],
     "reduction must be none, add, mul, max, min; got 'sum'"),
    (node("Compress", "x c", "y", axis=0), [np.ones(2, "float32"), np.array([True] * 3)],
     "condition must be no longer than the axis, 2; got 3"),
    (node("Compress", "x c", "y"), [np.ones(2, "float32"), np.array(True)], "condition must have 1 dimension"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "arrays", "message"), BROKEN, ids=[message[:30] for *_, message in BROKEN])
def test_what_does_not_fit_is_told(broken: Any, arrays: list[Any], message: str) -> None:
    with pytest.raises(dml.ModelError) as caught:
        Backend.run_node(broken, arrays)
    assert message in str(caught.value)
