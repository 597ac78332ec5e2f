"""Numbers in models: what resources hold at first, DML_SCALAR_UNION by its type, DML_SCALE_BIAS."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import check_file, load_model
from modelling import REMOVED, changed, findings, floats, lines, model, run, write

if TYPE_CHECKING:
    from pathlib import Path


def first(folder: Path, resource: dict[str, Any]) -> np.ndarray[Any, Any]:
    """A resource's first values, by way of a model that does nothing."""
    path = write(folder, {"resources": {"r": resource}, "dispatchables": {}, "commands": []})
    return load_model(path).run("reference").resources["r"]


def said(folder: Path, resource: Any) -> list[str]:
    path = write(folder, {"resources": {"r": resource}, "dispatchables": {}, "commands": []})
    result = run(path)
    assert result.exit_code == 2, result.output
    found = [line.removeprefix("Error: ").split(": ", 2)[-1] for line in lines(result, path)]
    return found[1:] if len(found) > 1 else found


@pytest.mark.parametrize("data_type", list(dml.DataType))
def test_a_list_of_every_type(tmp_path: Path, data_type: dml.DataType) -> None:
    found = first(tmp_path, {"initialValuesDataType": data_type.dml_name, "initialValues": [1, 0, 7]})
    assert found.dtype == data_type.number_dtype
    assert found.tolist() == ([1, 0, 7, 0] if data_type.is_half_byte else [1, 0, 7])


def test_the_ends_of_the_integer_types(tmp_path: Path) -> None:
    for data_type in dml.DataType:
        if not data_type.is_float:
            ends = list(data_type.limits)
            assert first(tmp_path, {"initialValuesDataType": data_type.name, "initialValues": ends}).tolist() == ends


def test_words_for_what_json_has_no_numbers_for(tmp_path: Path) -> None:
    found = first(tmp_path, {"initialValuesDataType": "FLOAT16", "initialValues": [65504, "NaN", "inf", "-Inf", 0.1]})
    np.testing.assert_array_equal(found, np.array([65504, np.nan, np.inf, -np.inf, 0.1], np.float16))


def test_float16_rounds_by_way_of_float32_as_dxdispatch_does(tmp_path: Path) -> None:
    tie = 1 + 2**-11 + 2**-30  # above the tie between 1 and its successor, but not in float32
    assert first(tmp_path, {"initialValuesDataType": "FLOAT16", "initialValues": [tie]}).tolist() == [1]
    assert np.float16(tie) > 1


def test_first_values_can_be_had_without_a_run(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.int16))
    resources = {"a": floats(1, 2.5), "b": {"initialValues": {"sourcePath": "x.npy"}}, "c": floats("x")}
    loaded = load_model(write(tmp_path, model(resources=resources, commands=[])))
    a, b, c = (loaded.resources[name].first_values() for name in "abc")
    assert a is not None
    assert b is not None
    assert (a.tolist(), b.tolist(), b.dtype, c) == ([1, 2.5], [0, 1, 2, 3], np.int16, None)


def test_a_constant(tmp_path: Path) -> None:
    found = first(tmp_path, {"initialValuesDataType": "INT16", "initialValues": {"valueCount": 70_000, "value": -3}})
    assert found.size == 70_000
    assert set(found.tolist()) == {-3}


def test_a_sequence_adds_its_step_in_its_own_type(tmp_path: Path) -> None:
    spec = {"valueCount": 200_000, "valueStart": 1, "valueDelta": 0.1}
    found = first(tmp_path, {"initialValuesDataType": "FLOAT32", "initialValues": spec})
    value, expected = np.float32(1), []
    for _ in range(200_000):
        expected.append(value)
        value = np.float32(value + np.float32(0.1))
    assert found.tolist() == [float(value) for value in expected]
    spec = {"valueCount": 4, "valueStart": 254, "valueDelta": 1}
    assert first(tmp_path, {"initialValuesDataType": "UINT8", "initialValues": spec}).tolist() == [254, 255, 0, 1]


