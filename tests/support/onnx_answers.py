"""What ONNX Runtime answers, and that an engine answers the same."""

from __future__ import annotations

from typing import Any

import pytest

import anydml as dml
from cases import ENGINES
from onnx_models import model  # which leaves this out where onnx is missing

import anydml.onnx  # isort: skip - after the models

ENGINE = next(engine for engine in ENGINES if engine != "reference")


def session_of(model: Any) -> Any:
    """A model, a message or a path, in ONNX Runtime; where that is missing, the test is skipped.

    On an x86 without dot instructions it cuts off sums of two products of bytes, unless it is asked to be precise.
    """
    ort: Any = pytest.importorskip("onnxruntime", reason="the answers are ONNX Runtime's")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    given = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    return ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def run_there(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    """The outputs of a model in ONNX Runtime; where that is missing, the test is skipped."""
    return list(session_of(proto).run(None, inputs))


def assert_same(proto: Any, inputs: dict[str, Any], engine: str = ENGINE) -> None:
    """An engine's outputs have ONNX Runtime's types, shapes and bits."""
    found = dml.onnx.load(proto, device=engine, strict=True).run(inputs)
    for mine, theirs in zip(found.values(), run_there(proto, inputs), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()


def run(nodes: Any, opset: int = 28, engine: str = "reference", outputs: str = "y", **arrays: Any) -> Any:
    """Run nodes on arrays, which are inputs by name."""
    inputs = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    found = dml.onnx.load(model(nodes, inputs, outputs, opset=opset), device=engine, strict=True).run(arrays)
    return found[outputs] if " " not in outputs else list(found.values())
