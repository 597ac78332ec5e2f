"""The files of a model: where it may read and write, what a NumPy file may not be, and how much memory is taken."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.limits import default_max_memory
from anydml.core.memory import word_bytes
from anydml.dxdispatch import check_file, load_model
from modelling import DISPATCH, ZEROS, floats, lines, model, program, run, write

if TYPE_CHECKING:
    from collections.abc import Callable

WAY_OUT = "the model's user may allow another folder with --allow-files"


def reading(source: str) -> dict[str, Any]:
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": source}}
    return model(resources={"in": resource, "out": ZEROS})


def writing(target: str, **command: Any) -> dict[str, Any]:
    return model(commands=[DISPATCH, {"type": "writeFile", "resource": "out", "targetPath": target, **command}])


def refused(path: Path, *options: object) -> str:
    result = run(path, *options)
    assert result.exit_code == 2, result.output
    (line,) = lines(result, path)
    return line.split(": ", 3)[-1]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


# Where a model may read


@pytest.mark.parametrize("source", ["../other/x.dat", "..\\other\\x.dat", "sub/../../other/x.dat", "a/.."])
def test_no_way_up(folder: Path, source: str) -> None:
    assert refused(write(folder, reading(source))) == f'the path must not have ".."; got {source!r}; {WAY_OUT}'


@pytest.mark.parametrize("source", ["/etc/hostname", "\\x", "C:\\x.dat", "C:x.dat", "\\\\host\\share\\x", "//host/x"])
def test_no_absolute_path(folder: Path, source: str) -> None:
    assert refused(write(folder, reading(source))) == f"the path must not be absolute; got {source!r}; {WAY_OUT}"


@pytest.mark.parametrize("path", ["model.json:hidden", "sub/x.dat::$DATA", "sub:x/y.dat"])
def test_no_stream_of_a_file(folder: Path, path: str) -> None:
    """Windows would write beside the contents of the file, the model's own among them."""
    rule = f'the path must not have ":"; got {path!r}'
    assert refused(write(folder, reading(path))) == rule
    assert refused(write(folder, writing(path))) == rule
    assert refused(write(folder, writing(path)), "--allow-files", folder.parent) == rule


def test_a_folder_that_is_allowed_from_python_is_not_taken_for_its_letters(folder: Path) -> None:
    """Its first letter is the root of everything."""
    other = folder.parent / "other"
    path = write(folder, reading(str(other / "x.dat")))
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    for allowed, status in ((str(elsewhere), 2), (elsewhere, 2), ([elsewhere], 2), (str(other), 0), (other, 0)):
        assert check_file(path, allow_files=allowed).status == status
        assert load_model(path, allow_files=allowed).check().status == status


@pytest.mark.parametrize("link", ["file", "folder", "chain"])
def test_no_link_out(folder: Path, link: str) -> None:
    other, source = folder.parent / "other", "x.dat"
    if link == "file":
        (folder / "x.dat").symlink_to(other / "x.dat")
    elif link == "folder":
        (folder / "sub").symlink_to(other)
        source = "sub/x.dat"
    else:
        (folder / "first").symlink_to(other / "x.dat")
        (folder / "x.dat").symlink_to("first")
    found = refused(write(folder, reading(source)))
    assert found == f"the path must not lead out of the model's folder; got {source!r}; {WAY_OUT}"


def test_a_link_inside_is_followed(folder: Path) -> None:
    (folder / "real.dat").write_bytes(np.ones(4, np.float32).tobytes())
    (folder / "x.dat").symlink_to("real.dat")
    assert run(write(folder, reading("x.dat"))).exit_code == 0


@pytest.mark.parametrize("source", ["x.dat", "../other/x.dat", "ABSOLUTE"])
def test_a_folder_can_be_allowed(folder: Path, source: str) -> None:
    other = folder.parent / "other"
    path = write(folder, reading(source.replace("ABSOLUTE", str(other / "x.dat"))))
    result = run(path, "--allow-files", other)
    assert lines(result, path)[-1] == "Resource 'out': 1, 2, 3, 4"


def test_an_allowed_folder_allows_no_other(folder: Path) -> None:
    path = write(folder, reading("/etc/hostname"))
    found = refused(path, "--allow-files", folder.parent / "other")
    assert found == f"the path must not lead out of the model's folder; got '/etc/hostname'; {WAY_OUT}"


