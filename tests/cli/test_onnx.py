"""ONNX models in the program: run on files and on inputs made up, and compared with ONNX Runtime."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_saved import DOUBLE, FLOAT, INT64, onnx, program, save, save_crop  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx as front
from anydml.onnx import element_types, library
from anydml.onnx.program import Program
from anydml.onnx.tools import compare, random_inputs
from anydml.onnx.tools.compare import differ, judge

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def crop(tmp_path: Path) -> Path:
    return save_crop(tmp_path)


def test_a_run_with_files(crop: Path, tmp_path: Path) -> None:
    x, i = np.arange(12, dtype=np.float32).reshape(2, 6), np.array([4, 0])
    np.savez(tmp_path / "given.npz", x=x, i=i)
    result = program("run", crop, "--input", tmp_path / "given.npz", "--output_path", tmp_path, "-i", 3)
    assert result.exit_code == 0, result.output
    assert "Run: 3 iterations" in result.output
    expected = np.cumsum(x[:, 1:], 0).T[i]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "sizes.npy"), [5, 2])


@pytest.mark.parametrize("inputs", ["bound", "made up", "given"])
def test_compiling_is_counted_apart_whenever_it_is_done(
    crop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: str
) -> None:
    """By a clock that moves while a program is made, and at no other time."""
    now, make = [0.0], Program.of

    def slow(*given: Any) -> Any:
        now[0] += 5
        return make(*given)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Program, "of", slow)
    np.savez(tmp_path / "given.npz", x=np.ones((2, 6), "float32"), i=np.array([4, 0]))
    options: dict[str, list[object]] = {
        "bound": ["--shape", "batch=2"],
        "made up": [],
        "given": ["--input", tmp_path / "given.npz"],
    }
    lines = program("run", crop, *options[inputs], "--engine", "reference").output.splitlines()
    assert "Load: 0.0000 ms, compile: 5000.0000 ms, first run: 0.0000 ms" in lines
    assert "Run: 0.0000 ms, the first run (CPU); --dispatch_iterations N for a median" in lines


def test_made_up_inputs_are_those_of_the_seed(crop: Path, tmp_path: Path) -> None:
    def made(seed: int) -> bytes:
        result = program("run", crop, "--seed", seed, "--shape", "batch=2", "--output_path", tmp_path)
        assert result.exit_code == 0, result.output
        return (tmp_path / "y.npy").read_bytes()

    assert made(1) == made(1) != made(2)


def test_made_up_indices_lie_in_open_sizes(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Gather", ["x", "i"], ["y"])]
    path = save(tmp_path / "pick.onnx", nodes, {"x": (FLOAT, ["n"]), "i": (INT64, [10])}, {"y": FLOAT})
    result = program("run", path)
    assert result.exit_code == 0, result.output
    assert "Output 'y': float32[10]" in result.output


def test_made_up_indices_of_a_single_element_are_zero(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Abs", ["x"], ["a"]), onnx.helper.make_node("Gather", ["a", "i"], ["y"], axis=1)]
    path = save(tmp_path / "pick.onnx", nodes, {"x": (FLOAT, [3, "n"]), "i": (INT64, [10])}, {"y": FLOAT})
    result = program("run", path, "--shape", "n=1", "--engine", "reference")
    assert result.exit_code == 0, result.output


def test_a_made_up_index_that_lies_outside_says_how_to_give_one(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Add", ["i", "i"], ["j"]), onnx.helper.make_node("Gather", ["x", "j"], ["y"])]
    path = save(tmp_path / "pick.onnx", nodes, {"x": (FLOAT, [2]), "i": (INT64, [40])}, {"y": FLOAT})
    for command in ("run", "compare"):
        result = program(command, path, "--engine", "reference")
        assert result.exit_code == 2
        assert result.stderr.endswith("made up: x, i; --input NAME=FILE gives one\n")


def test_small_numbers_are_judged_by_the_scale_of_their_tensor() -> None:
    theirs = np.array([1000, 1e-3, -20], np.float32)
    assert differ("y", theirs + np.array([0, 1e-3, 0], "f4"), theirs, 1e-3, 1e-7).agrees  # a millionth of the largest
    assert not differ("y", theirs + np.array([0, 0.1, 0], "f4"), theirs, 1e-3, 1e-7).agrees
    assert not differ("y", theirs + np.array([0, 1e-3, 0], "f4"), theirs, 0, 0).agrees


def test_float64_decides_where_two_do_not_agree() -> None:
    exact = np.array([1.0, 2, 4])
    mine, theirs = np.array([1, 2.01, 4], np.float32), np.array([1, 1.98, 4], np.float32)
    found = differ("y", mine, theirs, 1e-3, 1e-7)
    assert not found.agrees
    better = judge(found, mine, theirs, exact, 1e-3)
    assert better.agrees
    assert better.errors == pytest.approx((0.0025, 0.005), rel=1e-4)
    assert "anydml's error is 0.0025 of the largest number, ONNX Runtime's 0.005" in str(better)
    assert not judge(differ("y", mine, exact.astype("f4"), 1e-3, 0), mine, exact.astype("f4"), exact, 1e-3).agrees
    broken = np.array([1, np.nan, 4], np.float32)
    assert not judge(differ("y", broken, theirs, 1e-3, 0), broken, theirs, exact, 1e-3).agrees


def test_a_comparison_asks_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the other side is wrong, and where this one is."""
    node = onnx.helper.make_node
    nodes = [
        node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.array([3], np.float32))),
        node("Mul", ["x", "k"], ["m"], name="times"),
        node("Cast", ["m"], ["c"], to=FLOAT),
        node("Add", ["c", "b"], ["y"], name="plus"),
    ]
    path = save(tmp_path / "sum.onnx", nodes, {"x": (FLOAT, [4])}, {"y": FLOAT}, {"b": np.ones(4, np.float32)})
    inputs = {"x": np.arange(4, dtype=np.float32)}
    right = inputs["x"] * 3 + 1

    def made_here(y: Any) -> dict[str, Any]:
        return {"k": np.array([3], np.float32), "m": inputs["x"] * 3, "c": inputs["x"] * 3, "y": y}

    def ask(theirs: Any) -> Any:
        made = made_here(theirs)
        monkeypatch.setattr(
            compare, "run_onnxruntime", lambda _, __, names, **___: {name: made[name] for name in names}
        )
        return front.compare(path, inputs)

    assert ask(right)
    found = ask(right * np.float32(1.1))
    assert not found
    assert found.outputs[0].errors[0] == 0 < found.outputs[0].errors[1]
    assert "ONNX Runtime is off: anydml's error is 0 of the largest number" in str(found)
    wrong, made = made_here(right * np.float32(1.2)), made_here(right)
    monkeypatch.setattr(compare, "load", lambda *_, **__: SimpleNamespace(run=lambda _: wrong, inputs={}))
    monkeypatch.setattr(compare, "run_onnxruntime", lambda _, __, names, **___: {name: made[name] for name in names})
    assert "anydml is off" in str(front.compare(path, inputs))


