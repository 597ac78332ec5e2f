"""`anydml explain MODEL.json`: the dispatchables of a model, with the values that it gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from anydml.cli.app import app

MODELS = Path(__file__).parent.parent / "examples" / "models"
SUM = {
    "type": "DML_OPERATOR_CUMULATIVE_SUMMATION",
    "InputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 3]},
    "OutputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 3]},
    "Axis": 3,
    "AxisDirection": "INCREASING",
    "HasExclusiveSum": False,
}


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, words)], prog_name="anydml")


def model(folder: Path, **parts: Any) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(parts))
    return path


def twice(folder: Path) -> Path:
    """A sum whose output is summed again: what goes into the second is not in the file."""
    numbers = {"initialValuesDataType": "INT32", "initialValues": [70, 71, 72, 73, 20, 9, 50, 0]}
    bind = {"InputTensor": {"name": "a", "elementOffset": 4}, "OutputTensor": "b"}
    return model(
        folder,
        resources={"a": numbers, "b": numbers, "c": numbers},
        dispatchables={"first": SUM, "second": SUM},
        commands=[
            {"type": "dispatch", "dispatchable": "first", "bindings": bind},
            {"type": "dispatch", "dispatchable": "second", "bindings": {"InputTensor": "b", "OutputTensor": "c"}},
        ],
    )


def test_every_dispatchable_with_its_values() -> None:
    result = run(MODELS / "slice1.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("dispatchable '") == 2
    assert "output[0,0,0,0] = input[0, 0, 3 - 2*0, 1 + 2*0] = input[0,0,3,1] = 14" in result.stdout
    assert "No data was given" not in result.stdout


def test_one_of_them_as_a_drawing(tmp_path: Path) -> None:
    target = tmp_path / "crop.svg"
    assert run(MODELS / "slice1.json", "--svg", target).exit_code == 2
    assert not target.exists()
    assert run(MODELS / "slice1.json", "--dispatchable", "crop", "--svg", target).exit_code == 0
    assert "dispatchable &#x27;crop&#x27;" in target.read_text() or "dispatchable 'crop'" in target.read_text()


def test_owned_tensors_have_the_values_of_their_initialisation() -> None:
    result = run(MODELS / "owned_gather.json")
    assert "indices[0] = (1) picks row input[1,:], which lands in output[0,:]" in result.stdout
    assert "No data was given" not in result.stdout


def test_offsets_count_and_what_is_computed_on_the_way_is_not_shown_as_given(tmp_path: Path) -> None:
    path = twice(tmp_path)
    assert "output[0,0,0,2] = 20 + 9 + 50 = 79" in run(path, "--dispatchable", "first").stdout
    second = run(path, "--dispatchable", "second").stdout
    assert "output[0,0,0,2] = 1 + 2 + 3 = 6" in second
    assert "No data was given: the values number the elements." in second


def test_a_model_at_fault_elsewhere_says_that_its_values_are_not_read(tmp_path: Path) -> None:
    path = twice(tmp_path)
    path.write_text(path.read_text().replace('"elementOffset": 4', '"elementOffset": 1'))
    result = run(path, "--dispatchable", "first")
    assert result.exit_code == 0
    assert result.stderr.endswith("model.json: not valid at 6_4, so no values are read; see `anydml check`\n")
    assert "No data was given" in result.stdout


def test_values_from_a_file_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([4, 5, 6], "int32"))
    given = {"initialValuesDataType": "INT32", "initialValues": {"sourcePath": "x.npy"}}
    zeros = {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 3, "value": 0}}
    bind = {"InputTensor": "x", "OutputTensor": "y"}
    path = model(
        tmp_path,
        resources={"x": given, "y": zeros},
        dispatchables={"sum": SUM},
        commands=[{"type": "dispatch", "dispatchable": "sum", "bindings": bind}],
    )
    assert "output[0,0,0,2] = 4 + 5 + 6 = 15" in run(path).stdout


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--dispatchable", "nobody"], 1, "there is no dispatchable 'nobody'; there are 'first', 'second'"),
        (["--feature-level", "2_0"], 1, "CUMULATIVE_SUMMATION: the operator needs DML_FEATURE_LEVEL_2_1"),
        (["--allow-files", "/nowhere"], 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: list[str], status: int, message: str) -> None:
    result = run(twice(tmp_path), *words)
    assert result.exit_code == status, result.output
    assert message in result.stderr


def test_what_is_no_operator_here_is_named(tmp_path: Path) -> None:
    path = model(tmp_path, resources={}, dispatchables={"g": {"type": "DML_OPERATOR_GEMM"}}, commands=[])
    result = run(path)
    assert result.exit_code == 3, result.output
    assert "GEMM" in result.stderr
    assert "Traceback" not in result.output


def test_a_model_without_dispatchables_says_so(tmp_path: Path) -> None:
    result = run(model(tmp_path, resources={}, dispatchables={}, commands=[]))
    assert result.exit_code == 1, result.output
    assert "no dispatchable" in result.stderr
