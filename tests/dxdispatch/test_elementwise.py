"""Element-wise operators in models: numbers, lists of them, modes and fused activations, as DxDispatch has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from modelling import REMOVED, changed, findings, floats, run, write

if TYPE_CHECKING:
    from pathlib import Path


def model(
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
ADD1 = model("DML_OPERATOR_ELEMENT_WISE_ADD1", ELU, [1, 2, 3], [5, 8, -5])


@pytest.mark.parametrize(
    ("data", "printed"),
    [
        (model("DML_OPERATOR_ELEMENT_WISE_ADD", {}, [1, 2, 3], [5, 8, -5]), "'out': 6, 10, -2"),
        (ADD1, "'out': 6, 10, -0.432332"),
        (
            model("DML_OPERATOR_ELEMENT_WISE_CLIP", {"Min": -2.5, "Max": 2.5}, list(range(-4, 5)), out="a"),
            "'a': -2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5",
        ),
        (
            model(
                "DML_OPERATOR_ELEMENT_WISE_CLIP1",
                {"MinMaxDataType": "FLOAT16", "Min": 2, "Max": 4},
                [1, 2, 3, 4, 5],
                data_type="FLOAT16",
            ),
            "'out': 2, 2, 3, 4, 4",
        ),
        (
            model("ELEMENT_WISE_ROUND", {"RoundingMode": "DML_ROUNDING_MODE_TOWARD_INFINITY"}, [0.5, 1.5, -2.5, 0.4]),
            "'out': 1, 2, -3, 0",
        ),
        (model("ELEMENT_WISE_EXP", {"ScaleBias": {"Scale": 0, "Bias": 1}}, [1, 2]), "'out': 2.71828, 2.71828"),
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
        tmp_path, changed(model(name, {**fields, field: 0}, [1, 2]), f"dispatchables.it.desc.{field}", value)
    )
    assert message in found[0][2]


def test_a_number_may_be_a_word(tmp_path: Path) -> None:
    loaded = load_model(write(tmp_path, model("ELEMENT_WISE_CLIP", {"Min": "-inf", "Max": "NaN"}, [1, 2])))
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
