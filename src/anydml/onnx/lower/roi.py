"""RoiAlign and MaxRoiPool: regions of images, each in the same sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.enums import ReduceFunction
from anydml.onnx.element_types import FLOAT, INT64, UINT64
from anydml.onnx.lower.cumulative import within
from anydml.onnx.lower.data_movement import convert
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.grid_sample import Taps, by_image, sampled
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode


def roi_align(node: BoundNode) -> list[Value]:
    """RoiAlign: samples averaged; without `half_pixel` a region is at least one element large.

    Of `max` ONNX has the largest of what corners add to samples, where ROI_ALIGN1 has the largest sample: that one is
    put together of other operators.
    """
    x, rois, images = (node.input(k) for k in range(3))
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 4 or images.shape != rois.shape[:1]:
        found = f"{x.shape}, {rois.shape} and {images.shape}"
        node.refuse("rois", "X, rois and batch_indices must be {N, C, H, W}, {R, 4} and {R}", found=found)
    mode, scale, samples = (
        node.one_of("mode", ("avg", "max")),
        node.real("spatial_scale"),
        node.integer("sampling_ratio"),
    )
    is_half = node.version >= 16 and node.text("coordinate_transformation_mode") == "half_pixel"
    if rois.count and not x.shape[0]:
        node.refuse("batch_indices", "batch_indices must be empty, as X has no images", value=images.shape)
    images = within(node, convert(node, images, INT64), x.shape[0] - 1, UINT64, "batch_indices")
    images = _of_finite(node, rois, images)
    if not is_half and rois.count:
        rois = _at_least_one(node, rois, scale)
    shape = (rois.shape[0], x.shape[1], node.integer("output_height"), node.integer("output_width"))
    if min(shape[2:]) < 1 or samples < 0:
        node.refuse("output_height", "output_height and output_width must be at least 1, sampling_ratio at least 0")
    if mode == "max" and 0 not in shape:
        return [_largest(node, x, rois, images, shape, is_half=is_half)]
    counts: dict[str, Any] = {"minimum_samples_per_output": max(samples, 1)}
    if samples:
        counts["maximum_samples_per_output"] = samples
    inputs = [x, convert(node, rois, x.element), images]
    aligned = node.tracer.apply(
        dml.roi_align1,
        inputs,
        shape,
        shape,
        ReduceFunction.AVERAGE,
        spatial_scale_x=scale,
        spatial_scale_y=scale,
        input_pixel_offset=0.5 if is_half else 0.0,
        **counts,
    )
    is_some = is_half and not samples and 0 not in shape
    return [_none_of_empty(node, aligned, rois) if is_some else aligned]


def _of_finite(node: BoundNode, rois: Value, images: Value) -> Value:
    """The images, once every region's numbers are known to be finite: a gather of a 0 for each looks at them."""
    count, rule = rois.shape[0], "rois must be finite numbers"
    if rois.known is not None:
        if not np.isfinite(rois.known.flat()).all():
            node.refuse("rois", rule, value=rois.values("rois").tolist())
        return images
    if not count:
        return images
    rest = reduce(node, compute(node, dml.subtract, rois, rois), ReduceFunction.SUM, (1,))  # 0, or NaN
    is_finite = compute(node, dml.logical_equals, rest, Value.of(rois.element, 0))
    numbers = Value.of(UINT64, np.arange(1, count + 1)[:, None])
    places = compute(node, dml.if_, is_finite, Value.of(UINT64, 0), numbers, element=UINT64)
    zeros = node.tracer.apply(dml.gather, [Value.of(UINT64, [0]), node.tracer.reshape(places, (count,))], (count,), 0)
    node.tracer.word_outside(zeros, "rois", rule + ", and those of region {} are not")
    return compute(node, dml.add, images, zeros)


def _none_of_empty(node: BoundNode, found: Value, rois: Value) -> Value:
    """0 for regions without a sample, as ONNX has it where their number is that of elements; ROI_ALIGN1 has one."""
    count = rois.shape[0]
    low, high = (convert(node, take(node, rois, [0, k], [count, 2], [1, 1]), FLOAT) for k in (0, 2))
    size = compute(node, dml.subtract, high, low)
    least = reduce(node, size, ReduceFunction.MIN, (1,))
    is_empty = compute(node, dml.logical_less_than_or_equal, least, Value.of(FLOAT, 0))
    is_empty = node.tracer.reshape(is_empty, (count, 1, 1, 1))
    return compute(node, dml.if_, is_empty, Value.of(found.element, 0), found)


