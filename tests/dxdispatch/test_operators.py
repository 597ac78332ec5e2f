"""Operators in models: each is read by its own fields, in every spelling, bound and run; activations and indices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.dxdispatch import check_file, load_model
from anydml.ir.numerics import ULPS
from families.elementwise import STEPS, assert_within, short_name
from families.folding import FOLDING, assert_close
from families.folding import expected as expected_of
from modelling import (
    DESC,
    EVERY,
    EXAMPLES,
    REMOVED,
    SUM,
    as_dispatchable,
    changed,
    findings,
    floats,
    model,
    model_of,
    run,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

T = dml.TensorDesc


def test_there_is_a_description_of_every_operator() -> None:
    assert {desc.type for desc in EVERY} == set(dml.OPERATORS)


@pytest.mark.parametrize("desc", EVERY, ids=lambda desc: desc.type.name)
def test_every_operator_is_read_bound_and_run(tmp_path: Path, engine: str, desc: dml.OperatorDesc) -> None:
    """The model gives what the compiled operator gives."""
    loaded = load_model(write(tmp_path, model_of(desc)))
    assert loaded.check().findings == ()
    assert loaded.dispatchables["it"].desc == desc
    found = loaded.run(engine).resources
    arrays = [loaded.resources[slot].first_values().reshape(one.sizes) for slot, one in desc.inputs().items()]  # type: ignore[union-attr]  # they are there
    if type(desc) in FOLDING:
        for slot, answer in zip(desc.outputs(), expected_of(desc, arrays), strict=True):
            assert_close(found[slot], answer, desc)
        return
    expected = dml.Device("reference").compile(desc)(*arrays)
    results = expected if isinstance(expected, tuple) else (expected,)
    for slot, result in zip(desc.outputs(), results, strict=True):
        # The reference engine computes functions in float64: the others are as far off as they say.
        steps = max(ULPS.values()) if engine != "reference" and short_name(type(desc)) in STEPS else 0
        assert_within(found[slot], result.ravel(), steps)


def test_a_fill_has_nothing_bound_but_its_output(tmp_path: Path) -> None:
    data = load_model(EXAMPLES / "join_and_split.json")
    assert data.commands[0].bindings.keys() == {"OutputTensor"}  # type: ignore[union-attr]  # it is a dispatch
    text = (EXAMPLES / "join_and_split.json").read_text()
    wrong = text.replace(
        '"bindings": { "OutputTensor": "b" }', '"bindings": { "OutputTensor": "b", "InputTensor": "a" }'
    )
    assert findings(tmp_path, wrong) == [
        (
            "name",
            "$.commands[0].bindings.InputTensor",
            "FILL_VALUE_SEQUENCE: there is no tensor 'InputTensor'; there are OutputTensor",
        )
    ]


def test_an_index_outside_is_told_with_its_place(tmp_path: Path) -> None:
    one, indices = T("float32", (4,)), T("uint32", (2,))
    desc = dml.Gather.infer(input_tensor=one, indices_tensor=indices, axis=0, index_dimensions=1)
    data: dict[str, Any] = {
        "resources": {
            "a": floats(1, 2, 3, 4),
            "i": {"initialValuesDataType": "UINT32", "initialValues": [3, 4]},
            "out": floats(0, 0),
        },
        "dispatchables": {"take": as_dispatchable(desc)},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "take",
                "bindings": {"InputTensor": "a", "IndicesTensor": "i", "OutputTensor": "out"},
            }
        ],
    }
    path = write(tmp_path, data)
    result = run(path)
    assert result.exit_code == 1
    assert "$.resources.i.initialValues[1]: GATHER: " in result.stderr
    assert '"IndexMode": "clamp" in the desc' in result.stderr
    data["dispatchables"]["take"]["desc"]["IndexMode"] = "clamp"
    assert load_model(write(tmp_path, data)).run("reference").resources["out"].tolist() == [4, 4]


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


def model_with(
    name: str, fields: dict[str, Any], *inputs: Any, data_type: str = "FLOAT32", out: str = "out"
) -> dict[str, Any]:
    """A model that runs an operator on lists of numbers, and prints what comes out."""
    tensor = {"DataType": data_type, "Sizes": [len(inputs[0])]}
    names = ["InputTensor"] if len(inputs) == 1 else ["ATensor", "BTensor"]
    resources = {
        key: {"initialValuesDataType": data_type, "initialValues": values}
        for key, values in zip(("a", "b"), inputs, strict=False)
    }
    resources.setdefault(
        out, {"initialValuesDataType": data_type, "initialValues": {"valueCount": len(inputs[0]), "value": 0}}
    )
    bindings = {**dict(zip(names, ("a", "b"), strict=False)), "OutputTensor": out}
    return {
        "resources": resources,
        "dispatchables": {"it": {"type": name, "desc": {**dict.fromkeys((*names, "OutputTensor"), tensor), **fields}}},
        "commands": [
            {"type": "dispatch", "dispatchable": "it", "bindings": bindings},
            {"type": "print", "resource": out},
        ],
    }


ELU = {"FusedActivation": {"Type": "ACTIVATION_ELU", "Alpha": 0.5}}
ADD1 = model_with("DML_OPERATOR_ELEMENT_WISE_ADD1", ELU, [1, 2, 3], [5, 8, -5])


@pytest.mark.parametrize(
    ("data", "printed"),
    [
        (model_with("DML_OPERATOR_ELEMENT_WISE_ADD", {}, [1, 2, 3], [5, 8, -5]), "'out': 6, 10, -2"),
        (ADD1, "'out': 6, 10, -0.432332"),
        (
            model_with("DML_OPERATOR_ELEMENT_WISE_CLIP", {"Min": -2.5, "Max": 2.5}, list(range(-4, 5)), out="a"),
            "'a': -2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5",
        ),
        (
            model_with(
                "DML_OPERATOR_ELEMENT_WISE_CLIP1",
                {"MinMaxDataType": "FLOAT16", "Min": 2, "Max": 4},
                [1, 2, 3, 4, 5],
                data_type="FLOAT16",
            ),
            "'out': 2, 2, 3, 4, 4",
        ),
        (
            model_with(
                "ELEMENT_WISE_ROUND", {"RoundingMode": "DML_ROUNDING_MODE_TOWARD_INFINITY"}, [0.5, 1.5, -2.5, 0.4]
            ),
            "'out': 1, 2, -3, 0",
        ),
        (model_with("ELEMENT_WISE_EXP", {"ScaleBias": {"Scale": 0, "Bias": 1}}, [1, 2]), "'out': 2.71828, 2.71828"),
    ],
    ids=["add", "add1", "clip", "clip1", "round", "exp"],
)
def test_what_dxdispatch_prints(tmp_path: Path, data: dict[str, Any], printed: str) -> None:
    """The first four with the numbers of the models that come with DxDispatch."""
    path = write(tmp_path, data)
    assert load_model(path).check().findings == ()
    assert run(path).stdout.splitlines()[-1] == f"Resource {printed}"


@pytest.mark.parametrize(
    "activation",
    [
        {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 0.5},
        {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}},
    ],
)
def test_an_activation_in_other_words(tmp_path: Path, activation: Any) -> None:
    loaded = load_model(write(tmp_path, changed(ADD1, "dispatchables.it.desc.FusedActivation", activation)))
    assert loaded.findings == ()
    assert loaded.dispatchables["it"].desc.fused_activation == dml.FusedActivation("ELU", alpha=0.5)  # type: ignore[union-attr]  # the operator has it


@pytest.mark.parametrize(
    ("path", "value", "at", "message"),
    [
        ("FusedActivation.Alpha", "x", "FusedActivation.Alpha", 'Alpha must be a number, "nan", "inf" or "-inf"'),
        ("FusedActivation.Alpha", 1e39, "FusedActivation.Alpha", "FusedActivation.Alpha must fit FLOAT32"),
        ("FusedActivation.Alpha", REMOVED, "FusedActivation", "FusedActivation.Alpha is not given, and is 1.0"),
        ("FusedActivation.Gamma", 1, "FusedActivation.Gamma", ""),
        ("FusedActivation.Type", "ACTIVATION_LINEAR", "FusedActivation", "FusedActivation.Beta must be given"),
        ("FusedActivation.Type", "GEMM", "FusedActivation.Type", "Type must be one of ACTIVATION_CELU, "),
        ("FusedActivation.Type", "ACTIVATION_SWISH", "FusedActivation", "FusedActivation."),
        ("FusedActivation.Type", 7, "FusedActivation", "FusedActivation must be an object with a Type, a string"),
        ("FusedActivation", "ELU", "FusedActivation", "FusedActivation must be an object with a Type, a string"),
        ("FusedActivation", None, "FusedActivation", "FusedActivation is null, and there is none; DxDispatch asks"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_activation(tmp_path: Path, path: str, value: Any, at: str, message: str) -> None:
    found = findings(tmp_path, changed(ADD1, f"dispatchables.it.desc.{path}", value))
    assert found[0][1] == f"$.dispatchables.it.desc.{at}"
    assert message in found[0][2]


@pytest.mark.parametrize(
    ("name", "fields", "field", "value", "message"),
    [
        ("ELEMENT_WISE_CLIP", {"Min": 0, "Max": 1}, "Min", None, 'Min must be a number, "nan", "inf" or "-inf"'),
        ("ELEMENT_WISE_CLIP", {"Min": 0, "Max": 1}, "Min", REMOVED, "Min must be given"),
        ("ELEMENT_WISE_ROUND", {}, "RoundingMode", "UP", "RoundingMode must be one of HALVES_TO_NEAREST_EVEN, "),
        ("ELEMENT_WISE_IDENTITY", {}, "ScaleBias", 3, "ScaleBias must be an object with Scale and Bias, or null"),
    ],
)  # fmt: skip
def test_what_is_said_of_numbers_and_modes(
    tmp_path: Path, name: str, fields: dict[str, Any], field: str, value: Any, message: str
) -> None:
    found = findings(
        tmp_path, changed(model_with(name, {**fields, field: 0}, [1, 2]), f"dispatchables.it.desc.{field}", value)
    )
    assert message in found[0][2]


def test_a_number_may_be_a_word(tmp_path: Path) -> None:
    loaded = load_model(write(tmp_path, model_with("ELEMENT_WISE_CLIP", {"Min": "-inf", "Max": "NaN"}, [1, 2])))
    desc: Any = loaded.dispatchables["it"].desc
    assert desc.min == -math.inf
    assert math.isnan(desc.max)


def test_a_list_of_numbers_and_their_count(tmp_path: Path) -> None:
    image = {"DataType": "FLOAT32", "Sizes": [1, 3, 1, 1]}
    fields = {"InputTensor": image, "OutputTensor": image, "Scale": 2, "ChannelCount": 3, "Bias": [1, 0.5, "inf"]}
    data = {
        "resources": {"a": floats(1, 2, 3), "out": floats(0, 0, 0)},
        "dispatchables": {"it": {"type": "VALUE_SCALE_2D", "desc": fields}},
        "commands": [
            {"type": "dispatch", "dispatchable": "it", "bindings": {"InputTensor": "a", "OutputTensor": "out"}},
            {"type": "print", "resource": "out"},
        ],
    }
    assert run(write(tmp_path, data)).stdout.splitlines()[-1] == "Resource 'out': 3, 4.5, inf"
    wrong = findings(tmp_path, changed(data, "dispatchables.it.desc.Bias", [1, "x", 3]))
    assert wrong[0][1] == "$.dispatchables.it.desc.Bias[1]"
    assert "Bias must be a list of numbers" in findings(tmp_path, changed(data, "dispatchables.it.desc.Bias", 3))[0][2]
    assert "ChannelCount must be 3" in findings(tmp_path, changed(data, "dispatchables.it.desc.ChannelCount", 1))[0][2]


def gathering(indices: Any, *, offset: int = 0, computed: bool = False) -> dict[str, Any]:
    """A model that picks two of four numbers, by indices of a resource or by a copy of them."""
    pair = dml.TensorDesc("int32", (2,))
    take = dml.Gather.infer(
        input_tensor=dml.TensorDesc("float32", (4,)), indices_tensor=pair, axis=0, index_dimensions=1
    )
    copy = dml.ElementWiseIdentity.infer(input_tensor=pair)
    given = {"name": "i", "elementOffset": offset}
    commands = [
        {"type": "dispatch", "dispatchable": "copy", "bindings": {"InputTensor": given, "OutputTensor": "j"}},
        {
            "type": "dispatch",
            "dispatchable": "take",
            "bindings": {"InputTensor": "a", "IndicesTensor": "j" if computed else given, "OutputTensor": "out"},
        },
    ]
    whole = {"initialValuesDataType": "INT32"}
    return {
        "resources": {
            "a": floats(1, 2, 3, 4),
            "i": {**whole, "initialValues": indices},
            "j": {**whole, "initialValues": [0, 0]},
            "out": floats(0, 0),
        },
        "dispatchables": {"take": as_dispatchable(take), "copy": as_dispatchable(copy)},
        "commands": commands if computed else commands[1:],
    }


@pytest.mark.parametrize(
    ("indices", "offset", "path"),
    [
        ([3, 4], 0, "$.resources.i.initialValues[1]"),
        ([9, 9, 9, 9, -5, 0], 4, "$.resources.i.initialValues[4]"),
        ({"valueCount": 2, "value": 7}, 0, "$.commands[0].bindings.IndicesTensor"),
        ({"valueCount": 2, "valueStart": 3, "valueDelta": 1}, 0, "$.commands[0].bindings.IndicesTensor"),
    ],
)
def test_constant_indices_are_checked(tmp_path: Path, indices: Any, offset: int, path: str) -> None:
    (found,) = check_file(write(tmp_path, gathering(indices, offset=offset))).faults
    assert found.kind.name == "index"
    assert found.fault.place is not None
    assert found.fault.place.path == path
    assert "is outside the axis of size 4; take -4 .. 3" in str(found)


@pytest.mark.parametrize("indices", [[3, -4], [0, 1]])
def test_constant_indices_that_are_inside(tmp_path: Path, indices: list[int]) -> None:
    assert check_file(write(tmp_path, gathering(indices)))


def test_computed_indices_are_checked_where_they_are_used(tmp_path: Path) -> None:
    model = load_model(write(tmp_path, gathering([3, 4], computed=True)))
    assert model.check()
    with pytest.raises(dml.IndexRangeError, match=r"\$\.commands\[1\]: GATHER"):
        model.run("reference")
