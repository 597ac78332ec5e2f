"""RoiAlign and MaxRoiPool: regions of images, each in the same sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.enums import ReduceFunction
from anydml.errors import show
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert, retyped
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.types import INT64, UINT64

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def roi_align(node: Node) -> list[Value]:
    """RoiAlign: samples averaged; without `half_pixel` a region is at least one element large.

    Of `max` ONNX has the largest of what corners add to samples, where ROI_ALIGN1 has the largest sample.
    """
    x, rois, images = (node.input(k) for k in range(3))
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 4 or images.shape != rois.shape[:1]:
        found = f"{x.shape}, {rois.shape} and {images.shape}"
        node.refuse("rois", "X, rois and batch_indices must be {N, C, H, W}, {R, 4} and {R}", found=found)
    mode, scale, samples = node.text("mode"), node.real("spatial_scale"), node.integer("sampling_ratio")
    if mode not in ("avg", "max"):
        node.refuse("mode", "mode must be avg or max", found=show(mode))
    if mode == "max":
        node.unsupported("mode", "mode max is not supported: ONNX's is no largest sample, as DirectML's is")
    is_half = node.version >= 16 and node.text("coordinate_transformation_mode") == "half_pixel"
    if not is_half and rois.count:
        rois = _at_least_one(node, rois, scale)
    shape = (rois.shape[0], x.shape[1], node.integer("output_height"), node.integer("output_width"))
    if min(shape[2:]) < 1 or samples < 0:
        node.refuse("output_height", "output_height and output_width must be at least 1, sampling_ratio at least 0")
    counts: dict[str, Any] = {"minimum_samples_per_output": max(samples, 1)}
    if samples:
        counts["maximum_samples_per_output"] = samples
    inputs = [x, convert(node, rois, x.element), retyped(node, convert(node, images, INT64), UINT64)]
    return [
        node.tracer.apply(
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
    ]


def _at_least_one(node: Node, rois: Value, scale: float) -> Value:
    """Regions whose ends are at least one element of the image from their beginnings."""
    count = rois.shape[0]
    low, high = (take(node, rois, [0, k], [count, 2], [1, 1]) for k in (0, 2))
    least = compute(node, dml.identity, low, scale_bias=(1.0, 1 / scale))
    return node.tracer.apply_to_list(dml.join, [low, compute(node, dml.max, high, least)], rois.shape, 1)


def max_roi_pool(node: Node) -> list[Value]:
    """MaxRoiPool: the largest element of each part of a region."""
    x, rois, pooled = node.input(0), node.input(1), node.integers("pooled_shape")
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        found = f"{x.shape} and {rois.shape}"
        node.refuse("rois", "X and rois must be {N, C, H, W} and {R, 5}", found=found)
    if pooled is None or len(pooled) != 2 or min(pooled) < 1:
        node.refuse("pooled_shape", "pooled_shape must be a height and a width, at least 1", found=show(pooled))
    shape = (rois.shape[0], x.shape[1], *pooled)
    scale = node.real("spatial_scale")
    return [node.tracer.apply(dml.roi_pooling, [x, rois], shape, (pooled[1], pooled[0]), spatial_scale=scale)]
