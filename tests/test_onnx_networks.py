"""Networks exported from PyTorch's own layers, with open sizes, and those of the onnx package: ONNX Runtime agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are exported by PyTorch")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is what networks are compared with")
onnx = pytest.importorskip("onnx", reason="PyTorch exports through onnx")
networks = pytest.importorskip("benchmarks.networks")
load = pytest.importorskip("anydml.onnx").load


@pytest.fixture
def rng() -> Any:
    """Random numbers, the same each time."""
    return np.random.default_rng(16)


WIDTH, HEADS, LAYERS = 32, 4, 2


def _ids(rng: Any, *sizes: int) -> Any:
    return rng.integers(0, 1000, sizes)


def _encoder_feeds(rng: Any, batch: int, tokens: int) -> dict[str, Any]:
    return {"ids": _ids(rng, batch, tokens), "mask": (rng.random((batch, tokens)) < 0.8).astype(np.int64)}


def _decoder_feeds(rng: Any, tokens: int, before: int) -> dict[str, Any]:
    past = rng.standard_normal((LAYERS, 2, 1, HEADS, before, WIDTH // HEADS)).astype(np.float32)
    return {"ids": _ids(rng, 1, tokens), "past": past}


def _compare(model: bytes, several: list[dict[str, Any]]) -> Any:
    """Run one model on inputs of one size after another."""
    found = load(model)
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for feeds in several:
        expected = session.run(None, feeds)
        for got, wanted in zip(found.run(feeds).values(), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())
    return found


def test_an_encoder_agrees_with_onnx_runtime(rng: Any) -> None:
    sizes = ((1, 5), (2, 9), (1, 5), (3, 1))
    _compare(networks.encoder(WIDTH, HEADS, LAYERS), [_encoder_feeds(rng, *one) for one in sizes])


def test_a_decoder_step_agrees_with_onnx_runtime(rng: Any) -> None:
    sizes = ((1, 3), (1, 4), (2, 7))
    _compare(networks.decoder(WIDTH, HEADS, LAYERS), [_decoder_feeds(rng, *one) for one in sizes])


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet", "squeezenet", "mobilenet"])
def test_a_network_of_images_agrees_with_onnx_runtime(rng: Any, name: str) -> None:
    vision = pytest.importorskip("benchmarks.vision_networks")
    options = {"blocks": (1, 1, 1, 1)} if name == "resnet" else {}
    images = [rng.standard_normal((batch, 3, 64, 64)).astype(np.float32) for batch in (1, 2)]
    _compare(getattr(vision, name)(64, **options), [{"images": one} for one in images])


def test_a_layer_is_few_passes(rng: Any) -> None:
    """Six products with what follows them, two of attention, a softmax, and two norms with what they add."""
    passes = {}
    for layers in (1, 2):
        model = load(networks.encoder(WIDTH, HEADS, layers))
        model.run(_encoder_feeds(rng, 2, 9))
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
