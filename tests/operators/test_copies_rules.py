"""The rules of the operators that copy, convert, fill and add up: what several broken ones say, and what is implied."""

from __future__ import annotations

import pickle

import pytest

import anydml as dml
from families.copies import LONG, PARTS, VALID, T, total


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
