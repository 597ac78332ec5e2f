"""Attention with the products around it, and the layer of an encoder, as several networks have them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """A row for each head."""
    batch, count, width = x.shape
    return x.view(batch, count, heads, width // heads).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    """The heads side by side again."""
    batch, heads, count, width = x.shape
    return x.transpose(1, 2).reshape(batch, count, heads * width)


def hidden(before: int, x: torch.Tensor) -> torch.Tensor:
    """What is added to attention: the least number where a token would see one after it."""
    places = torch.arange(before + x.shape[1], device=x.device)
    is_seen = places[None, :] <= places[before:, None]
    least = torch.full((), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
    return torch.where(is_seen, torch.zeros((), dtype=x.dtype, device=x.device), least)


class Attention(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Of tokens to themselves, or to others."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """What each token sees of all."""
        query, key, value = (heads_of(linear(x), self.heads) for linear in (self.query, self.key, self.value))
        return self.out(joined(functional.scaled_dot_product_attention(query, key, value, mask)))

    def step(self, x: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """What each token sees of keys and values that there are."""
        query = heads_of(self.query(x), self.heads)
        return self.out(joined(functional.scaled_dot_product_attention(query, key, value, mask)))


class Layer(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Of an encoder: attention and two products, each normalised before (`first`) or after it is added."""

    def __init__(self, width: int, heads: int, *, first: bool = False) -> None:
        super().__init__()
        self.first = first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """The next states."""
        if self.first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.down(functional.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))
