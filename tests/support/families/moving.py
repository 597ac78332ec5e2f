"""The operators that move and interpolate: what they give in NumPy, written from the documents alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from agreement import assert_same
from anydml import DataType, FeatureLevel
from anydml.operators.schema.fields import dml_name
from drawing import SEEDS, STYLES, Case, Operator, draw_sizes, draw_tensor, draw_window, make_case, pick, upto
from families import broken_rules, selecting
from families.family import Family
from families.regions import roi_align, roi_align_gradient, roi_pooling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drawing import Tensor
    from families.elementwise import Array

    Sizes = tuple[int, ...]
    Drawn = tuple[dict[str, Sizes], dict[str, Any]]
    """The sizes of each tensor, and the attributes."""


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
    **selecting.ORACLE,
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


# Random descriptions: every level, type, layout and attribute


LEVELS = tuple(reversed(FeatureLevel))
NUMBERS = (0, 1, 7, 100)
SCALES = (1.0, 2.0, 3.0, 0.5, 1.5, 1 / 3, 2 / 3, 0.25, 5.0, 2.75, 0.3)
OFFSETS = (0.5, -0.5, 0.0, 0.25, -1.5)
WINDOWS = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")
REGIONS = ("roi_tensor", "batch_indices_tensor")
WEIGHTED = ("RESAMPLE", "UPSAMPLE", "FOLD", "ROI")
"""Operators that compute, and are given numbers that are not too large."""


@st.composite
def moving_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    row = cls.support.row_at(level)
    first = next(iter(row.tensors.values()))
    data_type, count = pick(draw, sorted(first.data_types)), pick(draw, sorted(first.dimension_counts))
    sizes, attributes = MAKERS[cls](draw, cls, level, data_type, count)
    chosen = {first.data_types: data_type}
    """By the types that a tensor takes: those that take the same are of one."""
    types = {}
    for name in sizes:
        taken = row.tensors[dml_name(name)].data_types
        if taken not in chosen:
            among = [kind for kind in sorted(taken) if kind is data_type or not (kind.is_float and data_type.is_float)]
            chosen[taken] = pick(draw, among)
        types[name] = chosen[taken]
    tensors = {
        name: draw_tensor(draw, types[name], own, is_output=name in cls.output_names()) for name, own in sizes.items()
    }
    images = sizes.get("input_tensor", sizes.get("output_gradient_tensor", (1,)))[0]
    contents = {name: _regions(tensors[name], draw(SEEDS), images) for name in REGIONS if name in tensors}
    contents |= selecting.contents_of(draw, cls, tensors, attributes)
    styles = ("small", "normal") if cls.type.name.startswith(WEIGHTED) else STYLES
    return make_case(draw, cls, level, tensors, attributes, contents=contents, styles=styles)


def _regions(tensor: Tensor, seed: int, images: int) -> Array:
    """Numbers of regions, and of the images that are there; a region of five numbers begins with its image's."""
    rng, kind = np.random.default_rng(seed), tensor.data_type
    if not kind.is_float:
        return rng.integers(0, images, tensor.extent).astype(kind.dtype)
    found = rng.integers(-8, 40, tensor.extent) / 4
    if tensor.sizes[-1] == 5:
        found[tensor.places[::5]] = rng.integers(0, 4 * images, len(tensor.places[::5])) / 4
    return found.astype(kind.dtype)


