"""The operators that move and interpolate: what they give in NumPy, written from the documents alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from agreement import assert_same

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


# Regions


def roi_pooling(desc: Any, x: Array, rois: Array) -> Array:
    width, height = desc.pooled_size
    lines = rois.reshape(-1, 5).astype(np.float32)
    found = np.zeros((len(lines), x.shape[1], height, width), x.dtype)
    for r, line in enumerate(lines):
        ends = line[1:] * np.float32(desc.spatial_scale)
        x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(end) + 0.5), end)) for end in ends)
        image = x[min(max(int(line[0]), 0), len(x) - 1)]
        for i, j in np.ndindex(height, width):
            rows, columns = (
                slice(*np.clip(_bounds(at, count, low, high), 0, size))
                for at, count, low, high, size in ((i, height, y1, y2, x.shape[2]), (j, width, x1, x2, x.shape[3]))
            )
            part = image[:, rows, columns]
            found[r, :, i, j] = part.max((1, 2)) if part.size else 0
    return found


def _bounds(at: int, count: int, low: int, high: int) -> list[int]:
    extent = np.float32(max(high - low + 1, 1)) / np.float32(count)
    return [math.floor(np.float32(at) * extent) + low, math.ceil(np.float32(at + 1) * extent) + low]


def roi_align(desc: Any, x: Array, rois: Array, images: Array) -> Array:
    found = np.zeros(desc.output_tensor.sizes, np.float64)
    lines = rois.reshape(-1, 4).astype(np.float32)
    for r, image in enumerate(images.ravel()):
        picture = x[min(int(image), len(x) - 1)].astype(np.float64)
        for i, j in np.ndindex(*found.shape[2:]):
            down = _samples(desc, lines[r][1::2], desc.spatial_scale_y, i, found.shape[2], x.shape[2])
            across = _samples(desc, lines[r][::2], desc.spatial_scale_x, j, found.shape[3], x.shape[3])
            values = [_interpolated(desc, picture, y, z) for y in down for z in across]
            function = np.max if desc.reduction_function is dml.ReduceFunction.MAX else np.mean
            found[r, :, i, j] = function(np.array(values), axis=0)
    return found


def _samples(desc: Any, ends: Array, scale: float, at: int, count: int, size: int) -> list[Any]:
    """Where samples stand, in FLOAT32."""
    one = np.float32
    low, high = ends * one(scale)
    limit = min(max(-(-size // count), desc.minimum_samples_per_output), desc.maximum_samples_per_output)
    samples = int(min(max(math.ceil((high - low) / one(count)), desc.minimum_samples_per_output), limit))
    whole = count * samples - (1 if getattr(desc, "align_regions_to_corners", False) else 0)
    step = (high - low) / one(max(whole, 1))
    after, before = getattr(desc, "output_pixel_offset", -0.5), getattr(desc, "input_pixel_offset", 0.5)
    return [(one(at * samples + s) - one(after)) * step + low - one(before) for s in range(samples)]


def _interpolated(desc: Any, picture: Array, y: Any, x: Any) -> Array:
    height, width = picture.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.full(len(picture), desc.out_of_bounds_input_value)
    if desc.interpolation_mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
        row, column = (
            int(min(max(math.ceil(at - np.float32(0.5)), 0), size - 1)) for at, size in ((y, height), (x, width))
        )
        return picture[:, row, column]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    lines = picture[:, [top, min(top + 1, height - 1)]][:, :, [left, min(left + 1, width - 1)]]
    return np.asarray(np.einsum("cij,i,j->c", lines, [1 - (y - top), y - top], [1 - (x - left), x - left]))


def roi_align_gradient(desc: Any, *arrays: Array) -> list[Array]:
    """The gradients of the images and of the regions, of those that are asked for: sample by sample."""
    dy, rois, images = arrays[-3:]
    x = arrays[0].astype(np.float32) if desc.input_tensor else np.zeros(desc.output_gradient_tensor.sizes, np.float32)
    lines, (rows, columns) = rois.reshape(-1, 4).astype(np.float32), dy.shape[2:]
    back, moved = np.zeros(x.shape), np.zeros(lines.shape)
    scales = (desc.spatial_scale_x, desc.spatial_scale_y)
    for r, c, i, j in np.ndindex(*dy.shape):
        image = min(int(images.ravel()[r]), len(x) - 1)
        down = _samples(desc, lines[r][1::2], scales[1], i, rows, x.shape[2])
        across = _samples(desc, lines[r][::2], scales[0], j, columns, x.shape[3])
        every = list(itertools.product(range(len(down)), range(len(across))))
        if desc.reduction_function is dml.ReduceFunction.MAX:
            values = [_in_float32(desc, x[image, c], down[s], across[t]) for s, t in every]
            every = [every[int(np.argmax(values))]]
        for s, t in every:
            number = float(dy[r, c, i, j]) / len(every)
            if not (-1 <= down[s] <= x.shape[2] and -1 <= across[t] <= x.shape[3]):
                continue
            (row, rise), (column, run) = _parts(desc, down[s], x.shape[2]), _parts(desc, across[t], x.shape[3])
            back[image, c] += number * np.outer(row, column)
            along = (_along(desc, j, t, columns, len(across)), _along(desc, i, s, rows, len(down)))
            picture = x[image, c].astype(np.float64)
            rises = (row @ picture @ run, rise @ picture @ column)
            for k in range(2):
                moved[r, k] += number * rises[k] * (1 - along[k]) * scales[k]
                moved[r, k + 2] += number * rises[k] * along[k] * scales[k]
    wanted = {"output_gradient_tensor": back, "output_roi_gradient_tensor": moved.reshape(rois.shape)}
    return [found for name, found in wanted.items() if getattr(desc, name) is not None]


def _parts(desc: Any, at: Any, size: int) -> tuple[Array, Array]:
    """The part of each element of a dimension in a sample, and how much of each is in its slope."""
    part, slope = np.zeros(size), np.zeros(size)
    if desc.interpolation_mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
        part[int(min(max(math.ceil(at - np.float32(0.5)), 0), size - 1))] = 1
        return part, slope
    at = min(max(at, 0), size - 1)
    low, high = math.floor(at), math.ceil(at)
    part[low], part[high] = 1 - (float(at) - low), float(at) - low if high > low else 1
    slope[low] -= 1
    slope[high] += 1
    return part, slope


def _along(desc: Any, at: int, sample: int, count: int, samples: int) -> float:
    whole = max(count * samples - (1 if desc.align_regions_to_corners else 0), 1)
    return float((at * samples + sample - desc.output_pixel_offset) / whole)


def _in_float32(desc: Any, picture: Array, y: Any, x: Any) -> Any:
    """A sample as FLOAT32 has it, with a product and a sum that are rounded once: equal ones are told apart by it."""
    one = np.float32
    if not all(-1 <= at <= size for at, size in zip((y, x), picture.shape, strict=True)):
        return one(0)
    if desc.interpolation_mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
        return _parts(desc, y, len(picture))[0] @ picture @ _parts(desc, x, picture.shape[1])[0]
    parts = []
    for at, size in zip((y, x), picture.shape, strict=True):
        low = one(min(max(at, 0), size - 1))
        parts.append((int(low), min(int(low) + 1, size - 1), low - np.floor(low)))
    (top, bottom, down), (left, right, across) = parts
    ends = [_mixed(picture[row, left], picture[row, right], across) for row in (top, bottom)]
    return _mixed(*ends, down)


def _mixed(first: Any, second: Any, part: Any) -> Any:
    own = np.float32(first * (np.float32(1) - part))
    return np.float32(float(second) * float(part) + float(own))


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
