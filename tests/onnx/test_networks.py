"""Networks of language from PyTorch, with open sizes, and those of the onnx package: ONNX Runtime agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are exported by PyTorch")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is what networks are compared with")
onnx = pytest.importorskip("onnx", reason="PyTorch exports through onnx")
language = pytest.importorskip("benchmarks.networks").language
load = pytest.importorskip("anydml.onnx").load


@pytest.fixture
def rng() -> Any:
    """Random numbers, the same each time."""
    return np.random.default_rng(16)


@pytest.mark.parametrize(
    ("name", "sizes"), [("bert", ((1, 5), (2, 9), (1, 5), (3, 1))), ("gpt2", ((1, 3), (1, 4), (2, 7)))]
)
def test_a_network_of_language_agrees_with_onnx_runtime(name: str, sizes: tuple[tuple[int, int], ...]) -> None:
    """One model, on inputs of one size after another."""
    network = getattr(language, name)(small=True)
    model = network.onnx()
    found = load(model)
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for batch, length in sizes:
        feeds = network.feeds_of(batch, length)
        expected = session.run(None, feeds)
        for got, wanted in zip(found.run(feeds).values(), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_a_layer_is_few_passes() -> None:
    """Six products with what follows them, two of attention, a softmax, and two norms with what they add."""
    passes = {}
    for layers in (1, 2):
        network = language.bert(small=True, layers=layers)
        model = load(network.onnx())
        model.run(network.feeds_of(2, 9))
        passes[layers] = str(model.explain()).partition("compiled ")[2].partition(" passes")[0]
    assert int(passes[2]) - int(passes[1]) <= 12, passes


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
QUICK = ("light_shufflenet", "light_squeezenet")
"""Those that take a second or two."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=() if path.stem in QUICK else pytest.mark.long)
        for path in sorted(LIGHT.glob("light_*.onnx"))
    ],
)
def test_networks_of_onnx_agree_with_onnx_runtime(rng: Any, name: str) -> None:
    """Real graphs, with weights that are filled in when they run."""
    path = str(LIGHT / f"{name}.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {one.name: rng.random(one.shape).astype(np.float32) for one in session.get_inputs()}
    expected = session.run(None, feeds)
    for got, wanted in zip(load(path).run(feeds).values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
