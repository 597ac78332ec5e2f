"""README's blocks run, print what README says, and its table is the descriptions' own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from anydml.cli.app import app
from anydml.operator_type import OperatorType
from anydml.operators import OPERATORS
from scripts import write_operators

if TYPE_CHECKING:
    import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```output\n(.*?)```)?", re.DOTALL)
SHELL = re.compile(r"```shell\n\$ anydml (.*?)\n(.*?)```", re.DOTALL)


def is_left_out(text: str) -> bool:
    """Whether something is about ONNX, where that is not installed: `make test EXTRAS=onnx` runs it."""
    return "onnx" in text and importlib.util.find_spec("onnx") is None


def test_readme_blocks_print_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, object] = {}
    monkeypatch.chdir(README.parent)
    blocks = BLOCK.findall(README.read_text())
    assert len(blocks) >= 6
    for code, expected in blocks:
        if is_left_out(code):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), namespace)
        assert printed.getvalue() == expected, code


def test_readme_commands_print_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)

    def without_what_varies(text: str) -> str:
        return re.sub(r"\d+\.\d+ ms|\(\w+, \d+ [\w' ]+\)", "…", text)

    blocks = SHELL.findall(README.read_text())
    assert len(blocks) >= 3
    for command, expected in blocks:
        if is_left_out(command):
            continue
        result = CliRunner().invoke(app, shlex.split(command), prog_name="anydml")
        assert without_what_varies(result.output) == without_what_varies(expected), command


def test_readme_counts_the_operators() -> None:
    """In its second sentence, where nobody misses it, and in what is supported."""
    text, there = README.read_text(), len(OPERATORS)
    assert there == len(OperatorType) - 1, "INVALID is none"
    assert re.split(r"(?<=\.)\s+", text)[1].startswith(f"All {there} are there, ")
    assert f"\n\nAll {there} operators, in every type" in text


def test_the_page_of_operators_is_up_to_date() -> None:
    assert write_operators.PAGE.read_text() == write_operators.page(), "write it anew with `make written`"


def test_changelog_has_the_version() -> None:
    import anydml

    assert f"## {anydml.__version__} " in (Path(README).parent / "CHANGELOG.md").read_text()
