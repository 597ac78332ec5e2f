"""Where commands write: any stdout, colour and progress on terminals alone, files whole or not at all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anydml.cli.console import make_console
from modelling import EXAMPLES, changed, floats, model, program, write

pty = pytest.importorskip("pty", reason="this system has no terminals of its own")

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
    assert (b"Resource '\xe9\\u2192': 1" if command == "run" else b"there is no resource '\\u2192'") in done.stdout


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


ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples/models"
TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def on_terminal(*arguments: object, python: tuple[str, ...] = ("-m", "anydml"), **environment: str) -> str:
    """All that a command writes to a terminal of 80 columns, its stdout and its stderr."""
    ours, theirs = pty.openpty()
    known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM", "CI")}
    known |= {"TERM": "xterm", "COLUMNS": "80", **environment}
    command = [sys.executable, *python, *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=known) as process:  # noqa: S603 - our own
        os.close(theirs)
        found = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                piece = b""
            if not piece:
                break
            found += piece
        process.wait()
    os.close(ours)
    return found.decode()


def left_on_screen(written: str) -> list[str]:
    """The lines that a terminal shows in the end."""
    lines, row, column, hidden = [""], 0, 0, False
    assert "".join(match[0] for match in TOKEN.finditer(written)) == written
    for numbers, letter, end, text in TOKEN.findall(written):
        if end == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif end:
            column = 0
        elif text:
            lines[row] = lines[row].ljust(column)[:column] + text + lines[row][column + len(text) :]
            column += len(text)
        elif letter == "A":
            row -= int(numbers or 1)
        elif letter == "K":
            lines[row] = ""
        elif letter in "hl":
            hidden = letter == "l"
        else:
            assert letter == "m"
    assert not hidden
    return lines[:-1] if not lines[-1] else lines


def test_check_of_several_models() -> None:
    written = on_terminal("check", MODELS / "slice.json", MODELS / "slice1.json", MODELS / "numbers.json")
    assert "Checking slice.json" in written
    assert left_on_screen(written) == ["3 models: 3 valid at feature level 6_4"]


def test_a_message_stands_above_and_an_error_below(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx")
    faulty = tmp_path / "faulty.json"
    faulty.write_text("{")
    written = on_terminal("cache", "warm", "--engine", "reference", MODELS / "crop.onnx", faulty)
    assert "Compiling crop.onnx" in written
    first, second, *rest = left_on_screen(written)
    assert first.startswith("Assumed batch=2, picks=2 for dynamic dimensions; set them with --shape batch=2")
    assert second == "Made up from seed 0: x, rows"
    assert rest[0].startswith("Error: ")
    assert not any("Compiling" in line for line in rest)


def test_compare_leaves_the_result_alone() -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx")
    written = on_terminal("compare", MODELS / "crop.onnx", "--engine", "reference", "--against", "reference")
    assert "Comparing crop.onnx with the reference engine" in written
    assert [line.split()[0] for line in left_on_screen(written)] == [
        "Assumed",
        "Made",
        "output",
        str(MODELS / "crop.onnx"),
    ]


def test_a_row_of_benchmarks_is_told_while_it_is_measured() -> None:
    program = "import time; from benchmarks.__main__ import take; print(take((time.sleep(0.3) for _ in '1'), 7))"
    written = on_terminal(python=("-c", program))
    assert "Measuring row 7" in written
    assert left_on_screen(written) == ["None"]


def test_a_terminal_that_cannot_remove_a_line_gets_none() -> None:
    written = on_terminal("check", MODELS / "slice.json", MODELS / "slice1.json", TERM="dumb")
    assert written == "2 models: 2 valid at feature level 6_4\r\n"


def test_nothing_is_shown_where_stderr_is_no_terminal() -> None:
    command = [sys.executable, "-m", "anydml", "check", str(MODELS / "slice.json"), str(MODELS / "slice1.json")]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "FORCE_COLOR": "1"})  # noqa: S603 - our own
    assert done.stderr == b""
