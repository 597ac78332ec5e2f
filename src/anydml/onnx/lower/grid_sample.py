"""AffineGrid and GridSample: where a tensor's elements stand, and what a tensor has at such places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.core.enums import IndexMode, ReduceFunction
from anydml.core.errors import show
from anydml.core.memory import packed_strides
from anydml.onnx.element_types import FLOAT, INT64, UINT32
from anydml.onnx.lower.data_movement import convert
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.bound_node import BoundNode

_MODES = {"linear": (0, 1), "bilinear": (0, 1), "nearest": (0,), "cubic": (-1, 0, 1, 2), "bicubic": (-1, 0, 1, 2)}
"""With the elements that go into a sample, from the last one at or before it on."""
_PADDINGS = ("zeros", "border", "reflection")
_SHARPNESS = -0.75


def affine_grid(node: BoundNode) -> list[Value]:
    """AffineGrid: the places of a tensor's elements, from -1 to 1 in each dimension, after an affine map."""
    theta, size = node.input(0), node.sizes(1, "size")
    count = len(size) - 2
    if count not in (2, 3) or theta.shape != (size[0], count, count + 1) or min(size) < 1:
        rule = "theta must be {N, 2, 3} for a size of 4 numbers, or {N, 3, 4} for 5, all at least 1"
        node.refuse("theta", rule, value=theta.shape, found=f"{theta.shape} and {show(size)}")
    # They are made before the graph is, as FLOAT64, and stacked once more.
    places_size = 8 * (2 * count + 2) * math.prod(size[2:])
    node.tracer.beside.limit.check(places_size, "the places of AffineGrid", node.label)
    is_at_corners = bool(node.integer("align_corners"))
    lines = []
    for length in size[2:]:
        steps = np.arange(length)
        lines.append(steps * 2 / max(length - 1, 1) - 1 if is_at_corners else (2 * steps + 1) / length - 1)
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size[2:])], -1).reshape(-1, count + 1)
    base = Value.of(theta.element, places)
    spread = node.tracer.restride(base, (size[0], *places.shape), (0, places.shape[1], 1))
    shape = (size[0], places.shape[0], count)
    found = node.tracer.apply(dml.gemm, [spread, theta], shape, trans_b=True)
    return [found.reshaped((size[0], *size[2:], count))]


class Taps(NamedTuple):
    """Elements along a dimension that go into samples."""

    places: Value
    """Whole numbers, as FLOAT."""
    parts: Value | None
    """Of each; None where one element is all."""
    inside: Value | None = None
    """Whether they are there; None where all are."""

    def shaped(self, node: BoundNode, change: Callable[..., tuple[int, ...]]) -> Taps:
        """The same in shapes that are made of the sizes."""
        return Taps(*(part and node.tracer.reshape(part, change(*part.shape)) for part in self))  # type: ignore[arg-type]  # places are there


def grid_sample(node: BoundNode) -> list[Value]:
    """GridSample: what a tensor has at places from -1 to 1 in each dimension, the last dimension's first."""
    x, grid = node.input(0), node.input(1)
    count = len(x.shape) - 2
    if count not in (2, 3) or len(grid.shape) != count + 2 or (grid.shape[0], grid.shape[-1]) != (x.shape[0], count):
        rule = "X and grid must be {N, C, H, W} and {N, H_out, W_out, 2}, or {N, C, D, H, W} and {N, …, 3}"
        node.refuse("grid", rule, value=grid.shape, found=f"{x.shape} and {grid.shape}")
    mode, padding = node.text("mode"), node.one_of("padding_mode", _PADDINGS)
    if mode not in _MODES:
        node.refuse("mode", "mode must be linear, nearest or cubic", value=mode)
    shape = (*x.shape[:2], *grid.shape[1:-1])
    if 0 in shape:
        return [Value(x.element, shape)]
    if not x.count:
        node.refuse("X", "X must have an element", value=x.shape)
    flat = node.tracer.reshape(convert(node, grid, FLOAT), (x.shape[0], math.prod(shape[2:]), count))
    taps = []
    for k, size in enumerate(x.shape[2:]):
        place = take(node, flat, [0, 0, count - 1 - k], [*flat.shape[:2], 1], [1, 1, 1]).reshaped(flat.shape[:2])
        taps.append(_taps(node, place, size, _MODES[mode], padding, align=bool(node.integer("align_corners"))))
        taps[k] = taps[k].shaped(
            node, lambda first, *rest, k=k: (*(first if j == k else 1 for j in range(count)), *rest)
        )
    image = Value.of(INT64, np.arange(x.shape[0])[:, None])
    seen = sampled(node, x if mode == "nearest" else convert(node, x, FLOAT), image, taps)
    if mode != "nearest":
        seen = reduce(node, seen, ReduceFunction.SUM, range(1, 1 + count))
    return [convert(node, by_image(node, seen, shape), x.element)]


