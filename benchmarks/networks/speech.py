"""Whisper's encoder of sound, and a step of its decoder with caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.attention import Attention, Layer, heads_of, hidden
from benchmarks.networks.network import Network, Rng

MELS = 80


class Encoder(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Two convolutions over time, positions, and layers of attention."""

    def __init__(self, width: int, heads: int, layers: int, longest: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads, first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """The states, half as many as there are windows of sound."""
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Step(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A layer of the decoder: attention to what was said, to the sound, and two products."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.crossing = Attention(width, heads), Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, past: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The next states, and the cache of what was said with these tokens in it."""
        normed, own = self.norms[0](x), self.own
        key = torch.cat((past[0], heads_of(own.key(normed), own.heads)), 2)
        value = torch.cat((past[1], heads_of(own.value(normed), own.heads)), 2)
        x = x + own.step(normed, key, value, mask)
        x = x + self.crossing.step(self.norms[1](x), past[2], past[3], None)
        return x + self.down(functional.gelu(self.up(self.norms[2](x)))), key, value


class Decoder(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """One step: four tensors of cache a layer, of which those of the sound stay as they are."""

    single_arguments = 1
    """After which all are one argument of many."""

    def __init__(self, width: int, heads: int, layers: int, longest: int = 448, vocabulary: int = 1000) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Step(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The scores of the next token, and the caches."""
        before, count = past[0].shape[2], ids.shape[1]
        places = torch.arange(before, before + count, device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        mask, caches = hidden(before, x), []
        for i, layer in enumerate(self.layers):
            x, key, value = layer(x, mask, past[4 * i : 4 * i + 4])
            caches += [key, value]
        return self.norm(x) @ self.tokens.weight.T, *caches


def whisper_encoder(*, small: bool = False) -> Network:
    """Whisper-base's: half a minute of sound."""
    torch.manual_seed(5)
    width, heads, layers, longest = (32, 4, 1, 20) if small else (512, 8, 6, 1500)

    def feeds(rng: Rng, batch: int, _length: int) -> dict[str, Any]:
        return {"mel": rng.standard_normal((batch, MELS, 2 * longest))}

    module = Encoder(width, heads, layers, longest)
    return Network(module, feeds, {"mel": {0: "batch"}, "states": {0: "batch"}}, ("states",))


def whisper_decoder(*, small: bool = False) -> Network:
    """A step of Whisper-base's."""
    torch.manual_seed(6)
    width, heads, layers, longest = (32, 4, 1, 20) if small else (512, 8, 6, 1500)
    names = [
        f"past.{i}.{whose}.{what}" for i in range(layers) for whose in ("own", "sound") for what in ("key", "value")
    ]
    made = tuple(f"present.{i}.{what}" for i in range(layers) for what in ("key", "value"))
    sizes = {"ids": {0: "batch", 1: "tokens"}, "scores": {0: "batch", 1: "tokens"}}
    sizes |= {name: {0: "batch", 2: "before"} if "own" in name else {0: "batch"} for name in names}
    sizes |= {name: {0: "batch", 2: "after"} for name in made}

    def feeds(rng: Rng, batch: int, length: int) -> dict[str, Any]:
        counts = {name: length if "own" in name else longest for name in names}
        caches = {n: rng.standard_normal((batch, heads, counts[n], width // heads), np.float32) for n in names}
        return {"ids": rng.integers(0, 1000, (batch, 1)), **caches}

    return Network(Decoder(width, heads, layers), feeds, sizes, ("scores", *made))
