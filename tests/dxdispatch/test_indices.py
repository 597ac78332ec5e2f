"""Indices that a model writes out are checked before anything runs; computed ones when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml import TensorDesc as T
from anydml.dxdispatch import check_file, load_model
from modelling import as_dispatchable, floats, write

if TYPE_CHECKING:
    from pathlib import Path


def gathering(indices: Any, *, offset: int = 0, computed: bool = False) -> dict[str, Any]:
    """A model that picks two of four numbers, by indices of a resource or by a copy of them."""
    pair = T("int32", (2,))
    take = dml.Gather.infer(input_tensor=T("float32", (4,)), indices_tensor=pair, axis=0, index_dimensions=1)
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
