"""What a model needs, node by node; and where it differs from ONNX Runtime: through the library and the program."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import anydml as dml
from anydml import FeatureLevel
from anydml.cli.app import app

onnx = pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")

import anydml.onnx as front  # noqa: E402 - it needs onnx
from anydml.onnx import comparing, feeds, library, types  # noqa: E402 - as above
from anydml.onnx.differences import differ  # noqa: E402 - as above
from anydml.onnx.program import Program  # noqa: E402 - as above

if TYPE_CHECKING:
    from pathlib import Path

FLOAT, INT64, STRING, DOUBLE = 1, 7, 8, 11


def save(path: Path, nodes: list[Any], inputs: Any, outputs: Any, constants: dict[str, Any] | None = None) -> Path:
    """Write a model of nodes; a shape of None is left out."""
    make = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [make(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [make(name, kind, None) for name, kind in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.fixture
def crop(tmp_path: Path) -> Path:
    """Rows cropped, summed, turned and picked, for batches of any size."""
    node = onnx.helper.make_node
    nodes = [
        node("Slice", ["x", "starts", "ends", "axes"], ["cropped"], name="crop"),
        node("CumSum", ["cropped", "axis"], ["summed"], name="sum"),
        node("Transpose", ["summed"], ["turned"], name="turn", perm=[1, 0]),
        node("Shape", ["turned"], ["sizes"], name="measure"),
        node("Gather", ["turned", "i"], ["y"], name="pick"),
    ]
    constants = {"starts": [1], "ends": [2**31 - 1], "axes": [1], "axis": 0}
    inputs = {"x": (FLOAT, ["batch", 6]), "i": (INT64, [2])}
    return save(tmp_path / "crop.onnx", nodes, inputs, {"y": FLOAT, "sizes": INT64}, constants)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    node = onnx.helper.make_node
    nodes = [node("Unique", ["x"], ["a"], name="cut"), node("Unique", ["a"], ["b"]), node("Identity", ["b"], ["y"])]
    return save(tmp_path / "foreign.onnx", nodes, {"x": (FLOAT, [2])}, {"y": FLOAT})


def program(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_each_node_with_its_operator_and_level(crop: Path) -> None:
    report = front.check(crop, shapes={"batch": 3})
    assert report
    found = {node.name: (node.operators, node.lowest_level, node.note) for node in report.nodes}
    assert found == {
        "crop": (("SLICE",), FeatureLevel.LEVEL_1_0, ""),
        "sum": (("CUMULATIVE_SUMMATION",), FeatureLevel.LEVEL_2_1, ""),
        "turn": (("ELEMENT_WISE_IDENTITY",), FeatureLevel.LEVEL_1_0, ""),
        "measure": ((), None, "folded"),
        "pick": (("GATHER",), FeatureLevel.LEVEL_3_0, ""),  # for INT64 indices
    }
    assert report.lowest_level == FeatureLevel.LEVEL_3_0
    assert not report.assumed


def test_the_lowest_level_is_the_lowest_that_runs_it(crop: Path) -> None:
    lowest = front.check(crop, shapes={"batch": 3}).lowest_level
    x, i = np.ones((3, 6), np.float32), np.array([0, 4])
    front.load(crop, device=dml.Device("reference", feature_level=lowest)).run({"x": x, "i": i})
    below = max(level for level in FeatureLevel if level < lowest)
    with pytest.raises(dml.FeatureLevelError, match="node 'pick'"):
        front.load(crop, device=dml.Device("reference", feature_level=below)).run({"x": x, "i": i})


def test_a_level_that_lacks_something(crop: Path) -> None:
    report = front.check(crop, "2_1", shapes={"batch": 3})
    assert not report
    assert report.status == 1
    assert [node.name for node in report.nodes if node.error] == ["pick"]
    assert "GATHER of these types and dimensions needs DML_FEATURE_LEVEL_3_0; this check is for 2_1" in str(
        report.nodes[4].error
    )


def test_an_addition_needs_the_level_of_its_operator(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("CumSum", ["x", "axis"], ["y"], name="sum")]
    for rank, lowest in ((3, "2_1"), (4, "2_1"), (5, "4_0")):
        path = save(tmp_path / "sum.onnx", nodes, {"x": (DOUBLE, [2] * rank)}, {"y": DOUBLE}, {"axis": 0})
        for level in FeatureLevel:
            report = front.check(path, level)
            assert bool(report) == (level >= FeatureLevel(lowest))
            assert report.lowest_level == report.nodes[0].lowest_level == FeatureLevel(lowest)
            assert "FLOAT64 is an extension of DirectML" in report.nodes[0].note
            device = dml.Device("reference", feature_level=level)
            if report:
                front.load(path, device=device)
            else:
                with pytest.raises(dml.FeatureLevelError):
                    front.load(path, device=device)


def test_no_more_is_said_than_is_known(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [make("Transpose", ["x"], ["t"]), make("Reshape", ["t", "to"], ["r"]), make("Identity", ["r"], ["y"])]
    path = save(tmp_path / "form.onnx", nodes, {"x": (FLOAT, [2, 3]), "to": (INT64, [1])}, {"y": FLOAT})
    report = front.check(path)
    assert report
    assert report.unknown == 2
    assert [node.is_known for node in report.nodes] == [True, False, False]
    assert json.loads(program("check", path, "--json").stdout)["unknown"] == 2
    told = "3 nodes, which run at feature level 6_4, and from 1_0 on, as far as is known: 2 nodes are known at a run"
    assert told in program("check", path).output
    assert front.check(path, values={"to": [6]}).unknown == 0


def test_a_check_refuses_a_large_input_that_a_shape_hangs_on(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [make("Gather", ["x", "zero"], ["n"]), make("Reshape", ["x", "n"], ["y"], name="form")]
    path = save(tmp_path / "form.onnx", nodes, {"x": (INT64, [70_000])}, {"y": INT64}, {"zero": [0]})
    for values in ({}, {"x": np.zeros(70_000, np.int64)}):
        report = front.check(path, values=values)
        assert "at most 65536 elements; input 'x' has 70000" in str(report.nodes[1].error)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"to": np.array([6, 0], np.int32)}, "input 'to': must be of int64, the model's INT64; got 'int32'"),
        ({"to": np.array([True, False])}, "input 'to': must be of int64"),
        ({"to": [1.5, 4.0]}, "input 'to': must be an array of int64"),
        ({"to": np.array([6])}, r"input 'to' must have size 2 in dimension 0; got \(1,\)"),
        ({"to": None}, "input 'to'"),
        ({"z": np.array([6, 1])}, "there is no input 'z'; the model takes 'x', 'to'"),
        ([np.array([6, 1])], "values must be a mapping of names to arrays; got a list"),
        (5, "values must be a mapping"),
    ],
)
def test_values_that_a_check_refuses(tmp_path: Path, values: Any, told: str) -> None:
    nodes = [onnx.helper.make_node("Reshape", ["x", "to"], ["y"])]
    path = save(tmp_path / "form.onnx", nodes, {"x": (FLOAT, [2, 3]), "to": (INT64, [2])}, {"y": FLOAT})
    with pytest.raises(dml.DmlError, match=told):
        front.check(path, values=values)
    if isinstance(values, dict) and isinstance(values.get("to"), np.ndarray):
        np.save(tmp_path / "to.npy", values["to"])
        for command in ("check", "run"):
            result = program(command, path, "--input", f"to={tmp_path / 'to.npy'}")
            assert result.exit_code == 1
            assert "input 'to' must" in result.output.replace(":", "")


def test_open_sizes_are_taken_for_two_and_told(crop: Path) -> None:
    assert front.check(crop).assumed == {"batch": 2}
    result = program("check", crop)
    assert result.exit_code == 0
    assert "open sizes were taken for batch=2" in result.output
    bound = program("check", crop, "--shape", "batch=3")
    assert "taken for" not in bound.output
    assert "5 nodes, which run at feature level 6_4, and from 3_0 on" in bound.output


def test_nodes_are_grouped_by_type(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Relu", [a], [b], name=b) for a, b in ("xy", "yz", "zw")]
    path = save(tmp_path / "three.onnx", nodes, {"x": (FLOAT, [2])}, {"w": FLOAT})
    assert program("check", path).stdout.splitlines()[0] == "  3 Relu: ACTIVATION_RELU, from 1_0 on"
    assert len(program("check", path, "-v").stdout.splitlines()) == 4


def test_nodes_that_are_not_supported(foreign: Path) -> None:
    report = front.check(foreign, strict=True)
    assert dict(report.refused) == {"Unique": 2}
    result = program("check", foreign, "--strict")
    assert result.exit_code == 3
    assert "node 'cut' (Unique): Unique is not supported" in result.output
    assert "2 of 3 nodes cannot run at level 6_4: 2 Unique" in result.output
    assert "1 Identity: not known" in result.output


def test_types_that_directml_lacks(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "text.onnx", nodes, {"x": (STRING, [2])}, {"y": STRING})
    result = program("check", path, "--strict")
    assert result.exit_code == 3
    assert "input 'x': DirectML has no STRING" in result.output


def test_json(crop: Path) -> None:
    found = json.loads(program("check", crop, "--json", "--feature-level", "2_1", "--shape", "batch=3").output)
    assert found["valid"] is False
    assert found["assumed"] == {}
    assert [node["lowest_level"] for node in found["nodes"]] == ["1_0", "2_1", "1_0", None, "3_0"]


def test_shapes_that_hang_on_an_input(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Reshape", ["x", "shape"], ["y"], name="form")]
    inputs = {"x": (FLOAT, [2, 3]), "shape": (INT64, [1])}
    path = save(tmp_path / "form.onnx", nodes, inputs, {"y": FLOAT})
    assert front.check(path).nodes[0].note == "known at a run: depends on the values of 'shape'"
    assert front.check(path, values={"shape": np.array([6])}).nodes[0].note == "a view, no pass"
    result = program("run", path)
    assert result.exit_code == 3
    assert "input 'shape' must be given: shapes depend on its values" in result.output
    np.save(tmp_path / "shape.npy", np.array([-1]))
    assert "Output 'y': float32[6] " in program("run", path, "--input", f"shape={tmp_path / 'shape.npy'}").output


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
    assert "Run: 1 iterations, 0.0000 ms median, 0.0000 ms min (CPU)" in lines


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
        assert result.exit_code == 1
        assert result.stderr.endswith("made up: x, i; --input NAME=FILE gives one\n")


def test_inputs_that_are_too_large_to_be_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "same.onnx", nodes, {"x": (DOUBLE, ["n", "m"])}, {"y": DOUBLE})
    monkeypatch.setattr(feeds, "default_max_memory", lambda: 1000)
    result = program("run", path, "--shape", "n=100", "--shape", "m=2")
    assert result.exit_code == 1
    assert "'x' of shape (100, 2) could not be made up (more than half of the memory that is free)" in result.output
    monkeypatch.setattr(feeds, "default_max_memory", lambda: 2**80)
    info = front.load(path).inputs["x"]
    for n in (2**40, 2**63):
        with pytest.raises(dml.BindingError, match=r"input 'x' of shape .* could not be made up"):
            feeds.make_up({"x": info}, {"x": (n, 4)}, {}, 0)


def test_made_up_arrays_are_of_their_own_type() -> None:
    kinds = {"FLOAT16": "float16", "FLOAT": "float32", "INT8": "int8", "UINT8": "uint8", "BOOL": "bool"}
    elements = {element.name: element for element in types.ELEMENT_TYPES.values()}
    for name, dtype in kinds.items():
        info = front.TensorInfo("x", elements[name], (3, None))
        made = feeds.make_up({"x": info}, {"x": (3, 400_000)}, {}, 7)["x"]
        assert made.dtype == dtype
        assert made.min() < made.max()
        for part in (made[:, :1000], made[:, -1000:]):
            assert len(np.unique(part)) > (1 if name == "BOOL" else 50)


def test_a_check_makes_nothing_up(crop: Path) -> None:
    result = program("check", crop, "--seed", 1)
    assert result.exit_code == 2
    assert "No such option" in result.output


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
        (["--input", "x=missing.npy"], "the file must be a NumPy array, .npy or .npz (No such file"),
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


def test_the_graph_that_it_becomes(crop: Path, tmp_path: Path) -> None:
    result = program("explain", crop, "--shape", "batch=3")
    assert result.exit_code == 0, result.output
    assert "4 nodes: one by one 4 passes" in result.output
    assert "compiled 2 passes" in result.output
    assert program("explain", crop, "--svg", tmp_path / "crop.svg").exit_code == 0
    assert (tmp_path / "crop.svg").read_text().startswith("<svg")
    assert program("explain", crop, "--svg", crop).exit_code == 2  # the model would be lost
    nothing = save(tmp_path / "known.onnx", [], {"x": (FLOAT, [2])}, {"x": FLOAT})
    result = program("explain", nothing)
    assert result.exit_code == 1
    assert "there is nothing to show" in result.output


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

    monkeypatch.setattr(comparing, "run_onnxruntime", wrong)
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
