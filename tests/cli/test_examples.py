"""`anydml examples`, and the first steps that `anydml` shows: they work in an empty folder."""

from __future__ import annotations

import importlib.util
import re
import shlex
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from anydml.cli.app import app
from anydml.cli.examples import MODELS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HAS_ONNX = importlib.util.find_spec("onnx") is not None


def run(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line), prog_name="anydml")


def test_the_first_steps_work_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = run("").output
    steps = re.findall(r"^    anydml (.+?)(?:  .*)?$", told, re.MULTILINE)
    assert len(steps) >= 7
    for step in steps:
        result = run(step)
        if ".onnx" in step and not HAS_ONNX:
            assert (result.exit_code, "anydml[onnx]" in result.output) == (3, True), step
        else:
            assert result.exit_code == 0, (step, result.output)


def test_models_are_copied_and_a_changed_one_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert "slice1.json" in run(f"examples {folder}").output
    names = {path.name for path in MODELS.iterdir() if path.suffix in (".json", ".onnx")}
    assert {path.name for path in folder.iterdir()} == names >= {"slice1.json", "crop.onnx"}
    assert all((folder / name).read_bytes() == (MODELS / name).read_bytes() for name in names)
    (folder / "slice1.json").write_text("mine")
    assert "slice1.json differs from the example and was kept" in run(f"examples {folder}").output
    assert (folder / "slice1.json").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "file/within"):
        result = run(f"examples {tmp_path / name}")
        assert result.exit_code == 2
        assert "Invalid value for" in result.output
