"""Every fault of a model at once, in its order and place; levels and remarks."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from anydml.dxdispatch import check_file
from modelling import (
    DESC,
    DISPATCH,
    EXAMPLES,
    REMOVED,
    SUM,
    ZEROS,
    changed,
    findings,
    floats,
    model,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_offsets_must_be_aligned_and_in_place_ranges_identical(tmp_path: Path) -> None:
    both = {**floats(*range(12)), "sizeInBytes": 48}
    bindings = {"InputTensor": "both", "OutputTensor": {"name": "both", "elementOffset": 1}}
    data = model(resources={"both": both}, commands=[{**DISPATCH, "bindings": bindings}])
    assert findings(tmp_path, data) == [
        (
            "binding",
            "$.commands[0].bindings.OutputTensor",
            "CUMULATIVE_SUMMATION: OutputTensor: Offset must be a multiple of 16; got 4",
        )
    ]
    bindings["OutputTensor"] = {"name": "both", "elementOffset": 1, "elementSizeInBytes": 16}
    assert findings(tmp_path, data) == [
        (
            "binding",
            "$.commands[0].bindings.OutputTensor",
            (
                "CUMULATIVE_SUMMATION: OutputTensor may overlap InputTensor only where both are the very same range;"
                " got bytes 0x10 .. 0x30 and bytes 0x0 .. 0x30; a binding reaches to the end of its resource:"
                " bind two resources"
            ),
        )
    ]
    bindings["OutputTensor"] = "both"
    assert findings(tmp_path, data) == []


def test_an_operator_that_does_not_run_in_place(tmp_path: Path) -> None:
    text = (EXAMPLES / "slice1.json").read_text().replace('"OutputTensor": "output"', '"OutputTensor": "input"')
    assert findings(tmp_path, text) == [
        (
            "binding",
            "$.commands[0].bindings.OutputTensor",
            (
                "SLICE1: OutputTensor must not overlap InputTensor: the operator does not run in place; got bytes"
                " 0x0 .. 0x40 and bytes 0x0 .. 0x40; a binding reaches to the end of its resource: bind two resources"
            ),
        )
    ]


def test_tensors_owned_by_dml_are_bound_by_the_dispatchable(tmp_path: Path) -> None:
    data = changed(model(), f"{DESC}InputTensor.Flags", ["OWNED_BY_DML"])
    assert findings(tmp_path, data) == [
        (
            "binding",
            "$.dispatchables.sum",
            "CUMULATIVE_SUMMATION: InputTensor must be bound by the dispatchable's own bindings, being OWNED_BY_DML",
        ),
        (
            "binding",
            "$.commands[0].bindings.InputTensor",
            "CUMULATIVE_SUMMATION: InputTensor must be bound by the dispatchable's own bindings, being OWNED_BY_DML",
        ),
    ]
    data["dispatchables"]["sum"]["bindings"] = {"InputTensor": "in"}
    del data["commands"][0]["bindings"]["InputTensor"]
    assert findings(tmp_path, data) == []


def test_a_fault_has_its_line_and_column(tmp_path: Path) -> None:
    text = (EXAMPLES / "slice1.json").read_text().replace("[1, 1, -2, 2]", "[1, 1,\n  0, 2]")
    report = check_file(write(tmp_path, text))
    (fault,) = report.faults
    place = fault.fault.place
    assert place is not None
    assert text.splitlines()[place.line - 1][place.column - 1 :].startswith("0, 2]")
    assert str(fault).removeprefix(str(tmp_path / "model.json")) == (
        f":{place.line}:3: $.dispatchables.backward_crop.InputWindowStrides[2]: SLICE1: InputWindowStrides[2] must not"
        " be 0"
    )


def test_a_count_that_is_not_the_values_own_is_valid_at_no_level(tmp_path: Path) -> None:
    text = (EXAMPLES / "slice1.json").read_text().replace('"DimensionCount": 4', '"DimensionCount": 3', 1)
    report = check_file(write(tmp_path, text))
    assert [(found.name, found.lowest_level is None) for found in report.dispatchables] == [
        ("crop", True),
        ("backward_crop", False),
    ]
    assert str(report.faults[0]).endswith("SLICE1: DimensionCount must be 4, as many values as are given; got 3")


def test_a_fault_in_a_tensor_written_in_full_is_found_there(tmp_path: Path) -> None:
    tensor = {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 0]}}
    assert findings(tmp_path, changed(model(), f"{DESC}InputTensor", tensor)) == [
        (
            "description",
            "$.dispatchables.sum.desc.InputTensor.Desc.Sizes[3]",
            "CUMULATIVE_SUMMATION: InputTensor.Sizes[3] must be at least 1; got 0",
        )
    ]
    tensor["Desc"] = []
    assert findings(tmp_path, changed(model(), f"{DESC}InputTensor", tensor)) == [
        (
            "file",
            "$.dispatchables.sum.desc.InputTensor.Desc",
            "CUMULATIVE_SUMMATION: InputTensor.Desc must be an object; got a list of 0 elements",
        )
    ]


@pytest.mark.parametrize(
    ("given", "status", "where", "message"),
    [
        (3, 2, "dimensions", "dimensions must be a list of whole numbers; got 3"),
        ([2, 0], 2, "dimensions[1]", "dimensions[1] must be a whole number in 1 .. 4294967295; got 0"),
        ([2, 2.0], 2, "dimensions[1]", "dimensions[1] must be a whole number in 1 .. 4294967295; got 2.0"),
        ([5], 1, "dimensions", "dimensions must multiply to at most 4, the elements of the resource; got 5"),
        (
            [2**32 - 1] * 3,
            1,
            "dimensions",
            "dimensions must multiply to at most 4, the elements of the resource; got more than 10^20",
        ),
    ],
)
def test_dimensions_of_a_file(tmp_path: Path, given: Any, status: int, where: str, message: str) -> None:
    command = {"type": "writeFile", "resource": "out", "targetPath": "x.npy", "dimensions": given}
    data = model(commands=[command])
    assert [(path, text) for _, path, text in findings(tmp_path, data)] == [(f"$.commands[0].{where}", message)]
    assert check_file(tmp_path / "model.json").status == status


def test_values_of_several_types_are_no_numpy_array(tmp_path: Path) -> None:
    mixed = {"initialValues": [{"type": "UINT8", "value": 1}]}
    command = {"type": "writeFile", "resource": "mixed", "targetPath": "x.npy"}
    assert findings(tmp_path, model(resources={"mixed": mixed}, commands=[command])) == [
        ("command", "$.commands[0].resource", "a resource must have values of one type to be written as .npy")
    ]


def test_images_without_pillow_are_told_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "dog.JPG").write_bytes(b"a dog")
    source = {"sourcePath": "dog.JPG"}
    image = {"initialValuesDataType": "FLOAT32", "initialValues": source, "resampleSize": [1, 3, 2, 2]}
    command = {"type": "writeFile", "resource": "image", "targetPath": "y.png"}
    needs = "images need Pillow; pip install 'anydml[image]'"
    assert findings(tmp_path, model(resources={"image": image}, commands=[command])) == [
        ("unsupported", "$.resources.image.initialValues.sourcePath", needs),
        ("unsupported", "$.commands[0].targetPath", needs),
    ]


def test_a_deferred_resource_is_for_an_onnx_model_and_given_before_it_is_shown(tmp_path: Path) -> None:
    deferred = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}
    data = model(
        resources={"in": floats(1, 2, 3, 4), "out": deferred, "r": deferred},
        commands=[DISPATCH, {"type": "print", "resource": "r"}],
    )
    assert findings(tmp_path, data) == [
        (
            "binding",
            "$.commands[0].bindings.OutputTensor",
            "a deferred resource must be bound to an output of an ONNX model",
        ),
        ("command", "$.commands[1].resource", "a deferred resource must be written by an earlier dispatch"),
    ]


def test_every_fault_is_found_at_once_in_the_order_of_the_file(tmp_path: Path, unbuilt: str) -> None:
    data = model(
        resources={"in": floats(1, 2, "x", 4), "out": ZEROS},
        dispatchables={
            "sum": changed(SUM, "desc.Axis", 9),
            "crop": {"type": "SLICE1", "desc": {"InputTensor": {"DataType": "INT5", "Sizes": [0]}, "OutputTensor": 1}},
            "gemm": {"type": unbuilt},
        },
        commands=[DISPATCH, {"type": "print", "resource": "nothing"}],
    )
    found = findings(tmp_path, data)
    assert [(kind, place) for kind, place, _ in found] == [
        ("file", "$.resources.in.initialValues[2]"),
        ("description", "$.dispatchables.sum.desc.Axis"),
        ("description", "$.dispatchables.crop.desc"),
        ("description", "$.dispatchables.crop.desc"),
        ("description", "$.dispatchables.crop.desc"),
        ("description", "$.dispatchables.crop.desc.InputTensor.DataType"),
        ("description", "$.dispatchables.crop.desc.InputTensor.Sizes[0]"),
        ("file", "$.dispatchables.crop.desc.OutputTensor"),
        ("unsupported", "$.dispatchables.gemm.type"),
        ("name", "$.commands[1].resource"),
    ]


def test_the_level_and_the_lowest_that_would_do(tmp_path: Path) -> None:
    data = changed(model(), f"{DESC}InputTensor.DataType", "INT64")
    data = changed(data, f"{DESC}OutputTensor.DataType", "INT64")
    wide = {"initialValuesDataType": "INT64", "initialValues": [1, 2, 3, 4]}
    data = {**data, "resources": {"in": wide, "out": wide}}
    assert findings(tmp_path, data, "4_1") == [
        (
            "feature-level",
            "$.dispatchables.sum.desc.InputTensor.DataType",
            "CUMULATIVE_SUMMATION: InputTensor of INT64 needs DML_FEATURE_LEVEL_5_0; this check is for 4_1",
        )
    ]
    report = check_file(tmp_path / "model.json", "4_1")
    assert str(report.dispatchables[0].lowest_level) == "5_0"
    assert (report.status, check_file(tmp_path / "model.json", "5_0").status) == (1, 0)
    too_low = findings(tmp_path, model(), "2_0")
    assert too_low[0] == (
        "feature-level",
        "$.dispatchables.sum.type",
        "CUMULATIVE_SUMMATION: the operator needs DML_FEATURE_LEVEL_2_1; this check is for 2_0",
    )


def test_remarks(tmp_path: Path) -> None:
    data = changed(model(), f"{DESC}AxisDirection", REMOVED)
    data = changed(data, f"{DESC}InputTensor.Stride", [4, 4, 4, 1])
    data = changed(data, "resources.in.note_to_self", 1)
    for tensor in ("InputTensor", "OutputTensor"):
        data = changed(data, f"{DESC}{tensor}.DataType", "UINT16")
    assert findings(tmp_path, json.dumps(data) + " // done\n x") == [
        ("remark", "$.resources.in.note_to_self", "nothing here has this name, so it is ignored"),
        (
            "remark",
            "$.dispatchables.sum.type",
            "CUMULATIVE_SUMMATION: UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only",
        ),
        (
            "remark",
            "$.dispatchables.sum.desc",
            "CUMULATIVE_SUMMATION: AxisDirection is not given, and is INCREASING; DxDispatch asks for it",
        ),
        (
            "remark",
            "$.dispatchables.sum.desc.InputTensor.Stride",
            "nothing here has this name, so it is ignored; did you mean Strides?",
        ),
        (
            "remark",
            "$",
            "text after the model's end is not read, as in DxDispatch; got 'x'",
        ),
    ]
    report = check_file(tmp_path / "model.json")
    assert report
    assert len(report.remarks) == 5


@pytest.mark.parametrize(
    ("path", "value", "spelling"),
    [
        ("type", "cumulative_summation", "DML_OPERATOR_CUMULATIVE_SUMMATION or CUMULATIVE_SUMMATION"),
        ("desc.AxisDirection", 1, "DML_AXIS_DIRECTION_DECREASING or DECREASING"),
        ("desc.AxisDirection", "increasing", "DML_AXIS_DIRECTION_INCREASING or INCREASING"),
        ("desc.HasExclusiveSum", 1, "true"),
    ],
)
def test_a_spelling_that_dxdispatch_does_not_take_is_remarked_on(
    tmp_path: Path, path: str, value: Any, spelling: str
) -> None:
    """What is checked here is to run there."""
    found = findings(tmp_path, changed(model(), f"dispatchables.sum.{path}", value))
    (kind, where, said) = found[0]
    assert (len(found), kind, where) == (1, "remark", f"$.dispatchables.sum.{path}")
    assert said.endswith(f"DxDispatch takes {spelling} alone; got {value!r}")


PARTIAL = [
    # What does not parse, and the faults beside it that are told nevertheless.
    ({"Axis": "x", "HasExclusiveSum": "maybe"}, {"Axis", "HasExclusiveSum"}),
    ({"Axis": "x", "InputTensor.DataType": "UINT8"}, {"Axis", "InputTensor.DataType", "OutputTensor.DataType"}),
    ({"AxisDirection": "down", "Axis": 7}, {"AxisDirection", "Axis"}),
    ({"AxisDirection": "down", "OutputTensor.Sizes": [1, 1, 1, 5]}, {"AxisDirection", "OutputTensor.Sizes"}),
    ({"InputTensor.Sizes": "four", "Axis": 2**40}, {"InputTensor.Sizes", "Axis"}),
    ({"Axis": "x"}, {"Axis"}),
    ({"InputTensor.DataType": "flot32"}, {"InputTensor.DataType"}),
    ({"InputTensor": 5}, {"InputTensor"}),
]


@pytest.mark.parametrize(("values", "fields"), PARTIAL)
def test_every_fault_is_told_where_a_field_does_not_parse(tmp_path: Path, values: Any, fields: set[str]) -> None:
    data = model()
    for path, value in values.items():
        data = changed(data, DESC + path, value)
    report = check_file(write(tmp_path, data))
    assert {finding.fault.field for finding in report.faults} == fields
    assert report.dispatchables[0].lowest_level is None
