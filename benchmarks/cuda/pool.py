"""Memory of the device: made there, from a seed, once, and lent to the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = Any
SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


def signed(tensor: Tensor) -> Tensor:
    """The same bits in a type that every operator of PyTorch takes."""
    name = str(tensor.dtype).removeprefix("torch.")
    return tensor.view(getattr(torch, SIGNED[name])) if name in SIGNED else tensor


class Pool:
    """Buffers by what they hold, each as large as a row has asked for so far; what it lends stays true for one row."""

    def __init__(self, place: str, seed: int = 0) -> None:
        self.place = place
        self._chance = torch.Generator(place).manual_seed(seed)
        self._buffers: dict[str, Tensor] = {}

    def values(self, dtype: str, shape: Sequence[int], sets: int = 1) -> list[Tensor]:
        """Numbers to add up: of 0 to 1, or whole ones below 100."""
        make = {"float32": self._uniform, "float16": self._uniform_half, "int32": self._small, "uint8": self._octets}[
            dtype
        ]
        return self._lend(dtype, make, dtype, shape, sets)

    def bits(self, dtype: str, shape: Sequence[int], sets: int = 1) -> list[Tensor]:
        """Elements to move: float32 numbers of 0 to 1, read as any type."""
        return self._lend("float32", self._uniform, dtype, shape, sets)

    def room(self, dtype: str, shape: Sequence[int], sets: int = 1, purpose: str = "out") -> list[Tensor]:
        """Memory to write to."""
        return self._lend(purpose, self._room, dtype, shape, sets)

    def indices(self, limit: int, shape: Sequence[int], dtype: str) -> Tensor:
        """Random indices below a limit, made anew."""
        kind = getattr(torch, dtype)
        return torch.randint(limit, tuple(shape), dtype=kind, device=self.place, generator=self._chance)

    def _lend(
        self, key: str, make: Callable[[int], Tensor], dtype: str, shape: Sequence[int], sets: int
    ) -> list[Tensor]:
        kind = getattr(torch, dtype)
        needed = sets * math.prod(shape) * kind.itemsize
        if key not in self._buffers or self._buffers[key].numel() < needed:
            self._buffers.pop(key, None)
            self._buffers[key] = make(-(-needed // 8) * 8).view(torch.uint8)
        return list(self._buffers[key][:needed].view(kind).view(sets, *shape).unbind(0))

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count // 4, device=self.place, generator=self._chance)

    def _uniform_half(self, count: int) -> Tensor:
        return torch.rand(count // 2, dtype=torch.float16, device=self.place, generator=self._chance)

    def _small(self, count: int) -> Tensor:
        return torch.randint(100, (count // 4,), dtype=torch.int32, device=self.place, generator=self._chance)

    def _octets(self, count: int) -> Tensor:
        return torch.randint(256, (count,), dtype=torch.uint8, device=self.place, generator=self._chance)

    def _room(self, count: int) -> Tensor:
        return torch.empty(count, dtype=torch.uint8, device=self.place)
