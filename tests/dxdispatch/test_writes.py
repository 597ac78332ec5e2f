"""Files put in their places together: undone where one fails, with the modes they had, up to a number of bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.errors import ModelFileError
from anydml.core.limits import default_max_output
from anydml.dxdispatch import check_file, load_model
from anydml.dxdispatch.writes import Writes
from modelling import DISPATCH, ZEROS, lines, model, run, write

NEW = b"new"


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def stage(writes: Writes, folder: Path, names: str) -> None:
    for name in names:
        writes.stage(folder / name, [NEW])


def block(folder: Path, name: str) -> None:
    """Put a folder where a file is to be, after that was looked at."""
    (folder / name).mkdir()
    (folder / name / "inside").write_bytes(b"")


@pytest.mark.parametrize("old", ["", "a", "b", "ab"])
@pytest.mark.parametrize("has_links", [True, False])
def test_where_a_file_cannot_be_put_in_its_place_those_before_it_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", _no_links)
    for name in old:
        (tmp_path / name).write_text(f"old {name}")
    before = files(tmp_path)
    with Writes() as writes:
        stage(writes, tmp_path, "ab")
        writes.stage(tmp_path / "sub" / "c", [NEW])
        stage(writes, tmp_path, "de")
        block(tmp_path, "d")
        with pytest.raises(ModelFileError, match=r"the file cannot be written \(is a directory\)"):
            writes.commit()
    assert files(tmp_path) == {**before, "d/inside": b""}
    assert not (tmp_path / "sub").exists()


def _no_links(*_: object, **__: object) -> None:
    raise OSError(95, os.strerror(95))


@pytest.mark.parametrize("at", range(8))
def test_an_interrupt_leaves_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Between any two steps: a and b have old files, c is new."""
    for name in "ab":
        (tmp_path / name).write_text(f"old {name}")
    old = files(tmp_path)
    done = 0

    def interrupting(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if done == at + 1:
                if at % 2:
                    real(*given, **named)
                raise KeyboardInterrupt
            return real(*given, **named)

        return call

    try:
        with Writes() as writes:
            stage(writes, tmp_path, "acb")
            monkeypatch.setattr(os, "link", interrupting(os.link))
            monkeypatch.setattr(os, "replace", interrupting(os.replace))
            writes.commit()
    except KeyboardInterrupt:
        pass
    assert files(tmp_path) in (old, dict.fromkeys("abc", NEW))


def test_an_old_file_that_cannot_be_put_back_is_kept_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old a")
    real = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == "a" and Path(source).read_bytes() != NEW:
            raise PermissionError(1, os.strerror(1))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with Writes() as writes:
        stage(writes, tmp_path, "abc")
        block(tmp_path, "b")
        with pytest.raises(ModelFileError) as caught:
            writes.commit()
    (kept,) = [path for path in tmp_path.iterdir() if path.is_file() and path.read_bytes() == b"old a"]
    assert str(caught.value).endswith(f"; what was in {str(tmp_path / 'a')!r} is in {str(kept)!r}")


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    data = model(commands=[{"type": "writeFile", "resource": "out", "targetPath": "x.dat"}])
    (tmp_path / "x.dat").write_text("old")
    (tmp_path / "x.dat").chmod(mode)
    assert run(write(tmp_path, data)).exit_code == 0
    assert (tmp_path / "x.dat").read_bytes() == bytes(16)
    assert stat.S_IMODE((tmp_path / "x.dat").stat().st_mode) == mode


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder would allow it. To root everything is writable, so the system's answer is put in its mouth."""
    (tmp_path / "a").write_text("old a")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ModelFileError, match=r"the file cannot be written \(permission denied\)"), Writes() as writes:
        stage(writes, tmp_path, "a")
    assert files(tmp_path) == {"a": b"old a"}


# How much


def writing(*targets: str, count: int = 4) -> dict[str, Any]:
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": count, "value": 0}}
    commands = [{"type": "writeFile", "resource": "big", "targetPath": target} for target in targets]
    return model(resources={"in": ZEROS, "out": ZEROS, "big": resource}, commands=[DISPATCH, *commands])


def test_what_a_model_writes_is_limited(tmp_path: Path) -> None:
    path = write(tmp_path, writing("a.dat", "b.dat", "a.dat", count=2**18))
    result = run(path, "--max-output", "1M")
    assert result.exit_code == 2
    assert lines(result, path) == [
        (
            "Error: model.json:72:3: $.commands[3]: the files that a model writes must take at most 1 MiB;"
            " got 2 MiB, of which 1 MiB are this file; --max-output, or max_output=, allows more"
        )
    ]
    assert list(tmp_path.iterdir()) == [path]
    assert run(path, "--max-output", "2M").exit_code == 0


def test_many_small_files_and_folders_take_room_too(tmp_path: Path) -> None:
    """A block of the disk each."""
    path = write(tmp_path, writing(*(f"a/b/c/{i}" for i in range(64))))
    report = check_file(path)
    assert report.output_in_bytes == 64 * 4 * 4096
    assert report.as_data()["output_in_bytes"] == report.output_in_bytes
    assert "got 1 MiB" in run(path, "--max-output", "512K").stderr


def test_an_array_is_written_as_far_as_its_dimensions_reach(tmp_path: Path) -> None:
    data = writing("a.npy", count=2**18)
    data["commands"][1]["dimensions"] = [2, 4096]
    report = check_file(write(tmp_path, data))
    load_model(tmp_path / "model.json").run("reference")
    assert report.output_in_bytes == (tmp_path / "a.npy").stat().st_size
    assert np.load(tmp_path / "a.npy").shape == (2, 4096)


@pytest.mark.parametrize("limit", ["1G", float("nan"), -1, True])
def test_a_limit_that_is_no_number_of_bytes_is_refused(limit: object, tmp_path: Path) -> None:
    with pytest.raises(dml.DescriptionError, match="load_model: max_output must"):
        load_model(tmp_path / "model.json", max_output=limit)  # type: ignore[arg-type]  # wrong on purpose


def test_half_of_what_is_free_is_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, writing("a"))
    assert 0 < load_model(path).max_output < 2**60
    assert default_max_output(tmp_path / "not" / "there") > 0