def test_values_of_several_types(tmp_path: Path) -> None:
    values = [{"name": "n", "type": "UINT32", "value": 6}, {"type": "DML_TENSOR_DATA_TYPE_FLOAT16", "value": 2.5}]
    for kind in ({}, {"initialValuesDataType": "UNKNOWN"}):
        found = first(tmp_path, {**kind, "initialValues": values, "sizeInBytes": 256})
        assert found.tobytes() == np.uint32(6).tobytes() + np.float16(2.5).tobytes()


@pytest.mark.parametrize("name", ["x.dat", "sub\\x.bin", "sub/x.bin"])
def test_a_raw_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    data = np.arange(5, dtype=np.uint16)
    (tmp_path / name.replace("\\", "/")).write_bytes(data.tobytes())
    found = first(tmp_path, {"initialValuesDataType": "UINT16", "initialValues": {"sourcePath": name}})
    assert found.tolist() == data.tolist()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", ">i8", "|u1", "<u8", "=i2"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_numpy_file_says_its_type(tmp_path: Path, dtype: str, version: tuple[int, int]) -> None:
    data = np.arange(6).reshape(2, 3).astype(dtype)
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, data, version)  # type: ignore[no-untyped-call]  # NumPy's
    found = first(tmp_path, {"initialValues": {"sourcePath": "x.npy"}})
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert found.tolist() == data.ravel().tolist()


def test_booleans_of_numpy_are_int8(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([True, False]))
    found = first(tmp_path, {"initialValues": {"sourcePath": "x.npy"}})
    assert (found.dtype, found.tolist()) == (np.int8, [1, 0])


def test_a_resource_may_be_larger_than_its_values_and_is_zero_there(tmp_path: Path) -> None:
    resource = {**floats(1, 2), "sizeInBytes": 16}
    path = write(tmp_path, model(resources={"in": resource, "out": floats(9, 9, 9, 9)}))
    assert lines(run(path), path)[-1] == "Resource 'out': 1, 3, 3, 3"


def test_values_may_begin_at_an_offset(tmp_path: Path) -> None:
    resource = {**floats(5, 6), "sizeInBytes": 16, "initialValuesOffsetInBytes": 8}
    path = write(tmp_path, model(resources={"in": resource, "out": floats(9, 9, 9, 9)}))
    assert lines(run(path), path)[-1] == "Resource 'out': 0, 0, 5, 11"


