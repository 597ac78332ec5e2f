"""Numbers in the descriptions of a model: DML_SCALAR_UNION by its type, and DML_SCALE_BIAS."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import check_file, load_model
from modelling import REMOVED, changed, findings, write

if TYPE_CHECKING:
    from pathlib import Path

VALUE = "$.dispatchables.it.desc.Value"
SCALE_BIAS = "$.dispatchables.it.desc.ScaleBias"


def dispatchable(kind: str, **desc: Any) -> dict[str, Any]:
    return {"resources": {}, "dispatchables": {"it": {"type": kind, "desc": desc}}, "commands": []}


def fill(value: Any, data_type: str = "FLOAT32") -> dict[str, Any]:
    tensor = {"DataType": data_type, "Sizes": [2]}
    return dispatchable("FILL_VALUE_CONSTANT", OutputTensor=tensor, ValueDataType=data_type, Value=value)


def count(start: Any, delta: Any, data_type: str) -> dict[str, Any]:
    data = dispatchable("FILL_VALUE_SEQUENCE", OutputTensor={"DataType": data_type, "Sizes": [3]}, ValueStart=start)
    data["dispatchables"]["it"]["desc"] |= {"ValueDataType": data_type, "ValueDelta": delta}
    return data


def identity(**more: Any) -> dict[str, Any]:
    tensor = {"DataType": "FLOAT32", "Sizes": [3]}
    return dispatchable("ELEMENT_WISE_IDENTITY", InputTensor=tensor, OutputTensor=tensor, **more)


def read(folder: Path, data: Any) -> Any:
    """The description, in which nothing is at fault."""
    loaded = load_model(write(folder, data))
    assert loaded.check()
    return loaded.dispatchables["it"].desc


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        ("FLOAT32", 2.5, 2.5),
        ("FLOAT32", 2, 2),
        ("FLOAT32", {"Float32": 2.5}, 2.5),
        ("FLOAT32", {"Float32": "-Inf"}, -math.inf),
        ("FLOAT64", {"Float64": 1e300}, 1e300),
        ("FLOAT16", 2.5, 2.5),
        ("FLOAT16", {"UInt16": 0x4100}, 2.5),
        ("FLOAT16", {"UInt16": 0xFC00}, -math.inf),
        ("UINT8", 255, 255),
        ("UINT8", {"UInt8": 255}, 255),
        ("INT64", -(2**63), -(2**63)),
        ("INT64", {"Int64": -1}, -1),
        ("UINT64", 2**64 - 1, 2**64 - 1),
    ],
)
def test_a_number_as_dxdispatch_has_it(tmp_path: Path, data_type: str, value: Any, expected: float) -> None:
    assert findings(tmp_path, fill(value, data_type)) == []
    found = read(tmp_path, fill(value, data_type))
    assert found == dml.FillValueConstant(
        output_tensor=dml.TensorDesc(data_type, (2,)), value_data_type=data_type, value=expected
    )


def test_a_float16_is_rounded_by_way_of_float32(tmp_path: Path) -> None:
    """Which is how DxDispatch has it, for numbers of resources too."""
    between = 1 + 2**-11 + 2**-40  # above the middle of two FLOAT16, and the middle itself as FLOAT32
    assert float(np.float16(between)) != float(np.float16(np.float32(between)))
    assert read(tmp_path, fill(between, "FLOAT16")).value == float(np.float16(np.float32(between)))


@pytest.mark.parametrize(
    ("data_type", "value", "expected", "taken"),
    [
        ("FLOAT32", "inf", math.inf, '{"Float32": "inf"}'),
        ("FLOAT64", "-INF", -math.inf, '{"Float64": "-INF"}'),
        ("FLOAT16", "inf", math.inf, '{"UInt16": 31744}'),
        ("INT32", 3.0, 3, "3"),
        ("INT32", {"Int32": -3.0}, -3, "-3"),
    ],
)
def test_a_number_that_dxdispatch_would_refuse(
    tmp_path: Path, data_type: str, value: Any, expected: float, taken: str
) -> None:
    ((kind, _, said),) = findings(tmp_path, fill(value, data_type))
    assert (kind, said.partition("; got")[0]) == ("remark", f"FILL_VALUE_CONSTANT: DxDispatch takes {taken} alone")
    assert read(tmp_path, fill(value, data_type)).value == expected


def test_a_step_down_where_the_type_has_no_sign(tmp_path: Path) -> None:
    """The documents count 10, 8, 6 in UINT8, which DxDispatch takes as 254 only."""
    assert findings(tmp_path, count(10, -2, "UINT8")) == [
        (
            "remark",
            "$.dispatchables.it.desc.ValueDelta",
            "FILL_VALUE_SEQUENCE: DxDispatch takes 254, which wraps to the same, alone; got -2",
        )
    ]
    assert findings(tmp_path, count(10, 254, "UINT8")) == []
    device = dml.Device("reference")
    results = [device.compile(read(tmp_path, count(10, delta, "UINT8")))().tolist() for delta in (-2, 254)]
    assert results == [[10, 8, 6]] * 2


@pytest.mark.parametrize(
    ("data_type", "value", "status", "place", "said"),
    [
        ("FLOAT32", "wide", 2, "", 'Value must be a number, "nan", "inf" or "-inf", for FLOAT32; got \'wide\''),
        ("FLOAT32", True, 2, "", 'Value must be a number, "nan", "inf" or "-inf", for FLOAT32; got true'),
        ("FLOAT32", None, 2, "", 'Value must be a number, "nan", "inf" or "-inf", for FLOAT32; got null'),
        ("FLOAT32", [1], 2, "", 'Value must be a number, "nan", "inf" or "-inf", for FLOAT32; got a list of 1 element'),
        ("FLOAT32", 1e39, 1, "", 'Value must fit FLOAT32; got 1e+39; write "inf" or "-inf" for infinity'),
        ("FLOAT16", 70000, 1, "", 'Value must fit FLOAT16; got 70000; write "inf" or "-inf" for infinity'),
        ("FLOAT32", {"Int32": 1}, 1, "", "Value.Float32 must be given, for FLOAT32"),
        ("FLOAT16", {"Float16": 1}, 1, "", "Value.UInt16 must be given, for FLOAT16"),
        (
            "FLOAT16",
            {"UInt16": 65536},
            2,
            ".UInt16",
            "Value.UInt16 must be a whole number in 0 .. 65535, the bits of a FLOAT16; got 65536",
        ),
        (
            "FLOAT32",
            {"Float32": None},
            2,
            ".Float32",
            'Value.Float32 must be a number, "nan", "inf" or "-inf", for FLOAT32; got null',
        ),
        ("INT8", "inf", 2, "", "Value must be a whole number, for INT8; got 'inf'"),
        ("INT8", False, 2, "", "Value must be a whole number, for INT8; got false"),
        ("INT8", 1.5, 1, "", "Value must be a whole number, being of INT8; got 1.5"),
        ("INT8", 128, 1, "", "Value must lie in -128 .. 127, being of INT8; got 128"),
        ("UINT8", -1, 1, "", "Value must lie in 0 .. 255, being of UINT8; got -1"),
        ("UINT8", {"UInt8": 256}, 1, "", "Value must lie in 0 .. 255, being of UINT8; got 256"),
    ],
)
def test_a_number_at_fault(tmp_path: Path, data_type: str, value: Any, status: int, place: str, said: str) -> None:
    kind = {1: "description", 2: "file"}[status]
    assert findings(tmp_path, fill(value, data_type)) == [(kind, VALUE + place, f"FILL_VALUE_CONSTANT: {said}")]
    assert check_file(tmp_path / "model.json").status == status


def test_a_member_that_is_not_read_is_remarked_on(tmp_path: Path) -> None:
    ((kind, place, said),) = findings(tmp_path, fill({"Float32": 1, "Int32": 1}))
    assert (kind, place) == ("remark", f"{VALUE}.Int32")
    assert said.startswith("nothing here has this name, so it is ignored")


@pytest.mark.parametrize(
    ("value_type", "status", "said"),
    [
        (REMOVED, 1, "ValueDataType must be given"),
        ("FLOAT31", 1, "ValueDataType must be one of FLOAT32, FLOAT16, UINT32, "),
        ("float32", 1, "ValueDataType must be one of FLOAT32, FLOAT16, UINT32, "),
        ("UNKNOWN", 1, "ValueDataType must be one of FLOAT32, FLOAT16, UINT32, "),
        (1, 2, "ValueDataType must be one of FLOAT32, FLOAT16, UINT32, "),
        ("INT32", 1, "ValueDataType must be OutputTensor.DataType, FLOAT32; got INT32"),
    ],
)
def test_the_type_of_a_number(tmp_path: Path, value_type: Any, status: int, said: str) -> None:
    data = changed(fill(2), "dispatchables.it.desc.ValueDataType", value_type)
    (found,) = findings(tmp_path, data)
    assert found[2].startswith(f"FILL_VALUE_CONSTANT: {said}")
    assert check_file(tmp_path / "model.json").status == status
    also = changed(data, "dispatchables.it.desc.Value", False)
    assert len(findings(tmp_path, also)) == (1 if value_type == "INT32" else 2), "a fault does not hide another"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"ScaleBias": {"Scale": 2, "Bias": 0.5}}, dml.ScaleBias(2, 0.5)),
        ({"ScaleBias": {"Scale": "inf", "Bias": -1}}, dml.ScaleBias(math.inf, -1)),
    ],
)
def test_a_scale_and_a_bias(tmp_path: Path, given: dict[str, Any], expected: Any) -> None:
    assert findings(tmp_path, identity(**given)) == []
    assert read(tmp_path, identity(**given)).scale_bias == expected


def test_a_scale_and_bias_of_null_is_none(tmp_path: Path) -> None:
    assert findings(tmp_path, identity(ScaleBias=None)) == [
        (
            "remark",
            SCALE_BIAS,
            "ELEMENT_WISE_IDENTITY: ScaleBias is null, and there is none; DxDispatch asks for it to be left out",
        )
    ]
    assert read(tmp_path, identity(ScaleBias=None)).scale_bias is None


@pytest.mark.parametrize(
    ("given", "status", "place", "said"),
    [
        (2, 2, "", "ScaleBias must be an object with Scale and Bias, or null; got 2"),
        ([2, 1], 2, "", "ScaleBias must be an object with Scale and Bias, or null; got a list of 2 elements"),
        ({"Scale": 2}, 1, "", "ScaleBias.Bias must be given"),
        ({"Scale": "x", "Bias": 1}, 2, ".Scale",
            'ScaleBias.Scale must be a number, "nan", "inf" or "-inf", for FLOAT32; got \'x\''),
        ({"Scale": 2, "Bias": 1e40}, 1, ".Bias",
            'ScaleBias.Bias must fit FLOAT32; got 1e+40; write "inf" or "-inf" for infinity'),
    ],
)  # fmt: skip
def test_a_scale_or_bias_at_fault(tmp_path: Path, given: Any, status: int, place: str, said: str) -> None:
    ((_, where, text),) = findings(tmp_path, identity(ScaleBias=given))
    assert (where, text) == (SCALE_BIAS + place, f"ELEMENT_WISE_IDENTITY: {said}")
    assert check_file(tmp_path / "model.json").status == status
