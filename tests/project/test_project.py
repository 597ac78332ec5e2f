"""The project's own files, what a run of the tests leaves to CI, and the stress test itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

import anydml as dml
from paths import PATHS, ROOT
from stress import items
from stress.plant import EVERY, FAULTS
from stress.report import Report
from stress.watch import Held
from stress.work import Work

if TYPE_CHECKING:
    from pathlib import Path

# Does what set_up.sh asks of a Python: its version, whether it is new enough, and an environment with itself in it.
PYTHON = """#!/bin/sh
case "$*" in
  *print*) echo 3.{minor} ;;
  *sys.exit*) exit {is_old} ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
esac
"""
needs_sh = pytest.mark.skipif(os.name == "nt" or not shutil.which("make"), reason="needs make and a POSIX shell")


def make_python(folder: Path, minor: int) -> None:
    path = folder / f"python3.{minor}"
    path.write_text(PYTHON.format(minor=minor, is_old=int(minor < 11)))
    path.chmod(0o755)


def set_up(folder: Path, asked: str = "") -> str:
    """What it says, and the version of the environment then."""
    venv, script = folder / "venv", ROOT / "scripts" / "set_up.sh"
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    command = ["/bin/sh", str(script), str(venv), str(venv / "bin"), *asked.split()]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    version = venv / "version"
    return f"{done.returncode} {version.read_text().strip() if version.exists() else '-'} {done.stderr}".strip()


@needs_sh
def test_the_environment_is_of_the_version_that_is_asked_for(tmp_path: Path) -> None:
    for minor in (9, 11, 13):
        make_python(tmp_path, minor)
    assert set_up(tmp_path) == "0 3.11"
    time = (tmp_path / "venv" / "version").stat().st_mtime_ns
    assert set_up(tmp_path) == set_up(tmp_path, "python3.11") == "0 3.11"
    assert (tmp_path / "venv" / "version").stat().st_mtime_ns == time, "what depends on it would be made anew"
    (tmp_path / "venv" / "ready").touch()
    assert set_up(tmp_path, "python3.13") == "0 3.13"
    assert not (tmp_path / "venv" / "ready").exists()
    assert set_up(tmp_path) == "0 3.13", "the last one stays"


@needs_sh
def test_a_python_that_is_old_or_missing_is_one_sentence(tmp_path: Path) -> None:
    make_python(tmp_path, 9)
    way_out = "install Python 3.11 or later, or name one: make run PYTHON=python3.11"
    too_old = f"1 - python3.9 is Python 3.9, and anydml needs 3.11 or later; {way_out}"
    assert set_up(tmp_path, "python3.9") == too_old
    assert set_up(tmp_path, "python3.99") == f"1 - There is no Python named python3.99 here; {way_out}"
    assert not (tmp_path / "venv").exists()


@needs_sh
def test_make_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()
    command = ["make", "--no-print-directory"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own
    assert {line.split()[1] for line in said.splitlines() if line.startswith("make ")} == set(phony) - {"FORCE"}


def test_every_version_that_ci_runs_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)}
    hosted = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert set(re.findall(r"\b3\.\d\d\b", hosted)) == declared


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", ".pre-commit-config.yaml"])
def test_files_and_targets_that_are_named_exist(name: str) -> None:
    text, makefile = (ROOT / name).read_text(), (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    paths = re.findall(r"`((?:src|tests|scripts|requirements|examples|benchmarks|\.ci|\.github)/[\w./-]*)`", text)
    paths += re.findall(r"entry: sh (\S+)", text)
    for path in paths:
        assert (ROOT / path).exists(), path


def test_documents_that_messages_name_exist() -> None:
    texts = [path.read_text() for folder in ("src", "scripts", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"(?<![/\w])docs/[\w/-]+\.md", text)}
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_an_extra_of_make_installs_all_that_the_extra_of_the_package_does() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def fixed(file: Path) -> set[str]:
        lines = file.read_text().lower().splitlines()
        others = [fixed(file.parent / line.removeprefix("-r ")) for line in lines if line.startswith("-r ")]
        return {line.partition("==")[0] for line in lines}.union(*others)

    for name, wanted in extras.items():
        if (file := ROOT / "requirements" / f"{name}.txt").exists():
            assert {re.split(r"[\[>=]", one)[0].lower() for one in wanted} <= fixed(file), name


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


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks are POSIX's")


def stress(*options: str, plant: str = "") -> tuple[int, str]:
    """Run it; the exit status and what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(  # noqa: S603 - the project's own program
        [sys.executable, "-m", "stress", *options],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "ANYDML_STRESS_PLANT": plant},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def first_item(seed: int, door: str) -> int:
    """An item of a door that a fault is planted in."""
    return next(n for n in range(0, 10_000, EVERY) if items.door_of(seed, n) == door)


