"""Every rule, broken alone, with the message that a user reads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from refusals import BUILT, UNBUILT, Broken, check_refusal, create

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


TENSORS = [
    Broken("size 0", lambda: T("float32", (2, 0)), "TensorDesc: Sizes[1] must be at least 1; got 0"),
    Broken(
        "size too large",
        lambda: T("float32", (2**32,)),
        "TensorDesc: Sizes[0] must be at most 4294967295; got 4294967296",
    ),
    Broken("no dimension", lambda: T("float32", ()), "TensorDesc: Sizes must have 1 to 8 dimensions; got 0"),
    Broken("nine dimensions", lambda: T("float32", (1,) * 9), "TensorDesc: Sizes must have 1 to 8 dimensions; got 9"),
    Broken(
        "too many elements",
        lambda: T("uint8", (65536, 65536)),
        "TensorDesc: Sizes must multiply to at most 2^32 - 1 = 4294967295 elements; got 4294967296",
    ),
    Broken(
        "an extent that wraps in 32 bits",
        lambda: T("uint8", (3,), strides=(2**31,)),
        "TensorDesc: Sizes and Strides must span at most 2^32 - 1 = 4294967295 elements; got 4294967297",
    ),
    Broken(
        "strides of another length",
        lambda: T("float32", (2, 2), strides=(1,)),
        "TensorDesc: Strides must have as many dimensions as Sizes, 2; got 1",
    ),
    Broken(
        "negative stride",
        lambda: T("float32", (2,), strides=(-1,)),
        "TensorDesc: Strides[0] must be at least 0; got -1; signed_strides=True describes an array that runs backwards",
    ),
    Broken(
        "total too small",
        lambda: T("float16", (3,), total_tensor_size_in_bytes=6),
        "TensorDesc: TotalTensorSizeInBytes must be at least the 8 that sizes, strides and type imply; got 6",
    ),
    Broken(
        "total too large",
        lambda: T("uint8", (3,), total_tensor_size_in_bytes=2**33),
        "TensorDesc: TotalTensorSizeInBytes must be at most 2^32 - 1 elements, 4294967295 for UINT8; got 8589934592",
    ),
    Broken(
        "alignment no power of two",
        lambda: T("uint8", (3,), guaranteed_base_offset_alignment=24),
        "TensorDesc: GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the element's size,"
        " 1 for UINT8; got 24",
    ),
    Broken(
        "alignment below the element",
        lambda: T("float64", (3,), guaranteed_base_offset_alignment=4),
        "TensorDesc: GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the element's size,"
        " 8 for FLOAT64; got 4",
    ),
    Broken(
        "signed strides",
        lambda: T("float32", (2,), signed_strides="no"),  # type: ignore[arg-type]
        "TensorDesc: signed_strides must be True or False; got 'no'",
    ),
    Broken(
        "unknown type",
        lambda: T("float8", (3,)),
        "TensorDesc: DataType must be one of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64,"
        " UINT64, INT64, UINT4, INT4; got 'float8'",
    ),
    Broken(
        "unknown flag",
        lambda: T("uint8", (3,), flags=2),
        "TensorDesc: Flags must be one of NONE, OWNED_BY_DML; got 2",
    ),
    Broken(
        "sizes that are no list",
        lambda: T("uint8", "4"),  # type: ignore[arg-type]
        "TensorDesc: Sizes must be a list of whole numbers, one for each dimension; got '4'",
    ),
    Broken(
        "a size that is no number",
        lambda: T("uint8", (2, 1.5)),  # type: ignore[arg-type]
        "TensorDesc: Sizes[1] must be a whole number; got 1.5",
    ),
]

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
           "CUMULATIVE_SUMMATION: AxisDirection must be one of INCREASING, DECREASING; got 'up'"),
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
           " got FLOAT64; no feature level takes it, so convert the data first, or take it as an addition with"
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

X = np.ones((3, 4), "float32")
BAD = dml.Slice(input_tensor=T("int8", 4), output_tensor=T("int8", 4), offsets=[9], sizes=[4], strides=[1])
FUNCTIONS = [
    Broken("axis out of range", lambda: dml.cumulative_summation(X, 2),
           "CUMULATIVE_SUMMATION: Axis must lie in -2 .. 1; got 2"),
    Broken("no array", lambda: dml.slice(None, 0, 1),
           "SLICE: InputTensor must be an array: NumPy's, one that speaks DLPack, or a list of numbers; got None"),
    Broken("text", lambda: dml.slice("abc", [0], [1]),
           "SLICE: InputTensor must be an array: NumPy's, one that speaks DLPack, or a list of numbers; got 'abc'"),
    Broken("empty array", lambda: dml.slice(X[:0], (0, 0), (1, 1)),
           "SLICE: InputTensor.Sizes[0] must be at least 1; got 0"),
    Broken("array without dimensions", lambda: dml.cumulative_summation(np.float32(3), 0),
           "CUMULATIVE_SUMMATION: InputTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("nine dimensions", lambda: dml.slice(np.ones((1,) * 9), (0,) * 9, (1,) * 9),
           "SLICE: InputTensor.Sizes must have 1 to 8 dimensions; got 9"),
    Broken("masked array",
           lambda: dml.slice(np.ma.masked_greater(X, 0), (0, 0), (1, 1)),  # type: ignore[no-untyped-call]
           "SLICE: InputTensor has a mask, which no operator knows of; got a MaskedArray;"
           " pass its .data, or .filled(...)"),
    Broken("output sizes and out", lambda: dml.slice1(X, (0, 0), (3, 4), None, (2, 2), out=np.empty((2, 3), "float32")),
           "SLICE1: out must have the output_sizes, (2, 2); got (2, 3)"),
    Broken("output sizes too large", lambda: dml.slice1(X, (0, 0), (3, 4), None, (4, 4)),
           "SLICE1: OutputTensor.Sizes[0] must lie in 1 .. 3,"
           " 1 + (InputWindowSizes[0] - 1) / |InputWindowStrides[0]|; got 4"),
    Broken("output sizes of 0", lambda: dml.slice1(X, (0, 0), (3, 4), None, (0, 4)),
           "SLICE1: OutputTensor.Sizes[0] must be at least 1; got 0"),
    Broken("batch count", lambda: dml.gather_nd(X, [[0]], batch_dimension_count=-1),
           "GATHER_ND1: BatchDimensionCount must be at least 0; got -1"),
    Broken("too large a batch count", lambda: dml.gather_nd(X, [[0]], batch_dimension_count=2),
           "GATHER_ND1: 2 rules are broken\n"
           "  BatchDimensionCount must be below InputDimensionCount, 2; got 2\n"
           "  BatchDimensionCount must be below IndicesDimensionCount, 2; got 2"),
    Broken("indices without dimensions", lambda: dml.gather_nd(X, 1),
           "GATHER_ND: IndicesTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("float indices", lambda: dml.gather_nd(X, [[0.0]]),
           "GATHER_ND: IndicesTensor must be of UINT32, INT32, UINT64, INT64; got FLOAT32;"
           " no feature level takes it, so convert the data first"),
    Broken("index outside", lambda: dml.gather_nd(X, [[0, 1], [2, -5], [9, 9]]),
           'GATHER_ND: indices[1] = (2, -5) is outside dimension 1 of size 4; take -4 .. 3, or index_mode="clamp" for'
           " the nearest element", dml.IndexRangeError, "IndicesTensor"),
    Broken("unsigned index outside", lambda: dml.gather_nd(X, np.array([2**64 - 1], "uint64")),
           "GATHER_ND: indices = (18446744073709551615,) is outside dimension 0 of size 3; take 0 .. 2, or"
           ' index_mode="clamp" for the nearest element', dml.IndexRangeError),
    Broken("index outside in a batch", lambda: dml.gather_nd(X, [[[0]], [[3]], [[4]]], 1),
           "GATHER_ND1: indices[2, 0] = (4,) is outside dimension 1 of size 4; take -4 .. 3, or"
           ' index_mode="clamp" for the nearest element', dml.IndexRangeError),
    Broken("result too large", lambda: dml.gather_nd(np.broadcast_to(np.uint8(1), (1, 70000)),
                                                     np.broadcast_to(np.uint32(0), (70000, 1))),
           "GATHER_ND: OutputTensor.Sizes must multiply to at most 2^32 - 1 = 4294967295 elements; got 4900000000"),
    Broken("window past the end, described with four dimensions",
           lambda: dml.slice1(X, (0, 2), (3, 3), device=dml.Device(feature_level="2_1")),
           "SLICE1: InputWindowOffsets[1] + InputWindowSizes[1] must not pass InputTensor.Sizes[1]; got 2 + 3 > 4"),
    Broken("too many values, described with four dimensions",
           lambda: dml.slice(X, (0, 0, 0), (1, 1), device=dml.Device(feature_level="2_1")),
           "SLICE: Offsets must have 2 values, one for each dimension of InputTensor; got 3"),
    Broken("no list, on a device that pads",
           lambda: dml.slice(X, {0: 1}, (1, 1), device=dml.Device(feature_level="2_1")),  # type: ignore[call-overload]
           "SLICE: Offsets must be a list of whole numbers, one for each dimension; got {0: 1}"),
    Broken("tuple too long, in the array's own dimensions",
           lambda: dml.gather_nd(np.ones((2, 2, 2)), np.zeros((2, 5), int)),
           "GATHER_ND: IndicesTensor.Sizes[1], the coordinates of a tuple, must lie in 1 .. 3, InputDimensionCount;"
           " got 5"),
    Broken("batches that differ, in the array's own dimensions",
           lambda: dml.gather_nd(np.ones((3, 2, 2)), [[0], [1]], 1),
           "GATHER_ND1: IndicesTensor.Sizes[0], batch dimension 0, must be the input's, 3; got 2"),
    Broken("result of too many dimensions", lambda: dml.gather_nd(np.ones((2,) * 5), np.zeros((1,) * 6, int)),
           "GATHER_ND: the result must have at most 8 dimensions; got 9"),
    Broken("result of too many dimensions for the level",
           lambda: dml.gather_nd(np.ones((2, 2, 2, 2), "int8"), np.zeros((1, 1, 1, 1), "uint32"),
                                 device=dml.Device(feature_level="2_1")),
           "GATHER_ND: a result of 6 dimensions needs DML_FEATURE_LEVEL_3_0; this device is 2_1",
           dml.FeatureLevelError),
    Broken("below the operator's first level",
           lambda: dml.slice1(X, (0, 0), (1, 1), device=dml.Device(feature_level="1_0")),
           "SLICE1: the operator needs DML_FEATURE_LEVEL_2_1; this device is 1_0", dml.FeatureLevelError),
    Broken("everything at once",
           lambda: dml.cumulative_summation(np.ones(3), 7, "sideways", "maybe"),  # type: ignore[call-overload]
           "CUMULATIVE_SUMMATION: 3 rules are broken\n"
           "  Axis must lie in -1 .. 0; got 7\n"
           "  AxisDirection must be one of INCREASING, DECREASING; got 'sideways'\n"
           "  HasExclusiveSum must be True or False; got 'maybe'"),
    Broken("level and axis at once", lambda: dml.cumulative_summation(np.ones(3), 7),
           "CUMULATIVE_SUMMATION: 2 rules are broken\n"
           "  InputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64, INT64; got FLOAT64;"
           ' pass x.astype("float32"): no feature level takes it; or take it as an addition with allow_float64=True\n'
           "  Axis must lie in -1 .. 0; got 7"),
    Broken("an operator made by hand", lambda: dml.Operator(dml.Device(), BAD),
           "SLICE: Offsets[0] + (Sizes[0] - 1) * Strides[0] must be below InputTensor.Sizes[0]; got 9 + 3 * 1 >= 4"),
    Broken("no operator to compile",
           lambda: dml.CompiledOperator(None, dml.ExecutionFlags.NONE),  # type: ignore[arg-type]
           "CompiledOperator: operator must be an Operator; got None"),
    Broken("missing engine", lambda: dml.slice(X, (0, 0), (1, 1), device="tpu"),
           "Device: there is no device 'tpu' in this version; there are 'cuda', 'cpu', 'reference'",
           dml.EngineMissingError),
    Broken("no device", lambda: dml.slice(X, (0, 0), (1, 1), device=X[:1]),  # type: ignore[call-overload]
           "Device: there is no device array([[1., 1., 1., 1.]], dtype=float32) in this version; there are 'cuda',"
           " 'cpu', 'reference'", dml.EngineMissingError),
    Broken("unknown level", lambda: dml.Device(feature_level="7_0"),
           "Device: feature_level must be one of 1_0, 2_0, 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, 5_2, 6_0, 6_1, 6_2, 6_3,"
           " 6_4; got '7_0'"),
    Broken("an operator not built", lambda: dml.support(f"DML_OPERATOR_{UNBUILT}"),
           f"{UNBUILT}: the operator is not built yet; there are {BUILT} of DirectML's 177; "
           "`anydml support` lists them",
           dml.UnsupportedError),
    Broken("no operator", lambda: dml.support("SLICE9"),
           "OperatorType: must be the name or the number of a DirectML operator, such as DML_OPERATOR_SLICE1;"
           " got 'SLICE9'"),
    Broken("no description", lambda: dml.Device().compile(F4),  # type: ignore[arg-type]
           "Device: desc must be an operator description, such as Slice1(...);"
           " got TensorDesc('float32', (1, 1, 4, 4))"),
    Broken("unknown execution flag", lambda: dml.Device().compile(total_desc(), flags="FAST"),
           "Device: flags must be one of NONE, ALLOW_HALF_PRECISION_COMPUTATION, DISABLE_META_COMMANDS,"
           " DESCRIPTORS_VOLATILE; got 'FAST'"),
    Broken("an operator of another device",
           lambda: dml.Device().compile_operator(dml.Device().create_operator(total_desc())),
           "Device: operator must be an Operator of this device; got Operator(CumulativeSummation(input_tensor="
           "TensorDesc('float32', (1, 1, 4, 4)), output_tensor=TensorDesc('float32', (1, …; see create_operator"),
    Broken("unknown feature", lambda: dml.Device().check_feature_support("SPEED", 1),
           "Device: feature must be one of TENSOR_DATA_TYPE_SUPPORT, FEATURE_LEVELS; got 'SPEED'"),
    Broken("no level supported",
           lambda: dml.Device(feature_level="2_0").check_feature_support("FEATURE_LEVELS", ["3_0"]),
           "Device: query must have a level that the device supports, up to 2_0; got ['3_0']", dml.FeatureLevelError),
]  # fmt: skip


def total_desc() -> dml.OperatorDesc:
    return dml.CumulativeSummation(input_tensor=F4, output_tensor=F4, axis=3)


@pytest.mark.parametrize("broken", [*TENSORS, *SLICES, *GATHERS, *CUMULATIVE, *FUNCTIONS], ids=str)
@pytest.mark.usefixtures("unbuilt")
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


@pytest.mark.parametrize("act", [slice_(), slice1(), gather(), gather1(), total(), total(dml.CumulativeProduct)])
def test_what_the_broken_ones_start_from_is_valid(act: Callable[[], object]) -> None:
    assert isinstance(act(), dml.Operator)


def test_faults_are_reported_together() -> None:
    desc = dml.Slice1(
        input_tensor=T("float64", (1, 4, 4)),
        output_tensor=T("float64", (1, 2, 2), strides=(0, 0, 0), flags="OWNED_BY_DML"),
        input_window_offsets=(0, 0, 2),
        input_window_sizes=(1, 0, 3),
        input_window_strides=(1, 0, 2),
    )
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device(feature_level="2_1").create_operator(desc)
    assert [fault.field for fault in caught.value.faults] == [
        "InputTensor.DataType",
        "InputTensor.DimensionCount",
        "InputWindowStrides[1]",
        "InputWindowSizes[1]",
        "InputWindowOffsets[2]",
        "OutputTensor.Flags",
        "OutputTensor.Strides",
    ]
    assert str(caught.value).startswith("SLICE1: 7 rules are broken\n  InputTensor of FLOAT64 needs")


def test_the_function_reports_level_and_window_together() -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        dml.slice(np.ones(4), 3, 2, device=dml.Device(feature_level="3_0"))
    assert [fault.field for fault in caught.value.faults] == ["InputTensor.DataType", "Offsets[0]"]


def test_a_check_reports_without_raising() -> None:
    desc = dml.CumulativeSummation.infer(input_tensor=T("uint16", (2, 3)), axis=1)
    report = desc.check("2_1")
    assert not report
    assert str(report.faults[0]) == (
        "InputTensor of 2 dimensions needs DML_FEATURE_LEVEL_4_0; this check is for 2_1, which takes 4"
    )
    assert report.lowest_level == dml.FeatureLevel("4_0")
    assert report.remarks == ("UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only",)
    assert desc.check()
    assert dml.Device().create_operator(desc).remarks == report.remarks
    never = dml.CumulativeSummation(input_tensor=T("float64", (2,)), output_tensor=T("float64", (2,)), axis=0)
    assert never.check().lowest_level is None


def test_levels_are_spelled_in_every_way() -> None:
    desc = dml.CumulativeSummation.infer(input_tensor=F4, axis=3)
    desc.validate("2_1")
    assert dml.Slice1.support.at("DML_FEATURE_LEVEL_2_1") == dml.support("SLICE1", "2_1")
    wrong: Any = np.arange(3)
    for act in (lambda: desc.check("9"), lambda: desc.validate("9"), lambda: dml.support(dml.Slice, wrong)):
        with pytest.raises(dml.DescriptionError, match="FeatureLevel: must be one of 1_0, "):
            act()


def test_support_is_data() -> None:
    row = dml.support(dml.GatherND, "2_1")
    assert row is not None
    assert row == pickle.loads(pickle.dumps(row))  # noqa: S301 - our own bytes
    assert len({row, dml.support(dml.GatherND, "2_1")}) == 1
    assert dml.support(dml.GatherND, "2_0") is None


def test_a_stride_without_meaning_may_be_of_any_size() -> None:
    far = T("float32", (1, 4), strides=(2**32 - 1, 1))
    desc = dml.Slice(
        input_tensor=far, output_tensor=T("float32", (1, 4)), offsets=(0, 0), sizes=(1, 4), strides=(2**32 - 1, 1)
    )
    x = np.arange(4, dtype="float32").reshape(1, 4)
    np.testing.assert_array_equal(dml.Device().compile(desc)(x), x)


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


def test_nothing_is_written_when_an_index_is_outside() -> None:
    out = np.full((2, 4), 7, "float32")
    with pytest.raises(dml.IndexRangeError):
        dml.gather_nd(X, [[0], [3]], out=out)
    assert (out == 7).all()
    assert dml.gather_nd(X, [[0], [3]], index_mode="clamp", out=out) is out
    assert (out == 1).all()
