"""What ONNX says of a node's inputs and a model's names, and what follows for models that break it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


def test_names_that_look_numbered_do_not_stop_a_trace() -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    nodes = [
        node("Transpose", "x", "a", name="g"),
        node("Transpose", "a", "b", name="g #2"),
        node("Transpose", "b", "c", name="g"),
        node("Slice", "c s e", "y", name="g"),
    ]
    proto = model(nodes, {"x": ("float32", [3, 4])}, "y", {"s": np.array([0]), "e": np.array([2])})
    assert np.array_equal(dml.onnx.load(proto, device="reference")(x), x.T[:2])


def test_an_output_that_is_left_out_is_no_input() -> None:
    """Slice's axes are left out too: they are not the part of the split that nobody named."""
    nodes = [node("Split", "i", "- rest"), node("Slice", "x s e - t", "y")]
    constants = {"s": np.array([0]), "e": np.array([1]), "t": np.array([1])}
    proto = model(nodes, {"x": ("float32", [3, 4]), "i": ("int64", [2])}, "y rest", constants)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    found = dml.onnx.load(proto, device="reference").run({"x": x, "i": np.array([1, 1])})
    assert np.array_equal(found["y"], x[:1])
