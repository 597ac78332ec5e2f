"""Where commands write: any stdout there may be, colour only where it is wanted, files whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anydml.cli.console import make_console
from modelling import EXAMPLES, changed, floats, model, program, write

if TYPE_CHECKING:
    from pathlib import Path

MODEL = str(EXAMPLES / "slice.json")
COMMANDS = [
    ["support", "slice1"],
    ["engines"],
    ["explain", "slice1", "--sizes", "4", "--offsets", "0", "--window", "4"],
    ["check", MODEL],
    ["run", MODEL, "--engine", "reference"],
]


def as_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "anydml", *arguments]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})  # noqa: S603 - our own


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_stdout_that_is_not_there(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A service or `>&-` starts the program so."""
    monkeypatch.setattr(sys, "stdout", None)
    make_console().print("nowhere")
    script = f"import sys; sys.stdout = None; from anydml.cli.app import app; app({arguments!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)  # noqa: S603 - our own
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_stdout_that_lacks_a_names_letters(command: str, tmp_path: Path) -> None:
    """cp1252 is what a pipe has on Windows."""
    data = {"resources": {"é→": floats(1)}, "dispatchables": {}, "commands": [{"type": "print", "resource": "é→"}]}
    data = data if command == "run" else changed(data, "commands.0.resource", "→")
    done = as_process(command, str(write(tmp_path, data)), PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0 if command == "run" else 1, b"")
    assert (b"Resource '\xe9\\u2192': 1" if command == "run" else b"there must be a resource '\\u2192'") in done.stdout


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_check_has_colour_on_a_terminal_where_it_is_wanted(
    environment: dict[str, str], coloured: bool, tmp_path: Path
) -> None:
    pty = pytest.importorskip("pty", reason="this system has no terminals of its own")
    path = write(tmp_path, changed(model(), "dispatchables.sum.desc.Axis", 4))
    ours, theirs = pty.openpty()
    known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM", "CI")}
    command = [sys.executable, "-m", "anydml", "check", str(path)]
    subprocess.run(command, stdout=theirs, check=False, env={**known, "TERM": "xterm", **environment})  # noqa: S603 - our own
    os.close(theirs)
    found = os.read(ours, 65536)
    os.close(ours)
    assert b"Axis must be below" in found
    assert (b"\x1b[31m" in found) == coloured


def test_a_long_fault_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, changed(model(), "commands.1.resource", "x" * 300))
    assert len(program("check", path, "--concise").stdout.splitlines()) == 3
    _, line, caret, *others = program("check", path).stdout.splitlines()
    assert len(others) == 2
    assert line.endswith("x…")
    assert len(line) < 120
    assert caret.strip().endswith("^")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_sarif_does_not_take_the_place_of_a_device_or_a_link(tmp_path: Path) -> None:
    path = write(tmp_path, model())
    pipe, real, link = tmp_path / "pipe", tmp_path / "real", tmp_path / "link"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    assert program("check", path, "--sarif", pipe).exit_code == 0
    assert pipe.is_fifo()
    assert json.loads(os.read(held, 65536))["version"] == "2.1.0"
    os.close(held)
    link.symlink_to(real)
    assert program("check", path, "--sarif", link).exit_code == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["version"] == "2.1.0"
