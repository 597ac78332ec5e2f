"""Every example runs, without a warning, and the tour shows what the documents say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