def test_inputs_that_are_too_large_to_be_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "same.onnx", nodes, {"x": (DOUBLE, ["n", "m"])}, {"y": DOUBLE})
    monkeypatch.setattr(random_inputs, "default_max_memory", lambda: 1000)
    result = program("run", path, "--shape", "n=100", "--shape", "m=2")
    assert result.exit_code == 1
    assert (
        "'x' of shape (100, 2) could not be filled with random values (more than half of the memory that is free)"
        in result.output
    )
    monkeypatch.setattr(random_inputs, "default_max_memory", lambda: 2**80)
    info = front.load(path).inputs["x"]
    for n in (2**40, 2**63):
        with pytest.raises(dml.BindingError, match=r"input 'x' of shape .* could not be filled with random values"):
            random_inputs.make_up({"x": info}, {"x": (n, 4)}, {}, 0)


def test_made_up_arrays_are_of_their_own_type() -> None:
    kinds = {"FLOAT16": "float16", "FLOAT": "float32", "INT8": "int8", "UINT8": "uint8", "BOOL": "bool"}
    elements = {element.name: element for element in element_types.ELEMENT_TYPES.values()}
    for name, dtype in kinds.items():
        info = front.TensorInfo("x", elements[name], (3, None))
        made = random_inputs.make_up({"x": info}, {"x": (3, 400_000)}, {}, 7)["x"]
        assert made.dtype == dtype
        assert made.min() < made.max()
        for part in (made[:, :1000], made[:, -1000:]):
            assert len(np.unique(part)) > (1 if name == "BOOL" else 50)


@pytest.mark.parametrize("wrong", [None, "a", "1", float("nan"), float("inf"), -1, True])
def test_tolerances_are_numbers(crop: Path, wrong: Any) -> None:
    with pytest.raises(dml.DescriptionError, match="compare: rtol must be a number, 0 or more"):
        front.compare(crop, {}, rtol=wrong)
    with pytest.raises(dml.DescriptionError, match="compare: atol must be a number, 0 or more"):
        front.compare(crop, {}, atol=wrong)


