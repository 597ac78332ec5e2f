"""Arrays that say at once what they are: for calls that were made before, and need no closer look.

A plain array is a NumPy array, a PyTorch tensor in host memory seen as one, or a PyTorch tensor of a GPU's.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.enums import DataType
from anydml.memory import HOST, numpy_address, packed_strides, sizes_of_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def as_plain(array: Any) -> Any:
    """A plain array; None for anything that wants a closer look."""
    if type(array) is np.ndarray:
        return array
    torch = sys.modules.get("torch")
    if torch is None or type(array) is not torch.Tensor:
        return None
    try:
        if not array.is_cuda:
            return array.numpy()
        is_plain = array.layout is torch.strided and not (array.requires_grad or array.is_neg())
        return array if is_plain and array.data_ptr() else None  # one that is traced raises
    except Exception:  # noqa: BLE001 - on another device, with a gradient, of a type that NumPy lacks, ...
        return None


def plain_key(array: Any) -> tuple[Any, ...]:
    """The type and layout of a plain array, in its library's terms, and on a GPU which one."""
    if type(array) is np.ndarray:
        return array.dtype, array.shape, array.strides
    return array.dtype, array.shape, array.stride(), array.get_device()


def plain_address(array: Any) -> int:
    """The address of a plain array's first element."""
    if type(array) is np.ndarray:
        return numpy_address(array)
    address: int = array.data_ptr()
    return address


def described_key(data_type: DataType, sizes: Sequence[int], strides: Sequence[int], memory: str) -> tuple[Any, ...]:
    """The key of a plain array that lies in this memory with this type and layout; strides in elements."""
    if data_type.is_half_byte:
        sizes = sizes_of_pairs(sizes, strides)
        strides, data_type = packed_strides(sizes), DataType.UINT8
    if memory == HOST:
        width = data_type.size_in_bytes
        return data_type.dtype, tuple(sizes), tuple(stride * width for stride in strides)
    return _torch_dtype(data_type), tuple(sizes), tuple(strides), int(memory.partition(":")[2])


def plain_maker(data_type: DataType, sizes: Sequence[int], memory: str) -> Callable[[], Any]:
    """A function that makes a packed plain array of the sizes, each time anew."""
    if data_type.is_half_byte:
        sizes, data_type = sizes_of_pairs(sizes, packed_strides(sizes)), DataType.UINT8
    if memory == HOST:
        return functools.partial(np.empty, sizes, data_type.dtype)
    torch = sys.modules["torch"]
    return functools.partial(torch.empty, sizes, dtype=_torch_dtype(data_type), device=torch.device(memory))


def _torch_dtype(data_type: DataType) -> Any:
    return getattr(sys.modules.get("torch"), data_type.name.lower(), None)  # imported by whatever works on a GPU


def wrap_plain(result: Any, like: object) -> Any:
    """A result for a caller whose array was plain, or a tensor seen as one."""
    if type(like) is np.ndarray or type(result) is not np.ndarray:
        return result
    return sys.modules["torch"].from_numpy(result)