@POSIX
@pytest.mark.long
@pytest.mark.parametrize(("plant", "told"), [("wrong", "wrong"), ("bare", "bare"), ("crash", "crash")])
def test_a_planted_fault_is_told_and_its_item_shows_it_again(plant: str, told: str) -> None:
    status, said = stress("--seconds", "1", "--seed", "7", "--threads", "2", "--roles", "steady", plant=plant)
    assert status == 1, said
    assert f"FAULT {told} (steady): " in said
    found = re.search(r"python -m stress --seed 7 --item (\d+)", said)
    assert found, said
    status, said = stress("--seed", "7", "--item", found[1], plant=plant)
    assert status != 0, said
    if plant != "crash":
        assert stress("--seed", "7", "--item", found[1])[0] == 0


@POSIX
@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is told by Linux's /proc")
@pytest.mark.long
@pytest.mark.parametrize("plant", ["memory", "descriptor", "thread"])
def test_a_planted_leak_is_told(plant: str) -> None:
    status, said = stress("--seconds", "3", "--seed", "7", "--threads", "2", "--roles", "steady", plant=plant)
    assert status == 1, said
    assert "FAULT leak (steady): " in said
    assert plant in said


@pytest.mark.long
def test_every_fault_can_be_planted_in_an_item() -> None:
    number = first_item(1, "compiled")
    assert items.make(1, number).judge() == ""
    assert set(FAULTS) >= {"wrong", "bare", "crash", "hang", "memory", "descriptor", "thread"}


@pytest.mark.long
@pytest.mark.parametrize("door", items.DOORS)
def test_an_item_of_every_door_is_the_same_each_time(door: str) -> None:
    number = first_item(3, door)
    first, second = (items.make(3, number) for _ in range(2))
    assert (first.door, first.about) == (second.door, second.about)
    assert first.judge() == ""


@pytest.mark.long
@pytest.mark.parametrize(("position", "is_wrong"), [(3, False), (4, True)])
def test_a_model_refuses_the_index_that_a_call_refuses(position: int, *, is_wrong: bool) -> None:
    """A model's constant indices are checked as it is loaded: another class of error for the same element."""

    def fault(place: int) -> dml.Fault:
        rule = f"indices[{place}] = 9 is outside the axis of size 2"
        return dml.Fault(field="indices", rule=rule, way_out="take 0 .. 1")

    def call() -> NoReturn:
        raise dml.IndexRangeError("GATHER", fault(3))

    def model() -> NoReturn:
        raise dml.ModelError("model.json", replace(fault(position), subject="GATHER"))

    assert bool(Work("model", "", call, model).judge()) is is_wrong


def test_leaks_are_what_there_is_more_of() -> None:
    before = Held(memory=100, descriptors=("x",) * 5, threads=3)
    assert Held(memory=150, descriptors=("x",) * 5, threads=2).leaks(before, most=50) == []
    assert len(Held(memory=151, descriptors=("x",) * 6, threads=4).leaks(before, most=50)) == 3


@pytest.mark.long
def test_a_run_that_did_nothing_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert Report(1).summary() == 1
    assert "proves nothing" in capsys.readouterr().out
