"""Arrays that say at once what they are: for calls that were made before, and need no closer look."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.memory import HOST, numpy_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.enums import DataType


class Plain(NamedTuple):
    """A NumPy array, or a PyTorch tensor in the host's memory or a GPU's, by its numbers."""

    key: tuple[Any, ...]
    """Its type and layout, in its library's terms, and on a GPU which one: see plain_key()."""
    address: int
    is_writable: bool
    memory: object
    """What keeps it alive."""


def as_plain(array: Any) -> Plain | None:
    """Look at an array at once; None for anything that wants a closer look."""
    if type(array) is np.ndarray:
        key = (array.dtype, array.shape, array.strides)
        return Plain(key, numpy_address(array), array.flags.writeable, array)
    torch = sys.modules.get("torch")
    if torch is None or type(array) is not torch.Tensor:
        return None
    try:
        if not array.is_cuda:
            return as_plain(array.numpy())
        if array.requires_grad or array.is_neg():
            return None
        layout = (array.dtype, array.shape, array.stride(), array.get_device())
        return Plain(layout, array.data_ptr(), True, array.untyped_storage())
    except Exception:  # noqa: BLE001 - on another device, with a gradient, sparse, of a type that NumPy lacks, ...
        return None


def plain_key(data_type: DataType, sizes: Sequence[int], strides: Sequence[int], memory: str) -> tuple[Any, ...]:
    """The key of a plain array of this type and layout, in this memory; strides in elements."""
    if memory == HOST:
        width = data_type.size_in_bytes
        return data_type.dtype, tuple(sizes), tuple(stride * width for stride in strides)
    torch = sys.modules.get("torch")  # the engine that works there has imported it
    dtype = getattr(torch, data_type.name.lower(), None)
    return dtype, tuple(sizes), tuple(strides), int(memory.partition(":")[2])


def wrap_plain(result: Any, like: object) -> Any:
    """A result for a caller whose array was plain: NumPy's, or a PyTorch tensor."""
    if type(result) is not np.ndarray or type(like) is np.ndarray:
        return result
    return sys.modules["torch"].from_numpy(result)