LIST = "FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4"


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ([], "a resource must be an object; got a list of 0 elements"),
        ({}, "initialValues must be given"),
        (
            {"initialValuesDataType": "FLOAT31", "initialValues": [1]},
            f"initialValuesDataType must be one of {LIST}; got 'FLOAT31'; did you mean FLOAT32?",
        ),
        ({"initialValuesDataType": 1, "initialValues": [1]}, f"initialValuesDataType must be one of {LIST}; got 1"),
        (floats(), "initialValues must not be empty"),
        ({"initialValuesDataType": "INT8", "initialValues": 5}, "initialValues must be a list or an object; got 5"),
        (
            {"initialValuesDataType": "INT8", "initialValues": [1, 128]},
            "initialValues[1] must be a whole number in -128 .. 127, for INT8; got 128",
        ),
        (
            {"initialValuesDataType": "UINT32", "initialValues": [-1]},
            "initialValues[0] must be a whole number in 0 .. 4294967295, for UINT32; got -1",
        ),
        (
            {"initialValuesDataType": "INT32", "initialValues": ["nan"]},
            "initialValues[0] must be a whole number in -2147483648 .. 2147483647, for INT32; got 'nan'",
        ),
        (
            {"initialValuesDataType": "INT32", "initialValues": [1.0]},
            "initialValues[0] must be a whole number in -2147483648 .. 2147483647, for INT32; got 1.0",
        ),
        (
            {"initialValuesDataType": "INT32", "initialValues": [True]},
            "initialValues[0] must be a whole number in -2147483648 .. 2147483647, for INT32; got true",
        ),
        (
            floats(1, [2]),
            ('initialValues[1] must be a number, "nan", "inf" or "-inf", for FLOAT32; got a list of 1 element'),
        ),
        (floats("x"), 'initialValues[0] must be a number, "nan", "inf" or "-inf", for FLOAT32; got \'x\''),
        (floats(None), 'initialValues[0] must be a number, "nan", "inf" or "-inf", for FLOAT32; got null'),
        (floats(1e39), 'initialValues[0] must fit FLOAT32; got 1e+39; write "inf" or "-inf" for infinity'),
        (
            {"initialValuesDataType": "FLOAT16", "initialValues": {"value": 65536, "valueCount": 1}},
            'value must fit FLOAT16; got 65536; write "inf" or "-inf" for infinity',
        ),
        ({"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0}}, "valueCount must be given"),
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 0}},
            "valueCount must be a whole number in 1 .. 4294967295; got 0",
        ),
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 1e9}},
            "valueCount must be a whole number in 1 .. 4294967295; got 1000000000.0",
        ),
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": {"valueStart": 0, "valueCount": 1}},
            "valueDelta must be given",
        ),
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 1}},
            "initialValues must have one of value, valueStart and sourcePath; got none of them",
        ),
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 1, "sourcePath": "x"}},
            "initialValues must have one of value, valueStart and sourcePath; got value and sourcePath",
        ),
        (
            {"initialValues": {"value": 1, "valueCount": 1}},
            "initialValuesDataType must be given, and not be UNKNOWN, where initialValues is an object",
        ),
        (
            {"initialValues": [1]},
            (
                "initialValues[0] must be an object with a type and a value; got 1;"
                " or give initialValuesDataType, for values of one type"
            ),
        ),
        (
            {"initialValues": [{"type": "INT33", "value": 1}]},
            f"type must be one of {LIST}; got 'INT33'; did you mean INT32?",
        ),
        ({**floats(1, 2), "sizeInBytes": 7}, "sizeInBytes must be at least 8, to hold initialValues; got 7"),
        (
            {**floats(1), "sizeInBytes": 2**60},
            ("sizeInBytes must be a whole number in 1 .. 281474976710656; got 1152921504606846976"),
        ),
        ({**floats(1), "sizeInBytes": -1}, "sizeInBytes must be a whole number in 1 .. 281474976710656; got -1"),
        (
            {**floats(1), "initialValuesOffsetInBytes": 4},
            "sizeInBytes must be at least 8, to hold initialValues; got 4",
        ),
    ],
)
def test_what_a_resource_may_not_be(tmp_path: Path, resource: Any, message: str) -> None:
    assert said(tmp_path, resource) == [message]


def test_a_list_tells_of_its_first_faults_only(tmp_path: Path) -> None:
    assert len(said(tmp_path, {"initialValuesDataType": "UINT8", "initialValues": [-1] * 1000})) == 5


def test_a_fault_in_a_list_has_its_line(tmp_path: Path) -> None:
    values = "[1,\n  2,\n  300]"
    resources = f'{{"r": {{"initialValuesDataType": "UINT8", "initialValues": {values}}}}}'
    path = write(tmp_path, f'{{"resources": {resources}, "dispatchables": {{}}, "commands": []}}')
    assert lines(run(path), path) == [
        (
            "Error: model.json:3:3: $.resources.r.initialValues[2]:"
            " initialValues[2] must be a whole number in 0 .. 255, for UINT8; got 300"
        )
    ]


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
        ("INT8", 1.5, 1, "", "Value must be a whole number for INT8; got 1.5"),
        ("INT8", 128, 1, "", "Value must lie in -128 .. 127 for INT8; got 128"),
        ("UINT8", -1, 1, "", "Value must lie in 0 .. 255 for UINT8; got -1"),
        ("UINT8", {"UInt8": 256}, 1, "", "Value must lie in 0 .. 255 for UINT8; got 256"),
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
