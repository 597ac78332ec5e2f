"""Resize and Upsample: tensors in other sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.enums import AxisDirection, DataType, InterpolationMode
from anydml.errors import show
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.lowerings.weighing import Filter, weights
from anydml.onnx.types import FLOAT, INT64
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.nodes import Node

_MODES = ("nearest", "linear", "cubic")
_NEAREST = {
    # ceil(x - 1/2) and floor(x + 1/2) are the nearest, of two equally near the earlier and the later
    "round_prefer_floor": (AxisDirection.INCREASING, 0.5),
    "round_prefer_ceil": (AxisDirection.DECREASING, -0.5),
    "floor": (AxisDirection.DECREASING, 0.0),
    "ceil": (AxisDirection.INCREASING, 0.0),
}
_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_RESAMPLED = (*_FLOATS, DataType.INT8, DataType.UINT8)
_MOST_DIMENSIONS = 4
"""Of what RESAMPLE3 takes."""
_MOST_WEIGHTS = 2**26
"""Elements of a matrix of weights, which stands for what RESAMPLE3 does not have."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A dimension: the element o of the output stands at o·step + start of the input."""

    axis: int
    size: int
    length: int
    scale: float
    step: float
    start: float


def upsample(node: Node) -> list[Value]:
    """Upsample: Resize from corners, of which the element before is the nearest; scales are attributes or an input."""
    x = node.input(0)
    if node.version < 7:
        scales = [1.0, 1.0, node.real("height_scale"), node.real("width_scale")]
    else:
        scales = node.reals("scales") if node.version < 9 else _reals(node, 1, "scales")
    if len(scales) != len(x.shape):
        node.refuse("scales", f"scales must have {len(x.shape)} numbers", found=str(len(scales)))
    mode = {"bilinear": "linear"}.get(node.text("mode"), node.text("mode"))
    return [_resize(node, mode, scales, None, range(len(scales)), "asymmetric", "floor")]


def resize_by_scales(node: Node) -> list[Value]:
    """Resize of opset 10, which is Upsample by another name."""
    x, scales = node.input(0), _reals(node, 1, "scales")
    if len(scales) != len(x.shape):
        node.refuse("scales", f"scales must have {len(x.shape)} numbers", found=str(len(scales)))
    return [_resize(node, node.text("mode"), scales, None, range(len(scales)), "asymmetric", "floor")]


def resize(node: Node) -> list[Value]:
    """Resize from opset 11 on: by scales or to sizes, of some axes or all."""
    x = node.input(0)
    given = node.integers("axes") if node.version >= 18 else None
    axes = list(range(len(x.shape))) if given is None else node.axes(given, len(x.shape))
    scales, sizes = (node.optional(k) for k in (2, 3))
    is_sized = sizes is not None and sizes.count > 0
    if is_sized == (scales is not None and scales.count > 0):
        node.refuse("scales", "either scales or sizes must be given", found="both" if is_sized else "neither")
    wanted = node.numbers(3, "sizes") if is_sized else None
    numbers = _reals(node, 2, "scales") if wanted is None else []
    if len(wanted if wanted is not None else numbers) != len(axes):
        name = "scales" if wanted is None else "sizes"
        node.refuse(name, f"{name} must have {len(axes)} numbers, one for each axis")
    way, nearest = node.text("coordinate_transformation_mode"), node.text("nearest_mode")
    return [_resize(node, node.text("mode"), numbers, wanted, axes, way, nearest)]


def _reals(node: Node, index: int, name: str) -> list[float]:
    value = node.input(index)
    if len(value.shape) != 1 or value.count > len(node.input(0).shape):
        rule = f"{name} must have one number at most for each dimension"
        node.refuse(name, rule, value=value.shape, found=str(value.shape))
    return [float(number) for number in value.values(name)]


