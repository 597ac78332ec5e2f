"""`anydml check`: for people, for machines and for code hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from modelling import EXAMPLES, changed, lines, model, program, write

if TYPE_CHECKING:
    from pathlib import Path

AXIS = "dispatchables.sum.desc.Axis"


def test_a_valid_model() -> None:
    path = EXAMPLES / "gather_nd.json"
    result = program("check", path)
    assert result.exit_code == 0
    assert lines(result, path) == [
        "gather_nd.json: valid at feature level 6_4",
        "  'gather': GATHER_ND, valid from 3_0 on",
        "  'gather_rows': GATHER_ND, valid from 2_1 on",
    ]


def test_a_level_that_is_too_low() -> None:
    path = EXAMPLES / "gather_nd.json"
    result = program("check", path, "--feature-level", "2_1")
    assert result.exit_code == 1
    assert lines(result, path) == [
        (
            "gather_nd.json:16:32: $.dispatchables.gather.desc.InputTensor: GATHER_ND: InputTensor of 2 dimensions"
            " needs DML_FEATURE_LEVEL_3_0; this check is for 2_1, which takes 4"
        ),
        '   16 | "InputTensor": { "DataType": "FLOAT32", "Sizes": [2, 2] },',
        "      |                ^",
        "gather_nd.json: 1 fault at feature level 2_1",
        "  'gather': GATHER_ND, valid from 3_0 on",
        "  'gather_rows': GATHER_ND, valid from 2_1 on",
    ]


def test_faults_and_remarks(tmp_path: Path) -> None:
    path = write(tmp_path, {**changed(model(), AXIS, 4), "command": 1})
    result = program("check", path)
    assert result.exit_code == 1
    found = lines(result, path)
    assert found[0].endswith("Axis must be below InputTensor.DimensionCount, 4; got 4")
    assert found[1:3] == ['   42 | "Axis": 4,', "      |         ^"]
    assert found[3].endswith(
        ": $.command: remark: nothing here has this name, so it is ignored; did you mean commands?"
    )
    assert found[6:] == [
        "model.json: 1 fault at feature level 6_4",
        "  'sum': CUMULATIVE_SUMMATION, valid at no level",
    ]


def test_exit_statuses(tmp_path: Path, unbuilt: str) -> None:
    assert program("check", write(tmp_path, "{")).exit_code == 2
    assert program("check", tmp_path / "none.json").exit_code == 2
    assert program("check", write(tmp_path, changed(model(), "dispatchables.sum.type", unbuilt))).exit_code == 3
    assert program("check", write(tmp_path, {**model(), "note": 1})).exit_code == 0
    assert program("check", write(tmp_path, model()), "--feature-level", "x").exit_code == 2


def test_json(tmp_path: Path) -> None:
    result = program("check", write(tmp_path, changed(model(), AXIS, 4)), "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["valid"] is False
    assert [finding["field"] for finding in data["findings"]] == ["Axis"]


def test_sarif_to_stdout_and_to_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, changed(model(), AXIS, 4))
    result = program("check", path, "--sarif", "-")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["version"] == "2.1.0"
    target = tmp_path / "log.sarif"
    also = program("check", path, "--sarif", target)
    assert target.read_text() == result.stdout
    assert also.stdout.splitlines()[-1] == "  'sum': CUMULATIVE_SUMMATION, valid at no level"
    assert json.loads(program("check", path, "--json", "--sarif", target).stdout)["valid"] is False
    assert program("check", path, "--json", "--sarif", "-").exit_code == 2


def test_a_sarif_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = program("check", write(tmp_path, model()), "--sarif", tmp_path / "file" / "log")
    assert result.exit_code == 2
    assert "the file cannot be written (not a directory)" in result.stderr


def test_a_folder_can_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "x.dat").write_bytes(b"\0" * 16)
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "../x.dat"}}
    path = write(tmp_path / "own", changed(model(), "resources.in", source))
    assert program("check", path).exit_code == 2
    assert program("check", path, "--allow-files", tmp_path).exit_code == 0
