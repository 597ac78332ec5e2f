"""What resources hold at first: every initialiser, every type, and each way of getting one wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from modelling import floats, lines, model, run, write

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
