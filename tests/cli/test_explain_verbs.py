"""`anydml explain` for operators with several tensors in a field, numbers, types, no inputs and outputs to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import anydml as dml
from anydml.cli.explain import first_inputs
from anydml.cli.options import options_of
from anydml.dxdispatch import load_model
from anydml.explain import explain
from tests.cli.test_explain import printed, run
from tests.cli.test_explain_model import SUM, model

if TYPE_CHECKING:
    from pathlib import Path

T = dml.TensorDesc


@pytest.mark.parametrize(
    ("line", "full"),
    [
        ("join --sizes 2,2 --sizes 2,1 --axis 1", "join --input-tensors-sizes 2,2 --inputs-sizes {2,1} --axis 1"),
        ("split --sizes 5 --along 2,3 --axis 0", "split --sizes 5 --outputs-sizes 2 --output-tensors-sizes 3 --axis 0"),
        ("cast --sizes 3 --to int8", "CAST --input-tensor-sizes 3 --output-tensor-type INT8 --output-sizes 3"),
        (
            "fill_value_constant --sizes 2,2 --value -1.5",
            "fill_value_constant --output-tensor-sizes 2,2 --value=-1.5 --value-data-type DML_TENSOR_DATA_TYPE_FLOAT32",
        ),
        (
            "fill_value_sequence --sizes 3 --start 250 --delta 3 --type uint8",
            "fill-value-sequence --output-sizes 3 --value-start 250 --value-delta 3 --value-data-type UINT8",
        ),
        (
            "element_wise_identity --sizes 2 --scale-bias 2,-1",
            "elementwiseidentity --input-sizes 2 --scale-bias {2.0,-1}",
        ),
        (
            "reverse_subsequences --sizes 2,3 --lengths 2,3 --axis 1",
            "reverse_subsequences --sizes 2,3 --sequence-lengths-tensor-data [[2],[3]] --lengths-sizes 2,1 --axis 1",
        ),
        (
            "gather --sizes 3,4 --indices 2,0 --axis 1",
            "gather --sizes 3,4 --indices [[2,0]] --axis 1 --index-dimensions 1",
        ),
    ],
)
def test_fields_have_short_names_and_full_ones(line: str, full: str) -> None:
    assert printed(full) == printed(line)


def test_both_factors_of_a_product_are_named_by_their_letters() -> None:
    assert "= 17\n" in printed("gemm --a [[1,2],[3,4]] --b [[5],[6]]")


def test_options_follow_from_the_fields() -> None:
    options = {name: option for option in options_of(dml.Join) for name in option.opts}
    assert options["--sizes"].multiple
    assert options["--data"].multiple
    assert not options["--type"].multiple
    assert {name for option in options_of(dml.FillValueConstant) for name in option.opts} == {
        "--output-tensor-sizes", "--output-sizes", "--sizes", "--output-tensor-type", "--output-type",
        "--value-data-type", "--type", "--value",
    }  # fmt: skip


def test_data_for_each_of_several_tensors(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[7], [8]], "int16"))
    text = printed(f"join --data [[1,2],[3,4]] --data {tmp_path / 'x.npy'} --axis 1 --type int16")
    assert "InputTensors[1] {2,1} INT16" in text
    assert "0   1⁰   2⁰   7¹" in text
    assert "No data was given" not in text
    assert "inputs[1][:,:] lands in output[:,2:3]" in text


def test_indices_of_more_dimensions_than_the_input_make_room() -> None:
    text = printed("gather --sizes 4,3 --indices [[0,1],[2,-1]] --axis 0")
    assert "GATHER  Axis 1  IndexDimensions 2" in text
    assert "OutputTensor {2,2,3} FLOAT32" in text
    assert "indices[1,1] = -1 counts from the end: 3, and picks row input[0,3,:], which lands in output[1,1,:]" in text


def test_lengths_follow_from_the_input_and_the_axis() -> None:
    text = printed("reverse_subsequences --sizes 2,3 --axis 0")
    assert "SequenceLengthsTensor {1,3} UINT32" in text
    assert "No lengths were given" in text


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("join --sizes 2,2 --sizes 3,3 --axis 0", 1, "JOIN: InputTensors[1].Sizes[1] must be InputTensors[0].Sizes[1]"),
        ("join --sizes 2,0 --axis 0", 1, "JOIN: InputTensors[0].Sizes[1] must be at least 1"),
        ("join --axis 0", 2, "give --sizes or --data"),
        ("join --sizes 2 --data 1 --data 2 --axis 0", 2, "give as many --sizes as --data: there are 1 and 2"),
        ("join --axis 0" + " --sizes 1" * 101, 2, "give at most 100 tensors"),
        ("split --sizes 4 --axis 0", 2, "give --along or --outputs-sizes"),
        ("split --sizes 4 --axis 0 --along 4 --outputs-sizes 4", 2, "give one of --along and --outputs-sizes"),
        ("split --sizes 4 --axis 0 --along 1,2", 1, "must add up to InputTensor.Sizes[0], 4; got 3"),
        ("split --sizes 4 --axis 9 --along 4", 1, "Axis must be below InputTensor.DimensionCount, 1; got 9"),
        ("split --sizes 4 --axis 0 --along 4,0", 1, "OutputTensors[1].Sizes[0] must be at least 1"),
        ("split --sizes 101 --axis 0 --along " + ",".join("1" * 101), 2, "give at most 100 tensors"),
        ("cast --sizes 3", 2, "give --to, the type"),
        ("cast --sizes 3 --to complex", 2, "must be one of FLOAT32"),
        ("cast --sizes 3 --to int8 --output-sizes 4", 1, "OutputTensor.Sizes must be (3,), InputTensor.Sizes"),
        ("cast --sizes 3 --to float64 --feature-level 3_1", 1, "needs DML_FEATURE_LEVEL_4_1"),
        ("fill_value_constant --value 1", 2, "give --sizes"),
        ("fill_value_constant --sizes 2", 2, "Missing option"),
        ("fill_value_constant --sizes 2 --value x", 2, "Value must be a number; got 'x'"),
        ("fill_value_constant --sizes 2 --value 1.5 --type int8", 1, "Value must be a whole number for INT8"),
        (
            "fill_value_constant --sizes 2 --value 1 --output-type int8",
            1,
            "ValueDataType must be OutputTensor.DataType",
        ),
        ("fill_value_constant --sizes 2 --value 1 --type x", 2, "ValueDataType must be one of"),
        ("element_wise_identity --sizes 2 --scale-bias 1", 2, "ScaleBias must be a ScaleBias, a pair of numbers"),
        ("element_wise_identity --sizes 2 --scale-bias 1,x", 2, "ScaleBias.Bias must be a number; got 'x'"),
        (
            "reverse_subsequences --sizes 2,2 --axis 1 --lengths 1,2,3",
            1,
            "SequenceLengthsTensor.DimensionCount must be",
        ),
        ("reverse_subsequences --sizes 2,2 --axis 1 --lengths=-1,2", 1, "SequenceLengthsTensor must be of UINT32"),
        (
            "gather --sizes 4,3 --indices 1 --axis 7",
            1,
            "GATHER: Axis must be below InputTensor.DimensionCount, 2; got 7",
        ),
        ("gather_elements --sizes 4,3 --indices [[1]] --axis 0", 1, "IndicesTensor.Sizes[1] must be InputTensor.Sizes"),
    ],
)
def test_what_is_wrong_is_said_with_its_status(line: str, status: int, message: str) -> None:
    result = run(line)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in " ".join(result.stderr.split())


def test_a_model_gives_each_of_several_tensors_its_values(tmp_path: Path) -> None:
    """By a model that was read for another operator: what it binds is by the names of fields."""
    numbers = {"initialValuesDataType": "INT32", "initialValues": [4, 5, 6]}
    loaded = load_model(
        model(
            tmp_path,
            resources={"a": numbers, "b": {**numbers, "initialValues": [7, 8, 9]}, "c": numbers},
            dispatchables={"sum": SUM},
            commands=[
                {
                    "type": "dispatch",
                    "dispatchable": "sum",
                    "bindings": {"InputTensors": ["a", {"name": "b"}], "InputTensor": "a", "OutputTensor": "c"},
                }
            ],
        )
    )
    x = T("int32", (3,))
    desc = dml.Join.infer(input_tensors=[x, x], axis=0)
    values = list(first_inputs(loaded, loaded.dispatchables["sum"], desc))
    assert [value.tolist() for value in values if value is not None] == [[4, 5, 6], [7, 8, 9]]
    assert [cell.value for cell in explain(desc, *values).grids[-1].cells()] == ["4", "5", "6", "7", "8", "9"]
    three = dml.Join.infer(input_tensors=[x, x, x], axis=0)
    assert list(first_inputs(loaded, loaded.dispatchables["sum"], three)) == [None] * 3
    owned = T("int32", (3,), flags=dml.TensorFlags.OWNED_BY_DML)
    mixed = dml.Join.infer(input_tensors=[x, owned, x], axis=0)
    found = list(first_inputs(loaded, loaded.dispatchables["sum"], mixed))
    assert [None if value is None else value.tolist() for value in found] == [[4, 5, 6], None, [7, 8, 9]]
    (alone,) = first_inputs(loaded, loaded.dispatchables["sum"], dml.Cast(input_tensor=x, output_tensor=x))
    assert alone is not None
