"""Products of matrices and quantisation: what they compute in every type, layout and level, and what is refused."""

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


T = dml.TensorDesc
A, B, HALF = T("float32", (2, 3)), T("float32", (3, 4)), T("float16", (3, 4))
U, I = T("uint8", (2, 3)), T("int8", (3, 4))  # noqa: E741 - of the type
ONE, BYTE = T("float32", (1, 1)), T("uint8", (1, 1))
SOFTMAX1 = {"Type": "ACTIVATION_SOFTMAX1", "Axes": [2]}
PRODUCT = {"a_tensor": U, "b_tensor": I, "a_scale_tensor": ONE, "b_scale_tensor": ONE}


def gemm(**more: Any) -> dml.OperatorDesc:
    return dml.Gemm.infer(**{"a_tensor": A, "b_tensor": B, **more})


def checked(desc: dml.OperatorDesc) -> None:
    dml.Device("reference").create_operator(desc)


def integers(**more: Any) -> dml.OperatorDesc:
    return dml.MatrixMultiplyInteger.infer(**{"a_tensor": U, "b_tensor": I, **more})


def quantized(**more: Any) -> dml.OperatorDesc:
    return dml.QuantizedLinearMatrixMultiply.infer(**{**PRODUCT, "output_scale_tensor": ONE, **more})


def to_float(**more: Any) -> dml.OperatorDesc:
    return dml.MatrixMultiplyIntegerToFloat.infer(**{**PRODUCT, **more})


def quantize(**more: Any) -> dml.OperatorDesc:
    given = {"input_tensor": A, "quantization_type": "SCALE", "quantization_tensors": [ONE], **more}
    return dml.Quantize.infer(**given)


def line(**more: Any) -> dml.OperatorDesc:
    return dml.ElementWiseQuantizeLinear.infer(**{"input_tensor": A, "scale_tensor": A, **more})


