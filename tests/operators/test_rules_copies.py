"""Every rule of slices, gathers and running sums, broken alone, with the message that a user reads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from refusals import Broken, check_refusal, create

if TYPE_CHECKING:
    from collections.abc import Callable


T = dml.TensorDesc
F4 = T("float32", (1, 1, 4, 4))


def slice_(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": F4,
        "output_tensor": T("float32", (1, 1, 2, 2)),
        "offsets": (0, 0, 1, 0),
        "sizes": (1, 1, 2, 2),
        "strides": (1, 1, 2, 3),
    }
    return create(dml.Slice, level, **{**fields, **changes})


def slice1(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": F4,
        "output_tensor": T("float32", (1, 1, 2, 2)),
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": (1, 1, -2, 2),
    }
    return create(dml.Slice1, level, **{**fields, **changes})


def gather(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": T("float32", (1, 2, 3, 4)),
        "indices_tensor": T("uint32", (1, 1, 5, 2)),
        "output_tensor": T("float32", (1, 1, 5, 4)),
        "input_dimension_count": 3,
        "indices_dimension_count": 2,
    }
    return create(dml.GatherND, level, **{**fields, **changes})


def gather1(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": T("float32", (1, 2, 3, 4)),
        "indices_tensor": T("int64", (1, 2, 5, 1)),
        "output_tensor": T("float32", (1, 2, 5, 4)),
        "input_dimension_count": 3,
        "indices_dimension_count": 3,
        "batch_dimension_count": 1,
    }
    return create(dml.GatherND1, level, **{**fields, **changes})


def total(cls: Any = dml.CumulativeSummation, **changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {"input_tensor": F4, "output_tensor": F4, "axis": 3}
    return create(cls, level, **{**fields, **changes})


SLICES = [
    Broken("offsets too short", slice_(offsets=(0, 0, 0)),
           "SLICE: Offsets must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("sizes too long", slice_(sizes=(1, 1, 2, 2, 1)),
           "SLICE: Sizes must have 4 values, one for each dimension of InputTensor; got 5"),
    Broken("strides too short", slice_(strides=()),
           "SLICE: Strides must have 4 values, one for each dimension of InputTensor; got 0"),
    Broken("size 0", slice_(sizes=(1, 1, 0, 2)), "SLICE: Sizes[2] must be at least 1; got 0"),
    Broken("stride 0", slice_(strides=(1, 0, 1, 1)), "SLICE: Strides[1] must be at least 1; got 0"),
    Broken("negative slice stride", slice_(strides=(1, 1, 1, -1)), "SLICE: Strides[3] must be at least 1; got -1"),
    Broken("negative offset", slice_(offsets=(0, 0, -1, 0)), "SLICE: Offsets[2] must be at least 0; got -1"),
    Broken("past the end", slice_(offsets=(0, 0, 1, 1)),
           "SLICE: Offsets[3] + (Sizes[3] - 1) * Strides[3] must be below InputTensor.Sizes[3]; got 1 + 1 * 3 >= 4",
           field="Offsets[3]"),
    Broken("other output sizes", slice_(output_tensor=T("float32", (1, 1, 2, 1))),
           "SLICE: OutputTensor.Sizes must be (1, 1, 2, 2), the Sizes of the slice; got (1, 1, 2, 1)"),
    Broken("other output rank", slice_(output_tensor=T("float32", (1, 1, 1, 2, 2))),
           "SLICE: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 5"),
    Broken("other output type", slice_(output_tensor=T("int32", (1, 1, 2, 2))),
           "SLICE: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("broadcast output", slice_(output_tensor=T("float32", (1, 1, 2, 2), strides=(0, 0, 0, 1))),
           "SLICE: OutputTensor.Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 0, 1) for sizes (1, 1, 2, 2)"),
    Broken("overlapping output", slice_(output_tensor=T("float32", (1, 1, 2, 2), strides=(0, 0, 1, 1))),
           "SLICE: OutputTensor.Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 1, 1) for sizes (1, 1, 2, 2)"),
    Broken("owned output", slice_(output_tensor=T("float32", (1, 1, 2, 2), flags="OWNED_BY_DML")),
           "SLICE: OutputTensor.Flags must not have OWNED_BY_DML, which is for inputs"),
    Broken("no tensor", slice_(input_tensor=None),
           "SLICE: InputTensor must be a TensorDesc; got None; describe an array with TensorDesc.of(array)"),
    Broken("INT8 at 1_0",
           slice_(input_tensor=T("int8", (1, 1, 4, 4)), output_tensor=T("int8", (1, 1, 2, 2)), level="1_0"),
           "SLICE: InputTensor of INT8 needs DML_FEATURE_LEVEL_2_1; this device is 1_0", dml.FeatureLevelError),
    Broken("too few dimensions at 2_1",
           create(dml.Slice, "2_1", input_tensor=T("int8", (4,)), output_tensor=T("int8", (1,)),
                  offsets=0, sizes=1, strides=1),
           "SLICE: InputTensor of 1 dimension needs DML_FEATURE_LEVEL_3_0; this device is 2_1, which takes 4 or 5",
           dml.FeatureLevelError),
    Broken("stride 0 in the window", slice1(input_window_strides=(1, 1, 0, 1)),
           "SLICE1: InputWindowStrides[2] must not be 0", field="InputWindowStrides[2]"),
    Broken("stride past 32 bits", slice1(input_window_strides=(1, 1, 2**31, 1)),
           "SLICE1: InputWindowStrides[2] must be at most 2147483647; got 2147483648"),
    Broken("empty window", slice1(input_window_sizes=(1, 1, 0, 3)),
           "SLICE1: InputWindowSizes[2] must be at least 1; got 0"),
    Broken("window past the end", slice1(input_window_offsets=(0, 0, 0, 2)),
           "SLICE1: InputWindowOffsets[3] + InputWindowSizes[3] must not pass InputTensor.Sizes[3]; got 2 + 3 > 4",
           field="InputWindowOffsets[3]"),
    Broken("window offsets too short", slice1(input_window_offsets=(0, 0, 0)),
           "SLICE1: InputWindowOffsets must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("window sizes too short", slice1(input_window_sizes=(1, 1, 4)),
           "SLICE1: InputWindowSizes must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("window strides too long", slice1(input_window_strides=(1, 1, 1, 1, 1)),
           "SLICE1: InputWindowStrides must have 4 values, one for each dimension of InputTensor; got 5"),
    Broken("more than the window gives", slice1(output_tensor=T("float32", (1, 1, 3, 2))),
           "SLICE1: OutputTensor.Sizes[2] must lie in 1 .. 2,"
           " 1 + (InputWindowSizes[2] - 1) / |InputWindowStrides[2]|; got 3"),
    Broken("other output type 1", slice1(output_tensor=T("int32", (1, 1, 2, 2))),
           "SLICE1: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("other output rank 1", slice1(output_tensor=T("float32", (1, 2, 2))),
           "SLICE1: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("SLICE1 at 2_0", slice1(level="2_0"),
           "SLICE1: the operator needs DML_FEATURE_LEVEL_2_1; this device is 2_0", dml.FeatureLevelError),
    Broken("FLOAT64 at 4_0", slice1(input_tensor=T("float64", (1, 1, 4, 4)),
                                    output_tensor=T("float64", (1, 1, 2, 2)), level="4_0"),
           "SLICE1: InputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1; this device is 4_0", dml.FeatureLevelError),
]  # fmt: skip

GATHERS = [
    Broken("indices of another rank", gather(indices_tensor=T("uint32", (1, 5, 2))),
           "GATHER_ND: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("no input dimension", gather(input_dimension_count=0),
           "GATHER_ND: InputDimensionCount must lie in 1 .. 4, the dimensions of InputTensor; got 0"),
    Broken("too many indices dimensions", gather(indices_dimension_count=5),
           "GATHER_ND: IndicesDimensionCount must lie in 1 .. 4, the dimensions of IndicesTensor; got 5"),
    Broken("input padding that is not 1", gather(input_dimension_count=2),
           "GATHER_ND: InputTensor.Sizes[1] must be 1, because only the last InputDimensionCount = 2 dimensions count;"
           " got 2"),
    Broken("indices padding that is not 1", gather(indices_dimension_count=1),
           "GATHER_ND: IndicesTensor.Sizes[2] must be 1, because only the last IndicesDimensionCount = 1 dimensions"
           " count; got 5"),
    Broken("tuple too long", gather(indices_tensor=T("uint32", (1, 1, 5, 4))),
           "GATHER_ND: IndicesTensor.Sizes[3], the coordinates of a tuple, must lie in 1 .. 3, InputDimensionCount;"
           " got 4"),
    Broken("result that does not fit", gather(indices_tensor=T("uint32", (1, 5, 6, 1)), indices_dimension_count=4),
           "GATHER_ND: the result (1, 5, 6, 3, 4) must fit the 4 dimensions of the tensors; got 5;"
           " describe all three tensors with 5 dimensions, leading sizes of 1 added"),
    Broken("other output sizes", gather(output_tensor=T("float32", (1, 1, 5, 3))),
           "GATHER_ND: OutputTensor.Sizes must be (1, 1, 5, 4), the sizes of IndicesTensor without the last, then those"
           " of InputTensor that no tuple indexes; got (1, 1, 5, 3)"),
    Broken("other output rank", gather(output_tensor=T("float32", (5, 4))),
           "GATHER_ND: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2"),
    Broken("other output type", gather(output_tensor=T("float16", (1, 1, 5, 4))),
           "GATHER_ND: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("no index type", gather(indices_tensor=T("float32", (1, 1, 5, 2))),
           "GATHER_ND: IndicesTensor must be of UINT32, INT32, UINT64, INT64; got FLOAT32;"
           " no feature level takes it, so convert the data first"),
    Broken("index type at 2_1", gather(indices_tensor=T("int32", (1, 1, 5, 2)), level="2_1"),
           "GATHER_ND: IndicesTensor of INT32 needs DML_FEATURE_LEVEL_3_0; this device is 2_1", dml.FeatureLevelError),
    Broken("index mode", gather(index_mode="wrap"),
           "GATHER_ND: IndexMode must be one of 'raise', 'clamp'; got 'wrap'"),
    Broken("batch too large for the input", gather1(batch_dimension_count=3, indices_dimension_count=4),
           "GATHER_ND1: BatchDimensionCount must be below InputDimensionCount, 3; got 3"),
    Broken("batch too large for the indices", gather1(batch_dimension_count=2, indices_dimension_count=2,
                                                      indices_tensor=T("int64", (1, 1, 2, 3)), input_dimension_count=4),
           "GATHER_ND1: BatchDimensionCount must be below IndicesDimensionCount, 2; got 2"),
    Broken("batches that differ", gather1(indices_tensor=T("int64", (1, 3, 5, 1))),
           "GATHER_ND1: IndicesTensor.Sizes[1], batch dimension 0, must be the input's, 2; got 3"),
    Broken("tuple too long in a batch", gather1(indices_tensor=T("int64", (1, 2, 5, 3))),
           "GATHER_ND1: IndicesTensor.Sizes[3], the coordinates of a tuple, must lie in 1 .. 2, InputDimensionCount"
           " less BatchDimensionCount; got 3"),
    Broken("GATHER_ND1 at 2_1", gather1(level="2_1"),
           "GATHER_ND1: the operator needs DML_FEATURE_LEVEL_3_0; this device is 2_1", dml.FeatureLevelError),
]  # fmt: skip

CUMULATIVE = [
    Broken("axis", total(axis=4), "CUMULATIVE_SUMMATION: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("negative axis", total(axis=-1), "CUMULATIVE_SUMMATION: Axis must be at least 0; got -1"),
    Broken("direction", total(axis_direction="up"),
           "CUMULATIVE_SUMMATION: AxisDirection must be one of INCREASING, DECREASING; got 'up'"
           "; did you mean INCREASING?"),
    Broken("exclusive", total(has_exclusive_sum="no"),
           "CUMULATIVE_SUMMATION: HasExclusiveSum must be True or False; got 'no'"),
    Broken("exclusive product", total(dml.CumulativeProduct, has_exclusive_product=2),
           "CUMULATIVE_PRODUCT: HasExclusiveProduct must be True or False; got 2"),
    Broken("other sizes", total(output_tensor=T("float32", (1, 1, 4, 5))),
           "CUMULATIVE_SUMMATION: OutputTensor.Sizes must be (1, 1, 4, 4), InputTensor.Sizes; got (1, 1, 4, 5)"),
    Broken("other rank", total(output_tensor=T("float32", (1, 4, 4))),
           "CUMULATIVE_SUMMATION: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other type", total(output_tensor=T("float16", (1, 1, 4, 4))),
           "CUMULATIVE_SUMMATION: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("INT64 at 4_0",
           total(input_tensor=T("int64", (1, 1, 4, 4)), output_tensor=T("int64", (1, 1, 4, 4)), level="4_0"),
           "CUMULATIVE_SUMMATION: InputTensor of INT64 needs DML_FEATURE_LEVEL_5_0; this device is 4_0",
           dml.FeatureLevelError, "InputTensor.DataType"),
    Broken("FLOAT64 at every level",
           total(input_tensor=T("float64", (4, 4)), output_tensor=T("float64", (4, 4)), axis=0),
           "CUMULATIVE_SUMMATION: InputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64, INT64;"
           " got FLOAT64; no feature level takes it, so convert the data first, or take it as an extension with"
           " allow_float64=True"),
    Broken("UINT16 product", total(dml.CumulativeProduct, input_tensor=T("uint16", (4, 4)),
                                   output_tensor=T("uint16", (4, 4)), axis=0),
           "CUMULATIVE_PRODUCT: InputTensor must be of FLOAT32, FLOAT16, UINT32, INT32, UINT64, INT64;"
           " got UINT16; no feature level takes it, so convert the data first"),
    Broken("dimensions at 3_1", total(dml.CumulativeProduct, input_tensor=T("float32", (1, 1, 1, 4, 4)),
                                      output_tensor=T("float32", (1, 1, 1, 4, 4)), level="3_1"),
           "CUMULATIVE_PRODUCT: InputTensor of 5 dimensions needs DML_FEATURE_LEVEL_4_0; this device is 3_1,"
           " which takes 4", dml.FeatureLevelError),
]  # fmt: skip


@pytest.mark.parametrize("broken", [*SLICES, *GATHERS, *CUMULATIVE], ids=str)
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


@pytest.mark.parametrize("act", [slice_(), slice1(), gather(), gather1(), total(), total(dml.CumulativeProduct)])
def test_what_the_broken_ones_start_from_is_valid(act: Callable[[], object]) -> None:
    assert isinstance(act(), dml.Operator)


def test_errors_carry_what_a_caller_needs() -> None:
    with pytest.raises(dml.FeatureLevelError) as caught:
        total(input_tensor=T("int64", (2, 2)), output_tensor=T("int64", (2, 2)), axis=0, level="2_1")()
    error = caught.value
    assert error.needed == dml.FeatureLevel("5_0")
    assert (error.subject, error.field, error.value) == (
        "CUMULATIVE_SUMMATION",
        "InputTensor.DataType",
        dml.DataType.INT64,
    )
    assert error.hresult == 0x887A0004
    assert isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes: errors cross process pools
    assert str(copy) == str(error)
