"""The operators that move and interpolate: what they give in NumPy, written from the documents alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from agreement import assert_same
from regions_oracle import roi_align, roi_align_gradient, roi_pooling
from selecting import ORACLE as SELECTING

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


# Resampling: a matrix for each dimension, of the parts that the elements of the input have in each of the output


def matrix(desc: Any, k: int, size: int, length: int) -> Array:
    """The parts, {output, input}, by fractions."""
    upsample = desc.type.name == "UPSAMPLE_2D"
    rank = len(desc.input_tensor.sizes) if upsample else 0
    exact = dict(zip((rank - 1, rank - 2), desc.scale_size, strict=True)).get(k, 1) if upsample else desc.scales[k]
    scale = Fraction(exact).limit_denominator(1000)
    offsets = [getattr(desc, f"{name}_pixel_offsets", None) for name in ("input", "output")]
    before, after = (Fraction(half if own is None else own[k]) for own, half in zip(offsets, (0.5, -0.5), strict=True))
    found = np.zeros((length, size))
    direction = getattr(desc, "rounding_direction", None)
    for o in range(length):
        x = (o - after) / scale - before
        if desc.interpolation_mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
            ways = {dml.AxisDirection.INCREASING: math.ceil(x), dml.AxisDirection.DECREASING: math.floor(x)}
            place = math.floor(x + Fraction(1, 2)) if direction is None else ways[direction]
            found[o, min(max(place, 0), size - 1)] = 1
            continue
        wide = 1 / scale if getattr(desc, "antialiased", False) and 1 / scale > 2 else Fraction(1)
        for i in range(math.floor(x - wide), math.ceil(x + wide) + 1):
            found[o, min(max(i, 0), size - 1)] += max(0, 1 - abs(i - x) / wide)
    return np.asarray(found / found.sum(1, keepdims=True))


def resampled(desc: Any, x: Array) -> Array:
    if desc.interpolation_mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
        for k, length in enumerate(desc.output_tensor.sizes):
            x = x.take(matrix(desc, k, x.shape[k], length).argmax(1), k)
        return x
    found: Any = x.astype(np.float64)
    for k, length in enumerate(desc.output_tensor.sizes):
        found = np.moveaxis(np.tensordot(matrix(desc, k, x.shape[k], length), found, (1, k)), 0, k)
    return np.asarray(found)


def resample_gradient(desc: Any, x: Array) -> Array:
    found: Any = x.astype(np.float64)
    for k, size in enumerate(desc.output_gradient_tensor.sizes):
        found = np.moveaxis(np.tensordot(matrix(desc, k, size, x.shape[k]).T, found, (1, k)), 0, k)
    return np.asarray(found)


# Windows


def windows(desc: Any, sizes: Sequence[int]) -> list[tuple[int, int, Any]]:
    """The number of each place in a window and of each window, and the element that they are; none in the padding."""
    every = list(
        zip(desc.window_sizes, desc.strides, desc.dilations, desc.start_padding, desc.end_padding, strict=True)
    )
    blocks = [
        (size + low + high - d * (w - 1) - 1) // s + 1 for size, (w, s, d, low, high) in zip(sizes, every, strict=True)
    ]
    found = []
    for a, place in enumerate(np.ndindex(*desc.window_sizes)):
        for b, block in enumerate(np.ndindex(*blocks)):
            at: Any = tuple(j * s + i * d - low for i, j, (_, s, d, low, _) in zip(place, block, every, strict=True))
            if all(0 <= x < size for x, size in zip(at, sizes, strict=True)):
                found.append((a, b, at))
    return found


def unfold(desc: Any, x: Array) -> Array:
    found = np.zeros(desc.output_tensor.sizes, x.dtype)
    count = math.prod(desc.window_sizes)
    for c in range(x.shape[1]):
        for place, block, at in windows(desc, x.shape[2:]):
            found[:, c * count + place, block] = x[:, c][:, *at]
    return found


def fold(desc: Any, x: Array) -> Array:
    sizes = desc.output_tensor.sizes
    found = np.zeros(sizes, np.float64 if x.dtype.kind == "f" else x.dtype)
    count = math.prod(desc.window_sizes)
    for c in range(sizes[1]):
        for place, block, at in windows(desc, sizes[2:]):
            found[:, c][:, *at] += x[:, c * count + place, block]
    return found


ORACLE: dict[str, Callable[..., Array | list[Array]]] = {
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
    "RESAMPLE": resampled,
    "RESAMPLE1": resampled,
    "RESAMPLE2": resampled,
    "RESAMPLE3": resampled,
    "UPSAMPLE_2D": resampled,
    "RESAMPLE_GRAD": resample_gradient,
    "RESAMPLE_GRAD1": resample_gradient,
    "UNFOLD": unfold,
    "FOLD": fold,
    "ROI_POOLING": roi_pooling,
    "ROI_ALIGN": roi_align,
    "ROI_ALIGN1": roi_align,
    "ROI_ALIGN_GRAD": roi_align_gradient,
    **SELECTING,
}
MOVING: list[type[dml.OperatorDesc]] = [cls for kind, cls in dml.OPERATORS.items() if kind.name in ORACLE]


def expected(desc: dml.OperatorDesc, arrays: Sequence[Array]) -> list[Array]:
    """What comes out: in the outputs' types where bits are moved, and in float64 where numbers are computed."""
    found = ORACLE[desc.type.name](desc, *arrays)
    return found if isinstance(found, list) else [found]


def assert_moved(got: Array, wanted: Array, about: object = "") -> None:
    """Compare bits; or numbers, of which FLOAT32 has 24 digits where they are weighted, and integers are rounded."""
    wanted = wanted.reshape(got.shape)
    if wanted.dtype == got.dtype:
        assert_same(got, wanted, about)
        return
    eps = float(np.finfo(np.float32).eps)
    most = 0.5 if got.dtype.kind != "f" else np.maximum(np.finfo(got.dtype).eps * np.abs(wanted), 0)
    size = max(float(np.abs(wanted).max(initial=0)), 16)
    off = np.abs(got.astype(np.float64) - wanted)
    assert (off <= most + 16 * eps * size).all(), (about, got, wanted)
