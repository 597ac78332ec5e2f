"""The products of matrices and the operators that quantise: what they compute, in every type, layout and level."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import anydml as dml
from doors import through_compiled, through_objects
from families.elementwise import assert_within
from families.products import expected
from places import get, put

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


@pytest.mark.judges("GEMM")
@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize(
    ("batch", "activation"),
    [
        ((), "SOFTMAX"),
        ((1, 1), "ACTIVATION_SOFTMAX"),
        ((2,), {"Type": "SOFTMAX1", "Axes": [2]}),
        ((2, 3), {"Type": "SOFTMAX1", "Axes": [1, 3]}),
    ],
)
def test_a_softmax_is_a_step_over_the_result(
    engine: str, data_type: str, batch: tuple[int, ...], activation: Any
) -> None:
    device, rng = dml.Device(engine), np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (*batch, *sizes)).astype(data_type) for sizes in ((5, 3), (3, 7)))
    desc = dml.Gemm.infer(
        a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc.of(b), alpha=0.5, fused_activation=activation
    )
    (wanted,) = expected(desc, {"ATensor": a, "BTensor": b})
    for got in (*through_compiled(device, desc, [a, b]), through_objects(device, desc, [a, b])):
        assert_within(got, wanted, 8 if data_type == "float32" else 1)


@pytest.mark.judges("GEMM")
@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_sums_are_of_float32_or_better(engine: str, data_type: str) -> None:
    """Against float64: each term is rounded once, and the sum a few times more."""
    device, rng = dml.Device(engine), np.random.default_rng(2)
    a, b, c = (rng.standard_normal(sizes).astype(data_type) for sizes in ((37, 129), (65, 129), (37, 65)))
    left, right, added = (put(one, device) for one in (a, b, c))
    got = get(dml.gemm(left, right, added, trans_b=True, device=device)).astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T + np.abs(c)
    last = np.finfo(data_type).eps / 2 * np.abs(exact)
    assert (np.abs(got - exact) <= 16 * np.finfo(np.float32).eps * size + last).all()
