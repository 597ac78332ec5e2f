"""The JSON schema of models: it takes the examples and every operator, and refuses slips."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from anydml.dxdispatch.schema import model_schema
from anydml.operators import OPERATORS
from modelling import EXAMPLES, changed, model, program

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: make lint sets it up")
if TYPE_CHECKING:
    from pathlib import Path

DESC = "dispatchables.sum.desc."


@pytest.fixture(scope="module")
def validator() -> Any:
    kind = jsonschema.Draft7Validator
    kind.check_schema(model_schema())
    return kind(model_schema())


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path, validator: Any) -> None:
    data = json.loads(re.sub(r"//.*$", "", path.read_text(), flags=re.MULTILINE))
    assert [error.message for error in validator.iter_errors(data)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{DESC}Axis", "three"),
        (f"{DESC}Axis", -1),
        (f"{DESC}AxisDirection", "UPWARD"),
        (f"{DESC}InputTensor.DataType", "FLOAT33"),
        (f"{DESC}InputTensor.DataType", "UINT8"),
        (f"{DESC}InputTensor.Sizes", [0]),
        (f"{DESC}InputTensor", {"DataType": "FLOAT32"}),
        ("dispatchables.sum.type", "CUMULATIVE_SUM"),
        ("dispatchables.sum.desc", {}),
        ("resources.in", {}),
        ("commands.0", {"type": "dispatch"}),
        ("commands.1.type", "show"),
    ],
)
def test_slips_are_refused(path: str, value: Any, validator: Any) -> None:
    assert validator.is_valid(model())
    assert not validator.is_valid(changed(model(), path, value))


def test_every_operator_has_its_fields_and_their_meanings() -> None:
    definitions = model_schema()["definitions"]
    for cls in OPERATORS.values():
        found = definitions[cls.type.name]
        assert set(found["required"]) <= set(found["properties"])
        assert all(field.get("description") for field in found["properties"].values()), cls


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    assert program("schema", "-o", tmp_path / "s.json").exit_code == 0
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(program("schema").stdout)
