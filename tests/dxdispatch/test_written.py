"""The files that a model writes: whole or not at all, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anydml.dxdispatch import check_file
from model_folders import WAY_OUT, refused, snapshot, writing
from modelling import DISPATCH, ZEROS, floats, lines, model, run, write

# What is written


def test_a_numpy_file_and_a_raw_one_are_written(folder: Path) -> None:
    path = write(folder, writing("sub/deep/x.npy", dimensions=[2, 2]))
    result = run(path)
    assert lines(result, path)[-1] == "Resource 'out' written to 'sub/deep/x.npy'"
    np.testing.assert_array_equal(np.load(folder / "sub/deep/x.npy"), np.array([[1, 3], [6, 10]], np.float32))
    assert run(write(folder, writing("x.NPY"))).exit_code == 0
    assert np.load(folder / "x.NPY").tolist() == [1, 3, 6, 10]
    assert run(write(folder, writing("x.dat"))).exit_code == 0
    assert (folder / "x.dat").read_bytes() == np.array([1, 3, 6, 10], np.float32).tobytes()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_padding_is_in_raw_files_and_not_in_arrays(folder: Path, count: int) -> None:
    half = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3][:count]}
    commands = [{"type": "writeFile", "resource": "r", "targetPath": name} for name in ("x.npy", "x.dat")]
    path = write(folder, {"resources": {"r": half}, "dispatchables": {}, "commands": commands})
    assert run(path).exit_code == 0
    assert np.load(folder / "x.npy").tolist() == [1, 2, 3][:count]
    assert (folder / "x.dat").stat().st_size == -(-count * 2 // 4) * 4


def test_a_file_is_written_as_it_was_at_its_command(folder: Path) -> None:
    saves = [{"type": "writeFile", "resource": "out", "targetPath": f"{i}.npy"} for i in range(2)]
    path = write(folder, model(commands=[saves[0], DISPATCH, saves[1]]))
    assert run(path).exit_code == 0
    assert [np.load(folder / f"{i}.npy").tolist() for i in range(2)] == [[0, 0, 0, 0], [1, 3, 6, 10]]


@pytest.mark.parametrize("count", [64, 65, 30_000])
def test_an_array_has_as_many_dimensions_as_numpy_reads(folder: Path, count: int) -> None:
    """30,000 of them do not fit the length of a header either."""
    path = write(folder, writing("x.npy", dimensions=[1] * (count - 1) + [4]))
    if count == 64:
        assert run(path).exit_code == 0
        assert np.load(folder / "x.npy").shape == (*[1] * 63, 4)
        return
    report = check_file(path)
    rule = f"dimensions must be at most 64 sizes, which is what NumPy reads; got {count}"
    assert [str(finding).split(": ", 2)[-1] for finding in report.faults] == [rule]
    assert report.status == 1
    assert run(path).exit_code == 1
    assert not (folder / "x.npy").exists()


@pytest.mark.parametrize("target", ["../x.npy", "/x.npy", "sub/../../x"])
def test_nothing_is_written_outside(folder: Path, target: str) -> None:
    path = write(folder, writing(target))
    before = snapshot(folder.parent)
    assert refused(path).endswith(WAY_OUT)
    assert snapshot(folder.parent) == before


def test_nothing_is_written_through_a_link_out(folder: Path) -> None:
    (folder / "sub").symlink_to(folder.parent / "other")
    (folder / "x.dat").symlink_to(folder.parent / "other" / "x.dat")
    before = snapshot(folder.parent / "other")
    for target in ("sub/new.dat", "x.dat"):
        assert "must not lead out" in refused(write(folder, writing(target)))
    assert snapshot(folder.parent / "other") == before


def test_where_a_model_may_not_write_in_its_own_folder(folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "file").write_text("x")
    os.mkfifo(folder / "pipe")
    found = {
        "model.json": "a model must not write over itself; got 'model.json'",
        ".profile": "a model must not write hidden files; got '.profile'",
        ".git/config": "a model must not write hidden files; got '.git/config'",
        "folder": "the path must name a plain file, not a folder; got 'folder'",
        "pipe": "the path must name a plain file; got 'pipe'",
        "file/x": "the path must name a file in a folder; got 'file/x'",
    }
    for target, message in found.items():
        assert refused(write(folder, writing(target))) == message


def test_another_folder_to_write_to(folder: Path) -> None:
    path = write(folder, writing("new.dat"))
    assert run(path, "--output_path", folder.parent / "other").exit_code == 0
    assert sorted(p.name for p in (folder.parent / "other").iterdir()) == ["new.dat", "x.dat"]
    assert [p.name for p in folder.iterdir()] == ["model.json"]


def test_if_anything_fails_nothing_is_written(folder: Path) -> None:
    """The gather meets an index that is out of range and was computed before, which only running it can tell."""
    gather = {
        "type": "GATHER_ND",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
            "IndicesTensor": {"DataType": "UINT32", "Sizes": [1]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1]},
            "InputDimensionCount": 1,
            "IndicesDimensionCount": 1,
        },
    }
    one = {"DataType": "UINT32", "Sizes": [1]}
    copy = {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": one, "OutputTensor": one}}
    indices = {"initialValuesDataType": "UINT32", "initialValues": [4]}
    data = model(
        resources={"in": floats(1, 2, 3, 4), "out": ZEROS, "i": indices, "j": indices},
        dispatchables={"gather": gather, "copy": copy},
        commands=[
            {"type": "writeFile", "resource": "in", "targetPath": "sub/x.npy"},
            {"type": "writeFile", "resource": "in", "targetPath": "old.dat"},
            {"type": "dispatch", "dispatchable": "copy", "bindings": {"InputTensor": "i", "OutputTensor": "j"}},
            {
                "type": "dispatch",
                "dispatchable": "gather",
                "bindings": {"InputTensor": "in", "IndicesTensor": "j", "OutputTensor": "out"},
            },
        ],
    )
    (folder / "old.dat").write_text("precious")
    path = write(folder, data)
    before = snapshot(folder)
    result = run(path)
    assert result.exit_code == 1
    place = data["commands"][3]
    assert place["type"] == "dispatch"
    assert lines(result, path)[-1].endswith(
        ": $.commands[3]: GATHER_ND: indices = (4,) is outside dimension 0 of size 4; take 0 .. 3,"
        ' or "IndexMode": "clamp" in the desc for the nearest element'
    )
    assert snapshot(folder) == before
    assert not (folder / "sub").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_full_disk_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, writing("x.dat"))
    (folder / "x.dat").write_text("precious")
    real = os.open

    def full(name: Any, flags: int, mode: int = 0o777) -> int:
        return real("/dev/full", os.O_WRONLY) if flags & os.O_CREAT else real(name, flags, mode)

    monkeypatch.setattr(os, "open", full)
    found = run(path)
    monkeypatch.undo()
    assert found.exit_code == 2
    assert "the file cannot be written (no space left on device)" in found.stderr
    assert (folder / "x.dat").read_text() == "precious"