def _largest(node: BoundNode, x: Value, rois: Value, images: Value, shape: tuple[int, ...], *, is_half: bool) -> Value:
    """The largest of what corners add to the samples of each element."""
    taps = []
    for k in range(2):
        found = _corners(node, convert(node, rois, FLOAT), x.shape[2 + k], shape[2 + k], 1 - k, is_half=is_half)
        # Of the dimensions regions, rows, columns, corners of rows and of columns.
        taps.append(found.shaped(node, _of_rows if k == 0 else _of_columns))
    image = node.tracer.reshape(images, (shape[0], 1, 1, 1, 1))
    seen = sampled(node, convert(node, x, FLOAT), image, taps)
    largest = reduce(node, seen, ReduceFunction.MAX, (4, 5))
    return convert(node, by_image(node, largest, shape), x.element)


def _of_rows(regions: int, length: int, corners: int) -> tuple[int, ...]:
    return regions, length, 1, corners, 1


def _of_columns(regions: int, length: int, corners: int) -> tuple[int, ...]:
    return regions, 1, length, 1, corners


def _corners(node: BoundNode, rois: Value, size: int, length: int, column: int, *, is_half: bool) -> Taps:
    """Regions, elements of each, and the two corners of their samples along a dimension of an image.

    Where ONNX takes a number of samples that depends on the region, that of an image as large is the most; smaller
    regions have their last sample again.
    """
    scale, asked = node.real("spatial_scale"), node.integer("sampling_ratio")
    low, high = (
        compute(
            node,
            dml.identity,
            node.tracer.reshape(take(node, rois, [0, k], [rois.shape[0], 1], [1, 1]), (rois.shape[0], 1, 1)),
            scale_bias=(scale, -0.5 if is_half else 0.0),
        )
        for k in (column, column + 2)
    )
    step = compute(node, dml.identity, compute(node, dml.subtract, high, low), scale_bias=(1 / length, 0.0))
    most = asked or -(-size // length)
    numbers = Value.of(FLOAT, np.repeat(np.arange(most), 2))
    count = (
        Value.of(FLOAT, most) if asked else compute(node, dml.clip, compute(node, dml.ceil, step), min=1.0, max=most)
    )
    if not asked:
        numbers = compute(node, dml.min, numbers, compute(node, dml.identity, count, scale_bias=(1.0, -1.0)))
    within = compute(node, dml.divide, compute(node, dml.identity, numbers, scale_bias=(1.0, 0.5)), count)
    steps = compute(node, dml.add, Value.of(FLOAT, np.arange(length)[:, None]), within)
    place = compute(node, dml.add, low, compute(node, dml.multiply, step, steps))
    kept = compute(node, dml.clip, place, min=-1.0, max=float(size))
    inside = compute(node, dml.logical_equals, kept, place)
    if not asked:
        is_some = compute(node, dml.logical_greater_than, step, Value.of(FLOAT, 0))
        inside = compute(node, dml.logical_and, inside, is_some)
    near = compute(node, dml.clip, place, min=0.0, max=size - 1.0)
    second = Value.of(FLOAT, np.tile([0, 1], most))
    first = compute(node, dml.floor, near)
    corner = compute(node, dml.clip, compute(node, dml.add, first, second), min=0.0, max=size - 1.0)
    away = compute(node, dml.subtract, near, compute(node, dml.add, first, second))
    part = compute(node, dml.identity, compute(node, dml.abs, away), scale_bias=(-1.0, 1.0))
    return Taps(corner, part, inside)


def _at_least_one(node: BoundNode, rois: Value, scale: float) -> Value:
    """Regions whose ends are at least one element of the image from their beginnings."""
    count = rois.shape[0]
    low, high = (take(node, rois, [0, k], [count, 2], [1, 1]) for k in (0, 2))
    least = compute(node, dml.identity, low, scale_bias=(1.0, 1 / scale))
    return node.tracer.apply_to_list(dml.join, [low, compute(node, dml.max, high, least)], rois.shape, 1)


def max_roi_pool(node: BoundNode) -> list[Value]:
    """MaxRoiPool: the largest element of each part of a region."""
    x, rois, pooled = node.input(0), node.input(1), node.integers("pooled_shape")
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        found = f"{x.shape} and {rois.shape}"
        node.refuse("rois", "X and rois must be {N, C, H, W} and {R, 5}", found=found)
    if pooled is None or len(pooled) != 2 or min(pooled) < 1:
        node.refuse("pooled_shape", "pooled_shape must be a height and a width, at least 1", value=pooled)
    shape = (rois.shape[0], x.shape[1], *pooled)
    scale = node.real("spatial_scale")
    made = node.tracer.apply(dml.roi_pooling, [x, rois], shape, (pooled[1], pooled[0]), spatial_scale=scale)
    node.tracer.word_outside(made, "rois", f"rois must begin with the numbers of images, 0 .. {x.shape[0] - 1}")
    return [made]
