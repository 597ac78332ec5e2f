"""The snippets of README and of the guides run and print what the page says, and counts are the project's own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from anydml.cli.app import app
from anydml.core.operator_type import OperatorType
from anydml.operators import OPERATORS
from scripts import write_operators

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted(path for path in [README, *(ROOT / "docs").rglob("*.md")] if "```" in path.read_text())
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```output\n(.*?)```)?", re.DOTALL)
SHELL = re.compile(r"```shell\n\$ anydml (.*?)\n(.*?)```", re.DOTALL)
LONGEST = 150


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def having(pattern: re.Pattern[str], least: int) -> list[Path]:
    """The pages with such blocks, of which there are so many altogether."""
    found = [page for page in PAGES if pattern.search(page.read_text())]
    assert sum(len(pattern.findall(page.read_text())) for page in found) >= least, "none was lost"
    return found


@pytest.fixture
def _a_folder_with_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer's, after `anydml examples`."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["examples"]).exit_code == 0


def is_left_out(text: str) -> bool:
    """Whether something is about ONNX, where that is not installed: `make test EXTRAS=onnx` runs it."""
    return "onnx" in text and importlib.util.find_spec("onnx") is None


@pytest.mark.parametrize("page", having(BLOCK, 16), ids=name_of)
@pytest.mark.usefixtures("_a_folder_with_the_examples")
def test_snippets_print_what_they_say(page: Path) -> None:
    namespace: dict[str, object] = {}
    for code, expected in BLOCK.findall(page.read_text()):
        if is_left_out(code):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), namespace)
        assert printed.getvalue() == expected, code


@pytest.mark.parametrize("page", having(SHELL, 5), ids=name_of)
@pytest.mark.usefixtures("_a_folder_with_the_examples")
def test_commands_print_what_they_say(page: Path) -> None:
    def without_what_varies(text: str) -> str:
        return re.sub(r"\d+\.\d+ ms|\(\w+, \d+ [\w' ]+\)", "…", text)

    for command, expected in SHELL.findall(page.read_text()):
        if is_left_out(command):
            continue
        result = CliRunner().invoke(app, shlex.split(command), prog_name="anydml")
        assert without_what_varies(result.output) == without_what_varies(expected), command


def test_readme_counts_the_operators() -> None:
    """In its second sentence, where nobody misses it, and where it says how complete it is."""
    text, there = README.read_text(), len(OPERATORS)
    assert there == len(OperatorType) - 1, "INVALID is none"
    assert re.split(r"(?<=\.)\s+", text)[1].startswith(f"All {there} are there, ")
    assert f"\n- All {there} operators, in every type" in text
    for file in write_operators.COUNTING:
        assert write_operators.count("All 3 operators") == f"All {there} operators"
        assert write_operators.count(file.read_text()) == file.read_text(), "write it anew with `make written`"
        assert f"All {there} " in file.read_text()


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("page", [README, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Those of the site are checked when it is built."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert targets
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_changelog_has_the_version() -> None:
    import anydml

    assert f"## {anydml.__version__} " in (ROOT / "CHANGELOG.md").read_text()


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(path: Path) -> str:
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own example
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(path: Path) -> None:
    assert run(path).strip()


def test_there_are_examples() -> None:
    assert {"tour", "port_directml_code", "check_levels", "on_a_gpu"} <= {path.stem for path in EXAMPLES}


def test_the_tour_shows_what_was_picked_and_what_is_computed() -> None:
    lines = [line.strip() for line in run(Path(EXAMPLES[0].parent / "tour.py")).splitlines()]
    assert "1    5  │[ 6]³   7   [ 8]⁴│" in lines
    assert "output[0,0,1,0] = input[0, 0, 3 - 2*1, 1 + 2*0] = input[0,0,1,1] = 6" in lines
    assert "indices[0] = (1) picks row input[1,:], which lands in output[0,:]" in lines
    computed = [line.partition("computes ")[2] for line in lines if "computes" in line]
    assert computed[:3] == ["[ 7.  8. 11. 12. 15. 16.]", "[14. 16.  6.  8.]", "[2. 3. 0. 1.]"]
    assert computed[3] == "[ 2.  3.  6. 11.  3. 11. 18. 21.  9. 15. 17. 21.]"
