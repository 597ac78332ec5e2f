"""Resize and Upsample: tensors in other sizes.

Where an element of the result stands is computed in whole fractions, so that one which stands halfway between two
elements, or on one, is rounded as `nearest_mode` says, whatever FLOAT would make of it. Sizes give a scale as the ratio
that it is. A scale or a region that is given as FLOAT is the ratio of small whole numbers that it is the FLOAT of,
0.6 being 3/5, and else its very value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.enums import AxisDirection, DataType, InterpolationMode, RoundingMode
from anydml.core.late_imports import import_alone
from anydml.onnx.element_types import BOOL, FLOAT, INT64
from anydml.onnx.lower.composite_elementwise import chosen
from anydml.onnx.lower.data_movement import convert
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.values import Value
from anydml.operators.resampling import ratio_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from anydml.onnx.lower.bound_node import BoundNode

Array = np.ndarray[Any, Any]

_MODES = ("nearest", "linear", "cubic")
_NEAREST = {
    # ceil(x - 1/2) and floor(x + 1/2) are the nearest, of two equally near the earlier and the later
    "round_prefer_floor": (AxisDirection.INCREASING, 0.5),
    "round_prefer_ceil": (AxisDirection.DECREASING, -0.5),
    "floor": (AxisDirection.DECREASING, 0.0),
    "ceil": (AxisDirection.INCREASING, 0.0),
}
_BEFORE_MODES = "of opset 10"
"""The nearest element before there was `nearest_mode`: the one after where they become fewer, else the one before."""
_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_RESAMPLED = (*_FLOATS, DataType.INT8, DataType.UINT8)
_MOST_DIMENSIONS = 4
"""Of what RESAMPLE3 takes."""
_MOST_EXACT = 2**24
"""Elements of a dimension up to which RESAMPLE3, which computes in FLOAT64, tells apart what a FLOAT scale does."""
_MOST_WEIGHTS = 2**26
"""Elements of a matrix of weights, which stands for what RESAMPLE3 does not have."""


def _fraction(over: float, under: float = 1) -> Fraction:
    """A number exactly."""
    import_alone("fractions")
    from fractions import Fraction  # with decimal: 4 ms of import

    return Fraction(over) / Fraction(under)


def _meant(number: float) -> Fraction:
    """A FLOAT as the number that is meant by it."""
    return _fraction(*ratio_of(number))


@dataclass(frozen=True, slots=True)
class _Line:
    """A dimension: the element o of the output stands at (o - output_offset)·step - input_offset of the input."""

    axis: int
    size: int
    length: int
    scale: Fraction
    """By which the sizes differ; of a region's step it says nothing."""
    step: Fraction
    input_offset: Fraction
    output_offset: Fraction

    @property
    def is_kept(self) -> bool:
        """Whether each element stands in its own place."""
        return self.step == 1 and self.input_offset == -self.output_offset and self.length == self.size

    def is_resampled(self) -> bool:
        """Whether RESAMPLE3 finds the very places: its scale and its offsets are FLOAT."""
        if not (self.step > 0 and max(self.size, self.length) < _MOST_EXACT):
            return False
        offsets = self.input_offset, self.output_offset
        return _meant(_float32(1 / self.step)) == 1 / self.step and all(_float32(one) == one for one in offsets)

    def numerators(self) -> tuple[Array, int]:
        """Where the elements of the output stand, as fractions of one denominator."""
        start = -self.output_offset * self.step - self.input_offset
        under = math.lcm(self.step.denominator, start.denominator)
        first, by = int(start * under), int(self.step * under)
        most = abs(first) + abs(by) * self.length + under * self.size
        return np.arange(self.length).astype(np.int64 if most < 2**61 else object) * by + first, under

    def places(self, nearest: str) -> Array:
        """The nearest elements; past the ends the last."""
        direction, shift = _NEAREST[nearest]
        over, under = self.numerators()
        over, under = 2 * over - int(2 * shift) * under, 2 * under
        whole = -(-over // under) if direction is AxisDirection.INCREASING else over // under
        return np.asarray(np.minimum(np.maximum(whole, 0), self.size - 1), np.int64)

    def positions(self) -> Array:
        """Where the elements of the output stand, past the ends not far from them."""
        over, under = self.numerators()
        return np.asarray(np.minimum(np.maximum(over, -under * self.size), 2 * under * self.size) / under, np.float64)

    def inside(self) -> Array:
        """Which of them stand between the first element and the last."""
        over, under = self.numerators()
        return np.asarray((over >= 0) & (over <= under * (self.size - 1)), bool)


def _float32(number: Fraction) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(float(number)))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a node asks for."""

    mode: str
    way: str
    """How places of the output become those of the input: `coordinate_transformation_mode`."""
    nearest: str
    antialias: bool = False
    """Whether more elements go into one where there are fewer of them."""
    exclude_outside: bool = False
    """Whether what lies past the ends has no part; else the last element goes on."""
    coefficient: float = -0.75
    """Of the cubic."""

    @property
    def is_region(self) -> bool:
        """Whether a part of the input is taken, outside of which there is another value."""
        return self.way == "tf_crop_and_resize"


def upsample(node: BoundNode) -> list[Value]:
    """Upsample: Resize from corners, of which the element before is the nearest; scales are attributes or an input."""
    if node.version < 7:
        scales = [1.0, 1.0, node.real("height_scale"), node.real("width_scale")]
    else:
        scales = node.reals("scales") if node.version < 9 else _reals(node, 1, "scales")
    if any(scale < 1 for scale in scales):
        node.refuse("scales", "scales must be at least 1: Resize makes tensors smaller", value=list(scales))
    mode = {"bilinear": "linear"}.get(node.text("mode"), node.text("mode"))
    return [_by_scales(node, scales, _Wish(mode, "asymmetric", "floor"))]


def resize_by_scales(node: BoundNode) -> list[Value]:
    """Resize of opset 10, from corners."""
    return [_by_scales(node, _reals(node, 1, "scales"), _Wish(node.text("mode"), "asymmetric", _BEFORE_MODES))]


def _by_scales(node: BoundNode, scales: Sequence[float], wish: _Wish) -> Value:
    rank = len(node.input(0).shape)
    if len(scales) != rank:
        node.refuse("scales", f"scales must have {rank} numbers", value=len(scales))
    return _resize(node, scales, None, range(rank), wish)


def resize(node: BoundNode) -> list[Value]:
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
    wish = _Wish(
        node.text("mode"),
        node.text("coordinate_transformation_mode"),
        node.text("nearest_mode"),
        antialias=node.version >= 18 and bool(node.integer("antialias")),
        exclude_outside=bool(node.integer("exclude_outside")),
        coefficient=node.real("cubic_coeff_a"),
    )
    if wish.mode == "nearest" and wish.nearest not in _NEAREST:
        node.refuse("nearest_mode", f"nearest_mode must be one of {', '.join(_NEAREST)}", value=wish.nearest)
    if wish.mode == "nearest" and wish.antialias:
        node.refuse("antialias", "antialias must be 0 where mode is nearest", found="1")
    return [_resize(node, numbers, wanted, axes, wish)]


def _reals(node: BoundNode, index: int, name: str) -> list[float]:
    value = node.input(index)
    if len(value.shape) != 1 or value.count > len(node.input(0).shape):
        node.refuse(name, f"{name} must have one number at most for each dimension", value=value.shape)
    return [float(number) for number in value.values(name)]


def _resize(
    node: BoundNode, scales: Sequence[float], sizes: Sequence[int] | None, axes: Sequence[int], wish: _Wish
) -> Value:
    x = node.input(0)
    if wish.mode not in _MODES:
        node.refuse("mode", f"mode must be one of {', '.join(_MODES)}", value=wish.mode)
    before = [x.shape[k] for k in axes]
    targets = _by_numbers(node, before, scales) if sizes is None else _to_sizes(node, before, sizes)
    regions = _regions(node, len(axes)) if wish.is_region else [_all()] * len(axes)
    lines = []
    for k, (length, scale), region in zip(axes, targets, regions, strict=True):
        if scale == 1 and region == _all():
            continue  # whatever the size, which may be open
        size = int(x.shape[k])
        line = _Line(k, size, length, scale, *_affine(node, wish.way, size, length, scale, region))
        if not line.is_kept:
            lines.append(line)
    shape = list(x.shape)
    for line in lines:
        shape[line.axis] = line.length
    if 0 in shape or not lines:
        return x if not lines else Value(x.element, tuple(shape))
    if not x.count:
        node.refuse("X", "X must have an element", value=x.shape)
    return _outside(node, _inside(node, x, lines, wish), lines) if wish.is_region else _inside(node, x, lines, wish)


# Sizes and places


def _by_numbers(node: BoundNode, before: Sequence[int], scales: Sequence[float]) -> list[tuple[int, Fraction]]:
    """The sizes that come of scales."""
    if any(not (scale > 0 and math.isfinite(scale)) for scale in scales):
        node.refuse("scales", "scales must be finite and above 0", value=scales)
    return [
        (size if scale == 1 else _scaled(size, scale), _meant(scale))
        for size, scale in zip(before, scales, strict=True)
    ]


def _scaled(size: int, scale: float) -> int:
    """A size times a scale, in FLOAT as ONNX has it: 10 by 2.3 are 23, though the FLOAT next to 2.3 lies below it."""
    with np.errstate(over="ignore"):
        return math.floor(min(float(np.float32(size) * np.float32(scale)), 2.0**63))


def _to_sizes(node: BoundNode, before: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, Fraction]]:
    """The sizes that are asked for, or such as keep the ratios, and the scales that they are by."""
    pairs = list(zip(sizes, before, strict=True))
    if any(size != old and (size < 1 or old == 0) for size, old in pairs):
        node.refuse("sizes", "sizes must be at least 1, of what has elements", value=sizes)
    found = [_fraction(1) if size == old else _fraction(int(size), int(old)) for size, old in pairs]
    policy = node.one_of("keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), "stretch")
    if policy == "stretch":
        return list(zip(sizes, found, strict=True))
    scale = min(found) if policy == "not_larger" else max(found)
    return [(old if scale == 1 else math.floor(scale * int(old) + _fraction(1, 2)), scale) for old in before]


def _all() -> tuple[Fraction, Fraction]:
    """The region that is all of an axis: 0 and 1 are the first element and the last."""
    return _fraction(0), _fraction(1)


def _regions(node: BoundNode, count: int) -> list[tuple[Fraction, Fraction]]:
    """Of each axis the part between two numbers; all of it where none are given."""
    roi = node.optional(1)
    if roi is None:
        return [_all()] * count
    if roi.shape != (2 * count,):
        node.refuse("roi", f"roi must have {2 * count} numbers for tf_crop_and_resize, two for each axis")
    numbers = [float(number) for number in roi.values("roi")]
    if not all(map(math.isfinite, numbers)):
        node.refuse("roi", "roi must be finite", value=numbers)
    return list(zip(map(_meant, numbers[:count]), map(_meant, numbers[count:]), strict=True))


def _affine(
    node: BoundNode, way: str, size: int, length: int, scale: Fraction, region: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction, Fraction]:
    """Where an element of the result stands: a step for each, and the offsets of the input and the output.

    By a scale the result is as long as `whole`, of which the last, broken element is left out.
    """
    zero, half, whole = _fraction(0), _fraction(1, 2), scale * size
    if way == "pytorch_half_pixel" and length == 1:
        return _fraction(1), zero, zero
    if way in ("half_pixel", "pytorch_half_pixel"):
        return 1 / scale, half, -half
    if way == "half_pixel_symmetric":  # the middles of both stand in one place
        return 1 / scale, half - _fraction(size, 2), _fraction(length, 2) - half
    if way == "asymmetric":
        return 1 / scale, zero, zero
    if way == "tf_half_pixel_for_nn":
        return 1 / scale, zero, -half
    if way == "align_corners":
        # From one element all come: any step is as good.
        return (_fraction(1) if whole == 1 or size == 1 else (size - 1) / (whole - 1)), zero, zero
    if way != "tf_crop_and_resize":
        rule = "coordinate_transformation_mode must be one that ONNX has"
        node.refuse("coordinate_transformation_mode", rule, value=way)
    first, last = region
    if whole == 1:
        return _fraction(1), -(first + last) * (size - 1) / 2, zero
    return (last - first) * (size - 1) / (whole - 1), -first * (size - 1), zero


# Elements


def _inside(node: BoundNode, x: Value, lines: Sequence[_Line], wish: _Wish) -> Value:
    """The result, past the ends of the input the last element."""
    if wish.mode == "nearest":
        if wish.nearest != _BEFORE_MODES:
            return _nearest(node, x, lines, wish.nearest)
        x = _nearest(node, x, [line for line in lines if line.scale < 1], "ceil")
        return _nearest(node, x, [line for line in lines if line.scale > 1], "floor")
    is_wide = wish.antialias and (any(line.scale < 1 for line in lines) or not x.element.data_type.is_float)
    if wish.mode == "linear" and not (wish.exclude_outside or is_wide) and all(line.step > 0 for line in lines):
        return _between(node, x, lines)
    return _weighed(node, x, lines, wish)


def _outside(node: BoundNode, found: Value, lines: Sequence[_Line]) -> Value:
    """The result with another value for what stands outside of the input."""
    mask = np.ones([1] * len(found.shape), bool)
    for line in lines:
        mask = mask & line.inside().reshape([-1 if k == line.axis else 1 for k in range(len(found.shape))])
    if mask.all():
        return found
    value = convert(node, Value.of(FLOAT, node.real("extrapolation_value")), found.element)
    return chosen(node, Value.of(BOOL, mask), found, value)


def _nearest(node: BoundNode, x: Value, lines: Sequence[_Line], nearest: str) -> Value:
    """The nearest elements; where RESAMPLE3 lacks the type or would find others, they are gathered by their places."""
    direction, shift = _NEAREST[nearest]
    fit = [line for line in lines if x.element.data_type in _RESAMPLED and line.is_resampled()]
    if fit:
        options = {"interpolation_mode": InterpolationMode.NEAREST_NEIGHBOR, "rounding_direction": direction}
        x = _resampled(node, x, fit, shift, options)
    for line in lines:
        if line not in fit:
            shape = (*x.shape[: line.axis], line.length, *x.shape[line.axis + 1 :])
            x = node.tracer.apply(dml.gather, [x, Value.of(INT64, line.places(nearest))], shape, line.axis)
    return x


def _between(node: BoundNode, x: Value, lines: Sequence[_Line]) -> Value:
    """Elements weighted, those of types that RESAMPLE3 lacks as FLOAT."""
    seen = x if x.element.data_type in _FLOATS else convert(node, x, FLOAT)
    found = _resampled(node, seen, lines, 0.0, {"interpolation_mode": InterpolationMode.LINEAR})
    return convert(node, _settled(node, found, x), x.element)


def _resampled(node: BoundNode, x: Value, lines: Sequence[_Line], shift: float, options: dict[str, Any]) -> Value:
    """RESAMPLE3; of more dimensions than it takes, those between the ones that change are one, or it is done in two."""
    by_axis = {line.axis: line for line in lines}
    parts: list[tuple[int, _Line | None]] = []
    for k, size in enumerate(x.shape):
        if len(x.shape) > _MOST_DIMENSIONS and k not in by_axis and parts and parts[-1][1] is None:
            parts[-1] = parts[-1][0] * size, None
        else:
            parts.append((size, by_axis.get(k)))
    if len(parts) > _MOST_DIMENSIONS:
        middle = len(lines) // 2
        x = _resampled(node, x, lines[:middle], shift, options)
        return _resampled(node, x, lines[middle:], shift, options)
    shape = tuple(size for size, _ in parts)
    result = tuple(size if line is None else line.length for size, line in parts)
    seen = node.tracer.reshape(x, shape)
    found = node.tracer.apply(
        dml.resample3,
        [seen],
        result,
        tuple(1.0 if line is None else float(1 / line.step) for _, line in parts),
        tuple(0.0 if line is None else float(line.input_offset) + shift for _, line in parts),
        tuple(0.0 if line is None else float(line.output_offset) for _, line in parts),
        output_sizes=result,
        **options,
    )
    return found.reshaped(tuple(by_axis[k].length if k in by_axis else size for k, size in enumerate(x.shape)))


def _weighed(node: BoundNode, x: Value, lines: Sequence[_Line], wish: _Wish) -> Value:
    """A product with a matrix of weights for each dimension that changes, the last first.

    Integers are rounded after each, as ONNX Runtime does; two of them weighted are cut off, as it does too.
    """
    found = x if x.element.data_type in _FLOATS else convert(node, x, FLOAT)
    for line in reversed(lines):
        if line.length * line.size > _MOST_WEIGHTS:
            node.unsupported("mode", f"mode {wish.mode} from {line.size} to {line.length} elements is not supported")
        found = _product(node, found, line, _weights(wish, line))
        if wish.antialias or wish.mode == "cubic":
            found = _rounded(node, found, x)
    return convert(node, _settled(node, found, x), x.element)


def _settled(node: BoundNode, found: Value, x: Value) -> Value:
    """Numbers that lose their fractions next, of integers: a little larger, so that FLOAT decides nothing.

    What it has just below a whole number or a half is that then: its few roundings are less than 2^-21 of a number. A
    picture of one colour keeps it.
    """
    if x.element.data_type.is_float:
        return found
    little = compute(node, dml.clip, found, min=-(2.0**-10), max=2.0**-10, scale_bias=(2.0**-21, 0.0))
    return compute(node, dml.add, found, little)


def _rounded(node: BoundNode, found: Value, x: Value) -> Value:
    """Numbers as integers of a type have them, halves away from 0; those of other types as they are."""
    if x.element.data_type.is_float:
        return found
    found, limits = _settled(node, found, x), np.iinfo(x.element.held)
    if limits.bits < 32:  # a cubic's numbers lie beyond its elements'
        found = compute(node, dml.clip, found, min=float(limits.min), max=float(limits.max))
    return compute(node, dml.round, found, rounding_mode=RoundingMode.TOWARD_INFINITY)


def _product(node: BoundNode, x: Value, line: _Line, parts: Array) -> Value:
    before, after = math.prod(x.shape[: line.axis]), math.prod(x.shape[line.axis + 1 :])
    flat = node.tracer.reshape(x, (before, line.size, after))
    matrix = Value.of(x.element, parts)
    spread = node.tracer.restride(matrix, (before, *parts.shape), (0, parts.shape[1], 1))
    found = node.tracer.apply(dml.gemm, [spread, flat], (before, line.length, after))
    return found.reshaped((*x.shape[: line.axis], line.length, *x.shape[line.axis + 1 :]))


def _weights(wish: _Wish, line: _Line) -> Array:
    """The part that each element of a dimension has in those of the result: {length, size}."""
    positions = line.positions()
    stretch = max(float(1 / line.scale), 1.0) if wish.antialias else 1.0
    reach = math.ceil((2 if wish.mode == "cubic" else 1) * stretch) + 1
    found = np.zeros((line.length, line.size))
    rows = np.arange(line.length)
    low = np.floor(positions).astype(int)
    for k in range(-reach, reach + 1):
        places = low + k
        away = np.abs(places - positions) / stretch
        part = _cubic(away, wish.coefficient) if wish.mode == "cubic" else np.clip(1 - away, 0, None)
        if wish.exclude_outside:
            part = np.where((places >= 0) & (places < line.size), part, 0)
        np.add.at(found, (rows, np.clip(places, 0, line.size - 1)), part)
    total = found.sum(1, keepdims=True)
    return np.asarray(found / np.where(total == 0, 1, total))


def _cubic(away: Array, a: float) -> Array:
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = a * (((away - 5) * away + 8) * away - 4)
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))
