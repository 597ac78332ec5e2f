"""What ONNX Runtime answers, and that an engine answers the same."""

from __future__ import annotations

from typing import Any

import pytest

import anydml as dml
import onnx_models  # noqa: F401 - leaves this out where onnx is missing
from cases import ENGINES

import anydml.onnx  # isort: skip - after the models

ENGINE = next(engine for engine in ENGINES if engine != "reference")


def run_there(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    """The outputs of a model in ONNX Runtime; where that is missing, the test is skipped."""
    ort: Any = pytest.importorskip("onnxruntime", reason="the answers are ONNX Runtime's")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def assert_same(proto: Any, inputs: dict[str, Any], engine: str = ENGINE) -> None:
    """An engine's outputs have ONNX Runtime's types, shapes and bits."""
    found = dml.onnx.load(proto, device=engine, strict=True).run(inputs)
    for mine, theirs in zip(found.values(), run_there(proto, inputs), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
