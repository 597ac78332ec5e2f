"""What a model needs, node by node: through the library and the program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_saved import DOUBLE, FLOAT, INT64, STRING, onnx, program, save, save_crop  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx as front
from anydml import FeatureLevel
from anydml.onnx.tools.providers import forecast

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def crop(tmp_path: Path) -> Path:
    return save_crop(tmp_path)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    node = onnx.helper.make_node
    nodes = [node("Unique", ["x"], ["a"], name="cut"), node("Unique", ["a"], ["b"]), node("Identity", ["b"], ["y"])]
    return save(tmp_path / "foreign.onnx", nodes, {"x": (FLOAT, [2])}, {"y": FLOAT})


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
    told = "valid, as far as is known: 2 of 3 nodes are known at a run alone; the rest run at feature level 6_4"
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


def test_dynamic_sizes_are_assumed_and_told(crop: Path) -> None:
    assert front.check(crop).assumed == {"batch": 2}
    result = program("check", crop)
    assert result.exit_code == 0
    assert "Assumed batch=2 for dynamic dimensions; set them with --shape batch=2" in result.output
    bound = program("check", crop, "--shape", "batch=3")
    assert "set them with" not in bound.output
    assert "5 nodes, which run at feature level 6_4, and from 3_0 on" in bound.output


def test_nodes_are_grouped_by_type(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Relu", [a], [b], name=b) for a, b in ("xy", "yz", "zw")]
    path = save(tmp_path / "three.onnx", nodes, {"x": (FLOAT, [2])}, {"w": FLOAT})
    assert program("check", path).stdout.splitlines()[0] == "  3 Relu: ACTIVATION_RELU, from 1_0 on"
    assert len(program("check", path, "-v").stdout.splitlines()) == 4


def test_an_input_whose_values_shapes_depend_on_is_named(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Reshape", ["x", "to"], ["y"])]
    path = save(tmp_path / "shaped.onnx", nodes, {"x": (FLOAT, [4]), "to": (INT64, [2])}, {"y": FLOAT})
    report = front.check(path)
    assert report.needs == report.nodes[0].needs == ("to",)
    result = program("check", path)
    told = "shapes depend on the values of 'to': --input 'to=…' takes a number, a list such as [2,3] or a file"
    assert result.output.strip().endswith(told)
    assert "--input 'to=…' takes a number, a list such as [2,3] or a file\n" in program("run", path).output
    assert json.loads(program("check", path, "--json").stdout)["needs"] == ["to"]
    given = program("check", path, "--input", "to=[2,2]")
    assert (given.exit_code, "shapes depend" in given.output) == (0, False)


@pytest.mark.parametrize("command", ["check", "run", "explain", "compare"])
def test_one_fault_has_one_status(command: str, tmp_path: Path) -> None:
    x = {"x": (FLOAT, [2, 2])}
    unknown = save(tmp_path / "u.onnx", [onnx.helper.make_node("Relux", ["x"], ["y"])], x, {"y": FLOAT})
    host = save(tmp_path / "h.onnx", [onnx.helper.make_node("Det", ["x"], ["y"])], x, {"y": FLOAT})
    found = program(command, unknown)
    assert found.exit_code == 1
    assert "ONNX has no node type Relux" in found.output
    if command != "compare":  # which has no --strict
        strict = program(command, host, "--strict")
        assert strict.exit_code == 1
        assert "Det is not supported; without --strict it runs on the host" in strict.output
    other = save(tmp_path / "o.onnx", [onnx.helper.make_node("Foo", ["x"], ["y"], domain="my")], x, {"y": FLOAT})
    assert program(command, other).exit_code == 3


def test_a_refusal_that_strict_makes_of_a_type_has_the_status_of_check(tmp_path: Path) -> None:
    relu = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path / "d.onnx", relu, {"x": (DOUBLE, [2])}, {"y": DOUBLE})
    assert program("run", path).exit_code == 0
    assert [program(command, path, "--strict").exit_code for command in ("check", "run", "explain")] == [1, 1, 1]
    with pytest.raises(dml.UnsupportedError):
        front.load(path, strict=True)


def test_texts_that_nobody_makes_up_are_asked_for(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "text.onnx", nodes, {"x": (STRING, [2])}, {"y": STRING})
    result = program("run", path)
    assert result.exit_code == 2
    assert "there are no random values of STRING; --input 'x=…' takes" in result.output


def test_nodes_that_are_not_supported(foreign: Path) -> None:
    report = front.check(foreign, strict=True)
    assert dict(report.refused) == {"Unique": 2}
    result = program("check", foreign, "--strict")
    assert result.exit_code == 1
    assert "not built here" not in result.output
    assert "E203 node 'cut'" in program("check", foreign, "--strict", "--concise").output
    assert "  E203 node 'cut' (Unique): Unique is not supported; without --strict it runs" in result.output
    assert "invalid: 2 of 3 nodes cannot run at feature level 6_4: 2 Unique" in result.output
    assert "1 Identity: skipped: depends on a node that failed above" in result.output


def test_types_that_directml_lacks(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "text.onnx", nodes, {"x": (STRING, [2])}, {"y": STRING})
    result = program("check", path, "--strict")
    assert result.exit_code == 1
    assert "input 'x': DirectML has no STRING" in result.output
    assert "not built here" not in result.output
    double = save(
        tmp_path / "d.onnx", [onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (DOUBLE, [2])}, {"y": DOUBLE}
    )
    result = program("check", double, "--strict", "--concise")
    assert result.exit_code == 1
    assert "E203 node of 'y' (Relu): " in result.output
    hosted = program("check", double)
    assert f"{double}: valid: 0 nodes by DirectML's operators, and 1 on the host" in hosted.output


def test_json(crop: Path) -> None:
    found = json.loads(program("check", crop, "--json", "--feature-level", "2_1", "--shape", "batch=3").output)
    assert found["valid"] is False
    assert found["assumed"] == {}
    assert [node["lowest_level"] for node in found["nodes"]] == ["1_0", "2_1", "1_0", None, "3_0"]


def test_shapes_that_hang_on_an_input(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "shape"], ["r"], name="form"),
        onnx.helper.make_node("Relu", ["r"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [2, 3]), "shape": (INT64, [1])}
    path = save(tmp_path / "form.onnx", nodes, inputs, {"y": FLOAT})
    assert front.check(path).nodes[0].note == "known at a run: depends on the values of 'shape'"
    assert front.check(path, values={"shape": np.array([6])}).nodes[0].note == "a view, no pass"
    for command in ("run", "explain", "compare"):
        result = program(command, path)
        assert result.exit_code == 2
        assert "input 'shape' must be given: shapes depend on its values; --input 'shape=…' takes" in result.output
    assert "1 pass" in program("explain", path, "--input", "shape=[6]").output
    np.save(tmp_path / "shape.npy", np.array([-1]))
    assert "Output 'y': float32[6] " in program("run", path, "--input", f"shape={tmp_path / 'shape.npy'}").output


def test_a_check_makes_nothing_up(crop: Path) -> None:
    result = program("check", crop, "--seed", 1)
    assert result.exit_code == 2
    assert "No such option" in result.output


def test_every_command_counts_the_same_nodes(tmp_path: Path) -> None:
    constant = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.ones(2, "f")))
    nodes = [
        constant,
        onnx.helper.make_node("Neg", ["c"], ["n"]),  # which is computed when the model is compiled
        onnx.helper.make_node("Relu", ["x"], ["a"]),
        onnx.helper.make_node("Add", ["a", "n"], ["y"]),
    ]
    path = save(tmp_path / "few.onnx", nodes, {"x": (FLOAT, [2])}, {"y": FLOAT})
    assert front.check(path).count == 3
    assert "3 nodes, which run" in program("check", path).output
    assert "3 nodes are 2 operators: one by one" in program("explain", path).output
    assert forecast(path, "dml").written == 3
    assert "takes 2 of 2 nodes that ONNX Runtime makes of the model's 3;" in str(forecast(path, "dml"))


def test_the_graph_that_it_becomes(crop: Path, tmp_path: Path) -> None:
    result = program("explain", crop, "--shape", "batch=3")
    assert result.exit_code == 0, result.output
    assert "5 nodes are 4 operators: one by one 4 passes" in result.output
    assert "compiled 2 passes" in result.output
    assert program("explain", crop, "--svg", tmp_path / "crop.svg").exit_code == 0
    assert (tmp_path / "crop.svg").read_text().startswith("<svg")
    assert program("explain", crop, "--svg", crop).exit_code == 2  # the model would be lost
    nothing = save(tmp_path / "known.onnx", [], {"x": (FLOAT, [2])}, {"x": FLOAT})
    result = program("explain", nothing)  # no fault of the model's
    assert result.exit_code == 0
    assert "there is nothing to show" in result.output
