"""Array fingerprints: arrays that say at once what they are, for calls that were made before, and whether one changed.

A plain array is a NumPy array, a PyTorch tensor in host memory seen as one, a PyTorch tensor of a GPU's, or a
`DeviceArray` that programs may be bound to as it lies.

`x.shape = …`, `x.dtype = …`, `x.strides = …` and `x.flags.writeable = …` leave the object the same one. To ask the
array itself takes a microsecond; its head in C is looked at in a fifth of that.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.device_array import DeviceArray, layout_key
from anydml.core.device_memory import memories
from anydml.core.enums import DataType
from anydml.core.memory import HOST, numpy_address, packed_strides, sizes_of_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def as_plain(array: Any) -> Any:
    """A plain array; None for anything that wants a closer look."""
    if type(array) is np.ndarray:
        return array
    if type(array) is DeviceArray:
        return array if array.key is not None or array.is_aligned else None
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
    if type(array) is DeviceArray:
        return array.find_key()
    return array.dtype, array.shape, array.stride(), array.get_device()


def is_packed(array: Any) -> bool:
    """Whether a plain array's elements lie one after the other, the last dimension's first."""
    if type(array) is np.ndarray:
        return bool(array.flags.c_contiguous)
    return array.is_packed if type(array) is DeviceArray else bool(array.is_contiguous())


def plain_address(array: Any) -> int:
    """The address of a plain array's first element."""
    if type(array) is np.ndarray:
        return numpy_address(array)
    address: int = array.address if type(array) is DeviceArray else array.data_ptr()
    return address


def described_key(data_type: DataType, sizes: Sequence[int], strides: Sequence[int], memory: str) -> tuple[Any, ...]:
    """The key of a plain array that lies in this memory with this type and layout; strides in elements."""
    if data_type.is_half_byte:
        sizes = sizes_of_pairs(sizes, strides)
        strides, data_type = packed_strides(sizes), DataType.UINT8
    if memory == HOST or memory in memories:
        width = data_type.size_in_bytes
        key = data_type.dtype, tuple(sizes), tuple(stride * width for stride in strides)
        return key if memory == HOST else layout_key(*key, memory)
    return _torch_dtype(data_type), tuple(sizes), tuple(strides), int(memory.partition(":")[2])


def plain_maker(data_type: DataType, sizes: Sequence[int], memory: str) -> Callable[[], Any]:
    """A function that makes a packed plain array of the sizes, each time anew."""
    if data_type.is_half_byte:
        sizes, data_type = sizes_of_pairs(sizes, packed_strides(sizes)), DataType.UINT8
    if memory == HOST:
        return functools.partial(np.empty, sizes, data_type.dtype)
    if memory in memories:
        return DeviceArray.maker(data_type.dtype, tuple(sizes), memory)
    torch = sys.modules["torch"]
    return functools.partial(torch.empty, sizes, dtype=_torch_dtype(data_type), device=torch.device(memory))


def _torch_dtype(data_type: DataType) -> Any:
    return getattr(sys.modules.get("torch"), data_type.name.lower(), None)  # imported by whatever works on a GPU


def wrap_plain(result: Any, like: object) -> Any:
    """A result for a caller whose array was plain, or a tensor seen as one."""
    if type(like) is np.ndarray or type(result) is not np.ndarray:
        return result
    return sys.modules["torch"].from_numpy(result)


# Whether a NumPy array is as it was: memory, shape, strides, type and flags, all of which its owner may change


# PyArrayObject_fields, which NumPy's C interface fixes: the address of the memory, the number of dimensions, those of
# the sizes and strides, the base, the type and the flags.
_HEAD = 8 + 8 + 8 + 8 + 8 + 8 + 4
_FIRST = object.__basicsize__


class Glance:
    """An array's head as it was when first looked at. Whoever asks has the array."""

    __slots__ = ("_head", "_layout", "_seen_head", "_seen_layout", "_type")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        place = id(array) + _FIRST
        sizes = ctypes.c_size_t.from_address(place + 16).value or place
        strides = ctypes.c_size_t.from_address(place + 24).value or place
        self._head: Any = (ctypes.c_char * _HEAD).from_address(place)
        # NumPy keeps both in one piece; where it did not, the strides would lie elsewhere, and `_works` says so.
        low, high = min(sizes, strides), max(sizes, strides) + 8 * array.ndim
        self._layout: Any = (ctypes.c_char * (high - low)).from_address(low)
        self._type = array.dtype  # or another would be given its address
        self._seen_head, self._seen_layout = self._head.raw, self._layout.raw

    def is_same(self) -> bool:
        """Whether nothing has changed since."""
        return bool(self._head.raw == self._seen_head and self._layout.raw == self._seen_layout)


class _SlowGlance:
    """The same by asking, for a NumPy that lies otherwise."""

    __slots__ = ("_array", "_seen")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = weakref.ref(array)
        self._seen = self._ask(array)

    @staticmethod
    def _ask(array: Any) -> tuple[Any, ...]:
        return array.__array_interface__["data"], array.shape, array.strides, array.dtype, array.flags.num

    def is_same(self) -> bool:
        """Whether nothing has changed since."""
        array = self._array()
        return array is not None and self._ask(array) == self._seen


def _works() -> bool:
    """Whether NumPy's arrays lie as expected: address, sizes, strides and type are found where they should be."""
    probe = np.zeros((3, 5, 7), np.int16)[:, ::-1]
    place = id(probe) + _FIRST
    words = [ctypes.c_size_t.from_address(place + 8 * k).value for k in range(6)]
    if words[0] != probe.__array_interface__["data"][0] or words[1] & 0xFFFFFFFF != 3 or words[5] != id(probe.dtype):
        return False
    if not words[2] or words[3] != words[2] + 24:
        return False
    found = tuple((ctypes.c_ssize_t * 6).from_address(words[2]))
    return found == (*probe.shape, *probe.strides)


glance = Glance if _works() else _SlowGlance
