"""Small ONNX models for tests. Whatever imports this is left out where onnx is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="the tests of the ONNX front end need onnx")
helper: Any = onnx.helper


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node; inputs and outputs are names with spaces between, `-` for one that is left out."""
    names = [["" if name == "-" else name for name in several.split()] for several in (inputs, outputs)]
    return helper.make_node(kind, *names, **attributes)


def info(name: str, dtype: Any, shape: Any = None) -> Any:
    """A declared input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Any,
    inputs: dict[str, tuple[Any, Any]],
    outputs: str = "y",
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 17,
    dtypes: dict[str, Any] | None = None,
) -> Any:
    """A model; inputs by name with type and shape, outputs without a type unless one is given."""
    declared = [
        info(name, dtypes[name]) if dtypes and name in dtypes else helper.make_empty_tensor_value_info(name)
        for name in outputs.split()
    ]
    graph = helper.make_graph(
        nodes if isinstance(nodes, list) else [nodes],
        "graph",
        [info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        declared,
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def slice_model(shape: Any = (4, 4), dtype: Any = "float32") -> Any:
    """A model of one Slice, which takes the last two rows backwards."""
    bounds = {"starts": np.array([-1]), "ends": np.array([-3]), "axes": np.array([0]), "steps": np.array([-1])}
    return model(node("Slice", "x starts ends axes steps", "y", name="crop"), {"x": (dtype, shape)}, "y", bounds)


def join_model() -> Any:
    """Two inputs that share an open size, put together."""
    inputs = {"a": ("float32", ["batch", 2]), "b": ("float32", ["batch", "width"])}
    return model(node("Concat", "a b", "y", axis=1), inputs, dtypes={"y": "float32"})
