"""Every operator in a model: read by its own fields, bound, and run; with no input at all, and with indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from anydml.ir.numerics import ULPS
from families.elementwise import STEPS, assert_within, short_name
from families.folding import FOLDING, assert_close
from families.folding import expected as expected_of
from modelling import EVERY, EXAMPLES, as_dispatchable, findings, floats, model_of, run, write

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
