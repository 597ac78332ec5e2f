"""Recordings of operators for the explorer's page: of every operator's example, and what cannot be recorded."""

from __future__ import annotations

import base64

import pytest

import anydml as dml
from anydml.explore import operator
from anydml.explore.answer import MOST_ELEMENTS

pytestmark = pytest.mark.sampled(20)


def record(name: str, **state: str) -> dict[str, object]:
    found: dict[str, object] = operator.answers()["record"]({"operator": name, "state": state})
    return found


@pytest.mark.parametrize("cls", dml.OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_every_operators_example_can_be_recorded(cls: type[dml.OperatorDesc]) -> None:
    name = cls.type.name.lower()
    found = operator.answers()["record"]({"operator": name, "state": operator.describe_form(cls)["example"]})
    recording = found["recording"]
    assert any("kernel" in step for step in recording["steps"])
    assert recording["inputs"] == []
    sizes = [port["place"][2] for port in recording["outputs"]]
    assert [len(base64.b64decode(one)) for one in found["answers"]] == sizes


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"data": "1,2", "axis": "7"}, "the form must be valid"),
        ({"sizes": f"{MOST_ELEMENTS}", "axis": "0"}, "small enough to be written out"),
        ({"data": "1,2", "axis": "0", "none": "1"}, "none"),
    ],
    ids=["fault", "large", "option"],
)
def test_what_cannot_be_recorded_is_said(state: dict[str, str], message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        record("cumulative_summation", **state)
