"""Training by DirectML's operators: the example's network goes PyTorch's way, step for step."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from places import get, put


def test_the_example_learns_as_pytorch_does(engine: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    path = Path(__file__).parents[2] / "examples" / "training.py"
    spec: Any = importlib.util.spec_from_file_location("training", path)
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.STEPS = 30 if engine == "cpu" else 2
    device = dml.Device(engine)
    compiled = example.compile_step(engine)

    def step(*arrays: Any) -> list[Any]:
        return [get(one) for one in compiled(*(put(x, device) for x in arrays))]

    losses = []
    for (loss, own), (wanted, others) in zip(example.train(step), example.train_by_torch(torch), strict=True):
        np.testing.assert_allclose(loss, wanted, rtol=1e-5, atol=1e-6)
        for mine, other in zip(own, others, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
        losses.append(loss)
    assert len(losses) < 30 or max(losses[-5:]) < losses[0] / 10
