"""The operators on regions of images, in NumPy, written from the documents alone."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from families.elementwise import Array


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
    return _mixed(ends[0], ends[1], down)


def _mixed(first: Any, second: Any, part: Any) -> Any:
    own = np.float32(first * (np.float32(1) - part))
    return np.float32(float(second) * float(part) + float(own))
