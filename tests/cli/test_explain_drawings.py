"""Pictures of `anydml explain` in files and on terminals."""

from __future__ import annotations

import os
import pty
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from tests.cli.test_explain import SLICE1, printed, run

if TYPE_CHECKING:
    import pytest

DRAWING = Path(__file__).parents[2] / "docs" / "assets" / "slice1.svg"


def test_drawings_are_written_whole(tmp_path: Path) -> None:
    svg, page = tmp_path / "a.svg", tmp_path / "a.html"
    svg.write_text("old")
    result = run(f"{SLICE1} --svg {svg} --html {page}")
    assert (result.exit_code, result.output) == (0, "")
    assert ElementTree.fromstring(svg.read_text("utf-8")).tag.endswith("svg")  # noqa: S314 - our own
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"a.svg", "a.html"}
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~_umask()
    assert printed(f"{SLICE1} --svg -") == svg.read_text("utf-8")
    assert printed(f"{SLICE1} --html -") == page.read_text("utf-8")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    svg = tmp_path / "a.svg"
    svg.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    result = run(f"{SLICE1} --svg {svg}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written (no space left on device)" in result.stderr
    assert svg.read_text() == "old"
    assert list(tmp_path.iterdir()) == [svg]
    assert run(f"{SLICE1} --svg {tmp_path / 'none' / 'a.svg'}").exit_code == 2
    assert run(f"{SLICE1} --svg {tmp_path}").exit_code == 2
    assert run(f"{SLICE1} --svg", "a\0b").exit_code == 2


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "null.svg"
    link.symlink_to("/dev/null")
    assert run(f"{SLICE1} --svg {link}").exit_code == 0
    assert link.is_symlink()


def test_a_description_at_fault_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    assert run(f"slice1 --sizes 4 --offsets 4 --window 1 --html {path}").exit_code == 1
    assert not path.exists()


def test_the_drawing_in_docs_is_up_to_date() -> None:
    assert printed(f"{SLICE1} --svg -") == DRAWING.read_text("utf-8"), f"anydml explain {SLICE1} --svg {DRAWING}"


# Terminals

COMMAND = [sys.executable, "-m", "anydml", "explain", *shlex.split(SLICE1)]


def on_terminal(line: str = SLICE1, **environment: str) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "CI")}
    command = [*COMMAND[:4], *shlex.split(line)]
    with subprocess.Popen(command, stdout=theirs, env={**known, "TERM": "xterm-256color", **environment}) as process:  # noqa: S603 - our own
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not part:
                break
            found += part
    os.close(ours)
    assert process.returncode == 0
    return found.decode()


def test_colour_on_a_terminal_and_none_where_it_is_not_wanted() -> None:
    assert "\x1b[1;94m[14]¹" in on_terminal(COLUMNS="120")
    plain = on_terminal(COLUMNS="120", NO_COLOR="1")
    assert "\x1b[1;94m" not in plain
    assert "[14]¹" in plain
    piped = subprocess.run(COMMAND, capture_output=True, check=True)  # noqa: S603 - our own
    assert b"\x1b" not in piped.stdout
    assert piped.stdout.decode() == printed(SLICE1)


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    line = "cumulative_summation --sizes 20,30 --axis 1"
    texts = {columns: on_terminal(line, COLUMNS=str(columns), NO_COLOR="1") for columns in (120, 60)}
    for columns, text in texts.items():
        grids = re.sub(r"\x1b\[[\d;]*m", "", text).split("[ ]")[0]
        assert max(map(len, grids.splitlines()[3:])) <= columns
    assert "24 of 30 columns left out" in texts[120]
    assert "26 of 30 columns left out" in texts[60]


def test_an_output_of_plain_letters_gets_plain_letters() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    piped = subprocess.run(COMMAND, capture_output=True, check=True, env=environment)  # noqa: S603 - our own
    text = piped.stdout.decode("ascii")
    assert "|[14]1" in text
    assert "0  14^1  16^2" in text  # 141 would be another number
