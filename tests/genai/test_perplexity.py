"""Perplexity of logits equals that of a decoder in float64, whatever weights, activations and caches are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from float64_decoder import decoder64, perplexity
from genai_folders import decoder, make_folder

if TYPE_CHECKING:
    from pathlib import Path

LENGTH, EXACT = 56, 1e-5
CASES: list[tuple[dict[str, Any], float]] = [
    ({}, EXACT),
    ({"window": 7}, EXACT),
    ({"bits": 4}, EXACT),
    ({"bits": 8}, EXACT),
    # Rows are rounded to 8 bits, by the reference too: where a sum in FLOAT32 lies between two of them they may differ.
    ({"bits": 4, "level": 4}, 1e-3),
    ({"cache_bits": 8}, 1e-3),  # likewise keys and values
    ({"cache_bits": 4}, 1e-3),
    # Each node's result has 11 bits: a decoder that computes in float64 and rounds those is off by up to 1.7e-3.
    ({"dtype": "float16"}, 4e-3),
    ({"dtype": "float16", "bits": 4}, 4e-3),
]


def logits_of(folder: Path, tokens: list[int], prompt: int) -> Any:
    """The logits after each token: of a prompt's at once, of the others step by step."""
    model = og.Model(str(folder))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH + 1)
    generator = og.Generator(model, params)
    found = []
    for some in (tokens[:prompt], *([token] for token in tokens[prompt:])):
        generator.append_tokens(some)
        found.append(generator.get_output("logits")[0])
    assert model.session._model._divided is None  # no node runs on the host
    return np.concatenate(found).astype(np.float64)


@pytest.mark.parametrize("prompt", [1, 6])
@pytest.mark.parametrize(("options", "tolerance"), CASES, ids=lambda value: str(value))
def test_perplexity_is_that_of_float64(tmp_path: Path, options: dict[str, Any], tolerance: float, prompt: int) -> None:
    made = decoder(prompt, **options)
    wanted = decoder64(made, rounds=True)
    tokens = wanted.sample(LENGTH, prompt)
    expected = wanted.logits(tokens)
    found = logits_of(make_folder(tmp_path, made), tokens, prompt)
    assert perplexity(found, tokens) == pytest.approx(perplexity(expected, tokens), rel=tolerance)
    # Tokens are those that the reference finds likely, of which perplexity says little else but that they still are.
    apart = np.sqrt(np.square(found - expected).mean())
    if options.get("dtype") != "float16":
        assert apart < tolerance * expected.std()
    else:  # no sum is of FLOAT16, only what nodes hand on
        rounded = decoder64(made, dtype=np.float16).logits(tokens)
        assert apart < 1.6 * np.sqrt(np.square(rounded - expected).mean())
