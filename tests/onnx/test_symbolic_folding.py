"""Nodes on symbolic sizes: what they compute is folded for all sizes at once, by the lowering of plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.engines.cpu import plans
from anydml.onnx import program_cache
from anydml.onnx.lower.trace import trace

SIZES = (40, 50, 70, 46, 62, 84)

NODES: dict[str, list[Any]] = {
    "Abs": [node("Sub", "one n", "less"), node("Abs", "less", "made")],
    "Add": [node("Add", "n two", "made")],
    "Cast": [node("Cast", "n", "small", to=6), node("Cast", "small", "made", to=7)],
    "Clip": [node("Clip", "n two hundreds", "made")],
    "Concat": [node("Concat", "n two n", "several", axis=0), node("Gather", "several first", "made")],
    "Div": [node("Sub", "one n", "less"), node("Div", "less two", "half"), node("Mul", "half minus", "made")],
    "Equal": [node("Equal", "n hundreds", "is"), node("Where", "is two n", "made")],
    "Expand": [node("Expand", "n twice", "several"), node("Gather", "several first", "made")],
    "Gather": [node("Gather", "shape first", "made")],
    "GatherElements": [node("GatherElements", "shape first", "made")],
    "GatherND": [node("GatherND", "shape column", "some"), node("Reshape", "some minus", "made")],
    "Less": [node("Less", "two n", "is"), node("Where", "is n two", "made")],
    "Max": [node("Max", "n two", "made")],
    "Min": [node("Min", "n hundreds", "made")],
    "Mod": [node("Mod", "n two", "rest"), node("Add", "rest n", "made")],
    "Mul": [node("Mul", "n two", "made")],
    "Neg": [node("Neg", "n", "less"), node("Mul", "less minus", "made")],
    "Not": [node("Equal", "n two", "is"), node("Not", "is", "not"), node("Where", "not n two", "made")],
    "Pad": [node("Pad", "n pads", "several"), node("Gather", "several first", "made")],
    "ReduceMax": [node("ReduceMax", "shape", "made", keepdims=1)],
    "ReduceProd": [node("ReduceProd", "shape", "made", keepdims=1)],
    "ReduceSum": [node("ReduceSum", "shape", "made", keepdims=1)],
    "Slice": [node("Slice", "shape one twice", "made")],
    "Split": [node("Split", "shape", "a made", axis=0, num_outputs=2)],
    "Squeeze": [node("Squeeze", "n", "scalar"), node("Unsqueeze", "scalar zero", "made")],
    "Sub": [node("Sub", "n one", "made")],
    "Tile": [node("Tile", "n twice", "several"), node("Gather", "several first", "made")],
    "Transpose": [
        *(node("Unsqueeze", "shape zero", "row"), node("Transpose", "row", "column2")),
        *(node("Gather", "column2 first", "some"), node("Reshape", "some minus", "made")),
    ],
}  # fmt: skip
TENSORS = {
    "zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "twice": np.array([2]),
    "first": np.array([1]), "column": np.array([[1]]), "minus": np.array([-1]), "hundreds": np.array([400]),
    "pads": np.array([1, 0]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found on disk."""
    monkeypatch.setenv(plans.SWITCH, "0")


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One element for each trace."""
    found: list[Any] = []

    def traced(*given: Any, **options: Any) -> Any:
        found.append(given[1])
        return trace(*given, **options)

    monkeypatch.setattr(program_cache, "trace", traced)
    return found


@pytest.mark.parametrize("kind", NODES)
def test_what_is_computed_of_sizes_is_folded_once_for_all(kind: str, traces: list[Any]) -> None:
    """A tensor of ones of a size that the node computes: a new size is not traced."""
    nodes = [
        *(node("Shape", "x", "shape"), node("Gather", "shape one", "n"), *NODES[kind]),
        *(node("ConstantOfShape", "made", "zeros"), node("ReduceSum", "x", "total", keepdims=0)),
        node("Add", "zeros total", "y"),
    ]
    used = " ".join(name for each in nodes for name in each.input)
    tensors = {name: array for name, array in TENSORS.items() if name in used.split()}
    data = model(nodes, {"x": ("float32", ["b", "n"])}, "y made", tensors, opset=18).SerializeToString()
    loaded = dml.onnx.load(data, device="reference")
    for n in SIZES:
        x = np.ones((2, n), "float32")
        found = loaded.run({"x": x})
        traced = len(traces)
        wanted = dml.onnx.load(data, device="reference").run({"x": x})  # without a symbol
        del traces[traced:]
        assert found["made"].dtype == np.int64
        assert found["y"].shape == tuple(found["made"].tolist())
        assert {name: array.tolist() for name, array in found.items()} == {k: a.tolist() for k, a in wanted.items()}
    assert len(traces) == 3, "two sizes as they are, then one for all"


def test_a_finding_that_does_not_hold_is_traced_anew(traces: list[Any]) -> None:
    """What the type of 32 bits does not hold wraps, as a plain number does."""
    nodes = [
        *(node("Shape", "x", "shape"), node("Gather", "shape one", "n"), node("Cast", "n", "small", to=6)),
        *(node("Mul", "small many", "product"), node("ReduceSum", "x", "total", keepdims=0)),
    ]
    tensors = {"one": np.array([1]), "many": np.array([2**25], "int32")}
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", ["b", "n"])}, "product total", tensors), device="reference")
    for n in (40, 50, 60, 63, 64, 70, 62):
        found = loaded.run({"x": np.ones((1, n), "float32")})["product"]
        assert found.tolist() == [(n * 2**25 + 2**31) % 2**32 - 2**31], n
    assert len(traces) < 7
