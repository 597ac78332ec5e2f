"""Every example runs, without a warning, and the tour shows what the documents say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def run(path: Path) -> str:
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own example
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("anydml: compiling")]  # a first use
    assert said == []
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(path: Path) -> None:
    assert run(path).strip()


def test_there_are_examples() -> None:
    assert {"tour", "port_directml_code", "check_levels"} <= {path.stem for path in EXAMPLES}


def test_the_tour_shows_what_was_picked() -> None:
    lines = run(Path(EXAMPLES[0].parent / "tour.py")).splitlines()
    assert "      5   6 [ 7][ 8]       11  12" in lines
    assert "      9 [10] 11 [12]" in lines
    assert "      0   1   indices[0] = (1) picks row 1    ->    2   3" in lines
    assert "      2   1   3   5   ->    2   3   6  11   = 2, 2+1, 2+1+3, 2+1+3+5" in lines