def sampled(node: BoundNode, x: Value, image: Value, taps: Sequence[Taps]) -> Value:
    """The values of images at places, times the parts: a dimension of channels, then those of the places."""
    sizes, strides = x.shape[2:], packed_strides(x.shape[2:])
    area = math.prod(sizes)
    element = UINT32 if x.shape[0] * area < 2**31 else INT64
    place = compute(node, dml.multiply, convert(node, image, element), Value.of(element, area))
    for tap, stride in zip(taps, strides, strict=True):
        along = convert(node, tap.places, element)
        step = along if stride == 1 else compute(node, dml.multiply, along, Value.of(element, stride))
        place = compute(node, dml.add, place, step)
    by_channel = node.tracer.restride(x, (x.shape[1], x.shape[0], area), (area, x.shape[1] * area, 1))
    flat = node.tracer.reshape(by_channel, (x.shape[1], x.shape[0] * area))
    found = node.tracer.apply(dml.gather, [flat, place], (x.shape[1], *place.shape), 1, IndexMode.CLAMP)
    parts = _products(node, dml.multiply, [tap.parts for tap in taps])
    # Elements and parts apart, each before they are multiplied: sums of products are quick, and a part may be NaN.
    for inside in _products(node, dml.logical_and, [tap.inside for tap in taps]):
        found, *parts = (compute(node, dml.if_, inside, one, Value.of(one.element, 0)) for one in (found, *parts))
    for part in parts:
        found = compute(node, dml.multiply, found, part)
    return found


def _products(node: BoundNode, function: Callable[..., Any], several: Sequence[Value | None]) -> list[Value]:
    """One tensor of all that are there, if any is."""
    found: list[Value] = []
    for value in several:
        if value is not None:
            found = [compute(node, function, found[0], value) if found else value]
    return found


def by_image(node: BoundNode, found: Value, shape: tuple[int, ...]) -> Value:
    """A tensor of channels, then images, as one of images, then channels."""
    count, channels, rest = shape[0], shape[1], math.prod(shape[2:])
    return node.tracer.restride(found, (count, channels, rest), (rest, count * rest, 1)).reshaped(shape)


def _taps(node: BoundNode, place: Value, size: int, offsets: Sequence[int], padding: str, *, align: bool) -> Taps:
    """The elements around places from -1 to 1, in a first dimension of their own."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    half = (high - low) / 2
    x = compute(node, dml.identity, place, scale_bias=(half, low + half))
    if len(offsets) == 1:
        x = compute(node, dml.round, x)
    x = _moved_inside(node, x, padding, low, high, size)
    first = x if len(offsets) == 1 else compute(node, dml.floor, x)
    every = compute(node, dml.add, first, Value.of(FLOAT, np.reshape(offsets, (-1, 1, 1))))
    near = _moved_inside(node, every, padding, low, high, size)
    near = compute(node, dml.clip, near, min=0.0, max=size - 1.0)
    inside = compute(node, dml.logical_equals, near, every) if padding == "zeros" else None
    if len(offsets) == 1:
        return Taps(near, None, inside)
    away = compute(node, dml.abs, compute(node, dml.subtract, x, every))
    return Taps(near, _cubic(node, away) if len(offsets) > 2 else _less(node, away), inside)


def _moved_inside(node: BoundNode, x: Value, padding: str, low: float, high: float, size: int) -> Value:
    """Places outside of a tensor moved into it: to the nearest end, or reflected at the ends."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        # A wave that goes up from the low end to the high one, and back down.
        extent = high - low
        if not extent:
            return compute(node, dml.clip, x, min=low, max=high)
        from_low = compute(node, dml.abs, compute(node, dml.identity, x, scale_bias=(1.0, -low)))
        within = compute(node, dml.modulus_truncate, from_low, Value.of(FLOAT, 2 * extent))
        from_high = compute(node, dml.abs, compute(node, dml.identity, within, scale_bias=(1.0, -extent)))
        return compute(node, dml.identity, from_high, scale_bias=(-1.0, high))
    # Each element that is read is the nearest inside, as in PyTorch and ONNX Runtime, so that a cubic bends near an
    # end; two elements outside it is straight. ONNX's own evaluator moves the place itself.
    return compute(node, dml.clip, x, min=-2.0, max=size + 1.0)


def _less(node: BoundNode, away: Value) -> Value:
    """1 - away: the part of an element in a line between two."""
    return compute(node, dml.identity, away, scale_bias=(-1.0, 1.0))


def _cubic(node: BoundNode, away: Value) -> Value:
    """The part of an element in a cubic of four: one polynomial up to a distance of 1, another up to 2."""
    a = _SHARPNESS
    found = []
    for factors in ((a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)):
        value = compute(node, dml.identity, away, scale_bias=factors[:2])
        for factor in factors[2:]:
            value = compute(node, dml.multiply, value, away)
            value = compute(node, dml.identity, value, scale_bias=(1.0, factor)) if factor else value
        found.append(value)
    is_near = compute(node, dml.logical_less_than_or_equal, away, Value.of(FLOAT, 1))
    return compute(node, dml.if_, is_near, *found, element=FLOAT)