def test_another_folder_to_read_from(folder: Path) -> None:
    path = write(folder, reading("x.dat"))
    assert run(path, "--input_path", folder.parent / "other").exit_code == 0
    assert refused(path) == "the file cannot be read (no such file or directory); got 'x.dat'"


@pytest.mark.parametrize("source", ["pipe", "folder", "."])
def test_only_plain_files_are_read(folder: Path, source: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    rule = "the path must name a plain file" if source == "pipe" else "the path must name a plain file, not a folder"
    assert refused(write(folder, reading(source))) == f"{rule}; got {source!r}"


@pytest.mark.parametrize("source", ["", "a\0b", "x" * 5000, "x" * 300])
def test_paths_that_are_none(folder: Path, source: str) -> None:
    found = refused(write(folder, reading(source)))
    assert found.startswith(("the path must name a file; got ", "the file cannot be read (file name too long)"))


def test_a_path_must_be_a_string(folder: Path) -> None:
    data = model(resources={"in": {"initialValues": {"sourcePath": ["x"]}}, "out": ZEROS})
    assert refused(write(folder, data)) == "sourcePath must be a string; got a list of 1 element"


def test_a_link_to_itself_is_no_file(folder: Path) -> None:
    loop = folder / "loop.json"
    loop.symlink_to("loop.json")
    path = write(folder, model())
    for command in ("run", "check", "explain"):
        result = program(command, loop)
        assert result.exit_code == 2
        assert "loop.json" in result.output
        assert "the file cannot be read (too many levels of symbolic links)" in result.output
    result = program("check", path, "--sarif", loop)
    assert result.exit_code == 2
    assert "--sarif: the file cannot be written (too many levels of symbolic links)" in result.output
    assert load_model(path, output_path=loop, input_path=loop).check()
    assert loop.is_symlink()


# What is read


def test_a_raw_file_must_hold_whole_elements(folder: Path) -> None:
    (folder / "x.dat").write_bytes(b"12345")
    path = write(folder, reading("x.dat"))
    assert refused(path) == "the file must hold whole elements of FLOAT32, one at least; got 5 bytes"
    (folder / "x.dat").write_bytes(b"")
    assert refused(path) == "the file must hold whole elements of FLOAT32, one at least; got 0 bytes"


def npy(header: str, data: bytes = b"\0" * 16, version: int = 1) -> bytes:
    text = header.encode()
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
TYPES = "FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file must be a NumPy array of format 1 to 3"),
        (b"not an array at all", "the file must be a NumPy array of format 1 to 3"),
        (npy(GOOD, version=9), "the file must be a NumPy array of format 1 to 3"),
        (npy(GOOD, b"\0" * 15), "the file must hold the 16 bytes of elements that its header says; got 15"),
        (
            npy(GOOD.replace("4,", "4000000000,"), b""),
            "the file must hold the 16000000000 bytes of elements that its header says; got 0",
        ),
        (
            npy(GOOD.replace("(4,)", "(" + "9" * 13 + ",)")),
            "the array's shape must be at most 64 sizes below 10^12; got '9999999999999,'",
        ),
        (
            npy(GOOD.replace("False", "True")),
            ("the array must be in C order; got Fortran's; save np.ascontiguousarray(array)"),
        ),
        (
            npy(GOOD.replace("<f4", "|O")),
            ("the array must be one of numbers; got pickled objects; a pickle from a stranger runs code"),
        ),
        (npy(GOOD.replace("<f4", "<c8")), f"the array must be of {TYPES}; got '<c8'"),
        (npy(GOOD.replace("<f4", "|b8")), f"the array must be of {TYPES}; got '|b8'"),
        (npy(GOOD.replace("<f4", "<f16")), f"the array must be of {TYPES}; got '<f16'"),
        (npy(GOOD.replace("'<f4'", "[('a', '<f4')]")), f"the array must be of {TYPES}; got '['"),
        (
            npy("{'descr': '<f4'}"),
            "the array's header must have descr, fortran_order and shape; got \"{'descr': '<f4'}\"",
        ),
        (
            npy(GOOD, version=2)[:9] + b"\xff\xff\xff" + b"x" * 50,
            "the array's header must have at most 65536 bytes; got 4294967097",
        ),
        (
            npy("__import__('os').system('false')"),
            ("the array's header must have descr, fortran_order and shape; got \"__import__('os').system('false')\""),
        ),
        (
            npy(GOOD.replace("<f4", "<f8"), b"\0" * 32),
            "initialValuesDataType must be FLOAT64, the type of the array in the file; got FLOAT32",
        ),
    ],
)
def test_what_a_numpy_file_may_not_be(folder: Path, data: bytes, message: str) -> None:
    (folder / "x.npy").write_bytes(data)
    assert refused(write(folder, reading("x.npy"))) == message


