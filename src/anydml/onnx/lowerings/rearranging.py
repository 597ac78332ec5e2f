"""Pad, CenterCropPad, Tile, DepthToSpace, SpaceToDepth, Col2Im, Trilu and EyeLike: elements elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.enums import DepthSpaceOrder, PaddingMode
from anydml.errors import show
from anydml.onnx.lowerings.moving import retyped
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.types import DOUBLE, UINT64, read_element_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value

_MODES = {"constant": PaddingMode.CONSTANT, "edge": PaddingMode.EDGE, "reflect": PaddingMode.REFLECTION}
_ORDERS = {"DCR": DepthSpaceOrder.DEPTH_COLUMN_ROW, "CRD": DepthSpaceOrder.COLUMN_ROW_DEPTH}
_FAR = 2**31 - 1


def pad_by_attributes(name: str) -> Callable[[Node], list[Value]]:
    """Pad below opset 11: paddings are an attribute, which is called otherwise in opset 1, and so is the value."""

    def lower(node: Node) -> list[Value]:
        given = node.integers(name)
        if given is None:
            node.refuse(name, f"{name} must be given")
        return [_pad(node, given, node.real("value"), range(len(node.input(0).shape)))]

    return lower


def pad(node: Node) -> list[Value]:
    """Pad from opset 11 on: paddings are an input, of some axes or all."""
    data, value = node.input(0), node.optional(2)
    if value is not None and value.count != 1:
        node.refuse("constant_value", "constant_value must be one number", value=value.shape, found=str(value.shape))
    number = 0 if value is None else value.values("constant_value").reshape(-1)[0].item()
    rank = len(data.shape)
    axes = range(rank) if node.optional(3) is None else node.axes(node.numbers(3, "axes"), rank)
    return [_pad(node, node.numbers(1, "pads"), number, axes)]


def _pad(node: Node, given: Sequence[int], number: float, axes: Sequence[int]) -> Value:
    data = node.input(0)
    if len(given) != 2 * len(axes):
        rule = f"pads must have {2 * len(axes)} numbers, two for each axis"
        node.refuse("pads", rule, value=given, found=str(len(given)))
    modes = {**_MODES, "wrap": PaddingMode.WRAP} if node.version >= 19 else _MODES
    mode = modes.get(node.text("mode"))
    if mode is None:
        node.refuse("mode", f"mode must be one of {', '.join(modes)}", found=show(node.text("mode")))
    pads = [[0, 0] for _ in data.shape]
    for i, axis in enumerate(axes):
        pads[axis] = [given[i], given[i + len(axes)]]
    return _padded(node, pads, mode, number)


def center_crop_pad(node: Node) -> list[Value]:
    """CenterCropPad: the middle of a tensor, or zeros around it; of an odd number one more at the end."""
    shape, rank = node.input(0).shape, len(node.input(0).shape)
    given = node.integers("axes")
    axes = list(range(rank)) if given is None else node.axes(given, rank)
    wanted = node.sizes(1, "shape")
    if len(wanted) != len(axes) or any(size < 0 for size in wanted):
        rule = f"shape must have {len(axes)} sizes of at least 0, one for each axis"
        node.refuse("shape", rule, value=wanted, found=show(wanted))
    pads = [[0, 0] for _ in range(rank)]
    for axis, size in zip(axes, wanted, strict=True):
        more = abs(size - shape[axis])
        sign = 1 if size > shape[axis] else -1
        pads[axis] = [sign * (more // 2), sign * (more - more // 2)]
    return [_padded(node, pads, PaddingMode.CONSTANT, 0)]


def _padded(node: Node, pads: Sequence[Sequence[int]], mode: PaddingMode, number: float) -> Value:
    data = node.input(0)
    whole = tuple(size + sum(ends) for size, ends in zip(data.shape, pads, strict=True))
    beyond = [size < -min(ends) for size, ends in zip(data.shape, pads, strict=True)]
    if any(beyond) and min(whole) >= 0 and mode is PaddingMode.CONSTANT:  # more is cut off at one end than there is
        return node.tracer.fill(dml.fill_value_constant, data.element, whole, number)
    data = _cropped(node, data, pads)
    low, high = ([max(ends[k], 0) for ends in pads] for k in (0, 1))
    if not any((*low, *high)):
        return data
    shape = tuple(first + size + last for first, size, last in zip(low, data.shape, high, strict=True))
    if any(size > _FAR for size in shape):
        node.refuse("pads", "the padded sizes must be below 2^31", value=shape, found=str(shape))
    if mode is not PaddingMode.CONSTANT:
        if any(size == 0 != full for size, full in zip(data.shape, shape, strict=True)):
            node.refuse("data", f"data must have an element to pad with, for mode {node.text('mode')}", found="none")
        return node.tracer.apply(dml.padding1, [data], shape, tuple(low), tuple(high), mode)
    if not data.count:
        return node.tracer.fill(dml.fill_value_constant, data.element, shape, number)
    options: dict[str, Any] = {"padding_value": int(number) if data.element.is_bool else number}
    return node.tracer.apply(dml.padding1, [data], shape, tuple(low), tuple(high), mode, **options)


def _cropped(node: Node, data: Value, pads: Sequence[Sequence[int]]) -> Value:
    """The rest of a tensor after paddings below 0."""
    first = [max(-low, 0) for low, _ in pads]
    last = [max(-high, 0) for _, high in pads]
    count = [size - low - high for size, low, high in zip(data.shape, first, last, strict=True)]
    if any(size < 0 for size in count):
        node.refuse("pads", f"pads must leave sizes of at least 0 of {data.shape}", found=str(count))
    return take(node, data, first, count, [1] * len(count)) if tuple(count) != data.shape else data


def tile(node: Node) -> list[Value]:
    """Tile: of DOUBLE, which TILE lacks, its bits."""
    data, repeats = node.input(0), node.numbers(1, "repeats")
    if len(repeats) != len(data.shape) or any(repeat < 0 for repeat in repeats):
        rule = f"repeats must have {len(data.shape)} numbers of at least 0, one for each dimension"
        node.refuse("repeats", rule, value=repeats, found=show(repeats))
    return [_tiled(node, data, repeats)]


def tile_along_axis(node: Node) -> list[Value]:
    """Tile of opset 1: so many tiles along one axis."""
    data = node.input(0)
    tiles, axis = (node.numbers(k, name, may_be_scalar=True) for k, name in ((1, "tiles"), (2, "axis")))
    if len(tiles) != 1 or len(axis) != 1 or tiles[0] < 0:
        node.refuse("tiles", "tiles and axis must be one number each, and tiles at least 0", found=show(tiles))
    repeats = [1] * len(data.shape)
    repeats[node.axis(axis[0], len(data.shape))] = tiles[0]
    return [_tiled(node, data, repeats)]


def _tiled(node: Node, data: Value, repeats: Sequence[int]) -> Value:
    shape = tuple(size * repeat for size, repeat in zip(data.shape, repeats, strict=True))
    if shape == data.shape:
        return data
    bits = retyped(node, data, UINT64) if data.element is DOUBLE else data
    found = node.tracer.apply(dml.tile, [bits], shape, tuple(repeats))
    return retyped(node, found, DOUBLE) if data.element is DOUBLE else found


def depth_to_space(node: Node) -> list[Value]:
    """DepthToSpace."""
    (n, c, h, w), block = _blocks(node)
    if c % block**2:
        node.refuse("input", f"input must have a multiple of {block**2} channels", found=str(c))
    return _in_blocks(node, dml.depth_to_space1, (n, c // block**2, h * block, w * block), block)


def space_to_depth(node: Node) -> list[Value]:
    """SpaceToDepth."""
    (n, c, h, w), block = _blocks(node)
    if h % block or w % block:
        node.refuse("input", f"input must have multiples of {block} rows and columns", found=f"{h} and {w}")
    return _in_blocks(node, dml.space_to_depth1, (n, c * block**2, h // block, w // block), block)


def _blocks(node: Node) -> tuple[Sequence[int], int]:
    data, block = node.input(0), node.integer("blocksize")
    if len(data.shape) != 4:
        node.refuse("input", "input must have 4 dimensions", value=data.shape, found=str(data.shape))
    if not 1 <= block < 2**16:
        node.refuse("blocksize", "blocksize must lie in 1 .. 65535", value=block, found=str(block))
    return data.shape, block


def _in_blocks(node: Node, function: Callable[..., Any], shape: tuple[int, ...], block: int) -> list[Value]:
    mode = node.text("mode") if "mode" in node.rules.attributes else "DCR"
    if mode not in _ORDERS:
        node.refuse("mode", "mode must be DCR or CRD", found=show(mode))
    return [node.tracer.apply(function, [node.input(0)], shape, block, _ORDERS[mode])]


def triangle(node: Node) -> list[Value]:
    """Trilu: what lies on one side of a diagonal, and zeros."""
    x, offset = node.input(0), node.optional(1)
    if len(x.shape) < 2:
        node.refuse("input", "input must have at least 2 dimensions", value=x.shape, found=str(x.shape))
    if offset is not None and offset.count != 1:
        node.refuse("k", "k must be one number", value=offset.shape, found=str(offset.shape))
    height, width = x.shape[-2:]
    diagonal = 0 if offset is None else min(max(offset.ints("k")[0], -height), width)  # past a corner all are alike
    begin, end = (-_FAR, diagonal) if node.integer("upper") else (diagonal + 1, _FAR)
    flat = node.tracer.reshape(x, (math.prod(x.shape[:-2]), height, width))
    return [node.tracer.apply(dml.diagonal_matrix1, [flat], flat.shape, begin, end, 0).reshaped(x.shape)]


def eye_like(node: Node) -> list[Value]:
    """EyeLike: ones on a diagonal of a matrix of another's shape."""
    like, k = node.input(0), node.integer("k")
    if len(like.shape) != 2:
        node.refuse("input", "input must have 2 dimensions", value=like.shape, found=str(like.shape))
    element = read_element_type(node.integer("dtype"), node.label, "dtype") if node.has("dtype") else like.element
    offset = min(max(k, -like.shape[0]), like.shape[1])
    return [node.tracer.fill(dml.diagonal_matrix, element, like.shape, offset, 1.0)]


def columns_to_image(node: Node) -> list[Value]:
    """Col2Im: windows summed into a tensor."""
    x, image, block = node.input(0), node.sizes(1, "image_shape"), node.sizes(2, "block_shape")
    count = len(image)
    strides, dilations = (node.integers(name) or [1] * count for name in ("strides", "dilations"))
    pads = node.integers("pads") or [0] * (2 * count)
    held = math.prod(block)
    if not (len(block) == len(strides) == len(dilations) == count and len(pads) == 2 * count):
        node.refuse("block_shape", "block_shape, strides, dilations and pads must fit image_shape", found=show(block))
    if len(x.shape) != 3 or min([*block, *image], default=0) < 1 or x.shape[1] % held:
        rule = f"input must be {{N, C·{held}, L}}, and image_shape and block_shape at least 1"
        node.refuse("input", rule, value=x.shape, found=str(x.shape))
    shape = (x.shape[0], x.shape[1] // held, *image)
    arrays = (tuple(block), tuple(strides), tuple(dilations), tuple(pads[:count]), tuple(pads[count:]))
    return [node.tracer.apply(dml.fold, [x], shape, shape, *arrays)]
