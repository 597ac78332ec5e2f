"""BERT, GPT-2 and T5."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.attention import Layer, heads_of, hidden, joined
from benchmarks.networks.network import Network, Rng

VOCABULARY = 1000


class Bert(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Embeddings of tokens and positions, then layers of attention and of two products."""

    def __init__(self, width: int, heads: int, layers: int, longest: int = 512) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The states of tokens, of which the mask leaves out those that are 0."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.tokens(ids) + self.positions(places)[None])
        left_out = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, left_out)
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
        parts = self.attention(self.norm1(x)).split(x.shape[2], dim=2)
        query, key, value = (heads_of(part, self.heads) for part in parts)
        key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        x = x + self.out(joined(functional.scaled_dot_product_attention(query, key, value)))
        x = x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x, torch.stack((key, value))


class Gpt2(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """One step, which reads a cache and gives it back longer."""

    def __init__(self, width: int, heads: int, layers: int, longest: int = 1024) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(longest, width)
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


class Rms(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """T5's normalisation, in FLOAT32 whatever the network is of."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of one length."""
        wide = x if x.dtype == torch.float64 else x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Relative(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """T5's bias of attention by how far tokens lie apart: near ones each their own, far ones by the logarithm."""

    def __init__(self, heads: int, *, both: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.both, self.buckets, self.furthest = both, buckets, furthest
        self.bias = nn.Embedding(buckets, heads)

    def forward(self, count: int) -> torch.Tensor:
        """For each head, of each token to each."""
        places = torch.arange(count, device=self.bias.weight.device)
        apart = places[None, :] - places[:, None]
        buckets, found = self.buckets, torch.zeros_like(apart)
        if self.both:
            buckets //= 2
            found = found + (apart > 0).long() * buckets
            apart = apart.abs()
        else:
            apart = -torch.min(apart, torch.zeros_like(apart))
        near = buckets // 2
        far = near + (torch.log(apart.float() / near) / math.log(self.furthest / near) * (buckets - near)).long()
        found = found + torch.where(apart < near, apart, torch.min(far, torch.full_like(far, buckets - 1)))
        return self.bias(found).permute(2, 0, 1)[None]


class Seeing(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """T5's attention, written out: no scale, and a bias added before the softmax, which is of FLOAT32."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, Rms(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, of: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
        """The states, and what they see of others or of themselves added."""
        normed = self.norm(x)
        others = normed if of is None else of
        query, key, value = (
            heads_of(linear(part), self.heads)
            for linear, part in ((self.query, normed), (self.key, others), (self.value, others))
        )
        scores = query @ key.transpose(3, 2)
        scores = scores if bias is None else scores + bias
        wide = scores if scores.dtype == torch.float64 else scores.float()
        weights = functional.softmax(wide, -1).type_as(scores)
        return x + self.out(joined(weights @ value))


class T5(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Encoder and decoder in one: the scores of each next token of `answer`, for the text in `ids`."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        nn.init.normal_(self.tokens.weight, 0, width**-0.5)
        self.encoder = nn.ModuleList(Seeing(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(Seeing(width, heads) for _ in range(layers))
        self.crossing = nn.ModuleList(Seeing(width, heads) for _ in range(layers))
        self.norms = nn.ModuleList(Rms(width) for _ in range(2 * layers + 2))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(2 * layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(2 * layers))
        self.biases = nn.ModuleList(Relative(heads, both=both) for both in (True, False))

    def forward(self, ids: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """The scores."""
        layers = len(self.encoder)
        x, bias = self.tokens(ids), self.biases[0](ids.shape[1])
        for i in range(layers):
            x = self._widened(self.encoder[i](x, None, bias), i)
        seen = self.norms[-2](x)
        x = self.tokens(answer)
        bias = self.biases[1](answer.shape[1]) + hidden(0, x)
        for i in range(layers):
            x = self.decoder[i](x, None, bias)
            x = self._widened(self.crossing[i](x, seen, None), layers + i)
        return (self.norms[-1](x) * x.shape[-1] ** -0.5) @ self.tokens.weight.T

    def _widened(self, x: torch.Tensor, i: int) -> torch.Tensor:
        return x + self.down[i](functional.relu(self.up[i](self.norms[i](x))))


def _ids(rng: Rng, *sizes: int) -> Any:
    return rng.integers(0, VOCABULARY, sizes)


def bert(*, small: bool = False, layers: int | None = None) -> Network:
    """BERT-base, of any batch and any number of tokens."""
    torch.manual_seed(1)
    module = Bert(32, 4, layers or 1) if small else Bert(768, 12, layers or 12)
    sizes = {0: "batch", 1: "tokens"}

    def feeds(rng: Rng, batch: int, length: int) -> dict[str, Any]:
        mask = rng.random((batch, length)) < 0.8
        mask[:, 0] = True
        return {"ids": _ids(rng, batch, length), "mask": mask.astype("i8")}

    return Network(module, feeds, {"ids": sizes, "mask": sizes, "states": sizes}, ("states",))


def gpt2(*, small: bool = False, layers: int | None = None) -> Network:
    """A step of GPT-2, of any number of tokens before this one."""
    torch.manual_seed(2)
    width, heads, layers = (32, 4, layers or 1) if small else (768, 12, layers or 12)
    cache = {2: "batch"}
    sizes = {
        "ids": {0: "batch", 1: "tokens"}, "past": {**cache, 4: "before"},
        "scores": {0: "batch", 1: "tokens"}, "present": {**cache, 4: "after"},
    }  # fmt: skip

    def feeds(rng: Rng, batch: int, length: int) -> dict[str, Any]:
        past = rng.standard_normal((layers, 2, batch, heads, length, width // heads))
        return {"ids": _ids(rng, batch, 1), "past": past}

    return Network(Gpt2(width, heads, layers), feeds, sizes, ("scores", "present"))


def t5(*, small: bool = False) -> Network:
    """T5-small: a text and its answer so far."""
    torch.manual_seed(4)
    sizes = {"ids": {0: "batch", 1: "tokens"}, "answer": {0: "batch", 1: "said"}, "scores": {0: "batch", 1: "said"}}

    def feeds(rng: Rng, batch: int, length: int) -> dict[str, Any]:
        return {"ids": _ids(rng, batch, length), "answer": _ids(rng, batch, length // 4 + 1)}

    return Network(T5(32, 4, 1) if small else T5(512, 8, 6), feeds, sizes, ("scores",))