@pytest.mark.parametrize("wrong", ["nan", "inf", "-1", "a"])
def test_tolerances_on_the_command_line(crop: Path, wrong: str) -> None:
    result = program("compare", crop, "--rtol", wrong)
    assert result.exit_code == 2
    assert "--rtol" in result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--input", "x=missing.npy"], "the file cannot be read (no such file or directory)"),
        (["--input", "{x}"], "holds an array without a name: say which input it is for"),
        (["--input", "z={x}"], "there is no input 'z'"),
        (["--input", "x={text}"], "the file must be a NumPy array"),
        (["--shape", "batch"], "is no size such as batch=8"),
        (["--shape", "depth=3"], "there is no 'depth'"),
        (["--max-memory", "20"], "of the file; --max-memory allows more"),
    ],
)
def test_options_that_cannot_be(crop: Path, tmp_path: Path, arguments: list[str], told: str) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 6), np.float32))
    (tmp_path / "text").write_text("text")
    filled = [one.format(x=tmp_path / "x.npy", text=tmp_path / "text") for one in arguments]
    result = program("run", crop, *filled)
    assert result.exit_code in (1, 2)
    assert told in " ".join(result.output.split())


def test_options_of_onnx_models_are_for_those(tmp_path: Path) -> None:
    result = program("run", tmp_path / "model.json", "--seed", 1)
    assert result.exit_code == 2
    assert "--seed is not for a DxDispatch model" in result.output


def test_pickles_are_not_opened(crop: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([print], object), allow_pickle=True)
    result = program("run", crop, "--input", f"x={tmp_path / 'x.npy'}")
    assert result.exit_code == 2
    assert "allow_pickle" in result.output


def test_the_first_node_that_differs(crop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs ONNX Runtime: make test EXTRAS=onnx")
    inputs = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "i": np.array([4, 0])}
    found = front.compare(crop, inputs)
    assert found
    assert [one.differing for one in found.outputs] == [0, 0]
    assert program("compare", crop, "--shape", "batch=4").exit_code == 0
    real = library.run_onnxruntime

    def wrong(model: Any, given: Any, names: list[str], **options: Any) -> dict[str, Any]:
        results = real(model, given, names, **options)
        return {name: value + 1 if name in ("summed", "y") else value for name, value in results.items()}

    monkeypatch.setattr(compare, "run_onnxruntime", wrong)
    found = front.compare(crop, inputs)
    assert not found
    assert found.first_node == "node 'sum' (CumSum)"
    assert found.first is not None
    assert (found.first.name, found.first.where, found.first.largest) == ("summed", (0, 0), 1.0)
    result = program("compare", crop, "--shape", "batch=4")
    assert result.exit_code == 1
    assert "node 'sum' (CumSum) is the first that differs: 'summed': 20 of 20 elements differ" in result.output
    data = json.loads(program("compare", crop, "--shape", "batch=4", "--json").stdout)
    assert data["first_node"] == "node 'sum' (CumSum)"
    assert (data["first"]["name"], data["first"]["where"], data["first"]["agrees"]) == ("summed", [0, 0], False)
    assert [one["agrees"] for one in data["outputs"]] == [False, True]


def test_a_comparison_counts_bits() -> None:
    nan, zero = np.float32(np.nan), np.float32(0)
    here, there = np.array([nan, zero, 1, 2], np.float32), np.array([nan, -zero, 1, 2.0002], np.float32)
    found = differ("y", here, there, 1e-3, 1e-7)
    assert (found.differing, found.agrees, found.where) == (2, True, (1,))
    exact = differ("y", here, there, 1e-5, 1e-7)
    assert (exact.agrees, exact.where) == (False, (3,))
    whole = differ("y", np.array([1, 2]), np.array([1, 3]), 1.0, 1.0)
    assert not whole.agrees
    assert not differ("y", np.array([1]), np.array([1.0]), 1.0, 1.0).agrees


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_an_output_that_is_a_link_to_itself_is_refused(crop: Path, tmp_path: Path) -> None:
    (tmp_path / "y.npy").symlink_to("y.npy")
    result = program("run", crop, "--seed", 1, "--shape", "batch=2", "--output_path", tmp_path)
    assert result.exit_code == 2
    assert "the file cannot be written (too many levels of symbolic links)" in result.output, result
