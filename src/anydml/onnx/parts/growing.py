"""Node types whose result may be of any size, whatever they read: how large, before somebody else allocates it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]


def _product(sizes: Any) -> int:
    return math.prod(max(int(size), 0) for size in np.asarray(sizes).reshape(-1))


def _expanded(arrays: Sequence[Array]) -> int:
    to = [int(size) for size in arrays[1].reshape(-1)]
    shape = (1,) * (len(to) - arrays[0].ndim) + arrays[0].shape
    return _product([max(a, b) for a, b in zip(shape, (1,) * (len(shape) - len(to)) + tuple(to), strict=True)])


def _padded(arrays: Sequence[Array]) -> int:
    count, axes = len(arrays[1]) // 2, list(range(arrays[0].ndim))
    if len(arrays) > 3:
        axes = [int(axis) % arrays[0].ndim for axis in arrays[3].reshape(-1)]
    sizes = list(arrays[0].shape)
    for i, axis in zip(range(count), axes, strict=False):
        sizes[axis] += int(arrays[1][i]) + int(arrays[1][count + i])
    return _product(sizes)


def _resized(arrays: Sequence[Array]) -> int:
    *_, last = arrays
    scaled = _product(np.ceil(np.asarray(last, np.float64) * arrays[0].shape)) if len(last) == arrays[0].ndim else 0
    return _product(last) if last.dtype.kind == "i" else scaled


_COUNTS: dict[str, Callable[[Sequence[Array]], int]] = {
    "ConstantOfShape": lambda arrays: _product(arrays[0]),
    "Expand": _expanded,
    "MelWeightMatrix": lambda arrays: int(arrays[0].item()) * (int(arrays[1].item()) // 2 + 1),
    "OneHot": lambda arrays: arrays[0].size * int(arrays[1].item()),
    "Pad": _padded,
    "Range": lambda arrays: math.ceil((arrays[1].item() - arrays[0].item()) / arrays[2].item()),
    "Resize": _resized,
    "Tile": lambda arrays: _product(np.asarray(arrays[0].shape, object) * [int(n) for n in arrays[1]]),
    "Upsample": _resized,
}
"""By node type, the elements that it makes of its inputs."""


def may_grow(node: Any) -> bool:
    """Whether a node is looked at before it runs, for which it has a part of its own."""
    return node.op_type in _COUNTS


def grown_size(node: Any, inputs: Sequence[Any]) -> int:
    """The bytes that a node will make, at least; 0 where its inputs are at fault, which whoever runs it says."""
    arrays = [each for each in inputs if isinstance(each, np.ndarray)]
    try:
        count = _COUNTS[node.op_type](arrays)
    except Exception:  # noqa: BLE001 - inputs of any kind, of which nothing is known
        return 0
    return max(count, 0) * arrays[0].itemsize
