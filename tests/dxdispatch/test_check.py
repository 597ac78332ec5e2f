"""Each fault of a model alone: where it stands, what is said of it, its status; and what a check gives to machines."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

import anydml as dml
from anydml.dxdispatch import as_sarif, check_file
from modelling import (
    BINDINGS,
    DESC,
    REMOVED,
    changed,
    findings,
    floats,
    model,
    write,
)
from refusals import BUILT, UNBUILT

if TYPE_CHECKING:
    from pathlib import Path

TYPES = "FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4"
RUN = f"{BUILT} operators are, which `anydml support` lists"


def test_a_model_with_nothing_wrong(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, model()))
    assert report
    assert (report.status, report.findings, report.memory_in_bytes) == (0, (), 32)
    (found,) = report.dispatchables
    assert (found.name, found.operator, str(found.lowest_level)) == ("sum", "CUMULATIVE_SUMMATION", "2_1")


# Descriptions: (path, value, status, where, message)
DESCRIPTIONS: list[tuple[str, Any, int, str, str]] = [
    ("dispatchables.sum", 5, 2, "$.dispatchables.sum", "a dispatchable must be an object; got 5"),
    ("dispatchables.sum.type", REMOVED, 2, "$.dispatchables.sum", "type must be a string; got nothing"),
    ("dispatchables.sum.type", 5, 2, "$.dispatchables.sum.type", "type must be a string; got 5"),
    (
        "dispatchables.sum.type",
        "DML_OPERATOR_SUM",
        1,
        "$.dispatchables.sum.type",
        ("type must be the name or the number of a DirectML operator, such as DML_OPERATOR_SLICE1;"
        " got 'DML_OPERATOR_SUM'"),
    ),
    (
        "dispatchables.sum.type",
        f"DML_OPERATOR_{UNBUILT}",
        3,
        "$.dispatchables.sum.type",
        (
            f"{UNBUILT}: the operator is not built yet; there are {BUILT} of DirectML's {len(dml.OperatorType) - 1}; "
            "`anydml support` lists them"
        ),
    ),
    (
        "dispatchables.sum.type",
        "HLSL",
        3,
        "$.dispatchables.sum.type",
        f"HLSL shaders are not run; {RUN}",
    ),
    (
        "dispatchables.sum.type",
        "onnx",
        2,
        "$.dispatchables.sum",
        "sourcePath must be a string; got nothing",
    ),
    (
        "dispatchables.sum",
        {"type": "dmlSerializedGraph", "sourcePath": 7},
        2,
        "$.dispatchables.sum.sourcePath",
        "sourcePath must be a string; got 7",
    ),
    (
        "dispatchables.sum",
        {"type": "dmlSerializedGraph", "sourcePath": "none.bin"},
        2,
        "$.dispatchables.sum.sourcePath",
        "the file cannot be read (no such file or directory); got 'none.bin'",
    ),
    (
        "dispatchables.sum.desc",
        [],
        2,
        "$.dispatchables.sum.desc",
        "CUMULATIVE_SUMMATION: the description must be an object; got a list of 0 elements",
    ),
    (f"{DESC}Axis", REMOVED, 1, "$.dispatchables.sum.desc", "CUMULATIVE_SUMMATION: Axis must be given"),
    (f"{DESC}Axis", "3", 1, "$.", "CUMULATIVE_SUMMATION: Axis must be a whole number; got '3'"),
    (f"{DESC}Axis", -1, 1, "$.", "CUMULATIVE_SUMMATION: Axis must be at least 0; got -1"),
    (f"{DESC}Axis", 4, 1, "$.", "CUMULATIVE_SUMMATION: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    (
        f"{DESC}Axis",
        [3],
        2,
        "$.",
        "CUMULATIVE_SUMMATION: Axis must be a number, a string, true or false; got a list of 1 element",
    ),
    (f"{DESC}Axis", None, 2, "$.", "CUMULATIVE_SUMMATION: Axis must be a number, a string, true or false; got null"),
    (
        f"{DESC}AxisDirection",
        "SIDEWAYS",
        1,
        "$.",
        "CUMULATIVE_SUMMATION: AxisDirection must be one of INCREASING, DECREASING; got 'SIDEWAYS'",
    ),
    (
        f"{DESC}HasExclusiveSum",
        "yes",
        1,
        "$.",
        "CUMULATIVE_SUMMATION: HasExclusiveSum must be True or False; got 'yes'",
    ),
    (f"{DESC}InputTensor", REMOVED, 1, "$.dispatchables.sum.desc", "CUMULATIVE_SUMMATION: InputTensor must be given"),
    (f"{DESC}InputTensor", 5, 2, "$.", "CUMULATIVE_SUMMATION: InputTensor must be an object; got 5"),
    (
        f"{DESC}InputTensor.DataType",
        REMOVED,
        1,
        "$.dispatchables.sum.desc.InputTensor",
        "CUMULATIVE_SUMMATION: InputTensor.DataType must be given",
    ),
    (
        f"{DESC}InputTensor.DataType",
        "FLOAT33",
        1,
        "$.",
        f"CUMULATIVE_SUMMATION: InputTensor.DataType must be one of {TYPES}; got 'FLOAT33'; did you mean FLOAT32?",
    ),
    (
        f"{DESC}InputTensor.DataType",
        1,
        2,
        "$.",
        f"CUMULATIVE_SUMMATION: InputTensor.DataType must be one of {TYPES}; got 1",
    ),
    (
        f"{DESC}InputTensor.Sizes",
        [1, 1, 1, 0],
        1,
        "$.dispatchables.sum.desc.InputTensor.Sizes[3]",
        "CUMULATIVE_SUMMATION: InputTensor.Sizes[3] must be at least 1; got 0",
    ),
    (
        f"{DESC}InputTensor.Sizes",
        [1, 1, 1.5, 4],
        2,
        "$.dispatchables.sum.desc.InputTensor.Sizes[2]",
        "CUMULATIVE_SUMMATION: InputTensor.Sizes[2] must be a whole number; got 1.5",
    ),
    (
        f"{DESC}InputTensor.Sizes",
        "4",
        2,
        "$.",
        "CUMULATIVE_SUMMATION: InputTensor.Sizes must be a list of whole numbers; got '4'",
    ),
    (
        f"{DESC}InputTensor.DimensionCount",
        3,
        1,
        "$.",
        "CUMULATIVE_SUMMATION: InputTensor.DimensionCount must be 4, as many values as are given; got 3",
    ),
    (
        f"{DESC}InputTensor.Flags",
        "OWNED",
        1,
        "$.",
        ("CUMULATIVE_SUMMATION: InputTensor.Flags must be one of NONE, OWNED_BY_DML; got 'OWNED';"
        " did you mean OWNED_BY_DML?"),
    ),
    (
        f"{DESC}InputTensor.Flags",
        [1],
        2,
        "$.",
        "CUMULATIVE_SUMMATION: InputTensor.Flags must be a string, or a list of strings; got a list of 1 element",
    ),
    (
        f"{DESC}InputTensor.Type",
        "INVALID",
        1,
        "$.",
        "CUMULATIVE_SUMMATION: InputTensor.Type must be BUFFER; got 'INVALID'",
    ),
    (
        f"{DESC}InputTensor.TotalTensorSizeInBytes",
        8,
        1,
        "$.",
        ("CUMULATIVE_SUMMATION: InputTensor.TotalTensorSizeInBytes must be at least the 16 that sizes, strides and"
        " type imply; got 8"),
    ),
    (
        f"{DESC}InputTensor.GuaranteedBaseOffsetAlignment",
        3,
        1,
        "$.",
        ("CUMULATIVE_SUMMATION: InputTensor.GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the"
        " element's size, 4 for FLOAT32; got 3"),
    ),
    (
        f"{DESC}OutputTensor.Sizes",
        [1, 1, 1, 3],
        1,
        "$.",
        "CUMULATIVE_SUMMATION: OutputTensor.Sizes must be (1, 1, 1, 4), InputTensor.Sizes; got (1, 1, 1, 3)",
    ),
    (
        f"{DESC}OutputTensor.Flags",
        "OWNED_BY_DML",
        1,
        "$.",
        "CUMULATIVE_SUMMATION: OutputTensor.Flags must not have OWNED_BY_DML, which is for inputs",
    ),
    ("dispatchables.sum.executionFlags", "FAST", 1, "$.", ("executionFlags must be one of NONE,"
        " ALLOW_HALF_PRECISION_COMPUTATION, DISABLE_META_COMMANDS, DESCRIPTORS_VOLATILE; got 'FAST'")),
    (
        "dispatchables.sum.dmlCompileType",
        "Fast",
        2,
        "$.",
        "dmlCompileType must be DmlCompileOp or DmlCompileGraph; got 'Fast'",
    ),
    # Names, bindings and commands
    ("resources", [], 2, "$.", "resources must be an object; got a list of 0 elements"),
    ("dispatchables", REMOVED, 2, "$", "dispatchables must be an object; got nothing"),
    ("commands", {}, 2, "$.", "commands must be a list; got an object of 0 members"),
    ("commands.0", 5, 2, "$.commands[0]", "a command must be an object; got 5"),
    ("commands.0.type", "jump", 2, "$.commands[0].type", "type must be dispatch, print or writeFile; got 'jump'"),
    ("commands.0.type", REMOVED, 2, "$.commands[0]", "type must be given"),
    (
        "commands.0.dispatchable",
        "sun",
        1,
        "$.commands[0].dispatchable",
        "there is no dispatchable 'sun'; did you mean sum?",
    ),
    ("commands.0.dispatchable", 5, 2, "$.commands[0].dispatchable", "dispatchable must be a string; got 5"),
    ("commands.0.bindings", REMOVED, 2, "$.commands[0]", "bindings must be given"),
    ("commands.0.bindings", "in", 2, "$.commands[0].bindings", "bindings must be an object; got 'in'"),
    ("commands.0.bindings.InputTensor", 5, 2, "$.commands[0].bindings.InputTensor",
        "a binding must be a resource's name, or an object with one; got 5"),
    ("commands.0.bindings.InputTensor", [], 2, "$.commands[0].bindings.InputTensor",
        "a list of bindings must not be empty"),
    ("commands.0.bindings.InputTensor", ["in", "in"], 1, "$.commands[0].bindings.InputTensor[1]",
        "CUMULATIVE_SUMMATION: InputTensor must be bound to one resource; got 2"),
    ("commands.0.bindings.InputTensor", "inn", 1, "$.commands[0].bindings.InputTensor",
        "CUMULATIVE_SUMMATION: there is no resource 'inn'; did you mean in?"),
    ("commands.0.bindings.InputTensor", REMOVED, 1, "$.commands[0].bindings",
        "CUMULATIVE_SUMMATION: InputTensor must be bound by the dispatch command"),
    ("commands.0.bindings.Other", "in", 1, "$.commands[0].bindings.Other",
        "CUMULATIVE_SUMMATION: there is no tensor 'Other'; there are InputTensor, OutputTensor"),
    ("commands.0.bindings.InputTensor", {"name": "in", "elementOffset": -1}, 2,
        "$.commands[0].bindings.InputTensor.elementOffset",
        "elementOffset must be a whole number in 0 .. 281474976710656; got -1"),
    ("commands.0.bindings.InputTensor", {"elementOffset": 0}, 2, "$.commands[0].bindings.InputTensor",
        "name must be given"),
    ("commands.0.bindings.InputTensor", {"name": "in", "counter": "c"}, 1, "$.commands[0].bindings.InputTensor",
        "CUMULATIVE_SUMMATION: there is no resource 'c'; there are 'in', 'out'"),
    ("dispatchables.sum.bindings", {"InputTensor": "in"}, 1, "$.dispatchables.sum.bindings.InputTensor",
        "CUMULATIVE_SUMMATION: InputTensor must be bound by the dispatch command, not being OWNED_BY_DML"),
    ("resources.in", floats(1, 2, 3), 1, "$.commands[0].bindings.InputTensor",
        "CUMULATIVE_SUMMATION: InputTensor: SizeInBytes must be at least 16, the total size of what is bound; got 12"),
    ("commands.0.bindings.OutputTensor", {"name": "out", "elementOffset": 4}, 1,
        "$.commands[0].bindings.OutputTensor",
        "CUMULATIVE_SUMMATION: OutputTensor: SizeInBytes must be at least 16, the total size of what is bound; got 0"),
    (
        "commands.1.resource",
        "outt",
        1,
        "$.commands[1].resource",
        "there is no resource 'outt'; did you mean out?",
    ),
    ("commands.1.resource", REMOVED, 2, "$.commands[1]", "resource must be given"),
    ("commands.1.verbose", "no", 2, "$.commands[1].verbose", "verbose must be true or false; got 'no'"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "status", "where", "message"), DESCRIPTIONS)
@pytest.mark.usefixtures("unbuilt")
def test_each_fault_alone(tmp_path: Path, path: str, value: Any, status: int, where: str, message: str) -> None:
    where = f"$.{path}" if where == "$." else where
    data = changed(model(), path, value)
    found = [(place, text) for kind, place, text in findings(tmp_path, data) if kind != "remark"]
    assert (where, message) in found
    # A section that cannot be read takes names with it; otherwise one slip is one fault.
    assert len(found) == 1 or path in ("resources", "dispatchables", "commands.0.bindings")
    assert check_file(tmp_path / "model.json").status == status


def test_checking_takes_no_memory_for_resources(tmp_path: Path) -> None:
    import tracemalloc

    huge = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4294967295, "value": 0}}
    path = write(tmp_path, model(resources={"in": huge, "out": {**floats(1), "sizeInBytes": 2**47}}))
    check_file(path)
    tracemalloc.start()
    report = check_file(path)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report
    assert report.memory_in_bytes == 4 * (2**32 - 1) + 2**47
    assert taken < 2**20


def test_what_is_no_json_is_reported_too(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, '{"resources": '))
    assert (report.status, len(report.faults)) == (2, 1)
    missing = check_file(tmp_path / "none.json")
    assert missing.status == 2
    assert str(missing.faults[0]).endswith("none.json:1:1: the file cannot be read (no such file or directory); got "
        + repr(str(tmp_path / "none.json")))  # fmt: skip
    onnx = check_file(tmp_path / "net.onnx")
    assert onnx.status == 3
    message = "the file must be a DxDispatch model, and is an ONNX model; anydml.onnx.load reads it"
    assert str(onnx.faults[0]).endswith(f"net.onnx:1:1: {message}")


def test_data_for_machines(tmp_path: Path) -> None:
    data = changed(changed(model(), f"{DESC}Axis", 4), "commands.0.bindings", {**BINDINGS, "InputTensor": "inn"})
    report = check_file(write(tmp_path, data))
    found = json.loads(json.dumps(report.as_data()))
    place = found["findings"][0].pop("line")
    assert place == json.dumps(data, indent=1).splitlines().index('    "Axis": 4,') + 1
    assert found["findings"][0] == {
        "code": "E201",
        "kind": "description",
        "column": 13,
        "path": "$.dispatchables.sum.desc.Axis",
        "operator": "CUMULATIVE_SUMMATION",
        "field": "Axis",
        "rule": "Axis must be below InputTensor.DimensionCount, 4",
        "found": "4",
    }
    assert found["valid"] is False
    assert found["feature_level"] == "6_4"
    assert found["dispatchables"] == [{"name": "sum", "operator": "CUMULATIVE_SUMMATION", "lowest_feature_level": None}]


def test_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = {**changed(model(), f"{DESC}Axis", 4), "comand": []}
    write(tmp_path, data, "a model.json")
    log = json.loads(json.dumps(as_sarif(check_file("a model.json"))))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("description", "error"),
        ("remark", "note"),
    ]
    assert {result["ruleId"] for result in run["results"]} <= rules
    result = run["results"][0]
    assert result["message"]["text"] == (
        "CUMULATIVE_SUMMATION: Axis must be below InputTensor.DimensionCount, 4; got 4"
    )
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20model.json"
    assert location["physicalLocation"]["region"]["startLine"] > 1
    assert location["logicalLocations"] == [{"fullyQualifiedName": "$.dispatchables.sum.desc.Axis"}]


@pytest.mark.parametrize("name", ["a\nb#%?.json", "\u202e.json", "c:d.json", os.fsdecode(b"\xff.json")])
def test_sarif_has_the_address_of_a_file_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("[")
    (result,) = as_sarif(check_file(name))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert os.fsdecode(unquote_to_bytes(uri)) == name
    assert uri.isascii()
    assert urlsplit(uri).scheme == ""


def test_sarif_of_a_file_elsewhere_has_its_whole_address(tmp_path: Path) -> None:
    log = as_sarif(check_file(write(tmp_path, "[")))
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "model.json").as_uri()
