"""Rows of launches that an engine replays, and the steps that look at indices between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml

pytestmark = pytest.mark.check_bounds

SIZES = (1, 1, 8, 8)


def test_steps_that_look_at_indices_are_in_no_row_that_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []

    def replayed(launch: Any) -> Any:
        rows.append(launch)
        return launch

    g = dml.Graph("reference")
    monkeypatch.setattr(g.device.engine, "replayed", replayed)
    x, i = g.input(dml.TensorDesc("float32", SIZES), "x"), g.input(dml.TensorDesc("uint32", SIZES), "i")
    picked = dml.gather_elements(dml.cumulative_summation(x, axis=3), i, axis=3)
    model = g.compile([dml.gemm(dml.gemm(picked, x), picked)])
    numbers, indices = np.random.default_rng(5).standard_normal(SIZES).astype("f4"), np.full(SIZES, 3, "u4")
    want = np.take_along_axis(np.cumsum(numbers, axis=3), indices.astype(int), axis=3)
    out = np.empty(SIZES, "f4")
    model.bind(numbers, indices, out=out).dispatch()
    np.testing.assert_allclose(out, want @ numbers @ want, rtol=1e-5)
    checked = [bool(step.primitive.checks) for step in model.recipe.steps]
    assert len(rows) == 2, checked
    assert checked.count(True) == 1
    indices[0, 0, 0, 0] = 8
    with pytest.raises(dml.IndexRangeError):
        model.bind(numbers, indices, out=out).dispatch()