def _padding(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 24)
    modes = list(dml.PaddingMode)[: 3 + (level >= FeatureLevel.LEVEL_3_0) + (level >= FeatureLevel.LEVEL_6_4)]
    pads: list[tuple[int, int]] = []
    left = 48
    for size in sizes:
        most = max(min(12, left // size), 0)
        low = pick(draw, (0, draw(upto(most))))
        high = pick(draw, (0, draw(upto(max(most - low, 0)))))
        pads.append((low, high))
        left = max(left // (low + size + high), 1)
    attributes: dict[str, Any] = {
        "padding_mode": pick(draw, modes),
        "start_padding": [low for low, _ in pads],
        "end_padding": [high for _, high in pads],
        "padding_value": pick(draw, NUMBERS),
    }
    if cls is dml.Padding1:
        attributes["padding_value_data_type"] = data_type
    else:
        attributes["padding_value"] = pick(draw, (*NUMBERS, -3.75, 10.6, 1e9, -1e30))
    whole = tuple(low + size + high for size, (low, high) in zip(sizes, pads, strict=True))
    return {"input_tensor": sizes, "output_tensor": whole}, attributes


def _tile(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, repeats = draw_sizes(draw, count, 16), draw_sizes(draw, count, 8)
    whole = tuple(size * repeat for size, repeat in zip(sizes, repeats, strict=True))
    return {"input_tensor": sizes, "output_tensor": whole}, {"repeats": list(repeats)}


def _blocks(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    (n, c, h, w), block = draw_sizes(draw, 4, 12), 1 + draw(upto(3))
    deep, wide = (n, c * block**2, h, w), (n, c, h * block, w * block)
    attributes: dict[str, Any] = {"block_size": block}
    if "order" in cls.field_types():
        attributes["order"] = pick(draw, tuple(dml.DepthSpaceOrder))
    one, other = (deep, wide) if "DEPTH_TO" in cls.type.name else (wide, deep)
    return {"input_tensor": one, "output_tensor": other}, attributes


def _diagonal(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 48)
    value = pick(draw, (*NUMBERS, 10.6, -3.5, 1e9))
    return {"output_tensor": sizes}, {"offset": pick(draw, (0, 1, -1, 2, -7, 2**31 - 1, -(2**31))), "value": value}


def _diagonals(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 48)
    bounds = [pick(draw, (0, 1, -1, 2, -3, 2**31 - 1, -(2**31))) for _ in range(2)]
    attributes = {
        "value_data_type": data_type,
        "value": pick(draw, NUMBERS),
        "diagonal_fill_begin": bounds[0],
        "diagonal_fill_end": bounds[1],
    }
    given = {"input_tensor": sizes} if pick(draw, (True, False)) else {}
    return {**given, "output_tensor": sizes}, attributes


def _slice_gradient(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    whole = draw_sizes(draw, count, 64)
    sizes, attributes = draw_window(draw, whole)
    return {"input_gradient_tensor": sizes, "output_gradient_tensor": whole}, attributes


def _resampled(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 24)
    scales = [pick(draw, SCALES) for _ in sizes]
    wanted = [max(int(size * scale), 1) for size, scale in zip(sizes, scales, strict=True)]
    lengths = [min(size if pick(draw, (True, True, False)) else 1 + draw(upto(5)), 12) for size in wanted]
    attributes: dict[str, Any] = {"interpolation_mode": pick(draw, tuple(dml.InterpolationMode)), "scales": scales}
    for name in ("input_pixel_offsets", "output_pixel_offsets"):
        if name in cls.field_types():
            attributes[name] = [pick(draw, OFFSETS) for _ in sizes]
    if "rounding_direction" in cls.field_types():
        attributes["rounding_direction"] = pick(draw, tuple(dml.AxisDirection))
    if "antialiased" in cls.field_types():
        attributes["antialiased"] = pick(draw, (False, True))
    if "GRAD" in cls.type.name:
        return {"input_gradient_tensor": tuple(lengths), "output_gradient_tensor": sizes}, attributes
    return {"input_tensor": sizes, "output_tensor": tuple(lengths)}, attributes


def _upsampled(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, (width, height) = draw_sizes(draw, count, 16), (1 + draw(upto(5)) for _ in range(2))
    whole = (*sizes[:-2], sizes[-2] * height, sizes[-1] * width)
    attributes = {"scale_size": [width, height], "interpolation_mode": pick(draw, tuple(dml.InterpolationMode))}
    return {"input_tensor": sizes, "output_tensor": whole}, attributes


def _windows(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    image = draw_sizes(draw, pick(draw, range(3, 9)), 24)
    arrays: dict[str, list[int]] = {name: [] for name in WINDOWS}
    columns, blocks = image[1], 1
    for size in image[2:]:
        window, stride, dilation = (1 + draw(upto(2)) for _ in range(3))
        low, high = (draw(upto(2)) for _ in range(2))
        if size + low + high < dilation * (window - 1) + 1 or columns * window * blocks > 200:
            window, dilation = 1, 1
        columns *= window
        blocks *= (size + low + high - dilation * (window - 1) - 1) // stride + 1
        for name, number in zip(WINDOWS, (window, stride, dilation, low, high), strict=True):
            arrays[name].append(number)
    flat = (image[0], columns, blocks)
    one, other = (image, flat) if cls is dml.Unfold else (flat, image)
    return {"input_tensor": one, "output_tensor": other}, arrays


def _region_sizes(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    n, c, h, w = draw_sizes(draw, 4, 48)
    sizes: dict[str, Sizes]
    regions, height, width = (1 + draw(upto(2)) for _ in range(3))
    sizes = {
        "input_tensor": (n, c, h, w),
        "roi_tensor": (1, 1, regions, 5),
        "output_tensor": (regions, c, height, width),
    }
    if cls is dml.RoiPooling:
        return sizes, {"spatial_scale": pick(draw, (1.0, 0.5, 0.25)), "pooled_size": [width, height]}
    least = 1 + draw(upto(1))
    attributes: dict[str, Any] = {
        "reduction_function": pick(draw, (dml.ReduceFunction.AVERAGE, dml.ReduceFunction.MAX)),
        "interpolation_mode": pick(draw, tuple(dml.InterpolationMode)),
        "spatial_scale_x": pick(draw, (1.0, 0.5)),
        "spatial_scale_y": pick(draw, (1.0, 0.25)),
        "out_of_bounds_input_value": pick(draw, (0.0, 3.0)),
        "minimum_samples_per_output": least,
        "maximum_samples_per_output": pick(draw, (least, least + 1, 2**32 - 1)),
    }
    if cls is not dml.RoiAlign:
        attributes |= {
            "input_pixel_offset": pick(draw, (0.5, 0.0)),
            "output_pixel_offset": pick(draw, (-0.5, 0.0)),
            "align_regions_to_corners": pick(draw, (False, True)),
        }
    lead = (1,) * draw(upto(2))
    whole = {"input_tensor": (n, c, h, w), "roi_tensor": (*lead, regions, 4), "batch_indices_tensor": (*lead, regions)}
    if cls is dml.RoiAlignGrad:
        return _region_gradients(draw, whole, (regions, c, height, width), attributes)
    return {**whole, "output_tensor": (regions, c, height, width)}, attributes


def _region_gradients(draw: st.DrawFn, whole: dict[str, Sizes], sizes: Sizes, attributes: dict[str, Any]) -> Drawn:
    """One output or both, and the input where it is read, or where nobody reads it."""
    image, given, line = (whole.pop(name) for name in tuple(whole))
    asked = pick(draw, ((True, False), (True, True), (False, True)))
    is_read = asked[1] or attributes["reduction_function"] is dml.ReduceFunction.MAX
    first = {"input_tensor": image} if is_read or pick(draw, (False, True)) else {}
    inputs = {**first, "input_gradient_tensor": sizes, "roi_tensor": given, "batch_indices_tensor": line}
    outputs = {"output_gradient_tensor": image, "output_roi_gradient_tensor": given}
    del attributes["out_of_bounds_input_value"]
    found = {name: own for (name, own), is_asked in zip(outputs.items(), asked, strict=True) if is_asked}
    return {**inputs, **found}, attributes


MAKERS: dict[Operator, Callable[..., Drawn]] = {
    dml.Padding: _padding,
    dml.Padding1: _padding,
    dml.Tile: _tile,
    dml.DepthToSpace: _blocks,
    dml.DepthToSpace1: _blocks,
    dml.SpaceToDepth: _blocks,
    dml.SpaceToDepth1: _blocks,
    dml.DiagonalMatrix: _diagonal,
    dml.DiagonalMatrix1: _diagonals,
    dml.SliceGrad: _slice_gradient,
    **dict.fromkeys((dml.Resample, dml.Resample1, dml.Resample2, dml.Resample3), _resampled),
    **dict.fromkeys((dml.ResampleGrad, dml.ResampleGrad1), _resampled),
    dml.Upsample2D: _upsampled,
    dml.Unfold: _windows,
    dml.Fold: _windows,
    **dict.fromkeys((dml.RoiPooling, dml.RoiAlign, dml.RoiAlign1, dml.RoiAlignGrad), _region_sizes),
    **selecting.MAKERS,
}


def check(desc: dml.OperatorDesc, got: list[Array], wanted: list[Array], engine: str) -> None:
    """Bits, or numbers that are weighted in FLOAT32."""
    for one, answer in zip(got, wanted, strict=True):
        assert_moved(one, answer.reshape(one.shape), desc)


FAMILY = Family(MOVING, moving_cases, expected, check, rules=broken_rules.REGIONS)
