"""Tensors of PyTorch as arrays, and back: the same memory, in the order in which it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.core.errors import DescriptionError, Fault
from anydml.core.memory import packed_strides
from anydml.torch.lower.context import BITS, DATA_TYPES
from anydml.torch.sizes import hint

if TYPE_CHECKING:
    from anydml.core.enums import DataType


LOW = 1 << 40
"""Addresses below it are looked at closer: of views without memory, they are those of their offset."""
HOSTS: dict[str, Any] = {}
"""By the type of a device whose memory is the host's: tensors of it as the host's, back, and its engine by number."""


STORED: dict[Any, DataType] = {**DATA_TYPES, torch.bfloat16: BITS}
"""The types that tensors have in memory."""
_SEEN_AS = {torch.bool: torch.uint8, torch.bfloat16: torch.uint16}
"""What has PyTorch's tensors seen by NumPy, which lacks bfloat16, as what lies there."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in memory, as PyTorch said it would: dimensions in some order, densely, or by strides."""

    data_type: DataType
    order: tuple[int, ...] | None
    """The dimensions from the outermost in memory to the innermost; None where that is their own order."""
    strides: tuple[int, ...] | None
    """Of a tensor with gaps or overlaps, whose sizes are numbers."""
    dtype: Any
    """PyTorch's type."""
    is_scalar: bool
    device: tuple[str, int] | None = None
    """The device whose memory is the host's, and its number."""

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
            STORED[value.dtype],
            tuple(order) if dense and not own else None,
            tuple(strides) if by_strides and not dense else None,
            value.dtype,
            not sizes,
            (value.device.type, value.device.index or 0) if value.device.type in HOSTS else None,
        )

    @property
    def inverse(self) -> tuple[int, ...]:
        """Where each dimension stands in the order."""
        assert self.order is not None  # noqa: S101 - for type checkers: who asks has looked
        return tuple(self.order.index(k) for k in range(len(self.order)))

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies so already: its memory is read as it is."""
        if tensor.layout is not torch.strided:
            return False
        sizes, strides = tensor.shape, tensor.stride()
        if self.strides is not None:
            return bool(strides == self.strides)
        order = range(len(sizes)) if self.order is None else self.order
        packed = packed_strides([sizes[k] for k in order])
        return all(strides[k] == stride for k, stride in zip(order, packed, strict=True) if sizes[k] != 1)

    def array(self, tensor: Any) -> Any:
        """A tensor's memory as an array: NumPy's, or on a GPU a tensor. One that lies otherwise is copied."""
        tensor = on_host(tensor)
        if tensor.layout is not torch.strided:  # MKL-DNN's, where PyTorch foretold a dense one
            tensor = tensor.to_dense()
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        if self.strides is not None:
            if tensor.stride() != self.strides:
                tensor = _laid_out(tensor, self.strides)
        else:
            if self.order is not None:
                tensor = tensor.permute(self.order)
            tensor = tensor.contiguous()
            if self.is_scalar:
                tensor = tensor.reshape(1)
        if tensor.data_ptr() < LOW:
            check_memory(tensor)
        tensor = as_stored(tensor)
        return tensor.numpy() if tensor.device.type == "cpu" else tensor

    def tensor(self, array: Any) -> Any:
        """A result as a tensor, with its dimensions in PyTorch's order."""
        if self.is_scalar:
            array = array.reshape(())
        found = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        if self.dtype in _SEEN_AS:
            found = found.view(self.dtype)
        if self.order is not None:
            found = found.permute(self.inverse)
        return found if self.device is None else HOSTS[self.device[0]][1](found, self.device[1])


def on_host(tensor: Any) -> Any:
    """A tensor of a device whose memory is the host's as one of the host."""
    return HOSTS[tensor.device.type][0](tensor) if tensor.device.type in HOSTS else tensor


def check_memory(tensor: Any) -> None:
    """Refuse a tensor whose storage was freed, which PyTorch itself would read all the same."""
    if tensor.numel() and tensor.data_ptr() == tensor.storage_offset() * tensor.element_size():
        rule, value = "a tensor's storage must have memory", tuple(tensor.shape)
        way_out = "untyped_storage().resize_() gives it some again"
        raise DescriptionError("torch", Fault(field="tensor", rule=rule, value=value, way_out=way_out))


def as_stored(tensor: Any) -> Any:
    """The same memory in a type that NumPy has."""
    return tensor.view(_SEEN_AS[tensor.dtype]) if tensor.dtype in _SEEN_AS else tensor


def _laid_out(tensor: Any, strides: tuple[int, ...]) -> Any:
    """A copy that lies by strides, of which some elements may share a place."""
    made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    reach = 0
    for stride, size in sorted(zip(strides, tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return made.copy_(tensor)
    count = 1 + sum(stride * (size - 1) for stride, size in zip(strides, tensor.shape, strict=True))
    places = torch.arange(count, device=tensor.device).as_strided(tensor.shape, strides)
    made.as_strided((count,), (1,))[places.reshape(-1)] = tensor.reshape(-1)
    return made
