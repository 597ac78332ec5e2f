"""What a run leaves to CI, and what it says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paths import PATHS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import pytest

@pytest.mark.sampled(4)
@pytest.mark.parametrize("k", range(100))
def test_sampled(k): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.parametrize("k", range(3))
def test_skipped(k): pytest.skip("no tea")

@pytest.mark.judges("GEMM")
def test_usual(): pass
"""
INI = "[pytest]\nmarkers =\n  judges\n  long\n  sampled\naddopts = --strict-markers -rfE -p no:cacheprovider"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "conftest.py").write_text("from sampling import *")
    (tmp_path / "test_one.py").write_text(TESTS)
    return tmp_path


def run(tests: Path, *arguments: str, **variables: str) -> list[str]:
    """The last lines of what pytest prints."""
    apart = ("CI", "ANYDML_TEST_ENGINES", "ANYDML_TEST_PART", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in apart}
    path = os.pathsep.join([str(ROOT / "src"), *PATHS])
    found = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=tests,
        env={**environment, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.splitlines()[-3:]


def test_what_is_left_to_ci_is_a_line_at_the_end(tests: Path) -> None:
    skips, line, counts = run(tests, "-n", "1")
    assert skips == "3 skipped: no tea"
    assert line == "76 tests were left to CI: CI=1 make test runs all, pytest FILE::TEST one"
    assert counts.startswith("26 passed, 3 skipped")
    line, counts = run(tests, "-n", "0", "-k", "long or GEMM")[-2:]
    assert line.startswith("1 test was left to CI")
    assert counts.startswith("1 passed, 104 deselected")


def test_ci_and_a_test_that_is_named_run(tests: Path) -> None:
    before, skips, counts = run(tests, "-n", "0", CI="1")
    assert "left to" not in before
    assert skips == "3 skipped: no tea"
    assert counts.startswith("102 passed, 3 skipped")
    assert run(tests, "-n", "0", "test_one.py::test_long")[-1].startswith("1 passed")
