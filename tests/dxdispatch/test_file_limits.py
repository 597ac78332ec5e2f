"""The files of a model: what a NumPy file may not be, and how much memory is taken."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.limits import default_max_memory
from anydml.core.memory import word_bytes
from anydml.dxdispatch import check_file, load_model
from model_folders import reading, refused
from modelling import ZEROS, floats, lines, model, run, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