def added(**more: Any) -> dml.OperatorDesc:
    scales = dict.fromkeys(("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), ONE)
    return dml.ElementWiseQuantizedLinearAdd.infer(**{"a_tensor": U, "b_tensor": U, **scales, **more})


def dynamic(**more: Any) -> dml.OperatorDesc:
    return dml.DynamicQuantizeLinear.infer(input_tensor=A, **more)


BROKEN: list[tuple[Any, str]] = [
    (lambda: gemm(b_tensor=T("float32", (4, 3))),
     "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[1], 3; got 4; TransB TRANSPOSE would fit"),
    (lambda: gemm(trans_a=True), "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[0], 2; got 3"),
    (lambda: gemm(trans_b="TRANSPOSE"),
     "GEMM: BTensor.Sizes[1] must be ATensor.Sizes[1], 3; got 4; TransB NONE would fit"),
    (lambda: gemm(a_tensor=T("float32", (5, 2, 3)), b_tensor=T("float32", (4, 3, 4))),
     "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[0], 5; got 4; a stride of 0 repeats a matrix"),
    (lambda: gemm(b_tensor=HALF), "GEMM: BTensor.DataType must be ATensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: gemm(a_tensor=T("float32", (3,)), b_tensor=T("float32", (3,))),
     "GEMM: ATensor must have at least 2 dimensions, which are a matrix's; got (3,)"),
    (lambda: gemm(b_tensor=T("float32", (1, 3, 4))),
     "GEMM: BTensor.DimensionCount must be ATensor.DimensionCount, 2; got 3"),
    (lambda: gemm(c_tensor=T("float32", (1, 4))),
     "GEMM: CTensor.Sizes must be (2, 4), the rows of ATensor and the columns of BTensor; got (1, 4)"),
    (lambda: checked(dml.Gemm(a_tensor=A, b_tensor=B, output_tensor=A)),
     "GEMM: OutputTensor.Sizes must be (2, 4), the rows of ATensor and the columns of BTensor; got (2, 3)"),
    (lambda: gemm(trans_a="SIDEWAYS"), "GEMM: TransA must be one of NONE, TRANSPOSE; got 'SIDEWAYS'"),
    (lambda: gemm(alpha="2 of them"), "GEMM: Alpha must be a number; got '2 of them'"),
    (lambda: gemm(fused_activation="SWISH"), "GEMM: FusedActivation.Type must be one of ACTIVATION_CELU, "),
    (lambda: gemm(fused_activation=SOFTMAX1), "GEMM: FusedActivation.Axes"),
    (lambda: integers(a_zero_point_tensor=T("int8", (1, 1))),
     "MATRIX_MULTIPLY_INTEGER: AZeroPointTensor.DataType must be ATensor.DataType, UINT8; got INT8"),
    (lambda: integers(a_zero_point_tensor=T("uint8", (3, 1))),
     ("MATRIX_MULTIPLY_INTEGER: AZeroPointTensor.Sizes must be (1, 1) or (2, 1), a number for all or one for each row;"
     " got (3, 1)")),
    (lambda: integers(b_zero_point_tensor=T("int8", (1, 2))),
     ("MATRIX_MULTIPLY_INTEGER: BZeroPointTensor.Sizes must be (1, 1) or (1, 4), a number for all or one for each"
      " column; got (1, 2)")),
    (lambda: integers(b_zero_point_tensor=T("int8", (3,))),
     ("MATRIX_MULTIPLY_INTEGER: BZeroPointTensor.Sizes must be (1,) or (4,), a number for all or one for each column;"
     " got (3,)")),
    (lambda: to_float(bias_tensor=T("float32", (1, 4))),
     ("MATRIX_MULTIPLY_INTEGER_TO_FLOAT: BiasTensor.Sizes must be (2, 4), the rows of ATensor and the columns of"
     " BTensor; got (1, 4)")),
    (lambda: to_float(b_scale_tensor=T("float16", (1, 1))),
     "MATRIX_MULTIPLY_INTEGER_TO_FLOAT: BScaleTensor.DataType must be AScaleTensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: quantized(b_scale_tensor=T("float32", (1,))),
     "QUANTIZED_LINEAR_MATRIX_MULTIPLY: BScaleTensor.DimensionCount must be AScaleTensor.DimensionCount, 2; got 1"),
    (lambda: checked(quantized(output_zero_point_tensor=BYTE, output_tensor=T("int8", (2, 4)))),
     "QUANTIZED_LINEAR_MATRIX_MULTIPLY: OutputTensor.DataType must be OutputZeroPointTensor.DataType, UINT8; got INT8"),
    (lambda: line(scale_tensor=T("float16", (2, 3))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: line(input_tensor=T("int32", (2, 3)), scale_tensor=T("float16", (2, 3))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.DataType must be FLOAT32 with an InputTensor of INT32; got FLOAT16"),
    (lambda: line(scale_tensor=ONE),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.Sizes must be (2, 3), InputTensor.Sizes; got (1, 1)"),
    (lambda: checked(line(zero_point_tensor=U, output_tensor=T("int8", (2, 3)))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: OutputTensor.DataType must be ZeroPointTensor.DataType, UINT8; got INT8"),
    (lambda: added(b_scale_tensor=T("float32", (2, 2))),
     "ELEMENT_WISE_QUANTIZED_LINEAR_ADD: BScaleTensor.Sizes[1] must be 3 as ATensor.Sizes[1] is, or 1; got 2"),
    (lambda: added(a_zero_point_tensor=T("int8", (1, 1))),
     "ELEMENT_WISE_QUANTIZED_LINEAR_ADD: AZeroPointTensor.DataType must be ATensor.DataType, UINT8; got INT8"),
    (lambda: checked(dynamic(output_scale_tensor=T("float32", (1, 2)))),
     "DYNAMIC_QUANTIZE_LINEAR: OutputScaleTensor.Sizes must be (1, 1), one element; got (1, 2)"),
    (lambda: checked(dynamic(output_zero_point_tensor=T("int8", (1, 1)))),
     "DYNAMIC_QUANTIZE_LINEAR: OutputZeroPointTensor.DataType must be OutputTensor.DataType, UINT8; got INT8"),
    (lambda: quantize(quantization_type="NONE"),
     "QUANTIZE: QuantizationType must be SCALE or SCALE_ZERO_POINT; got NONE"),
    (lambda: quantize(quantization_type="SCALE_ZERO_POINT"),
     ("QUANTIZE: QuantizationTensors must have 2 tensors, the scale and the zero point, for a QuantizationType of"
     " SCALE_ZERO_POINT; got 1")),
    (lambda: quantize(quantization_tensors=[ONE, BYTE]),
     "QUANTIZE: QuantizationTensors must have 1 tensor, the scale, for a QuantizationType of SCALE; got 2"),
    (lambda: quantize(quantization_tensors=[T("float32", (2, 2))]),
     "QUANTIZE: QuantizationTensors[0].Sizes[1] must divide InputTensor.Sizes[1], 3, into blocks; got 2"),
    (lambda: quantize(quantization_tensors=[T("float32", (1,))]),
     "QUANTIZE: QuantizationTensors[0].DimensionCount must be InputTensor.DimensionCount, 2; got 1"),
    (lambda: quantize(quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ONE, T("uint8", (2, 1))]),
     "QUANTIZE: QuantizationTensors[1].Sizes must be (1, 1), QuantizationTensors[0].Sizes; got (2, 1)"),
    (lambda: checked(quantize(output_tensor=T("int4", (2, 3), strides=(5, 1)))),
     ("QUANTIZE: OutputTensor.Strides must put two elements in every byte: without gaps, or of 1 along an even size and"
     " even otherwise; got strides (5, 1) for sizes (2, 3); an odd count of 4-bit elements across a stride leaves half"
     " of a byte; leave Strides out")),
    (lambda: dml.Dequantize.infer(input_tensor=U, quantization_type="SCALE", quantization_tensors=[BYTE]),
     "DEQUANTIZE: QuantizationTensors[0], the scale, must be of FLOAT32 or FLOAT16; got UINT8"),
    (lambda: dml.Dequantize.infer(
        input_tensor=U, quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ONE, T("int8", (1, 1))]),
     "DEQUANTIZE: QuantizationTensors[1].DataType must be InputTensor.DataType, UINT8; got INT8"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BROKEN, ids=lambda one: one[:60] if isinstance(one, str) else "")
def test_a_broken_rule_is_worded(make: Any, message: str) -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        make()
    assert str(caught.value).startswith(message)


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
