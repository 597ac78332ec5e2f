"""Networks of PyTorch's own layers with made-up weights, exported to ONNX with open sizes."""

from __future__ import annotations

import io
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    batch, count, width = x.shape
    return x.view(batch, count, heads, width // heads).transpose(1, 2)


class Layer(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A layer of BERT's encoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The next states."""
        query, key, value = (_heads(linear(x), self.heads) for linear in (self.query, self.key, self.value))
        seen = functional.scaled_dot_product_attention(query, key, value, mask)
        x = self.norm1(x + self.out(seen.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """BERT's: embeddings of tokens and positions, then layers of attention and of two products."""

    def __init__(self, width: int, heads: int, layers: int, vocabulary: int = 1000, longest: int = 512) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The states of tokens, of which the mask leaves out those that are 0."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.tokens(ids) + self.positions(places)[None])
        for layer in self.layers:
            x = layer(x, (1.0 - mask[:, None, None, :].float()) * -1e9)
        return x


class Block(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A layer of GPT-2's decoder, with a cache of keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The next states, and the cache with these tokens in it."""
        batch, count, width = x.shape
        parts = self.attention(self.norm1(x)).split(width, dim=2)
        query, key, value = (_heads(part, self.heads) for part in parts)
        key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        seen = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, count, width))
        x = x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x, torch.stack((key, value))


class Decoder(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """GPT-2's: one step, which reads a cache and gives it back longer."""

    def __init__(self, width: int, heads: int, layers: int, vocabulary: int = 1000, longest: int = 1024) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores of the next token, and the cache."""
        before = past.shape[4]
        places = torch.arange(before, before + ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places)[None]
        caches = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, past[i])
            caches.append(cache)
        return self.norm(x) @ self.tokens.weight.T, torch.stack(caches)


def export(
    network: nn.Module, inputs: tuple[torch.Tensor, ...], open_sizes: dict[str, dict[int, str]], outputs: list[str]
) -> bytes:
    """The network as an ONNX model."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            inputs,
            file,
            input_names=list(open_sizes)[: len(inputs)],
            output_names=outputs,
            dynamic_axes=open_sizes,
            opset_version=17,
            dynamo=False,
        )
    return file.getvalue()


def network(kind: str, width: int = 768, heads: int = 12, layers: int = 12) -> nn.Module:
    """The `encoder`, BERT-base by default, or the `decoder`, GPT-2; each with weights of its own seed."""
    torch.manual_seed({"encoder": 1, "decoder": 2}[kind])
    made: nn.Module = {"encoder": Encoder, "decoder": Decoder}[kind](width, heads, layers)
    return made.eval()


def encoder(width: int = 768, heads: int = 12, layers: int = 12) -> bytes:
    """BERT-base by default, of any batch and any number of tokens."""
    ids = torch.ones((2, 5), dtype=torch.int64)
    sizes = {0: "batch", 1: "tokens"}
    made = network("encoder", width, heads, layers)
    return export(made, (ids, ids), {"ids": sizes, "mask": sizes, "states": sizes}, ["states"])


def decoder(width: int = 768, heads: int = 12, layers: int = 12) -> bytes:
    """GPT-2 by default, of any number of tokens before this one."""
    past = torch.zeros((layers, 2, 1, heads, 3, width // heads))
    sizes: Any = {"ids": {1: "tokens"}, "past": {4: "before"}, "scores": {1: "tokens"}, "present": {4: "after"}}
    made = network("decoder", width, heads, layers)
    return export(made, (torch.ones((1, 1), dtype=torch.int64), past), sizes, ["scores", "present"])
