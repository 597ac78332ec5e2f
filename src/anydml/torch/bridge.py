"""Tensors of PyTorch as arrays, and back: the same memory, in the order in which it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.torch.lower.context import DATA_TYPES
from anydml.torch.sizes import hint

if TYPE_CHECKING:
    from anydml.core.enums import DataType


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in memory, as PyTorch said it would: dimensions in some order, densely, or by strides."""

    data_type: DataType
    order: tuple[int, ...] | None
    """The dimensions from the outermost in memory to the innermost; None where that is their own order."""
    strides: tuple[int, ...] | None
    """Of a tensor with gaps or overlaps, whose sizes are numbers."""
    is_boolean: bool
    is_scalar: bool

    @classmethod
    def of(cls, value: Any, *, by_strides: bool) -> Layout:
        """The layout of a tensor that PyTorch foretells."""
        sizes, strides = [hint(one) for one in value.shape], [hint(one) for one in value.stride()]
        order = sorted(range(len(sizes)), key=lambda k: (sizes[k] == 1, -strides[k], k))
        dense, expected = True, 1
        for k in reversed(order):
            dense = dense and (sizes[k] == 1 or strides[k] == expected)
            expected *= sizes[k]
        kept = [k for k in order if sizes[k] != 1]
        own = kept == sorted(kept)
        return cls(
            DATA_TYPES[value.dtype],
            tuple(order) if dense and not own else None,
            tuple(strides) if by_strides and not dense else None,
            value.dtype is torch.bool,
            not sizes,
        )

    @property
    def inverse(self) -> tuple[int, ...]:
        """Where each dimension stands in the order."""
        assert self.order is not None  # noqa: S101 - for type checkers: who asks has looked
        return tuple(self.order.index(k) for k in range(len(self.order)))

    def array(self, tensor: Any) -> Any:
        """A tensor's memory as an array: NumPy's, or on a GPU a tensor. One that lies otherwise is copied."""
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        if self.is_boolean:
            tensor = tensor.view(torch.uint8)
        if self.strides is not None:
            if tensor.stride() != self.strides:
                other = torch.empty_strided(tensor.shape, self.strides, dtype=tensor.dtype, device=tensor.device)
                tensor = other.copy_(tensor)
        else:
            if self.order is not None:
                tensor = tensor.permute(self.order)
            tensor = tensor.contiguous()
            if self.is_scalar:
                tensor = tensor.reshape(1)
        return tensor.numpy() if tensor.device.type == "cpu" else tensor

    def tensor(self, array: Any) -> Any:
        """A result as a tensor, with its dimensions in PyTorch's order."""
        found = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        if self.is_boolean:
            found = found.view(torch.bool)
        return found if self.order is None else found.permute(self.inverse)
