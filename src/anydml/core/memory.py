"""Memory as an engine sees it: ranges of addresses, and views of them by sizes and strides. Nothing here is read."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "cpu"
"""The name of the host's memory; a GPU's is `cuda:0`, or one of `core/device_memory.py`."""
LARGE_PAGE = 2 * 1024 * 1024
"""Bytes of a large page, on most systems."""
NUMPY_DIMENSIONS = 64
"""The most that an array of NumPy's may have."""
CACHE_LINE = 64
"""Bytes of a line of the cache, on most CPUs."""
# Above this many steps a question about overlap counts as answered "yes": no layout that people write comes near.
_MOST_STEPS = 100_000


def is_cuda(place: str) -> bool:
    """Whether it is the memory of a GPU that CUDA's array libraries know: `cuda:1`."""
    return place.startswith("cuda:")


class Buffer(NamedTuple):
    """A range of bytes in the memory of some device, kept alive by its owner. A tuple, being made at every call."""

    address: int
    size: int
    writable: bool
    owner: object
    device: str = HOST
    stream: int | None = None
    """The CUDA stream that its producer works on, where it says so."""

    def numpy(
        self, offset: int, sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]
    ) -> np.ndarray[Any, Any]:
        """Elements from so many bytes on as a NumPy array that keeps the owner alive; strides are in elements."""
        return numpy_view(self.address + offset, sizes, strides, dtype, self.owner)

    def overlaps(self, other: Buffer) -> bool:
        """Whether the two ranges share a byte."""
        return (
            self.device == other.device
            and self.address < other.address + other.size
            and other.address < self.address + self.size
        )


def word_bytes(count: int) -> str:
    """A number of bytes as people read it: `1.5 GiB`."""
    number, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{number:.4g} {unit}"


def reserve_host(size: int) -> Buffer:
    """Host memory of the caller's own, in large pages where it is much and the system has them.

    NumPy asks for those, from 4 MiB on. EfficientNet-B0 takes 0.95 of its time so, ResNet-50 and ViT 0.97 (a Xeon).
    Less begins with a line of the cache: convolutions take 1.02 to 1.06 of the time where vectors lie across two.
    """
    is_large = size >= LARGE_PAGE
    step = LARGE_PAGE if is_large else CACHE_LINE
    array = np.empty(max(size + step, 2 * LARGE_PAGE) if is_large else size + step, np.uint8)
    start = -numpy_address(array) % step
    array = array[start : start + size]
    return Buffer(numpy_address(array), size, True, array)


def keep_for_ever(thing: object) -> None:
    """Keep memory or code for as long as the process: a thread may be at it when Python has taken its modules apart."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor with no gaps whose last dimension is contiguous."""
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 1, 0, -1):
        strides[i - 1] = strides[i] * sizes[i]
    return tuple(strides)


def sizes_of_pairs(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the bytes that 4-bit elements share: half of the last one's, and all in a row where that is odd.

    So they are where elements have gaps between them, too.
    """
    if sizes and sizes[-1] % 2 == 0 and tuple(strides) == packed_strides(sizes):
        return (*sizes[:-1], sizes[-1] // 2)
    below, above = span(sizes, strides)
    return ((above - below) // 2 + 1,)


def without_leading_ones(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes from the first on that is not 1."""
    first = next((i for i, size in enumerate(sizes) if size != 1), len(sizes))
    return tuple(sizes[first:])


def layout_of(sizes: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The sizes and strides that decide where elements lie: those of each dimension above size 1."""
    return tuple((size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1)


def span(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """How far a view reaches below and above its first element: (at most 0, at least 0), in the strides' unit."""
    reach = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)


def _slow_address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _fast_address(array: Any) -> int:
    """The first field of a NumPy array in C: 0.4 us, where the array's interface takes 3."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


_probe = np.zeros(1)
has_fast_address = _fast_address(_probe) == _slow_address(_probe)
"""Whether the address of a NumPy array's first element is found in the array."""
numpy_address = _fast_address if has_fast_address else _slow_address
"""The address of a NumPy array's first element; for arrays of that very type."""
at_address = ctypes.c_char.from_address
"""An object that has an address where arrays have theirs, for what takes no more than addresses from arrays."""
has_fast_address = has_fast_address and _fast_address(at_address(numpy_address(_probe))) == numpy_address(_probe)


class _Addresses:
    """Gives NumPy a view by its numbers alone; the array keeps this, and with it the owner."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, address: int, sizes: Sequence[int], strides: Sequence[int], typestr: str, owner: object) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(sizes),
            "strides": tuple(strides),
            "typestr": typestr,
        }


def numpy_view(
    address: int, sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any], owner: object = None
) -> np.ndarray[Any, Any]:
    """Make a NumPy array over memory that the owner keeps alive: strides in elements, any sign, no check, no read.

    Without an owner the array must not outlast the call that has the address: `Buffer.numpy` gives one that may.
    """
    steps = [stride * dtype.itemsize for stride in strides]
    return np.asarray(_Addresses(address, sizes, steps, dtype.str, owner))


def share_elements(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two views share a byte of an element: exact, unlike a comparison of their ranges."""
    try:
        return np.shares_memory(a, b, max_work=_MOST_STEPS)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two coordinates of one view are the same element.

    Two coordinates that differ by d meet where the sum of d[k]·stride[k] is 0 with |d[k]| < size[k]. Strides that
    nest, each passing everything below it, never meet; otherwise a bounded search for such a d decides.
    """
    dims = sorted(((abs(stride), size) for size, stride in zip(sizes, strides, strict=True) if size > 1), reverse=True)
    if any(stride == 0 for stride, _ in dims):
        return True
    reach_below = [0] * (len(dims) + 1)
    for k in range(len(dims) - 1, -1, -1):
        reach_below[k] = reach_below[k + 1] + dims[k][0] * (dims[k][1] - 1)
    if all(stride > reach_below[k + 1] for k, (stride, _) in enumerate(dims)):
        return False
    if math.prod(size for _, size in dims) > reach_below[0] + 1:
        return True  # more elements than places
    pending = [(0, 0, False)]  # (dimension, sum so far, whether some d was not 0)
    for _ in range(_MOST_STEPS):
        if not pending:
            return False
        k, total, differs = pending.pop()
        if k == len(dims):
            if differs:
                return True
            continue
        stride, size = dims[k]
        low = max(1 - size if differs else 0, -((total + reach_below[k + 1]) // stride))
        high = min(size - 1, (reach_below[k + 1] - total) // stride)
        if high - low > _MOST_STEPS:
            return True
        pending.extend((k + 1, total + d * stride, differs or d != 0) for d in range(low, high + 1))
    return True
