"""Inputs that a run makes up: indices lie in their dimensions, wherever the model takes them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from modelling import program
from onnx_models import model, node

if TYPE_CHECKING:
    from pathlib import Path

X, ONE = ("float32", [3, 20]), np.array([1])
CAST = node("Cast", "i", "j", to=7)


@pytest.mark.parametrize(
    ("nodes", "inputs", "constants"),
    [
        (node("GatherND", "x i", "y"), {"x": ("float32", [1, 3, 4]), "i": ("int64", [9, 2])}, {}),
        (node("GatherND", "x i", "y", batch_dims=1), {"x": ("float32", [2, 1]), "i": ("int64", [2, 9, 1])}, {}),
        (
            node("ScatterND", "x i u", "y"),
            {"x": ("float32", [1, 3]), "i": ("int64", [9, 2]), "u": ("float32", [9])},
            {},
        ),
        ([CAST, node("Gather", "x j", "y")], {"x": X, "i": ("int32", [50])}, {}),
        (
            [CAST, node("Unsqueeze", "j one", "k"), node("GatherND", "x k", "y")],
            {"x": X, "i": ("int32", [50])},
            {"one": ONE},
        ),
        (
            [node("Concat", "i j", "k", axis=0), node("Gather", "x k", "y", axis=1)],
            {"x": X, "i": ("int64", [50]), "j": ("int64", [5])},
            {},
        ),
    ],
)
def test_indices_that_are_made_up_lie_in_their_dimensions(
    tmp_path: Path, nodes: Any, inputs: dict[str, Any], constants: dict[str, Any]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, inputs, "y", constants).SerializeToString())
    for seed in range(3):
        result = program("run", path, "--seed", seed, "--engine", "reference")
        assert result.exit_code == 0, result.output


def test_what_a_model_asks_for_and_is_not_built_says_where_to_look(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(node("Reluu", "x", "y"), {"x": X}).SerializeToString())
    result = program("run", path)
    assert result.exit_code == 3
    assert "Reluu is not supported; did you mean Relu? `anydml support --onnx` lists the" in result.output
    assert program("check", "--concise", path).output.splitlines() == [
        f"{path}: node of 'y' (Reluu): Reluu is not supported",
        f"{path}: 1 of 1 nodes cannot run at level 6_4: 1 Reluu",
    ]
