"""Every rule of the operators that move and convert data, broken alone, with the message that a user reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from refusals import Broken, check_refusal, create

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.check_bounds

T = dml.TensorDesc
X = T("float32", (1, 2, 3, 4))
LIKE: dict[str, Any] = {"input_tensor": X, "output_tensor": X}


def with_changes(cls: type[dml.OperatorDesc], fields: dict[str, Any]) -> Callable[..., Callable[[], object]]:
    """What creates an operator of these fields, but for those that are given."""

    def make(**changes: Any) -> Callable[[], object]:
        level = changes.pop("level", "6_4")
        return create(cls, level, **{**fields, **changes})

    return make


gather = with_changes(
    dml.Gather,
    {
        "input_tensor": X,
        "indices_tensor": T("uint32", (1, 1, 5, 6)),
        "output_tensor": T("float32", (2, 5, 6, 4)),
        "axis": 2,
        "index_dimensions": 2,
    },
)
elements = with_changes(
    dml.GatherElements,
    {
        "input_tensor": X,
        "indices_tensor": T("uint32", (1, 2, 7, 4)),
        "output_tensor": T("float32", (1, 2, 7, 4)),
        "axis": 2,
    },
)
identity = with_changes(dml.ElementWiseIdentity, LIKE)
cast = with_changes(dml.Cast, {"input_tensor": X, "output_tensor": T("int8", (1, 2, 3, 4))})
PARTS = [T("float32", (1, 2, 3, size)) for size in (4, 5)]
LONG = T("float32", (1, 2, 3, 9))
join = with_changes(dml.Join, {"input_tensors": PARTS, "output_tensor": LONG, "axis": 3})
split = with_changes(dml.Split, {"input_tensor": LONG, "output_tensors": PARTS, "axis": 3})
constant = with_changes(
    dml.FillValueConstant, {"output_tensor": T("int8", (1, 1, 2, 2)), "value_data_type": "int8", "value": 7}
)
sequence = with_changes(
    dml.FillValueSequence,
    {"output_tensor": T("uint8", (1, 1, 2, 2)), "value_data_type": "uint8", "value_start": 10, "value_delta": -2},
)
reverse = with_changes(
    dml.ReverseSubsequences, {**LIKE, "sequence_lengths_tensor": T("uint32", (1, 2, 1, 4)), "axis": 2}
)
LEVEL = dml.FeatureLevelError
VALID = {
    "gather": gather,
    "elements": elements,
    "identity": identity,
    "cast": cast,
    "join": join,
    "split": split,
    "constant": constant,
    "sequence": sequence,
    "reverse": reverse,
}

GATHERS = [
    Broken("indices of another rank", gather(indices_tensor=T("uint32", (5, 6))),
           "GATHER: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2",
           field="IndicesTensor.DimensionCount"),
    Broken("axis", gather(axis=4), "GATHER: Axis must be below InputTensor.DimensionCount, 4; got 4", field="Axis"),
    Broken("too many index dimensions", gather(index_dimensions=5),
           "GATHER: IndexDimensions must lie in 0 .. 4, the dimensions of IndicesTensor; got 5",
           field="IndexDimensions"),
    Broken("sizes before those that count", gather(index_dimensions=1),
           "GATHER: IndicesTensor.Sizes[2] must be 1, because only the last IndexDimensions = 1 dimensions count;"
           " got 5",
           field="IndicesTensor.Sizes[2]"),
    Broken("a result that does not fit", gather(input_tensor=T("float32", (2, 2, 3, 4))),
           "GATHER: the result (2, 2, 5, 6, 4) must fit the 4 dimensions of the tensors, leading 1s left away; got 5;"
           " describe all three tensors with 5 dimensions, leading sizes of 1 added",
           field="OutputTensor.DimensionCount"),
    Broken("other output sizes", gather(output_tensor=T("float32", (2, 5, 6, 3))),
           "GATHER: OutputTensor.Sizes must be (2, 5, 6, 4), the sizes of InputTensor with those of the indices in the"
           " place of the axis; got (2, 5, 6, 3)", field="OutputTensor.Sizes"),
    Broken("the documents' IndexDimensions of 2",
           create(dml.Gather, input_tensor=T("float32", (3, 2)), indices_tensor=T("uint32", (1, 2)),
                  output_tensor=T("float32", (3, 2)), axis=1, index_dimensions=2),
           "GATHER: the result (3, 1, 2) must fit the 2 dimensions of the tensors, leading 1s left away; got 3;"
           " describe all three tensors with 3 dimensions, leading sizes of 1 added"),
    Broken("other output rank", gather(output_tensor=T("float32", (5, 6, 4))),
           "GATHER: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other output type", gather(output_tensor=T("int32", (2, 5, 6, 4))),
           "GATHER: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("index mode", gather(index_mode="wrap"), "GATHER: IndexMode must be one of 'raise', 'clamp'; got 'wrap'"),
    Broken("no index type", gather(indices_tensor=T("int8", (1, 1, 5, 6))),
           "GATHER: IndicesTensor must be of UINT32, INT32, UINT64, INT64; got INT8; no feature level takes it, so"
           " convert the data first", field="IndicesTensor.DataType"),
    Broken("signed indices at 2_1", gather(indices_tensor=T("int64", (1, 1, 5, 6)), level="2_1"),
           "GATHER: IndicesTensor of INT64 needs DML_FEATURE_LEVEL_3_0; this device is 2_1", LEVEL),
    Broken("INT32 at 1_0", gather(input_tensor=T("int32", (1, 2, 3, 4)), output_tensor=T("int32", (2, 5, 6, 4)),
                                  level="1_0"),
           "GATHER: InputTensor of INT32 needs DML_FEATURE_LEVEL_2_1; this device is 1_0", LEVEL,
           "InputTensor.DataType"),
    Broken("FLOAT64 at 4_0", gather(input_tensor=T("float64", (1, 2, 3, 4)),
                                    output_tensor=T("float64", (2, 5, 6, 4)), level="4_0"),
           "GATHER: InputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1; this device is 4_0", LEVEL),
    Broken("dimensions at 2_1",
           create(dml.Gather, "2_1", input_tensor=T("float32", 4), indices_tensor=T("uint32", 5),
                  output_tensor=T("float32", 5), axis=0, index_dimensions=1),
           "GATHER: InputTensor of 1 dimension needs DML_FEATURE_LEVEL_3_0; this device is 2_1, which takes 4", LEVEL),
    Broken("elements' indices of another rank", elements(indices_tensor=T("uint32", (7, 4))),
           "GATHER_ELEMENTS: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2"),
    Broken("elements' axis", elements(axis=4),
           "GATHER_ELEMENTS: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("indices of other sizes", elements(indices_tensor=T("uint32", (1, 2, 7, 3))),
           "GATHER_ELEMENTS: IndicesTensor.Sizes[3] must be InputTensor.Sizes[3], 4, as in every dimension but the"
           " axis; got 3", field="IndicesTensor.Sizes[3]"),
    Broken("elements' output sizes", elements(output_tensor=X),
           "GATHER_ELEMENTS: OutputTensor.Sizes must be (1, 2, 7, 4), IndicesTensor.Sizes; got (1, 2, 3, 4)"),
    Broken("elements' output rank", elements(output_tensor=T("float32", (2, 7, 4))),
           "GATHER_ELEMENTS: OutputTensor.DimensionCount must be IndicesTensor.DimensionCount, 4; got 3"),
    Broken("elements' output type", elements(output_tensor=T("uint32", (1, 2, 7, 4))),
           "GATHER_ELEMENTS: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got UINT32"),
    Broken("GATHER_ELEMENTS at 2_0", elements(level="2_0"),
           "GATHER_ELEMENTS: the operator needs DML_FEATURE_LEVEL_2_1; this device is 2_0", LEVEL),
]  # fmt: skip

MAPS = [
    Broken("other sizes", identity(output_tensor=T("float32", (1, 2, 4, 3))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 4, 3)"),
    Broken("other rank", identity(output_tensor=T("float32", (2, 3, 4))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other type", identity(output_tensor=T("float16", (1, 2, 3, 4))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("no scale and bias", identity(scale_bias=2.0),
           "ELEMENT_WISE_IDENTITY: ScaleBias must be a ScaleBias, a pair of numbers, or None; got 2.0",
           field="ScaleBias"),
    Broken("a scale that is no number", identity(scale_bias=("2", True)),
           "ELEMENT_WISE_IDENTITY: 2 rules are broken\n"
           "  ScaleBias.Scale must be a number; got '2'\n"
           "  ScaleBias.Bias must be a number; got True", field="ScaleBias.Scale"),
    Broken("a ScaleBias of no numbers", lambda: dml.ScaleBias(None, [1.0]),  # type: ignore[arg-type]  # wrong on purpose
           "ScaleBias: 2 rules are broken\n  Scale must be a number; got None\n  Bias must be a number; got [1.0]"),
    Broken("INT32 at 2_0", identity(input_tensor=T("int32", (1, 2, 3, 4)), output_tensor=T("int32", (1, 2, 3, 4)),
                                    level="2_0"),
           "ELEMENT_WISE_IDENTITY: InputTensor of INT32 needs DML_FEATURE_LEVEL_2_1; this device is 2_0", LEVEL),
    Broken("three dimensions at 2_1",
           identity(input_tensor=T("float32", (2, 3, 4)), output_tensor=T("float32", (2, 3, 4)), level="2_1"),
           "ELEMENT_WISE_IDENTITY: InputTensor of 3 dimensions needs DML_FEATURE_LEVEL_3_0; this device is 2_1, which"
           " takes 4 or 5", LEVEL),
    Broken("an overlapping output", identity(output_tensor=T("float32", (1, 2, 3, 4), strides=(0, 0, 4, 1))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 4, 1) for sizes (1, 2, 3, 4)"),
    Broken("cast to other sizes", cast(output_tensor=T("int8", (1, 2, 3, 5))),
           "CAST: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 3, 5)"),
    Broken("cast to another rank", cast(output_tensor=T("int8", (24,))),
           "CAST: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 1"),
    Broken("cast to INT32 at 2_1", cast(output_tensor=T("int32", (1, 2, 3, 4)), level="2_1"),
           "CAST: OutputTensor of INT32 needs DML_FEATURE_LEVEL_3_0; this device is 2_1", LEVEL,
           "OutputTensor.DataType"),
    Broken("cast from FLOAT64 at 4_0", cast(input_tensor=T("float64", (1, 2, 3, 4)), level="4_0"),
           "CAST: InputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1; this device is 4_0", LEVEL),
    Broken("cast of both types at 1_0",
           cast(input_tensor=T("int64", (1, 2, 3, 4)), output_tensor=T("float64", (1, 2, 3, 4)), level="1_0"),
           "CAST: 2 rules are broken\n"
           "  InputTensor of INT64 needs DML_FEATURE_LEVEL_3_0; this device is 1_0\n"
           "  OutputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1; this device is 1_0", LEVEL),
    Broken("an owned result", cast(output_tensor=T("int8", (1, 2, 3, 4), flags="OWNED_BY_DML")),
           "CAST: OutputTensor.Flags must not have OWNED_BY_DML, which is for inputs"),
]  # fmt: skip

JOINS = [
    Broken("no list of inputs", join(input_tensors=X), "JOIN: InputTensors must be a list of TensorDesc;"
           " got TensorDesc('float32', (1, 2, 3, 4))", field="InputTensors"),
    Broken("no inputs", join(input_tensors=[]), "JOIN: InputTensors must have at least one tensor; got none",
           field="InputTensors"),
    Broken("inputs that are no tensors", join(input_tensors=[X, None, 3]),
           "JOIN: 2 rules are broken\n"
           "  InputTensors[1] must be a TensorDesc; got None; describe an array with TensorDesc.of(array)\n"
           "  InputTensors[2] must be a TensorDesc; got 3; describe an array with TensorDesc.of(array)",
           field="InputTensors[1]"),
    Broken("axis", join(axis=4), "JOIN: Axis must be below InputTensors[0].DimensionCount, 4; got 4", field="Axis"),
    Broken("an input of another type", join(input_tensors=[PARTS[0], T("int32", (1, 2, 3, 5))]),
           "JOIN: InputTensors[1].DataType must be InputTensors[0].DataType, FLOAT32; got INT32",
           field="InputTensors[1].DataType"),
    Broken("an input of another rank", join(input_tensors=[PARTS[0], T("float32", (2, 3, 5))]),
           "JOIN: InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 4; got 3"),
    Broken("inputs of other sizes",
           join(input_tensors=[PARTS[0], T("float32", (1, 2, 4, 5)), T("float32", (7, 2, 3, 1))]),
           "JOIN: 2 rules are broken\n"
           "  InputTensors[1].Sizes[2] must be InputTensors[0].Sizes[2], 3, as in every dimension but the axis; got 4\n"
           "  InputTensors[2].Sizes[0] must be InputTensors[0].Sizes[0], 1, as in every dimension but the axis; got 7",
           field="InputTensors[1].Sizes[2]"),
    Broken("too short an output", join(output_tensor=T("float32", (1, 2, 3, 8))),
           "JOIN: OutputTensor.Sizes[3] must be 9, the sum of the inputs' sizes along the axis; got 8",
           field="OutputTensor.Sizes[3]"),
    Broken("an output of other sizes", join(output_tensor=T("float32", (1, 3, 3, 9))),
           "JOIN: OutputTensor.Sizes[1] must be InputTensors[0].Sizes[1], 2, as in every dimension but the axis;"
           " got 3"),
    Broken("an output of another type", join(output_tensor=T("uint32", (1, 2, 3, 9))),
           "JOIN: OutputTensor.DataType must be InputTensors[0].DataType, FLOAT32; got UINT32"),
    Broken("an output of another rank", join(output_tensor=T("float32", (2, 3, 9))),
           "JOIN: OutputTensor.DimensionCount must be InputTensors[0].DimensionCount, 4; got 3"),
    Broken("INT8 at 2_0", create(dml.Join, "2_0", input_tensors=[T("int8", (1, 1, 1, 1))],
                                 output_tensor=T("int8", (1, 1, 1, 1)), axis=3),
           "JOIN: InputTensors[0] of INT8 needs DML_FEATURE_LEVEL_2_1; this device is 2_0", LEVEL,
           "InputTensors[0].DataType"),
    Broken("one dimension at 4_0", create(dml.Join, "4_0", input_tensors=[T("int8", 2)], output_tensor=T("int8", 2),
                                          axis=0),
           "JOIN: InputTensors[0] of 1 dimension needs DML_FEATURE_LEVEL_4_1; this device is 4_0, which takes 4 or 5",
           LEVEL),
    Broken("no list of outputs", split(output_tensors=None),
           "SPLIT: OutputTensors must be a list of TensorDesc; got None", field="OutputTensors"),
    Broken("no outputs", split(output_tensors=()), "SPLIT: OutputTensors must have at least one tensor; got none"),
    Broken("split's axis", split(axis=9), "SPLIT: Axis must be below InputTensor.DimensionCount, 4; got 9"),
    Broken("parts that do not add up", split(output_tensors=PARTS[:1]),
           "SPLIT: the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[3], 9; got 4",
           field="OutputTensors"),
    Broken("a part of another type", split(output_tensors=[PARTS[0], T("int32", (1, 2, 3, 5))]),
           "SPLIT: OutputTensors[1].DataType must be InputTensor.DataType, FLOAT32; got INT32",
           field="OutputTensors[1].DataType"),
    Broken("a part of another rank", split(output_tensors=[PARTS[0], T("float32", (2, 3, 5))]),
           "SPLIT: OutputTensors[1].DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("a part of other sizes", split(output_tensors=[PARTS[0], T("float32", (1, 2, 2, 5))]),
           "SPLIT: OutputTensors[1].Sizes[2] must be InputTensor.Sizes[2], 3, as in every dimension but the axis;"
           " got 2", field="OutputTensors[1].Sizes[2]"),
    Broken("a part that overlaps itself",
           split(output_tensors=[PARTS[0], T("float32", (1, 2, 3, 5), strides=(0,) * 4)]),
           "SPLIT: OutputTensors[1].Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 0, 0) for sizes (1, 2, 3, 5)"),
    Broken("an owned part", split(output_tensors=[PARTS[0], T("float32", (1, 2, 3, 5), flags="OWNED_BY_DML")]),
           "SPLIT: OutputTensors[1].Flags must not have OWNED_BY_DML, which is for inputs",
           field="OutputTensors[1].Flags"),
    Broken("split in three dimensions at 2_1",
           create(dml.Split, "2_1", input_tensor=T("float32", (2, 3, 4)), output_tensors=[T("float32", (2, 3, 4))],
                  axis=0),
           "SPLIT: InputTensor of 3 dimensions needs DML_FEATURE_LEVEL_3_0; this device is 2_1, which takes 4", LEVEL),
]  # fmt: skip

FILLS = [
    Broken("a value of another type", constant(value_data_type="uint8"),
           "FILL_VALUE_CONSTANT: ValueDataType must be OutputTensor.DataType, INT8; got UINT8", field="ValueDataType"),
    Broken("no type", constant(value_data_type="int5"),
           "FILL_VALUE_CONSTANT: ValueDataType must be one of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16,"
           " INT8, FLOAT64, UINT64, INT64, UINT4, INT4; got 'int5'; did you mean INT8?"),
    Broken("no number", constant(value="7"), "FILL_VALUE_CONSTANT: Value must be a number; got '7'", field="Value"),
    Broken("a truth value", constant(value=True), "FILL_VALUE_CONSTANT: Value must be a number; got True"),
    Broken("a fraction", constant(value=0.5),
           "FILL_VALUE_CONSTANT: Value must be a whole number, being of INT8; got 0.5", field="Value"),
    Broken("NaN in integers", constant(value=float("nan")),
           "FILL_VALUE_CONSTANT: Value must be a whole number, being of INT8; got nan"),
    Broken("infinity in integers", constant(value=float("inf")),
           "FILL_VALUE_CONSTANT: Value must be a whole number, being of INT8; got inf"),
    Broken("too large", constant(value=128), "FILL_VALUE_CONSTANT: Value must lie in -128 .. 127, being of INT8;"
           " got 128", field="Value"),
    Broken("too small a float", constant(value=-129.0),
           "FILL_VALUE_CONSTANT: Value must lie in -128 .. 127, being of INT8; got -129.0"),
    Broken("start too small", sequence(value_start=-1),
           "FILL_VALUE_SEQUENCE: ValueStart must lie in 0 .. 255, being of UINT8; got -1", field="ValueStart"),
    Broken("delta too small", sequence(value_delta=-256),
           "FILL_VALUE_SEQUENCE: ValueDelta must lie in -255 .. 255, being of UINT8; got -256", field="ValueDelta"),
    Broken("both numbers", sequence(value_start=1.5, value_delta=256),
           "FILL_VALUE_SEQUENCE: 2 rules are broken\n"
           "  ValueStart must be a whole number, being of UINT8; got 1.5\n"
           "  ValueDelta must lie in -255 .. 255, being of UINT8; got 256"),
    Broken("an output that overlaps itself", constant(output_tensor=T("int8", (1, 1, 2, 2), strides=(0, 0, 0, 1))),
           "FILL_VALUE_CONSTANT: OutputTensor.Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 0, 1) for sizes (1, 1, 2, 2)"),
    Broken("no output", sequence(output_tensor=None),
           "FILL_VALUE_SEQUENCE: OutputTensor must be a TensorDesc; got None; describe an array with"
           " TensorDesc.of(array)"),
    Broken("FILL_VALUE_CONSTANT at 2_0", constant(level="2_0"),
           "FILL_VALUE_CONSTANT: the operator needs DML_FEATURE_LEVEL_2_1; this device is 2_0", LEVEL),
    Broken("INT64 at 4_0", constant(output_tensor=T("int64", (2,)), value_data_type="int64", level="4_0"),
           "FILL_VALUE_CONSTANT: OutputTensor of INT64 needs DML_FEATURE_LEVEL_4_1; this device is 4_0", LEVEL),
    Broken("two dimensions at 3_1", sequence(output_tensor=T("uint8", (2, 2)), level="3_1"),
           "FILL_VALUE_SEQUENCE: OutputTensor of 2 dimensions needs DML_FEATURE_LEVEL_4_0; this device is 3_1, which"
           " takes 4", LEVEL),
    Broken("INT64 at 4_1", sequence(output_tensor=T("int64", (2,)), value_data_type="int64", level="4_1"),
           "FILL_VALUE_SEQUENCE: OutputTensor of INT64 needs DML_FEATURE_LEVEL_5_0; this device is 4_1", LEVEL),
    Broken("FLOAT64 at every level", sequence(output_tensor=T("float64", (2,)), value_data_type="float64"),
           "FILL_VALUE_SEQUENCE: OutputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8,"
           " UINT64, INT64; got FLOAT64; no feature level takes it, so convert the data first, or take it as an"
           " extension with allow_float64=True"),
]  # fmt: skip

REVERSALS = [
    Broken("lengths of another rank", reverse(sequence_lengths_tensor=T("uint32", (2, 1, 4))),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("reversal's axis", reverse(axis=4),
           "REVERSE_SUBSEQUENCES: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("a length for every element", reverse(sequence_lengths_tensor=T("uint32", (1, 2, 3, 4))),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.Sizes must be (1, 2, 1, 4), the sizes of InputTensor, but 1"
           " along the axis; got (1, 2, 3, 4)", field="SequenceLengthsTensor.Sizes"),
    Broken("signed lengths", reverse(sequence_lengths_tensor=T("int32", (1, 2, 1, 4))),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor must be of UINT32, UINT64; got INT32; no feature level takes"
           " it, so convert the data first", field="SequenceLengthsTensor.DataType"),
    Broken("UINT64 lengths at 4_1", reverse(sequence_lengths_tensor=T("uint64", (1, 2, 1, 4)), level="4_1"),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor of UINT64 needs DML_FEATURE_LEVEL_5_0; this device is 4_1",
           LEVEL),
    Broken("reversed sizes", reverse(output_tensor=T("float32", (1, 2, 4, 3))),
           "REVERSE_SUBSEQUENCES: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 4, 3)"),
    Broken("reversed type", reverse(output_tensor=T("int32", (1, 2, 3, 4))),
           "REVERSE_SUBSEQUENCES: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("REVERSE_SUBSEQUENCES at 2_0", reverse(level="2_0"),
           "REVERSE_SUBSEQUENCES: the operator needs DML_FEATURE_LEVEL_2_1; this device is 2_0", LEVEL),
    Broken("six dimensions at 3_0",
           reverse(input_tensor=T("float32", (1,) * 6), output_tensor=T("float32", (1,) * 6),
                   sequence_lengths_tensor=T("uint32", (1,) * 6), level="3_0"),
           "REVERSE_SUBSEQUENCES: InputTensor of 6 dimensions needs DML_FEATURE_LEVEL_4_0; this device is 3_0, which"
           " takes 4 or 5", LEVEL),
]  # fmt: skip


@pytest.mark.parametrize("broken", [*GATHERS, *MAPS, *JOINS, *FILLS, *REVERSALS], ids=str)
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


@pytest.mark.parametrize("name", VALID)
def test_what_the_broken_ones_start_from_is_valid(name: str) -> None:
    assert isinstance(VALID[name]()(), dml.Operator)


def test_faults_are_reported_together() -> None:
    desc = dml.Join(
        input_tensors=[T("int8", (2, 3)), T("float64", (2, 4)), T("int8", (2,))],
        output_tensor=T("int8", (2, 9), strides=(0, 1), flags="OWNED_BY_DML"),
        axis=5,
    )
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device(feature_level="1_0").create_operator(desc)
    assert [fault.field for fault in caught.value.faults] == [
        "InputTensors[0].DataType",
        "InputTensors[0].DimensionCount",
        "InputTensors[1].DataType",
        "InputTensors[2].DimensionCount",
        "Axis",
        "InputTensors[1].DataType",
        "InputTensors[2].DimensionCount",
        "OutputTensor.Flags",
        "OutputTensor.Strides",
    ]
    assert str(caught.value).startswith("JOIN: 9 rules are broken\n  InputTensors[0] of INT8 needs")


def test_what_a_draft_implies() -> None:
    """The outputs that the other fields imply; operators that imply none are given theirs."""
    joined = dml.Join.infer(input_tensors=PARTS, axis=3)
    assert (joined.output_tensor, joined.input_count) == (LONG, 2)
    gathered = dml.Gather.infer(
        input_tensor=T("int8", (1, 3, 2)), indices_tensor=T("int64", (1, 2, 2)), axis=1, index_dimensions=2
    )
    assert gathered.output_tensor == T("int8", (2, 2, 2))
    single = dml.Gather.infer(
        input_tensor=T("int8", (3, 2)), indices_tensor=T("int64", (1, 1)), axis=0, index_dimensions=0
    )
    assert single.output_tensor == T("int8", (1, 2))
    parts = dml.Split.infer(input_tensor=LONG, output_tensors=PARTS, axis=3)
    assert parts.output_count == 2
    with pytest.raises(TypeError, match="output_tensors"):
        dml.Split.infer(input_tensor=LONG, axis=3)


def test_descriptions_with_numbers_are_told_apart() -> None:
    """0.0 and -0.0 are equal, and NaN is not; what they describe is otherwise."""

    def fill(value: float) -> dml.OperatorDesc:
        return dml.FillValueConstant(output_tensor=T("float32", 2), value_data_type="float32", value=value)

    assert fill(0.0) != fill(-0.0)
    assert fill(float("nan")) == fill(float("nan"))
    assert len({fill(0.0), fill(-0.0), fill(0.0), fill(float("nan")), fill(float("nan"))}) == 3
    assert dml.ScaleBias(1, 0.0) != dml.ScaleBias(1, -0.0)
    assert dml.ScaleBias(0.1, 0).scale == 0.10000000149011612  # a FLOAT
