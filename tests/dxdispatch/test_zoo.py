"""Networks that people have, exported from PyTorch with open sizes: answers as near the truth as ONNX Runtime's.

The truth is PyTorch's in FLOAT64 with the weights that the model has. Steps of another order lead to another rounding,
so that an answer may lie twice as far from it as ONNX Runtime's or PyTorch's own, or as the type's own rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="networks are exported by PyTorch")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is what networks are compared with")
NETWORKS = pytest.importorskip("benchmarks.networks", reason="PyTorch exports through onnx").NETWORKS
load = pytest.importorskip("anydml.onnx").load

MEASURED = ("left", "kept")
"""Outputs whose sizes depend on values: PyTorch has a stand-in for the node that makes them."""


def _away(answer: Any, truth: Any) -> float:
    return float(np.abs(answer - truth).max()) / float(np.abs(truth).max())


def _check(name: str, found: Any, session: Any, network: Any, feeds: dict[str, Any], half: bool) -> None:
    truths = network.answers(feeds, half=half, precise=True)
    theirs, rounded = session.run(None, feeds), network.answers(feeds, half=half)
    for key, ours, other, own, truth in zip(
        network.outputs, found.run(feeds).values(), theirs, rounded, truths, strict=True
    ):
        assert ours.dtype == other.dtype
        if key in MEASURED:
            if not half:  # of FLOAT16, which boxes overlap enough may be rounded otherwise
                np.testing.assert_allclose(ours, other, rtol=0, atol=1e-5 * np.abs(other).max(initial=0))
            continue
        assert ours.shape == other.shape
        allowed = 2 * max(_away(other, truth), _away(own, truth), float(np.finfo(ours.dtype).eps))
        assert _away(ours, truth) <= allowed, f"{name}, {key}: {_away(ours, truth)} and not {allowed}"


ELSEWHERE = {("BERT-base", False), ("GPT-2 step", False)}
"""In onnx/test_networks.py: an export and its kernels take a second."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "half"),
    [
        pytest.param(name, half, id=f"{name} {'FLOAT16' if half else 'FLOAT32'}")
        for name in NETWORKS
        for half in (False, True)
        if (name, half) not in ELSEWHERE
    ],
)
def test_a_network_is_as_precise_as_on_onnx_runtime(name: str, half: bool) -> None:
    network = NETWORKS[name](small=True)
    model = network.onnx(half=half)
    found, session = load(model), runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for batch, length in ((1, 6), (3, 9)):
        _check(name, found, session, network, network.feeds_of(batch, length, half=half), half)