def _resize(
    node: Node,
    mode: str,
    scales: Sequence[float],
    sizes: Sequence[int] | None,
    axes: Sequence[int],
    way: str,
    nearest: str,
) -> Value:
    x = node.input(0)
    if mode not in _MODES:
        node.refuse("mode", f"mode must be one of {', '.join(_MODES)}", found=show(mode))
    if mode == "nearest" and nearest not in _NEAREST:
        node.refuse("nearest_mode", f"nearest_mode must be one of {', '.join(_NEAREST)}", found=show(nearest))
    lengths, scales = _lengths(node, [x.shape[k] for k in axes], scales, sizes)
    rois = _regions(node, len(axes)) if way == "tf_crop_and_resize" else [(0.0, 1.0)] * len(axes)
    lines = []
    for k, length, scale, roi in zip(axes, lengths, scales, rois, strict=True):
        step, start = _affine(node, way, x.shape[k], length, scale, roi)
        if (step, start) != (1.0, 0.0) or length != x.shape[k]:
            lines.append(_Line(k, x.shape[k], length, scale, step, start))
    shape = list(x.shape)
    for line in lines:
        shape[line.axis] = line.length
    if 0 in shape or not lines:
        return x if not lines else Value(x.element, tuple(shape))
    if not x.count:
        node.refuse("X", "X must have an element", value=x.shape, found=str(x.shape))
    if mode == "nearest" and way != "tf_crop_and_resize":
        return _nearest(node, x, lines, nearest)
    asked = Filter(
        mode,
        nearest,
        is_wide=mode != "nearest" and _flag(node, "antialias"),
        is_inside=_flag(node, "exclude_outside"),
        coefficient=node.real("cubic_coeff_a") if "cubic_coeff_a" in node.rules.attributes else -0.75,
    )
    is_plain = mode == "linear" and way != "tf_crop_and_resize" and not asked.is_inside
    if is_plain and not (asked.is_wide and any(line.scale < 1 for line in lines)) and all(a.step > 0 for a in lines):
        return _between(node, x, lines)
    return _weighed(node, x, lines, asked, outside=way == "tf_crop_and_resize")


def _flag(node: Node, name: str) -> bool:
    return name in node.rules.attributes and bool(node.integer(name))


def _lengths(
    node: Node, before: Sequence[int], scales: Sequence[float], sizes: Sequence[int] | None
) -> tuple[list[int], list[float]]:
    """The sizes of the result, and the scales that they are by."""
    if sizes is None:
        if any(not (scale > 0 and math.isfinite(scale)) for scale in scales):
            node.refuse("scales", "scales must be finite and above 0", value=scales, found=show(list(scales)))
        return [_scaled(size, scale) for size, scale in zip(before, scales, strict=True)], list(scales)
    if any(size < 1 for size in sizes) or 0 in before:
        node.refuse("sizes", "sizes must be at least 1, of what has elements", value=sizes, found=show(list(sizes)))
    found = [size / old for size, old in zip(sizes, before, strict=True)]
    policy = node.text("keep_aspect_ratio_policy") if node.version >= 18 else "stretch"
    if policy == "stretch":
        return list(sizes), found
    if policy not in ("not_larger", "not_smaller"):
        rule = "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller"
        node.refuse("keep_aspect_ratio_policy", rule, found=show(policy))
    scale = min(found) if policy == "not_larger" else max(found)
    return [int(scale * old + 0.5) for old in before], [scale] * len(found)


def _scaled(size: int, scale: float) -> int:
    """A size times a scale, in FLOAT as ONNX has it: 10 by 2.3 are 23, though the FLOAT next to 2.3 lies below it."""
    with np.errstate(over="ignore"):
        return math.floor(min(float(np.float32(size) * np.float32(scale)), 2.0**63))


def _regions(node: Node, count: int) -> list[tuple[float, float]]:
    roi = node.optional(1)
    if roi is None or roi.shape != (2 * count,):
        node.refuse("roi", f"roi must have {2 * count} numbers for tf_crop_and_resize, two for each axis")
    numbers = [float(number) for number in roi.values("roi")]
    return list(zip(numbers[:count], numbers[count:], strict=True))


def _affine(
    node: Node, way: str, size: int, length: int, scale: float, roi: tuple[float, float]
) -> tuple[float, float]:
    """Where an element of the result stands: a step for each, and where the first does."""
    whole = scale * size
    if way in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        middle = size / 2 * (1 - length / whole) if way == "half_pixel_symmetric" else 0.0
        if way == "pytorch_half_pixel" and whole == 1:
            return 1.0, -0.5
        return 1 / scale, 0.5 / scale - 0.5 + middle
    if way == "asymmetric":
        return 1 / scale, 0.0
    if way == "tf_half_pixel_for_nn":
        return 1 / scale, 0.5 / scale
    if way == "align_corners":
        return (1.0, 0.0) if whole == 1 else ((size - 1) / (whole - 1), 0.0)
    if way != "tf_crop_and_resize":
        rule = "coordinate_transformation_mode must be one that ONNX has"
        node.refuse("coordinate_transformation_mode", rule, found=show(way))
    first, last = roi
    if whole == 1:
        return 1.0, (first + last) * (size - 1) / 2
    return (last - first) * (size - 1) / (whole - 1), first * (size - 1)


