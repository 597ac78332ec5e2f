"""`anydml cache`: what is kept on disk is listed, removed, and made ahead."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from anydml.engines import list_engines
from modelling import EXAMPLES, changed, model, program, write

if TYPE_CHECKING:
    from pathlib import Path


has_cpu = pytest.mark.skipif(
    not any(engine.name == "cpu" and engine.is_present for engine in list_engines()),
    reason="the cpu engine needs llvmlite, which cannot be loaded here",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two kernels and a plan."""
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache" / "plans").mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o700)
    for name, size in (("a.o", 100), (".new-b", 28), (".lock", 0), ("plans/c.o", 2048)):
        (tmp_path / "cache" / name).write_bytes((bytes(32) + b"anydml kernel: ").ljust(size)[:size])
    return tmp_path / "cache"


def test_it_is_listed(folder: Path) -> None:
    assert json.loads(program("cache", "list", "--json").stdout) == {
        "folder": str(folder),
        "kept": {"kernels": {"files": 2, "bytes": 128}, "plans": {"files": 1, "bytes": 2048}},
    }
    assert program("cache", "list").stdout.splitlines() == [
        str(folder),
        "  kernels: 2 files, 128 bytes",
        "  plans: 1 file, 2 KiB",
    ]


def test_it_is_cleared(folder: Path) -> None:
    assert program("cache", "clear", "--dry-run").stdout.startswith("Would remove 3 files")
    assert len(list(folder.rglob("*.o"))) == 2
    assert program("cache", "clear").stdout.startswith("Removed 3 files")
    assert sorted(path.name for path in folder.rglob("*")) == [".lock", "plans"]


def test_files_of_others_stay(folder: Path) -> None:
    """The folder is the user's to choose, who may have other things there."""
    mine = [folder / "notes", folder / "mine.o", folder / "plans" / "mine", folder / "mine" / "a.o"]
    (folder / "mine").mkdir()
    for path in mine:
        path.write_text("precious")
    (folder / "link.o").symlink_to(folder / "notes")
    assert program("cache", "clear").stdout.startswith("Removed 3 files")
    assert [path.read_text() for path in (*mine, folder / "link.o")] == ["precious"] * 5


@has_cpu
def test_plans_make_room_among_themselves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.engines.cpu import plans

    monkeypatch.delenv(plans.SWITCH, raising=False)
    monkeypatch.setattr(plans, "MOST", 2)
    (folder / "plans" / "mine").write_text("precious")
    for key in "abc":
        plans.write(key, b"plan")
    assert sorted(path.name[:7] for path in (folder / "plans").iterdir()) == ["c.o", "mine", "plan-b-", "plan-c-"]


@has_cpu
@pytest.mark.usefixtures("folder")
def test_it_is_warmed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    shutil.copy(EXAMPLES / "slice1.json", tmp_path / "models")
    result = program("cache", "warm", tmp_path / "models", "--engine", "cpu")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"\d+ new files?, .*\n", result.stdout)  # fewer where this process has some compiled
    result = program("cache", "warm", EXAMPLES / "slice1.json", "--engine", "cpu")
    assert result.stdout == "0 new files, 0 bytes\n"


def test_a_model_at_fault_is_not_warmed(tmp_path: Path, folder: Path) -> None:
    path = write(tmp_path, changed(model(), "dispatchables.sum.desc.Axis", 4))
    result = program("cache", "warm", path)
    assert result.exit_code == 1
    assert "Axis must be below" in result.stderr
    assert len(list(folder.rglob("*.o"))) == 2
