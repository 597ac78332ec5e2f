"""The operators that move and interpolate: what they give in NumPy, written from the documents alone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elementwise_oracle import Array


def walked(mode: str, size: int, start: int, end: int) -> list[int]:
    """The places that the elements of a padded dimension are from: one step at a time, turned round at the ends."""
    forward, back = list(range(size)), list(range(size))[::-1]
    if mode == "EDGE" or size == 1:
        return [0] * start + forward + [size - 1] * end
    cycle = {"REFLECTION": forward + back[1:-1], "SYMMETRIC": forward + back, "WRAP": forward}[mode]
    return [cycle[(i - start) % len(cycle)] for i in range(start + size + end)]


def padding(desc: Any, x: Array) -> Array:
    mode, widths = desc.padding_mode.name, list(zip(desc.start_padding, desc.end_padding, strict=True))
    if mode == "CONSTANT":
        value = desc.padding_value
        if x.dtype.kind != "f" and isinstance(value, float):
            limits = np.iinfo(x.dtype)
            value = 0 if np.isnan(value) else int(min(max(value, limits.min), limits.max))
        with np.errstate(over="ignore"):
            return np.pad(x, widths, constant_values=np.array(value).astype(x.dtype))
    for axis, (low, high) in enumerate(widths):
        x = x.take(walked(mode, x.shape[axis], low, high), axis)
    return x


def tile(desc: Any, x: Array) -> Array:
    return np.tile(x, desc.repeats)


def to_space(desc: Any, x: Array) -> Array:
    block, order = desc.block_size, getattr(desc, "order", dml.DepthSpaceOrder.DEPTH_COLUMN_ROW)
    n, c, h, w = x.shape
    depth = c // block**2
    found = np.empty((n, depth, h * block, w * block), x.dtype)
    for k, i, j in itertools.product(range(depth), range(block), range(block)):
        is_first = order is dml.DepthSpaceOrder.DEPTH_COLUMN_ROW
        channel = (i * block + j) * depth + k if is_first else (k * block + i) * block + j
        found[:, k, i::block, j::block] = x[:, channel]
    return found


def to_depth(desc: Any, x: Array) -> Array:
    """What DEPTH_TO_SPACE takes apart into this."""
    n, c, h, w = x.shape
    block = desc.block_size
    sizes = (n, c * block**2, h // block, w // block)
    came_from = to_space(desc, np.arange(x.size).reshape(sizes))
    found = np.empty(x.size, x.dtype)
    found[came_from.ravel()] = x.ravel()
    return found.reshape(sizes)


def diagonal(desc: Any) -> Array:
    found = np.zeros(desc.output_tensor.sizes, object)
    for at in np.ndindex(found.shape):
        if at[-2] + desc.offset == at[-1]:
            found[at] = desc.value
    return _saturated(found, desc.output_tensor.data_type)


def diagonals(desc: Any, x: Array | None = None) -> Array:
    begin, end = desc.diagonal_fill_begin, desc.diagonal_fill_end
    found = np.zeros(desc.output_tensor.sizes, desc.output_tensor.data_type.dtype) if x is None else x.copy()
    with np.errstate(over="ignore"):
        value = np.array(desc.value).astype(found.dtype)
    for at in np.ndindex(found.shape):
        top = at[-1] - at[-2]
        if (end >= begin) ^ (top >= begin) ^ (top < end):
            found[at] = value
    return found


def _saturated(x: Array, data_type: dml.DataType) -> Array:
    """Numbers without their fraction, at the nearer end of the range."""
    if data_type.is_float:
        return x.astype(data_type.dtype)
    low, high = data_type.limits
    flat = [int(min(max(number, low), high)) for number in x.ravel()]
    return np.array(flat, data_type.dtype).reshape(x.shape)


def slice_gradient(desc: Any, x: Array) -> Array:
    found = np.zeros(desc.output_gradient_tensor.sizes, x.dtype)
    window = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, x.shape, strict=True)
    places = [
        [offset + (size - 1 if stride < 0 else 0) + stride * i for i in range(count)]
        for offset, size, stride, count in window
    ]
    found[np.ix_(*places)] = x
    return found


ORACLE: dict[str, Callable[..., Array]] = {
    "PADDING": padding,
    "PADDING1": padding,
    "TILE": tile,
    "DEPTH_TO_SPACE": to_space,
    "DEPTH_TO_SPACE1": to_space,
    "SPACE_TO_DEPTH": to_depth,
    "SPACE_TO_DEPTH1": to_depth,
    "DIAGONAL_MATRIX": diagonal,
    "DIAGONAL_MATRIX1": diagonals,
    "SLICE_GRAD": slice_gradient,
}
MOVING: list[type[dml.OperatorDesc]] = [cls for kind, cls in dml.OPERATORS.items() if kind.name in ORACLE]


def expected(desc: dml.OperatorDesc, arrays: Sequence[Array]) -> list[Array]:
    """What comes out."""
    found = ORACLE[desc.type.name](desc, *arrays)
    return found if isinstance(found, list) else [found]
