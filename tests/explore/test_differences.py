"""Two models beside each other: which nodes are the same, and what differs between the others."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anydml.core.errors import ModelError
from anydml.explore.model import Workspace, open_model
from tests.explore.test_model import MODELS, saved

if TYPE_CHECKING:
    from pathlib import Path

needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="needs requirements/onnx.txt")


def network(path: Path, *, weight: float = 1.0, alpha: float = 0.5, extra: bool = False, named: bool = True) -> Path:
    from onnx import TensorProto, helper

    def name(text: str) -> str:
        return text if named else ""

    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["m"], name=name("mix")),
        make("LeakyRelu", ["m"], ["r"], name=name("act"), alpha=alpha),
        *([make("Neg", ["r"], ["n"], name=name("more"))] if extra else []),
        make("Add", ["n" if extra else "r", "b"], ["y"], name=name("last")),
    ]
    x, y = (helper.make_tensor_value_info(one, TensorProto.FLOAT, [2, 2]) for one in "xy")
    weights = {"w": np.full((2, 2), weight, np.float32), "b": np.ones(2, np.float32)}
    return saved(path, nodes, [x], [y], weights)


def differences(a: Path, b: Path) -> dict[str, Any]:
    found: dict[str, Any] = Workspace([open_model(a, {}), open_model(b, {})]).answers()["differences"]({})
    return found


@needs_onnx
@pytest.mark.parametrize("named", [True, False])
def test_what_differs_is_told_by_node(tmp_path: Path, *, named: bool) -> None:
    before = network(tmp_path / "a.onnx")
    assert differences(before, network(tmp_path / "b.onnx", named=named))["rows"] == []
    found = differences(before, network(tmp_path / "b.onnx", weight=2, alpha=0.25, extra=True, named=named))
    assert found["counts"] == {"same": 3, "changed": 2, "a": 0, "b": 1}
    told = {row["state"]: row.get("says") for row in found["rows"] if row["state"] == "b"}
    assert told == {"b": None}
    assert [row["says"] for row in found["rows"] if row["state"] == "changed"] == [
        ["B: other values"],
        ["alpha: 0.5 → 0.25"],
    ]
    assert found["kinds"] == [["Neg", 0, 1]]
    assert found["marks"]["a"] == {1: "changed", 2: "changed"}


def test_two_models_have_to_be_open() -> None:
    asks = Workspace([open_model(MODELS / "slice1.json", {})]).answers()
    assert asks["model"]({"model": "b"}) is None
    with pytest.raises(ModelError, match="two models have to be open"):
        asks["differences"]({})
    same = Workspace([open_model(MODELS / "slice1.json", {}), open_model(MODELS / "slice1.json", {})]).answers()
    assert same["differences"]({})["rows"] == []
