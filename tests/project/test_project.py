"""The project's own files: the set-up of .venv, `make help`, and the configurations that name files and versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    named = {name for text in texts for name in re.findall(r"\bdocs/[\w/-]+\.md", text)}
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
