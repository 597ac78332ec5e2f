"""What functions and devices refuse, with the message that a user reads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from breaking import NO_NUMBERS, Hostile
from refusals import BUILT, UNBUILT, Broken, check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

T = dml.TensorDesc
F4 = T("float32", (1, 1, 4, 4))

ONES = np.ones((3, 4), "float32")
BAD = dml.Slice(input_tensor=T("int8", 4), output_tensor=T("int8", 4), offsets=[9], sizes=[4], strides=[1])
FUNCTIONS = [
    Broken("axis out of range", lambda: dml.cumulative_summation(ONES, 2),
           "CUMULATIVE_SUMMATION: Axis must lie in -2 .. 1; got 2"),
    Broken("no array", lambda: dml.slice(None, 0, 1),
           "SLICE: InputTensor must be an array: NumPy's, one that speaks DLPack, or a list of numbers; got None"),
    Broken("text", lambda: dml.slice("abc", [0], [1]),
           "SLICE: InputTensor must be an array: NumPy's, one that speaks DLPack, or a list of numbers; got 'abc'"),
    Broken("empty array", lambda: dml.slice(ONES[:0], (0, 0), (1, 1)),
           "SLICE: InputTensor.Sizes[0] must be at least 1; got 0"),
    Broken("array without dimensions", lambda: dml.cumulative_summation(np.float32(3), 0),
           "CUMULATIVE_SUMMATION: InputTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("nine dimensions", lambda: dml.slice(np.ones((1,) * 9), (0,) * 9, (1,) * 9),
           "SLICE: InputTensor.Sizes must have 1 to 8 dimensions; got 9"),
    Broken("masked array",
           lambda: dml.slice(np.ma.masked_greater(ONES, 0), (0, 0), (1, 1)),  # type: ignore[no-untyped-call]  # NumPy has no type for it
           "SLICE: InputTensor is a masked array, and operators have no masks; got a MaskedArray;"
           " pass its .data, or .filled(...)"),
    Broken("output sizes and out", lambda: dml.slice1(ONES, (0, 0), (3, 4), None, (2, 2), out=empty(2, 3)),
           "SLICE1: out must have the output_sizes, (2, 2); got (2, 3)"),
    Broken("output sizes too large", lambda: dml.slice1(ONES, (0, 0), (3, 4), None, (4, 4)),
           "SLICE1: OutputTensor.Sizes[0] must lie in 1 .. 3,"
           " 1 + (InputWindowSizes[0] - 1) / |InputWindowStrides[0]|; got 4"),
    Broken("output sizes of 0", lambda: dml.slice1(ONES, (0, 0), (3, 4), None, (0, 4)),
           "SLICE1: OutputTensor.Sizes[0] must be at least 1; got 0"),
    Broken("batch count", lambda: dml.gather_nd(ONES, [[0]], batch_dimension_count=-1),
           "GATHER_ND1: BatchDimensionCount must be at least 0; got -1"),
    Broken("too large a batch count", lambda: dml.gather_nd(ONES, [[0]], batch_dimension_count=2),
           "GATHER_ND1: 2 rules are broken\n"
           "  BatchDimensionCount must be below InputDimensionCount, 2; got 2\n"
           "  BatchDimensionCount must be below IndicesDimensionCount, 2; got 2"),
    Broken("indices without dimensions", lambda: dml.gather_nd(ONES, 1),
           "GATHER_ND: IndicesTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("float indices", lambda: dml.gather_nd(ONES, [[0.0]]),
           "GATHER_ND: IndicesTensor must be a whole number for INT64; got 0.0"),
    Broken("index outside", lambda: dml.gather_nd(ONES, [[0, 1], [2, -5], [9, 9]]),
           'GATHER_ND: indices[1] = (2, -5) is outside dimension 1 of size 4; take -4 .. 3, or index_mode="clamp" for'
           " the nearest element", dml.IndexRangeError, "IndicesTensor"),
    Broken("unsigned index outside", lambda: dml.gather_nd(ONES, np.array([2**64 - 1], "uint64")),
           "GATHER_ND: indices = (18446744073709551615,) is outside dimension 0 of size 3; take 0 .. 2, or"
           ' index_mode="clamp" for the nearest element', dml.IndexRangeError),
    Broken("index outside in a batch", lambda: dml.gather_nd(ONES, [[[0]], [[3]], [[4]]], 1),
           "GATHER_ND1: indices[2, 0] = (4,) is outside dimension 1 of size 4; take -4 .. 3, or"
           ' index_mode="clamp" for the nearest element', dml.IndexRangeError),
    Broken("result too large", lambda: dml.gather_nd(np.broadcast_to(np.uint8(1), (1, 70000)),
                                                     np.broadcast_to(np.uint32(0), (70000, 1))),
           "GATHER_ND: OutputTensor.Sizes must multiply to at most 2^32 - 1 = 4294967295 elements; got 4900000000"),
    Broken("window past the end, described with four dimensions",
           lambda: dml.slice1(ONES, (0, 2), (3, 3), device=dml.Device(feature_level="2_1")),
           "SLICE1: InputWindowOffsets[1] + InputWindowSizes[1] must not pass InputTensor.Sizes[1]; got 2 + 3 > 4"),
    Broken("too many values, described with four dimensions",
           lambda: dml.slice(ONES, (0, 0, 0), (1, 1), device=dml.Device(feature_level="2_1")),
           "SLICE: Offsets must have 2 values, one for each dimension of InputTensor; got 3"),
    Broken("no list, on a device that pads",
           lambda: dml.slice(ONES, {0: 1}, (1, 1), device=dml.Device(feature_level="2_1")),  # type: ignore[call-overload]  # wrong on purpose
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
           lambda: dml.slice1(ONES, (0, 0), (1, 1), device=dml.Device(feature_level="1_0")),
           "SLICE1: the operator needs DML_FEATURE_LEVEL_2_1; this device is 1_0", dml.FeatureLevelError),
    Broken("everything at once",
           lambda: dml.cumulative_summation(np.ones(3), 7, "sideways", "maybe"),  # type: ignore[call-overload]  # wrong on purpose
           "CUMULATIVE_SUMMATION: 3 rules are broken\n"
           "  Axis must lie in -1 .. 0; got 7\n"
           "  AxisDirection must be one of INCREASING, DECREASING; got 'sideways'\n"
           "  HasExclusiveSum must be True or False; got 'maybe'"),
    Broken("level and axis at once", lambda: dml.cumulative_summation(np.ones(3), 7),
           "CUMULATIVE_SUMMATION: 2 rules are broken\n"
           "  InputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64 or INT64; got FLOAT64;"
           ' pass x.astype("float32"): no feature level takes it; or take it as an extension with allow_float64=True\n'
           "  Axis must lie in -1 .. 0; got 7"),
    Broken("an operator made by hand", lambda: dml.Operator(dml.Device(), BAD),
           "SLICE: Offsets[0] + (Sizes[0] - 1) * Strides[0] must be below InputTensor.Sizes[0]; got 9 + 3 * 1 >= 4"),
    Broken("no operator to compile",
           lambda: dml.CompiledOperator(None, dml.ExecutionFlags.NONE),  # type: ignore[arg-type]  # wrong on purpose
           "CompiledOperator: operator must be an Operator; got None"),
    Broken("missing engine", lambda: dml.slice(ONES, (0, 0), (1, 1), device="tpu"),
           "Device: there is no device 'tpu' in this version; there are 'cuda', 'webgpu', 'cpu', 'reference'",
           dml.MissingDependencyError),
    Broken("no device", lambda: dml.slice(ONES, (0, 0), (1, 1), device=ONES[:1]),  # type: ignore[call-overload]  # wrong on purpose
           "Device: there is no device array([[1., 1., 1., 1.]], dtype=float32) in this version; there are 'cuda',"
           " 'webgpu', 'cpu', 'reference'", dml.MissingDependencyError),
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


NOTHING: Any = None
X = np.arange(12, dtype="float32").reshape(3, 4)
LENGTHS = np.ones((3, 1), "uint32")
LOW = dml.Device(feature_level="2_1")
LEVEL, OUTSIDE, BINDING = dml.FeatureLevelError, dml.IndexRangeError, dml.BindingError
NO_ARRAY = "must be an array: NumPy's, one that speaks DLPack, or a list of numbers; got"
TYPES = "one of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4"
EXPRESSION = "Graph.constant(array) makes it part of the graph, Graph.input(array) an input"
FIVE: Any = 5
WORD: Any = "ab"
NONE: Any = None
DEVICE: Any = dml.Device("reference")


def empty(*sizes: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(sizes, dtype)


GATHERS = [
    Broken("axis", lambda: dml.gather(X, [0], 2), "GATHER: Axis must lie in -2 .. 1; got 2", field="Axis"),
    Broken("no input", lambda: dml.gather("x", [0]), f"GATHER: InputTensor {NO_ARRAY} 'x'"),
    Broken("no indices", lambda: dml.gather(X, None), f"GATHER: IndicesTensor {NO_ARRAY} None"),
    Broken("an input without dimensions", lambda: dml.gather(np.float32(3), 0),
           "GATHER: InputTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("float indices", lambda: dml.gather(X, [0.5]),
           "GATHER: IndicesTensor must be a whole number for INT64; got 0.5"),
    Broken("index mode", lambda: dml.gather(X, [0], 0, "wrap"),  # type: ignore[call-overload]  # wrong on purpose
           "GATHER: IndexMode must be one of 'raise', 'clamp'; got 'wrap'"),
    Broken("index outside", lambda: dml.gather(X, [[0, 1], [2, -4]]),
           'GATHER: indices[1, 1] = -4 is outside the axis of size 3; take -3 .. 2, or index_mode="clamp" for the'
           " nearest element", OUTSIDE, "IndicesTensor"),
    Broken("index outside, described with four dimensions",
           lambda: dml.gather(X, np.array([0, 7], "uint32"), 1, device=LOW),
           'GATHER: indices[1] = 7 is outside the axis of size 4; take 0 .. 3, or index_mode="clamp" for the nearest'
           " element", OUTSIDE),
    Broken("an index alone outside", lambda: dml.gather(X, np.array(2**64 - 1, "uint64")),
           "GATHER: indices = 18446744073709551615 is outside the axis of size 3; take 0 .. 2, or"
           ' index_mode="clamp" for the nearest element', OUTSIDE),
    Broken("result of too many dimensions", lambda: dml.gather(np.ones((2,) * 5), np.zeros((1,) * 5, int)),
           "GATHER: the result must have at most 8 dimensions; got 9"),
    Broken("result of too many dimensions for the level",
           lambda: dml.gather(np.ones((2,) * 4, "float32"), np.zeros((2, 2), "uint32"), device=LOW),
           "GATHER: a result of 5 dimensions needs DML_FEATURE_LEVEL_3_0; this device is 2_1", LEVEL),
    Broken("out of other sizes", lambda: dml.gather(X, [0], out=empty(2, 4)),
           "GATHER: OutputTensor.Sizes must be (1, 4), the sizes of InputTensor with those of the indices in the place"
           " of the axis; got (2, 4)"),
    Broken("elements' indices of another rank", lambda: dml.gather_elements(X, [0, 1, 2, 0], 0),
           "GATHER_ELEMENTS: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 2; got 1"),
    Broken("elements' indices of another rank, on a device that pads",
           lambda: dml.gather_elements(X, np.zeros(4, "uint32"), 0, device=LOW),
           "GATHER_ELEMENTS: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 2; got 1"),
    Broken("elements' indices of other sizes", lambda: dml.gather_elements(X, [[0, 1], [0, 9]], 1),
           "GATHER_ELEMENTS: IndicesTensor.Sizes[0] must be InputTensor.Sizes[0], 3, as in every dimension but the"
           " axis; got 2"),
    Broken("element outside", lambda: dml.gather_elements(X, [[0, 1, 2, 0], [0, 0, 3, 0]], 0),
           "GATHER_ELEMENTS: indices[1, 2] = 3 is outside the axis of size 3; take -3 .. 2, or"
           ' index_mode="clamp" for the nearest element', OUTSIDE),
    Broken("below the first level",
           lambda: dml.gather_elements(X, [[0], [0], [0]], 1, device=dml.Device(feature_level="1_0")),
           "GATHER_ELEMENTS: the operator needs DML_FEATURE_LEVEL_2_1; this device is 1_0", LEVEL),
]  # fmt: skip

COPIES = [
    Broken("no scale and bias", lambda: dml.identity(X, FIVE),
           "ELEMENT_WISE_IDENTITY: ScaleBias must be a ScaleBias, a pair of numbers, or None; got 5"),
    Broken("a scale that is none", lambda: dml.identity(X, (NONE, 1.0)),
           "ELEMENT_WISE_IDENTITY: ScaleBias.Scale must be a number; got None"),
    Broken("identity into other sizes", lambda: dml.identity(X, out=empty(4, 3)),
           "ELEMENT_WISE_IDENTITY: OutputTensor.Sizes must be (3, 4), InputTensor.Sizes; got (4, 3)"),
    Broken("identity into another type", lambda: dml.identity(X, out=empty(3, 4, dtype="int32")),
           "ELEMENT_WISE_IDENTITY: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("cast to no type", lambda: dml.cast(X, "bool"),
           f"CAST: data_type must be {TYPES}; got 'bool'; DirectML has no booleans: view the array as uint8",
           field="data_type"),
    Broken("cast to nothing", lambda: dml.cast(X, NOTHING), f"CAST: data_type must be {TYPES}; got None"),
    Broken("cast of no array", lambda: dml.cast(object, "int8"), f"CAST: InputTensor {NO_ARRAY} a type"),
    Broken("cast into another type and other sizes", lambda: dml.cast(X, "int8", out=empty(3, 3, dtype="int16")),
           "CAST: 2 rules are broken\n  out must have the sizes, (3, 4); got (3, 3)\n  out must be of INT8; got INT16",
           field="OutputTensor.Sizes"),
    Broken("cast to what the level does not have", lambda: dml.cast(X, "int64", device=LOW),
           "CAST: OutputTensor of INT64 needs DML_FEATURE_LEVEL_3_0; this device is 2_1", LEVEL),
    Broken("no list to join", lambda: dml.join(X[:1], 0),  # type: ignore[call-overload]  # wrong on purpose
           "JOIN: InputTensors must be a list of at least one tensor; got array([[0., 1., 2., 3.]], dtype=float32);"
           " write join([a, b], axis)",
           field="InputTensors"),
    Broken("nothing to join", lambda: dml.join([], 0),
           "JOIN: InputTensors must be a list of at least one tensor; got []"),
    Broken("what is no array among others", lambda: dml.join([X, None], 0), f"JOIN: InputTensors[1] {NO_ARRAY} None"),
    Broken("joined of other types", lambda: dml.join([X, X.astype("float64")], 0),
           "JOIN: InputTensors[1].DataType must be InputTensors[0].DataType, FLOAT32; got FLOAT64;"
           ' pass x.astype("float32")'),
    Broken("joined of other sizes", lambda: dml.join([X, X[:, :2]], 0),
           "JOIN: InputTensors[1].Sizes[1] must be InputTensors[0].Sizes[1], 4, as in every dimension but the axis;"
           " got 2"),
    Broken("joined of fewer dimensions", lambda: dml.join([X, X[0]], 0),
           "JOIN: InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 2; got 1"),
    Broken("joined of more dimensions", lambda: dml.join([X[0], X], 0),
           "JOIN: InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 1; got 2"),
    Broken("joined of fewer dimensions, on a device that pads", lambda: dml.join([X, X[0]], 0, device=LOW),
           "JOIN: InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 2; got 1"),
    Broken("joined without dimensions", lambda: dml.join([np.float32(1)], 0),
           "JOIN: InputTensors[0].Sizes must have 1 to 8 dimensions; got 0"),
    Broken("joined along no axis", lambda: dml.join([X, X], -3), "JOIN: Axis must lie in -2 .. 1; got -3"),
    Broken("joined into a list", lambda: dml.join([X, X], 0, out=[empty(6, 4)]),
           "JOIN: OutputTensor must be an array that can be written to; got a list"),
    Broken("joined into other sizes", lambda: dml.join([X, X], 0, out=empty(5, 4)),
           "JOIN: OutputTensor.Sizes[0] must be 6, the sum of the inputs' sizes along the axis; got 5"),
    Broken("split of no array", lambda: dml.split(None, [1], 0), f"SPLIT: InputTensor {NO_ARRAY} None"),
    Broken("split along no axis", lambda: dml.split(X, [1, 2], 2), "SPLIT: Axis must lie in -2 .. 1; got 2"),
    Broken("split into none", lambda: dml.split(X, [], 0),
           "SPLIT: output_axis_sizes must have at least one size; got none", field="output_axis_sizes"),
    Broken("split by words and along none", lambda: dml.split(X, WORD, 7),
           "SPLIT: 2 rules are broken\n"
           "  Axis must lie in -2 .. 1; got 7\n"
           "  output_axis_sizes must be a list of whole numbers, 65536 at most; got 'ab'"),
    Broken("split into nothing", lambda: dml.split(X, [0, 3], 0),
           "SPLIT: output_axis_sizes[0] must be at least 1; got 0"),
    Broken("split into less", lambda: dml.split(X, [1, 1], 0),
           "SPLIT: the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[0], 3; got 2"),
    Broken("split into no list", lambda: dml.split(X, [1, 2], 0, out=FIVE),
           "SPLIT: out must be a list of arrays; got 5",
           field="out"),
    Broken("split into an array", lambda: dml.split(X[:1], [1], 0, out=empty(1, 1)),
           "SPLIT: out must be a list of arrays; got array([[0.]], dtype=float32)"),
    Broken("split into too few", lambda: dml.split(X, [1, 2], 0, out=[empty(1, 4)]),
           "SPLIT: out must be 2 arrays; got 1",
           field="out"),
    Broken("split into too many", lambda: dml.split(X, [3], 0, out=[empty(3, 4)] * 2),
           "SPLIT: out must be 1 arrays; got 2"),
    Broken("split into what is no array", lambda: dml.split(X, [1, 2], 0, out=[empty(1, 4), None]),
           "SPLIT: OutputTensors[1] must be an array that can be written to; got None"),
    Broken("split into another type and other sizes",
           lambda: dml.split(X, [1, 2], 0, out=[empty(1, 3), empty(2, 4, dtype="int32")]),
           "SPLIT: 2 rules are broken\n"
           "  out[0] must have the sizes, (1, 4); got (1, 3)\n"
           "  out[1] must be of FLOAT32; got INT32", field="OutputTensors[0].Sizes"),
    Broken("signed lengths", lambda: dml.reverse_subsequences(X, LENGTHS.astype("int64"), 1),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor must be of UINT32 or UINT64; got INT64; pass"
           ' sequence_lengths.astype("uint32"): no feature level takes it'),
    Broken("lengths of other sizes", lambda: dml.reverse_subsequences(X, LENGTHS, 0),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.Sizes must be (1, 4), the sizes of InputTensor, but 1 along the"
           " axis; got (3, 1)"),
    Broken("lengths of fewer dimensions", lambda: dml.reverse_subsequences(X, np.ones(4, "uint32"), 0),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.DimensionCount must be InputTensor.DimensionCount, 2; got 1"),
    Broken("no lengths", lambda: dml.reverse_subsequences(X, None, 1),
           f"REVERSE_SUBSEQUENCES: SequenceLengthsTensor {NO_ARRAY} None"),
]  # fmt: skip

FILLS = [
    Broken("no sizes", lambda: dml.fill_value_constant(WORD, 3),
           "FILL_VALUE_CONSTANT: OutputTensor.Sizes must be a list of whole numbers, one for each dimension; got 'ab'"),
    Broken("no dimensions", lambda: dml.fill_value_constant([], 3),
           "FILL_VALUE_CONSTANT: OutputTensor.Sizes must have 1 to 8 dimensions; got 0"),
    Broken("a size of 0", lambda: dml.fill_value_sequence([2, 0], 3, 1),
           "FILL_VALUE_SEQUENCE: OutputTensor.Sizes[1] must be at least 1; got 0"),
    Broken("no number", lambda: dml.fill_value_constant([2], WORD),
           "FILL_VALUE_CONSTANT: Value must be a number; got 'ab'"),
    Broken("a fraction", lambda: dml.fill_value_sequence([2], 1, 0.5, "int8"),
           "FILL_VALUE_SEQUENCE: ValueDelta must be a whole number for INT8; got 0.5"),
    Broken("too large", lambda: dml.fill_value_constant([2], 2**64, "uint64"),
           "FILL_VALUE_CONSTANT: Value must lie in 0 .. 18446744073709551615 for UINT64;"
           " got 18446744073709551616"),
    Broken("no type and no graph", lambda: dml.fill_value_constant([2], 3, "int5", graph=FIVE),
           "FILL_VALUE_CONSTANT: 2 rules are broken\n"
           f"  data_type must be {TYPES}; got 'int5'; did you mean INT8?\n"
           "  graph must be a Graph, or None; got 5", field="data_type"),
    Broken("a graph of another kind", lambda: dml.fill_value_sequence([2], 3, 1, graph=DEVICE),
           "FILL_VALUE_SEQUENCE: graph must be a Graph, or None; got Device('reference', feature_level='6_4')",
           field="graph"),
    Broken("a graph and a device", lambda: dml.fill_value_constant([2], 3, graph=dml.Graph(), device="cpu"),  # type: ignore[call-overload]  # wrong on purpose
           "FILL_VALUE_CONSTANT: device must not be given with an Expression: a graph is built, and nothing is run;"
           " got 'cpu'; the graph has a device already"),
    Broken("a graph and an array", lambda: dml.fill_value_constant([2], 3, graph=dml.Graph(), out=empty(2)),  # type: ignore[call-overload]  # wrong on purpose
           "FILL_VALUE_CONSTANT: out must not be given with an Expression: a graph is built, and nothing is run;"
           " got a ndarray; pass out= to the compiled graph"),
    Broken("into other sizes", lambda: dml.fill_value_constant([2], 3, out=empty(3)),
           "FILL_VALUE_CONSTANT: out must have the sizes, (2,); got (3,)"),
    Broken("into another type", lambda: dml.fill_value_constant([2], 3, "int8", out=empty(2)),
           "FILL_VALUE_CONSTANT: out must be of INT8; got FLOAT32", field="OutputTensor.DataType"),
    Broken("into no array", lambda: dml.fill_value_constant([2], 3, out=5),
           "FILL_VALUE_CONSTANT: OutputTensor must be an array that can be written to; got 5"),
    Broken("no device", lambda: dml.fill_value_constant([2], 3, device=FIVE),
           "Device: there is no device 5 in this version; there are 'cuda', 'webgpu', 'cpu', 'reference'",
           dml.MissingDependencyError),
    Broken("FLOAT64 sequences", lambda: dml.fill_value_sequence([2], 3, 1, "float64"),
           "FILL_VALUE_SEQUENCE: OutputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8,"
           " UINT64 or INT64; got FLOAT64; no feature level takes it, so convert the data first, or take it as an"
           " extension with allow_float64=True"),
    Broken("five dimensions at 2_1", lambda: dml.fill_value_constant([1] * 5, 3, device=LOW),
           "FILL_VALUE_CONSTANT: OutputTensor of 5 dimensions needs DML_FEATURE_LEVEL_4_0; this device is 2_1, which"
           " takes 4", LEVEL),
]  # fmt: skip


@pytest.mark.parametrize("broken", [*GATHERS, *COPIES, *FILLS], ids=str)
def test_function(broken: Broken) -> None:
    check_refusal(broken)


# Memory

OVERLAPS = [
    ("gather", lambda x: dml.gather(x, [0], out=x[:1])),
    ("gather_elements", lambda x: dml.gather_elements(x, np.zeros((3, 4), "int32"), 0, out=x)),
    ("identity, shifted", lambda x: dml.identity(x[0, :3], out=x[0, 1:])),
    ("identity, backwards", lambda x: dml.identity(x[0], out=x[0, ::-1])),
    ("scaled, transposed", lambda x: dml.identity(x[:, :3], (2, 1), out=x[:, :3].T)),
    ("cast", lambda x: dml.cast(x, "int32", out=x.view("int32"))),
    ("join", lambda x: dml.join([x[:1], x[1:2]], 0, out=x[1:])),
    ("split, of the input", lambda x: dml.split(x, [1, 2], 0, out=[x[:1], np.zeros((2, 4), "float32")])),
    ("split, of each other", lambda x: dml.split(np.ones((3, 4), "float32"), [1, 2], 0, out=[x[1:2], x[:2]])),
    ("reverse_subsequences", lambda x: dml.reverse_subsequences(x, LENGTHS, 1, out=x)),
]


@pytest.mark.parametrize("act", [act for _, act in OVERLAPS], ids=[name for name, _ in OVERLAPS])
def test_an_output_that_overlaps_is_refused_and_nothing_is_written(act: Any) -> None:
    x = X.copy()
    for _ in range(2):  # the second finds the call known, if the first was
        with pytest.raises(BINDING, match=r"overlap|only with the same strides"):
            act(x)
    np.testing.assert_array_equal(x, X)


def test_nothing_is_written_when_an_index_is_outside(engine: str) -> None:
    out = np.full((2, 4), 7, "float32")
    acts: list[Any] = [
        lambda mode: dml.gather(X, [0, 3], 0, mode, out=out, device=engine),
        lambda mode: dml.gather_nd(X, [[0], [3]], index_mode=mode, out=out, device=engine),
        lambda mode: dml.gather_elements(X, [[0] * 4, [0, 0, 0, -4]], 0, mode, out=out, device=engine),
    ]
    for act in acts:
        out[...] = 7
        with pytest.raises(OUTSIDE):
            act("raise")
        assert (out == 7).all()
        assert act("clamp") is out
        assert (out != 7).any()


# Hostile objects


CALLS: dict[str, Any] = {
    "gather x": lambda junk: dml.gather(junk, [0]),
    "gather indices": lambda junk: dml.gather(X, junk),
    "gather axis": lambda junk: dml.gather(X, [0], junk),
    "gather mode": lambda junk: dml.gather(X, [0], 0, junk),
    "gather_elements axis": lambda junk: dml.gather_elements(X, np.zeros((3, 4), int), junk),
    "identity x": lambda junk: dml.identity(junk),
    "identity scale": lambda junk: dml.identity(X, (junk, 1)),
    "identity out": lambda junk: dml.identity(X, out=junk),
    "cast x": lambda junk: dml.cast(junk, "int8"),
    "cast type": lambda junk: dml.cast(X, junk),
    "cast out": lambda junk: dml.cast(X, "int8", out=junk),
    "join tensors": lambda junk: dml.join(junk, 0),
    "join tensor": lambda junk: dml.join([X, junk], 0),
    "join axis": lambda junk: dml.join([X, X], junk),
    "split x": lambda junk: dml.split(junk, [1, 2], 0),
    "split sizes": lambda junk: dml.split(X, [1, junk], 0),
    "split axis": lambda junk: dml.split(X, [1, 2], junk),
    "split out": lambda junk: dml.split(X, [1, 2], 0, out=[empty(1, 4), junk]),
    "fill sizes": lambda junk: dml.fill_value_constant([2, junk], 3),
    "fill value": lambda junk: dml.fill_value_constant([2], junk),
    "sequence delta": lambda junk: dml.fill_value_sequence([2], 1, junk, "int8"),
    "fill type": lambda junk: dml.fill_value_constant([2], 3, junk),
    "fill graph": lambda junk: dml.fill_value_constant([2], 3, graph=junk),
    "reverse lengths": lambda junk: dml.reverse_subsequences(X, junk, 0),
    "reverse axis": lambda junk: dml.reverse_subsequences(X, LENGTHS, junk),
}


@pytest.mark.parametrize("name", CALLS)
def test_junk_raises_an_error_of_the_family(name: str) -> None:
    """Most of it is refused; some functions take what is junk to others, such as a number for an array."""
    with pytest.raises(dml.DmlError, match=r"must|there is no"):
        CALLS[name](Hostile())
    for junk in NO_NUMBERS:
        try:
            CALLS[name](junk)
        except dml.DmlError as error:
            check_message(error)


def check_message(error: dml.DmlError) -> None:
    assert error.faults
    assert all(str(fault).strip() for fault in error.faults)


@pytest.mark.parametrize("number", [10**6000, -(10**6000), 10**400], ids=["large", "small", "less large"])
def test_a_number_past_every_float_is_infinite(number: int) -> None:
    sign = 1 if number > 0 else -1
    assert dml.fill_value_constant([2], number).tolist() == [sign * np.inf] * 2
    assert dml.ScaleBias(number, 1).scale == sign * np.inf
    with pytest.raises(dml.DescriptionError, match=r"Value must lie in -128 \.\. 127 for INT8"):
        dml.fill_value_constant([2], number, "int8")


def test_numbers_that_are_equal_are_filled_apart() -> None:
    """Calls that were made before are known again, by the bits of their numbers."""
    values: list[Any] = [0.0, -0.0, 0, 1.0, 1, np.float32(-0.0)]
    for value in values:
        for _ in range(2):
            found = dml.fill_value_constant([2], value)
            assert np.signbit(found).tolist() == [bool(np.signbit(value))] * 2
            assert found.tolist() == [value] * 2
    assert [np.isnan(dml.fill_value_constant([1], float("nan"))).all() for _ in range(2)] == [True, True]


def test_what_was_called_before_lets_nothing_else_in() -> None:
    """2.0 and True are equal to 2 and 1, by which a call is found again."""
    dml.fill_value_constant([2], 7)
    dml.fill_value_constant([1], 7)
    several: Any = ([2.0], [True])
    for sizes in several:
        with pytest.raises(dml.DescriptionError, match=r"Sizes\[0\] must be a whole number"):
            dml.fill_value_constant(sizes, 7)
    dml.slice(np.ones((2, 2)), [0, 1], [1, 1])
    with pytest.raises(dml.DescriptionError, match=r"Offsets\[0\] must be a whole number"):
        dml.slice(np.ones((2, 2)), [0.0, True], [1, 1])  # type: ignore[list-item]  # wrong on purpose


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (
            lambda: dml.gemm(np.ones((2, 3), "float32"), np.ones((2, 3), "float32"), alpha="x"),  # type: ignore[call-overload]  # a wrong one
            "arguments of anydml.gemm: alpha= is Alpha",
        ),
        (
            lambda: dml.gemm(np.ones((2, 3), "float32"), np.ones((2, 3), "float32")),
            "arguments of anydml.gemm: a= is ATensor, b= is BTensor",
        ),
        (
            lambda: dml.add(np.ones((2, 3), "float32"), np.ones((2, 2), "float32")),
            "arguments of anydml.add: a= is ATensor, b= is BTensor",
        ),
        (
            lambda: dml.slice1(np.ones(3, "float32"), [0], [3], [0]),
            "arguments of anydml.slice1: input_window_strides= is InputWindowStrides",
        ),
        (
            lambda: dml.cumulative_summation(np.ones((1, 1, 2, 3), "int64"), 3, device=dml.Device(feature_level="4_0")),
            "arguments of anydml.cumulative_summation: x= is InputTensor",
        ),
    ],
)
def test_an_error_of_a_function_has_a_note_with_its_arguments(call: Callable[[], object], note: str) -> None:
    with pytest.raises(dml.DmlError) as caught:
        call()
    assert caught.value.__notes__ == [note]
    assert pickle.loads(pickle.dumps(caught.value)).__notes__ == [note]  # noqa: S301 - what was pickled here
