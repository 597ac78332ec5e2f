"""Where a model may read: in its own folder, plain files, through no link out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from anydml.dxdispatch import check_file, load_model
from model_folders import WAY_OUT, reading, refused, writing
from modelling import ZEROS, lines, model, program, run, write

if TYPE_CHECKING:
    from pathlib import Path

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
