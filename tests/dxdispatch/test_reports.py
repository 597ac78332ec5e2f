"""What a check of a model gives to machines, and what it takes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from anydml.dxdispatch import as_sarif, check_file
from modelling import (
    BINDINGS,
    DESC,
    changed,
    floats,
    model,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


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
