"""Random descriptions of the operators that move and interpolate: every level, type, layout and attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.operators.schema.fields import dml_name
from drawing import SEEDS, STYLES, Case, Operator, draw_sizes, draw_tensor, make_case, pick, upto
from drawing_windows import draw_window
from selecting_drawing import MAKERS as SELECTING
from selecting_drawing import contents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drawing import Array, Tensor

    Sizes = tuple[int, ...]
    Drawn = tuple[dict[str, Sizes], dict[str, Any]]
    """The sizes of each tensor, and the attributes."""

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
    contents |= contents_of(draw, cls, tensors, attributes)
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
    **SELECTING,
}
