"""Every way of writing a model's tensors and descriptions is the same model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from modelling import (
    DESC,
    SUM,
    as_dispatchable,
    changed,
    model,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


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
