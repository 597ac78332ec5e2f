"""ONNX models in files, and the program that is given them. Whatever imports this is left out where onnx is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from anydml.cli.app import app

onnx = pytest.importorskip("onnx", reason="ONNX models need onnx: make test EXTRAS=onnx")

if TYPE_CHECKING:
    from pathlib import Path

FLOAT, INT64, STRING, DOUBLE = 1, 7, 8, 11


def save(path: Path, nodes: list[Any], inputs: Any, outputs: Any, constants: dict[str, Any] | None = None) -> Path:
    """Write a model of nodes; a shape of None is left out."""
    make = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [make(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [make(name, kind, None) for name, kind in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


def save_crop(folder: Path) -> Path:
    """Rows cropped, summed, turned and picked, for batches of any size."""
    node = onnx.helper.make_node
    nodes = [
        node("Slice", ["x", "starts", "ends", "axes"], ["cropped"], name="crop"),
        node("CumSum", ["cropped", "axis"], ["summed"], name="sum"),
        node("Transpose", ["summed"], ["turned"], name="turn", perm=[1, 0]),
        node("Shape", ["turned"], ["sizes"], name="measure"),
        node("Gather", ["turned", "i"], ["y"], name="pick"),
    ]
    constants = {"starts": [1], "ends": [2**31 - 1], "axes": [1], "axis": 0}
    inputs = {"x": (FLOAT, ["batch", 6]), "i": (INT64, [2])}
    return save(folder / "crop.onnx", nodes, inputs, {"y": FLOAT, "sizes": INT64}, constants)


def program(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
