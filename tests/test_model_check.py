"""Every fault of a model at once, where it stands; levels, remarks, and what machines get."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

import anydml as dml
from anydml.models import as_sarif, check_file, load_model
from modelling import (
    BINDINGS,
    DISPATCH,
    EXAMPLES,
    REMOVED,
    SUM,
    ZEROS,
    as_dispatchable,
    changed,
    findings,
    floats,
    model,
    write,
)
from refusals import BUILT, UNBUILT

if TYPE_CHECKING:
    from pathlib import Path

DESC = "dispatchables.sum.desc."
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
            f"{UNBUILT}: the operator is not built yet; there are {BUILT} of DirectML's 177; "
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
        f"CUMULATIVE_SUMMATION: InputTensor.DataType must be one of {TYPES}; got 'FLOAT33'",
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
        "CUMULATIVE_SUMMATION: InputTensor.Flags must be one of NONE, OWNED_BY_DML; got 'OWNED'",
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
    ("commands.0.dispatchable", "sun", 1, "$.commands[0].dispatchable", "there must be a dispatchable 'sun'"),
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
        "CUMULATIVE_SUMMATION: there must be a resource 'inn'; there are 'in', 'out'"),
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
        "CUMULATIVE_SUMMATION: there must be a resource 'c'; there are 'in', 'out'"),
    ("dispatchables.sum.bindings", {"InputTensor": "in"}, 1, "$.dispatchables.sum.bindings.InputTensor",
        "CUMULATIVE_SUMMATION: InputTensor must be bound by the dispatch command, not being OWNED_BY_DML"),
    ("resources.in", floats(1, 2, 3), 1, "$.commands[0].bindings.InputTensor",
        "CUMULATIVE_SUMMATION: InputTensor: SizeInBytes must be at least 16, the total size of what is bound; got 12"),
    ("commands.0.bindings.OutputTensor", {"name": "out", "elementOffset": 4}, 1,
        "$.commands[0].bindings.OutputTensor",
        "CUMULATIVE_SUMMATION: OutputTensor: SizeInBytes must be at least 16, the total size of what is bound; got 0"),
    ("commands.1.resource", "outt", 1, "$.commands[1].resource", "there must be a resource 'outt'"),
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
        ("command", "$.commands[1].resource", "a deferred resource must be given by a dispatch before"),
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
            "what follows the model's end is not read, which is how DxDispatch has it; got 'x'",
        ),
    ]
    report = check_file(tmp_path / "model.json")
    assert report
    assert len(report.remarks) == 5


@pytest.mark.parametrize(
    "tensor",
    [
        {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Sizes": [1, 1, 1, 4]},
        {"Type": "BUFFER", "DataType": "FLOAT32", "Sizes": [1, 1, 1, 4], "Flags": "NONE"},
        {"Desc": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4], "Strides": [], "TotalTensorSizeInBytes": 0}},
        {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4], "Strides": [4, 4, 4, 1], "Flags": ["DML_TENSOR_FLAG_NONE"]},
        {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4], "DimensionCount": 4, "GuaranteedBaseOffsetAlignment": 16},
    ],
)
def test_every_way_of_writing_a_tensor_is_the_same_tensor(tmp_path: Path, tensor: dict[str, Any]) -> None:
    loaded = load_model(write(tmp_path, changed(model(), f"{DESC}InputTensor", tensor)))
    assert loaded.check().findings == ()
    desc = loaded.dispatchables["sum"].desc
    assert isinstance(desc, dml.CumulativeSummation)
    assert desc.input_tensor.sizes == (1, 1, 1, 4)
    assert desc.input_tensor.total_tensor_size_in_bytes == 16


@pytest.mark.parametrize("wrap", ["desc", "Desc", "flat", "Type"])
def test_every_way_of_writing_a_description_is_the_same(tmp_path: Path, wrap: str) -> None:
    fields = SUM["desc"]
    kinds: dict[str, dict[str, Any]] = {
        "desc": {"type": "CUMULATIVE_SUMMATION", "desc": fields},
        "Desc": {"type": "DML_OPERATOR_CUMULATIVE_SUMMATION", "Desc": fields},
        "flat": {"type": "CUMULATIVE_SUMMATION", **dict(fields.items())},  # type: ignore[attr-defined]  # a dict
        "Type": {"Type": "CUMULATIVE_SUMMATION", "Desc": fields, "dmlCompileType": "DmlCompileGraph"},
    }
    loaded = load_model(write(tmp_path, model(dispatchables={"sum": kinds[wrap]})))
    assert loaded.check().findings == ()
    assert loaded.dispatchables["sum"].desc == dml.CumulativeSummation(
        input_tensor=dml.TensorDesc("float32", (1, 1, 1, 4)),
        output_tensor=dml.TensorDesc("float32", (1, 1, 1, 4)),
        axis=3,
    )


def test_every_operator_is_read_by_its_own_fields(tmp_path: Path) -> None:
    """A description of each operator, written as JSON by its annotations, comes back as it was."""
    from cases import CASES

    for case in CASES:
        desc = case.desc(dml.DataType.FLOAT32)
        data = {"resources": {}, "dispatchables": {"it": as_dispatchable(desc)}, "commands": []}
        loaded = load_model(write(tmp_path, data))
        assert loaded.findings == ()
        assert loaded.dispatchables["it"].desc == desc


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