def test_a_pickle_in_a_numpy_file_is_never_loaded(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder / "sprung"),)

    np.save(folder / "x.npy", np.array([Trap()], object), allow_pickle=True)
    assert pickle.dumps(Trap())
    assert "pickled objects" in refused(write(folder, reading("x.npy")))
    assert not (folder / "sprung").exists()


# Memory


def test_too_much_memory_is_refused_before_it_is_taken(folder: Path) -> None:
    huge = {"initialValuesDataType": "FLOAT64", "initialValues": {"valueCount": 4294967295, "value": 0}}
    path = write(folder, model(resources={"in": floats(1, 2, 3, 4), "out": ZEROS, "huge": huge}))
    found = refused(path, "--max-memory", "1G")
    assert found == (
        "the model's memory must be at most 1 GiB; got 32 GiB, of which 32 GiB are this resource;"
        " --max-memory allows more"
    )


def test_the_limit_is_for_all_resources_together(folder: Path) -> None:
    half = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 600_000, "value": 0}}
    path = write(folder, model(resources={"in": half, "out": half}))
    assert run(path, "--max-memory", "2M").exit_code == 0
    assert "got 1.144 MiB, of which 585.9 KiB are this resource" in refused(path, "--max-memory", "1M")


def test_a_model_that_is_itself_too_large_is_not_read(folder: Path) -> None:
    path = write(folder, " " * 100_000 + "{}")
    result = run(path, "--max-memory", "1M")
    assert result.exit_code == 2
    assert lines(result, path) == [
        (
            "Error: model.json: the file must have at most 65536 bytes, to be read in the memory allowed; got 100002;"
            " see --max-memory"
        )
    ]


def test_half_of_what_is_free_is_the_default() -> None:
    assert 2**20 < default_max_memory() < 2**50
    assert [word_bytes(n) for n in (0, 1023, 1024, 1536, 2**30)] == [
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "1.5 KiB",
        "1 GiB",
    ]


@pytest.mark.parametrize("limit", ["1G", float("nan"), -1, True])
def test_a_limit_that_is_no_number_of_bytes_is_refused(limit: object, tmp_path: Path) -> None:
    with pytest.raises(dml.DescriptionError, match="load_model: max_memory must"):
        load_model(tmp_path / "model.json", max_memory=limit)  # type: ignore[arg-type]  # wrong on purpose


# Arguments that are none


@pytest.mark.parametrize("given", [None, 3, b"x", ["a"], object(), "a\0b", "\ud800"])
def test_what_is_no_path_is_refused(folder: Path, given: Any) -> None:
    path = write(folder, model())
    calls: dict[str, Callable[[], object]] = {
        "path": lambda: load_model(given),
        "input_path": lambda: load_model(path, input_path=given),
        "output_path": lambda: load_model(path, output_path=given),
    }
    if given is None:
        del calls["input_path"], calls["output_path"]
    for name, call in calls.items():
        with pytest.raises(dml.DescriptionError, match=f"^load_model: {name} must be a path; got "):
            call()
    with pytest.raises(dml.DescriptionError, match=r"^load_model: path must be a path; got "):
        check_file(given)
    if given != ["a"]:
        with pytest.raises(dml.DescriptionError, match=r"^load_model: allow_files(\[0\])? must be"):
            load_model(path, allow_files=given)


@pytest.mark.parametrize("given", [3, "x", object()])
def test_what_a_run_cannot_take_is_refused(folder: Path, given: Any) -> None:
    loaded = load_model(write(folder, model()))
    with pytest.raises(dml.DescriptionError, match=r"^run: timing must be a Timing; got "):
        loaded.run("reference", timing=given)
    with pytest.raises(dml.DescriptionError, match=r"^run: on_event must be a function; got "):
        loaded.run("reference", on_event=given)


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
