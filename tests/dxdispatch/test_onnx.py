"""ONNX models as dispatchables of DxDispatch models: shapes in bindings, deferred resources, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import onnx_models
from anydml.cli.app import app
from anydml.dxdispatch import check_file, load_model
from modelling import floats, write
from onnx_models import node, onnx

if TYPE_CHECKING:
    from pathlib import Path

DEFERRED = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}
ROOM = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 12, "value": 0}}
SHAPES = {"a": {"name": "a", "shape": [3, 2]}, "b": {"name": "b", "shape": [3, 1]}}


def dispatch(**bindings: Any) -> dict[str, Any]:
    return {"type": "dispatch", "dispatchable": "join", "bindings": bindings}


def model(*commands: Any, **sections: Any) -> dict[str, Any]:
    """Joins of six numbers and three, of any number of rows."""
    return {
        "resources": {"a": floats(1, 2, 3, 4, 5, 6), "b": floats(7, 8, 9), "out": ROOM, "open": DEFERRED},
        "dispatchables": {"join": {"type": "onnx", "sourcePath": "join.onnx"}},
        "commands": list(commands),
        **sections,
    }


def prepare(folder: Path, *commands: Any, proto: Any = None, **sections: Any) -> Path:
    onnx.save(proto or onnx_models.join_model(), str(folder / "join.onnx"))
    return write(folder, model(*commands, **sections))


def test_shapes_are_those_of_the_bindings_and_deferred_resources_take_what_comes(tmp_path: Path) -> None:
    path = prepare(
        tmp_path,
        dispatch(**SHAPES, y={"name": "out", "shape": [3, 3]}),
        dispatch(a={"name": "a", "shape": [1, 2]}, b={"name": "b", "shape": [1, 2]}, y="open"),
        {"type": "print", "resource": "out"},
        {"type": "print", "resource": "open"},
        {"type": "writeFile", "resource": "open", "targetPath": "open.npy", "dimensions": [2, 2]},
    )
    output = CliRunner().invoke(app, ["run", str(path)]).output
    assert "Resource 'out': 1, 2, 7, 3, 4, 8, 5, 6, 9, 0, 0, 0\nResource 'open': 1, 2, 7, 8\n" in output
    assert np.load(tmp_path / "open.npy").tolist() == [[1, 2], [7, 8]]


def test_open_sizes_are_1_or_what_overrides_say(tmp_path: Path) -> None:
    command, printed = dispatch(a="a", b="b", y="open"), {"type": "print", "resource": "open"}
    path = prepare(tmp_path, command, printed)
    assert load_model(path).run().resources["open"].tolist() == [1, 2, 7]
    sizes = {"batch": 3, "width": 1}
    assert load_model(path, shapes=sizes).run().resources["open"].tolist() == [1, 2, 7, 3, 4, 8, 5, 6, 9]
    found = CliRunner().invoke(app, ["run", str(path), "-f", "batch:2", "-b", "b:2,1", "-d", "-i", "3"]).output
    assert "3 iterations" in found
    assert "Resource 'open': 1, 2, 7, 3, 4, 8\n" in found
    given = {"type": "onnx", "sourcePath": "join.onnx", "freeDimensionNameOverrides": {"batch": 2}, "loggingLevel": 3}
    path = prepare(tmp_path, command, printed, dispatchables={"join": given})
    loaded = load_model(path)
    assert loaded.run().resources["open"].tolist() == [1, 2, 7, 3, 4, 8]
    assert "loggingLevel is ONNX Runtime's, and has no effect here" in str(loaded.check().remarks[0])


def test_inputs_that_nothing_is_bound_to_are_zeros(tmp_path: Path) -> None:
    path = prepare(tmp_path, dispatch(a="a", y="open"))
    assert load_model(path).run().resources["open"].tolist() == [1, 2, 0]


def test_booleans_are_bytes(tmp_path: Path) -> None:
    proto = onnx_models.model(
        node("Less", "a b", "y"), {"a": ("float32", [3]), "b": ("float32", [3])}, dtypes={"y": "bool"}
    )
    resources = {"a": floats(1, 9, 3), "b": floats(7, 8, 9), "y": {**DEFERRED, "initialValuesDataType": "UINT8"}}
    path = prepare(tmp_path, dispatch(a="a", b="b", y="y"), proto=proto, resources=resources)
    assert load_model(path).run().resources["y"].tolist() == [1, 0, 1]


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no tensor": (dispatch(**SHAPES, z="out"), "bindings.z", "there is no tensor 'z'; there are a, b, y"),
    "a small input": (
        dispatch(a={"name": "a", "shape": [4, 2]}, b={"name": "b", "shape": [4, 1]}, y="open"),
        "bindings.a",
        "'a' must be bound to a resource of at least 32 bytes, for float[4,2]; got 24",
    ),
    "another shape": (
        dispatch(**SHAPES, y={"name": "out", "shape": [9]}),
        "bindings.y",
        "'y' must have the shape (3, 3), which the model gives; got (9,)",
    ),
    "a small output": (dispatch(**SHAPES, y="b"), "bindings.y", "at least 36 bytes, for float[3,3]; got 12"),
    "sizes that differ": (
        dispatch(a={"name": "a", "shape": [3, 2]}, b={"name": "b", "shape": [1, 1]}, y="open"),
        "sourcePath",
        "'batch' is 3",
    ),
    "an offset": (
        dispatch(a={"name": "a", "elementOffset": 2}, b="b", y="open"),
        "bindings.a",
        "must be bound to one resource, from its first element on",
    ),
    "no resource": (dispatch(a="nothing", b="b", y="open"), "bindings.a", "there is no resource 'nothing'"),
    "no list": (dispatch(a={"name": "a", "shape": 3}, b="b", y="open"), "a.shape", "shape must be a list"),
    "a fraction": (dispatch(a={"name": "a", "shape": [0.5]}, b="b", y="open"), "shape[0]", "shape[0] must be a whole"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_dispatch_at_fault_is_told_so(name: str, tmp_path: Path) -> None:
    command, where, message = FAULTS[name]
    report = check_file(prepare(tmp_path, command))
    texts = [str(fault) for fault in report.faults]
    assert any(message in text and where in text for text in texts), texts
    assert report.status in (1, 2)


def test_models_that_cannot_run_are_told_where_they_are_named(tmp_path: Path) -> None:
    unknown = node("Strange", "x", "y", domain="of.nobody")
    strange = onnx_models.model(unknown, {"x": ("float32", [3])}, dtypes={"y": "float32"})
    report = check_file(prepare(tmp_path, dispatch(x="a", y="open"), proto=strange))
    assert report.status == 3
    assert "$.dispatchables.join.sourcePath" in str(report.faults[0])
    assert "Strange" in str(report.faults[0])
    (tmp_path / "join.onnx").write_bytes(b"\x08\xff none")
    assert check_file(tmp_path / "model.json").status == 2
    denoted = {"type": "onnx", "sourcePath": "join.onnx", "freeDimensionDenotationOverrides": {"DATA_BATCH": 2}}
    report = check_file(prepare(tmp_path, dispatch(**SHAPES, y="open"), dispatchables={"join": denoted}))
    assert "dynamic sizes are set by their names" in str(report.faults[0])


def test_a_level_that_a_node_needs_is_told(tmp_path: Path) -> None:
    wide = onnx_models.model(node("Add", "x x", "y"), {"x": ("float32", [1] * 7 + [3])}, dtypes={"y": "float32"})
    report = check_file(prepare(tmp_path, dispatch(x="b", y="open"), proto=wide), "2_0")
    assert any("needs DML_FEATURE_LEVEL_3_0" in str(fault) for fault in report.faults)


def test_options_of_dxdispatch_that_say_where_and_what(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(app, ["run", *arguments]).output

    path = str(prepare(tmp_path, dispatch(**SHAPES, y="open")))
    assert "reference: " in run("--show_adapters")
    assert "numpy    : " in run("-S")
    assert "Running on 'reference (" in run(path, "-a", "REFER")
    told = "[StartCmd][0000]\t: dispatch 'join'\nDispatch 'join': 1 iterations, "
    assert told in (found := run(path, "--print_commands"))
    assert found.endswith("[EndCmd][0000]\t: hr=0x00000000\n")
    assert "'no such' is in the name of no device; there are " in run(path, "--adapter", "no such")
    assert "has no ':' between a name and its sizes" in run(path, "-f", "batch=3")
    assert "Output 'y': float32[2,4]" in run(str(tmp_path / "join.onnx"), "-f", "batch:2", "-b", "b:2,2")
    assert "Input Tensor 'b':\n  Resource  = implicit\n  Data Type = FLOAT\n  Shape     = [2,2]\n" in run(
        str(tmp_path / "join.onnx"), "-p", "-b", "b:2,2"
    )
    unknown = "--shape must name inputs, outputs or dynamic sizes; there is no 'batsh'; did you mean batch?"
    assert unknown in run(path, "-f", "batsh:2")
    plain = write(tmp_path, model(dispatchables={}, commands=[]), "plain.json")
    assert "is not for a DxDispatch model without an ONNX model" in run(str(plain), "-b", "x:2")
