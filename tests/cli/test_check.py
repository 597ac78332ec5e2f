"""`anydml check`: for people, machines and code hosts; of many files, of standard input, and when a file changes."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from anydml.cli.app import app
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
            "gather_nd.json:16:32: $.dispatchables.gather.desc.InputTensor: E202 GATHER_ND: InputTensor of 2 dimensions"
            " needs DML_FEATURE_LEVEL_3_0; this check is for 2_1, which takes 4"
        ),
        '   16 | "InputTensor": { "DataType": "FLOAT32", "Sizes": [2, 2] },',
        "      |                ^",
        "gather_nd.json: invalid: 1 fault at feature level 2_1",
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
        ": $.command: R101 remark: nothing here has this name, so it is ignored; did you mean commands?"
    )
    assert found[6:] == [
        "model.json: invalid: 1 fault at feature level 6_4",
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


BAD = changed(model(), AXIS, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models in folders of their own, one at fault, beside files that are no models."""
    for name in ("good", "bad/deep", ".hidden", "node_modules"):
        (tmp_path / name).mkdir(parents=True)
    write(tmp_path / "good", model())
    write(tmp_path / "bad" / "deep", BAD)
    write(tmp_path / ".hidden", BAD)
    write(tmp_path / "node_modules", BAD)
    write(tmp_path, {"name": "x", "resources": [1]}, "package.json")
    write(tmp_path, "{no JSON", "broken.json")
    return tmp_path


def test_a_folder_is_searched_for_models(folder: Path) -> None:
    result = program("check", folder)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{folder}/bad/deep/model.json:42:")
    assert lines[3] == f"{folder}/bad/deep/model.json: invalid: 1 fault at feature level 6_4"
    assert lines[-1] == "2 models: 1 valid, 1 invalid (1 fault) at feature level 6_4"
    assert "package" not in result.stdout
    loud = program("check", folder, "-v").stdout
    assert f"{folder}/package.json: no DxDispatch model, passed over" in loud
    assert f"{folder}/broken.json: no DxDispatch model, passed over" in loud
    assert "'sum': CUMULATIVE_SUMMATION, valid from 2_1 on" in loud


def test_a_broken_model_of_a_folder_is_told(folder: Path) -> None:
    write(folder, '{"resources": {}, "dispatchables": {}, "commands": [', "broken.json")
    result = program("check", folder, "--concise")
    assert result.exit_code == 2
    assert "broken.json:1:52" in result.stdout


def test_a_model_cut_short_anywhere_after_its_first_section_is_told(folder: Path) -> None:
    text = json.dumps(model())
    sections = [text.index(f'"{name}"') for name in ("resources", "dispatchables", "commands")]
    for end in (min(sections) + 12, sorted(sections)[1], len(text) // 2, len(text) - 1):
        write(folder, text[:end], "broken.json")
        result = program("check", folder, "--concise")
        assert result.exit_code == 2, text[:end]
        assert "broken.json:1:" in result.stdout


def test_several_files_give_a_list(folder: Path) -> None:
    good, bad = folder / "good" / "model.json", folder / "bad" / "deep" / "model.json"
    result = program("check", good, bad, good, "--json")
    assert result.exit_code == 1
    assert [report["valid"] for report in json.loads(result.stdout)] == [True, False]
    log = json.loads(program("check", good, bad, "--sarif", "-").stdout)
    (found,) = log["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == bad.as_uri()


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    result = program("check", tmp_path)
    assert result.exit_code == 2
    assert "has no DxDispatch model and no ONNX model in it" in result.stderr


def test_the_folder_here_is_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "good")
    assert program("check").stdout == "1 model: 1 valid at feature level 6_4\n"


def piped(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], prog_name="anydml", input=text)


def test_standard_input() -> None:
    result = piped(json.dumps(BAD, indent=1), "-")
    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:42:13: $.dispatchables.sum.desc.Axis: ")
    assert '   42 | "Axis": 4,' in result.stdout
    named = piped(json.dumps(BAD), "-", "--stdin-filename", "my/model.json", "--json")
    assert json.loads(named.stdout)["model"] == "my/model.json"
    assert piped("", "-").exit_code == 2


def test_standard_input_finds_files_beside_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(bytes(16))
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "x.dat"}}
    text = json.dumps(changed(model(), "resources.in", source))
    assert piped(text, "-", "--stdin-filename", str(tmp_path / "model.json")).exit_code == 0
    assert piped(text, "-").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "x.json"], "stands alone"),
        (["x.json", "--stdin-filename", "y.json"], "give - as the path"),
        (["-", "--watch"], "stdin does not change"),
    ],
)
def test_what_standard_input_does_not_go_with(arguments: list[str], message: str) -> None:
    result = piped("{}", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_onnx_models_of_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx")
    shutil.copy(EXAMPLES / "crop.onnx", tmp_path)
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff")
    result = program("check", tmp_path)
    assert result.exit_code == 2
    assert "2 models: 1 valid, 1 unusable (1 fault)" in result.stdout
    low = program("check", tmp_path / "crop.onnx", "--feature-level", "2_1", "--sarif", "-")
    (found,) = json.loads(low.stdout)["runs"][0]["results"]
    assert found["ruleId"] == "feature-level"
    assert found["message"]["text"].startswith("node 'pick' (Gather): GATHER of these types")


def test_a_change_is_seen_and_an_interrupt_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, model())
    waits: list[Any] = []

    def wait(_seconds: float) -> None:
        waits.append(0)
        if len(waits) == 2:
            write(tmp_path, {**BAD, "longer": 1})
        if len(waits) == 4:
            path.unlink()
        if len(waits) == 6:
            write(tmp_path, {**BAD, "longer": 1})
        if len(waits) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", wait)
    result = program("check", tmp_path, "--watch", "--concise")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "1 model: 1 valid at feature level 6_4"
    assert result.stdout.splitlines()[-1] == "1 model: 0 valid, 1 invalid (1 fault) at feature level 6_4"
    assert "0 models: 0 valid at feature level 6_4" in result.stdout, "an editor may write a file anew"
    assert [line.split(" since")[0] for line in result.stderr.splitlines()] == [
        *["Watching 1 file"] * 2,
        "Watching 0 files",
        "Watching 1 file",
    ]
