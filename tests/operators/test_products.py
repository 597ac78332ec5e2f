"""Products of matrices and quantisation: what they compute in every type, layout and level, and what is refused."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import anydml as dml
from doors import through_compiled, through_objects
from families.broken_rules import A, B, gemm, line, quantize
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


T = dml.TensorDesc


@pytest.mark.parametrize(
    ("desc", "level", "rule"),
    [
        (gemm(), "3_1", "ATensor of 2 dimensions needs DML_FEATURE_LEVEL_4_0"),
        (gemm(fused_activation={"Type": "CLIP", "Min": 0, "Max": 1}), "5_2",
         "FusedActivation of ELEMENT_WISE_CLIP needs DML_FEATURE_LEVEL_6_0"),
        (gemm(fused_activation="SOFTMAX"), "6_0",
         "FusedActivation of ACTIVATION_SOFTMAX needs DML_FEATURE_LEVEL_6_1"),
        (line(), "6_1", "ZeroPointTensor must be given before DML_FEATURE_LEVEL_6_2"),
        (quantize(), "6_2", "the operator needs DML_FEATURE_LEVEL_6_3"),
    ],
)  # fmt: skip
def test_a_level_that_lacks_something_says_which_has_it(desc: dml.OperatorDesc, level: str, rule: str) -> None:
    assert rule in [fault.rule for fault in desc.check(level).faults]
    assert desc.check()
    assert str(desc.check().lowest_level) == rule.rpartition("LEVEL_")[2]


def test_matrices_are_counted_as_numpy_broadcasts() -> None:
    """In functions and graphs; so does C, and a number is for all."""
    a, b = np.ones((2, 1, 3, 4), "float32"), np.ones((5, 4, 6), "float32")
    for c in (None, 2.0, [1.0, 2, 3, 4, 5, 6], np.ones((3, 1), "float32")):
        wanted = a @ b + (0 if c is None else np.asarray(c, "float32"))
        np.testing.assert_array_equal(dml.gemm(a, b, c), wanted)
    g = dml.Graph("reference")
    np.testing.assert_array_equal(g.compile(g.input(a) @ g.input(b))(a, b), a @ b)
    with pytest.raises(dml.DescriptionError, match=r"ATensor.Sizes\[:-2\] and BTensor.Sizes\[:-2\] must be equal"):
        dml.gemm(np.ones((2, 3, 4), "float32"), b)
    with pytest.raises(dml.DescriptionError, match=r"GEMM: ATensor must have at least 2 dimensions, .*x\[None, :\]"):
        dml.gemm(a[0, 0, 0], b)
    with pytest.raises(dml.DescriptionError, match=r"CTensor.Sizes must be \(2, 5, 3, 6\), .*; got \(1, 1, 1, 5\)"):
        dml.gemm(a, b, np.ones(5, "float32"))


def test_scales_are_numbers_rows_or_columns() -> None:
    a, b = np.arange(6, dtype="uint8").reshape(2, 3), np.arange(12, dtype="int8").reshape(3, 4)
    rows, columns = np.array([1, 2], "uint8"), np.array([1, 2, 3, 4], "int8")
    wanted = (a.astype(int) - rows[:, None]) @ (b.astype(int) - columns)
    for level in ("2_1", "6_4"):  # the first takes 4 dimensions alone
        device = dml.Device("reference", feature_level=level)
        np.testing.assert_array_equal(dml.matrix_multiply_integer(a, b, rows, columns, device=device), wanted)
        np.testing.assert_array_equal(
            dml.matrix_multiply_integer(a, b, rows[:, None], columns[None], device=device), wanted
        )
    found = dml.matrix_multiply_integer_to_float(a, 0.5, b, columns.astype("float32"), rows, bias=1.0)
    np.testing.assert_array_equal(found, ((a.astype(int) - rows[:, None]) @ b) * (0.5 * columns) + 1)
    assert found.dtype == np.float32


def test_bytes_as_4_bit_elements() -> None:
    x, scale = np.arange(-12, 12, dtype="float32").reshape(4, 6), np.full((4, 2), 0.5, "float32")
    data = dml.quantize(x, scale, data_type="int4")
    assert (data.shape, data.dtype) == ((4, 3), np.uint8)
    wanted = np.clip(x, -4, 3.5)
    np.testing.assert_array_equal(dml.dequantize(data, scale, data_type="int4"), wanted)
    zeros = np.full((4, 1), 0x53, "uint8")  # 3, then 5
    both = np.repeat([[3, 5]], 3, axis=1) * np.ones((4, 1), int)
    data = dml.quantize(x, scale, zeros, "uint4")
    numbers = np.clip(np.rint(x / 0.5) + both, 0, 15)
    np.testing.assert_array_equal(dml.dequantize(data, scale, zeros, "uint4"), (numbers - both) * 0.5)
    out = np.zeros((4, 3), "uint8")
    assert dml.quantize(x, scale, zeros, "uint4", out=out) is out
    np.testing.assert_array_equal(out, data)
    calls: list[tuple[Any, str]] = [
        (lambda: dml.dequantize(data[:, ::2], scale, data_type="uint4"), "InputTensor must be of UINT4, or bytes of"),
        (lambda: dml.dequantize(data, scale, data_type="int8"), "data_type must be that of x, UINT8, or uint4"),
        (lambda: dml.quantize(x, scale, zeros[:2], "uint4"), r"QuantizationTensors\[1\] must be of UINT4, or bytes"),
        (lambda: dml.quantize(x, scale, data_type="four"), "data_type must be one of"),
    ]
    for call, message in calls:
        with pytest.raises(dml.DescriptionError, match=message):
            call()


def test_a_beta_of_0_leaves_c_out(engine: str) -> None:
    bad = np.full((2, 4), np.nan, "float32")
    a, b = (np.ones(tensor.sizes, "float32") for tensor in (A, B))
    desc = gemm(c_tensor=T("float32", (2, 4)), beta=0)
    np.testing.assert_array_equal(dml.Device(engine).compile(desc)(a, b, bad), np.full((2, 4), 3.0))


def test_sums_of_many_bytes_are_exact(engine: str) -> None:
    """More than an INT32 holds, scaled down again."""
    a, b = np.full((1, 40_000), 255, "uint8"), np.full((40_000, 1), 255, "uint8")
    found = dml.matrix_multiply_integer_to_float(a, 2.0**-16, b, 1.0, device=engine)
    assert found.item() == np.float32(40_000 * 255**2) * 2.0**-16
