"""Small networks of PyTorch, written as their papers have them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody has for it
from torch import nn

Module: Any = nn.Module


class Block(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """Two convolutions beside a shorter way."""

    def __init__(self, channels: int, more: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, more, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(more)
        self.conv2 = nn.Conv2d(more, more, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(more)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != more:
            self.downsample = nn.Sequential(nn.Conv2d(channels, more, 1, stride, bias=False), nn.BatchNorm2d(more))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """ResNet-18, of `width` channels at first."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        layers, channels = [], width
        for k in range(4):
            layers += [Block(channels, width << k, 2 if k else 1), Block(width << k, width << k, 1)]
            channels = width << k
        self.layers, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


class GPTBlock(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """Causal attention and a network of two layers, each after its norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, count, width = x.shape
        several = self.qkv(self.ln_1(x)).split(width, -1)
        q, k, v = (one.view(batch, count, self.heads, width // self.heads).transpose(1, 2) for one in several)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, count, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """GPT-2, whose table of tokens is its last layer too."""

    def __init__(self, tokens: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Any) -> Any:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))
