"""What functions and devices refuse, with the message that a user reads."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from refusals import BUILT, UNBUILT, Broken, check_refusal

T = dml.TensorDesc
F4 = T("float32", (1, 1, 4, 4))

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
           lambda: dml.slice(np.ma.masked_greater(X, 0), (0, 0), (1, 1)),  # type: ignore[no-untyped-call]  # NumPy has no type for it
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
           "GATHER_ND: IndicesTensor must be a whole number, being of INT64; got 0.0"),
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
           lambda: dml.slice(X, {0: 1}, (1, 1), device=dml.Device(feature_level="2_1")),  # type: ignore[call-overload]  # wrong on purpose
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
           lambda: dml.cumulative_summation(np.ones(3), 7, "sideways", "maybe"),  # type: ignore[call-overload]  # wrong on purpose
           "CUMULATIVE_SUMMATION: 3 rules are broken\n"
           "  Axis must lie in -1 .. 0; got 7\n"
           "  AxisDirection must be one of INCREASING, DECREASING; got 'sideways'\n"
           "  HasExclusiveSum must be True or False; got 'maybe'"),
    Broken("level and axis at once", lambda: dml.cumulative_summation(np.ones(3), 7),
           "CUMULATIVE_SUMMATION: 2 rules are broken\n"
           "  InputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64, INT64; got FLOAT64;"
           ' pass x.astype("float32"): no feature level takes it; or take it as an extension with allow_float64=True\n'
           "  Axis must lie in -1 .. 0; got 7"),
    Broken("an operator made by hand", lambda: dml.Operator(dml.Device(), BAD),
           "SLICE: Offsets[0] + (Sizes[0] - 1) * Strides[0] must be below InputTensor.Sizes[0]; got 9 + 3 * 1 >= 4"),
    Broken("no operator to compile",
           lambda: dml.CompiledOperator(None, dml.ExecutionFlags.NONE),  # type: ignore[arg-type]  # wrong on purpose
           "CompiledOperator: operator must be an Operator; got None"),
    Broken("missing engine", lambda: dml.slice(X, (0, 0), (1, 1), device="tpu"),
           "Device: there is no device 'tpu' in this version; there are 'cuda', 'cpu', 'reference'",
           dml.MissingDependencyError),
    Broken("no device", lambda: dml.slice(X, (0, 0), (1, 1), device=X[:1]),  # type: ignore[call-overload]  # wrong on purpose
           "Device: there is no device array([[1., 1., 1., 1.]], dtype=float32) in this version; there are 'cuda',"
           " 'cpu', 'reference'", dml.MissingDependencyError),
    Broken("unknown level", lambda: dml.Device(feature_level="7_0"),
           "Device: feature_level must be one of 1_0, 2_0, 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, 5_2, 6_0, 6_1, 6_2, 6_3,"
           " 6_4; got '7_0'"),
    Broken("an operator not built", lambda: dml.support(f"DML_OPERATOR_{UNBUILT}"),
           f"{UNBUILT}: the operator is not built yet; there are {BUILT} of DirectML's {len(dml.OperatorType) - 1}; "
           "`anydml support` lists them",
           dml.UnsupportedError),
    Broken("no operator", lambda: dml.support("SLICE9"),
           "OperatorType: must be the name or the number of a DirectML operator, such as DML_OPERATOR_SLICE1;"
           " got 'SLICE9'; did you mean slice?"),
    Broken("no description", lambda: dml.Device().compile(F4),  # type: ignore[arg-type]  # wrong on purpose
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


@pytest.mark.parametrize("broken", FUNCTIONS, ids=str)
@pytest.mark.usefixtures("unbuilt")
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


def test_the_function_reports_level_and_window_together() -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        dml.slice(np.ones(4), 3, 2, device=dml.Device(feature_level="3_0"))
    assert [fault.field for fault in caught.value.faults] == ["InputTensor.DataType", "Offsets[0]"]


def test_nothing_is_written_when_an_index_is_outside() -> None:
    out = np.full((2, 4), 7, "float32")
    with pytest.raises(dml.IndexRangeError):
        dml.gather_nd(X, [[0], [3]], out=out)
    assert (out == 7).all()
    assert dml.gather_nd(X, [[0], [3]], index_mode="clamp", out=out) is out
    assert (out == 1).all()