# With RESAMPLE3


def _nearest(node: Node, x: Value, lines: Sequence[_Line], nearest: str) -> Value:
    """The nearest elements; of types that RESAMPLE3 lacks they are gathered, by places that are known."""
    direction, shift = _NEAREST[nearest]
    if x.element.data_type in _RESAMPLED and all(line.step > 0 for line in lines):
        options = {"interpolation_mode": InterpolationMode.NEAREST_NEIGHBOR, "rounding_direction": direction}
        return _resampled(node, x, lines, shift, options)
    for line in lines:
        positions = np.arange(line.length) * line.step + line.start
        places = weights(Filter("nearest", nearest), line.size, positions, line.scale).argmax(1)
        shape = (*x.shape[: line.axis], line.length, *x.shape[line.axis + 1 :])
        x = node.tracer.apply(dml.gather, [x, Value.of(INT64, places)], shape, line.axis)
    return x


def _between(node: Node, x: Value, lines: Sequence[_Line]) -> Value:
    """Elements weighted, those of types that RESAMPLE3 lacks as FLOAT."""
    seen = x if x.element.data_type in _FLOATS else convert(node, x, FLOAT)
    found = _resampled(node, seen, lines, 0.0, {"interpolation_mode": InterpolationMode.LINEAR})
    return convert(node, found, x.element)


def _resampled(node: Node, x: Value, lines: Sequence[_Line], shift: float, options: dict[str, Any]) -> Value:
    """RESAMPLE3; of more dimensions than it takes, those between the ones that change are one."""
    by_axis = {line.axis: line for line in lines}
    parts: list[tuple[int, _Line | None]] = []
    for k, size in enumerate(x.shape):
        if len(x.shape) > _MOST_DIMENSIONS and k not in by_axis and parts and parts[-1][1] is None:
            parts[-1] = parts[-1][0] * size, None
        else:
            parts.append((size, by_axis.get(k)))
    shape = tuple(size for size, _ in parts)
    result = tuple(size if line is None else line.length for size, line in parts)
    seen = node.tracer.reshape(x, shape)
    found = node.tracer.apply(
        dml.resample3,
        [seen],
        result,
        tuple(1.0 if line is None else 1 / line.step for _, line in parts),
        tuple(0.0 if line is None else shift - line.start for _, line in parts),
        (0.0,) * len(parts),
        output_sizes=result,
        **options,
    )
    return found.reshaped(tuple(by_axis[k].length if k in by_axis else size for k, size in enumerate(x.shape)))


# With GEMM


def _weighed(node: Node, x: Value, lines: Sequence[_Line], asked: Filter, *, outside: bool) -> Value:
    """A product with a matrix of weights for each dimension that changes."""
    found = x if x.element.data_type in _FLOATS else convert(node, x, FLOAT)
    inside: list[np.ndarray[Any, Any]] = []
    for line in lines:
        if line.length * line.size > _MOST_WEIGHTS:
            node.unsupported("mode", f"mode {asked.mode} from {line.size} to {line.length} elements is not supported")
        positions = np.arange(line.length) * line.step + line.start
        parts = weights(asked, line.size, positions, line.scale)
        is_there = (positions >= 0) & (positions <= line.size - 1) if outside else np.ones(line.length, bool)
        inside.append(is_there)
        found = _product(node, found, line, parts * is_there[:, None])
    extra = node.real("extrapolation_value") if outside else 0.0
    if extra and not all(is_there.all() for is_there in inside):
        mask = np.ones([1] * len(found.shape), bool)
        for line, is_there in zip(lines, inside, strict=True):
            mask = mask & is_there.reshape([-1 if k == line.axis else 1 for k in range(len(found.shape))])
        found = compute(node, dml.add, found, Value.of(found.element, np.where(mask, 0.0, extra)))
    return convert(node, found, x.element)


def _product(node: Node, x: Value, line: _Line, parts: np.ndarray[Any, Any]) -> Value:
    before, after = math.prod(x.shape[: line.axis]), math.prod(x.shape[line.axis + 1 :])
    flat = node.tracer.reshape(x, (before, line.size, after))
    matrix = Value.of(x.element, parts)
    spread = node.tracer.restride(matrix, (before, *parts.shape), (0, parts.shape[1], 1))
    found = node.tracer.apply(dml.gemm, [spread, flat], (before, line.length, after))
    return found.reshaped((*x.shape[: line.axis], line.length, *x.shape[line.axis + 1 :]))
