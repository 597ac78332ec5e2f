"""Nodes that move elements: Transpose, Expand, Concat and casts; Pad, Tile, DepthToSpace and others that rearrange."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.core.enums import DataType, DepthSpaceOrder, PaddingMode
from anydml.core.memory import packed_strides
from anydml.onnx.element_types import DOUBLE, UINT64, element_of, read_element_type
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value
from anydml.onnx.protobuf import ELEMENT_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode


# Transpose, Expand, Concat, Cast, CastLike and BitCast


def transpose(node: BoundNode) -> list[Value]:
    """Transpose: a view at other strides, copied where nothing reads it so."""
    data = node.input(0)
    rank = len(data.shape)
    order = node.integers("perm")
    order = list(range(rank))[::-1] if order is None else order
    if sorted(order) != list(range(rank)):
        node.refuse("perm", f"perm must name each of 0 .. {rank - 1} once", value=order)
    return [transposed(node, data, order)]


def transposed(node: BoundNode, data: Value, order: Sequence[int] = (1, 0)) -> Value:
    """A tensor with its dimensions in another order; a matrix, if nothing is said, transposed."""
    strides = packed_strides(data.shape)
    return node.tracer.restride(data, tuple(data.shape[k] for k in order), tuple(strides[k] for k in order))


def expand(node: BoundNode) -> list[Value]:
    """Expand: a view that repeats elements, with strides of 0."""
    data, wanted = node.input(0), node.sizes(1, "shape")
    rank = max(len(data.shape), len(wanted))
    have = (1,) * (rank - len(data.shape)) + data.shape
    want = [1] * (rank - len(wanted)) + wanted
    if any(size < 0 for size in want) or any(a != b and a != 1 and b != 1 for a, b in zip(have, want, strict=True)):
        node.refuse("shape", f"shape must be one that {data.shape} can be broadcast to", value=wanted)
    return [spread(node, data, tuple(b if a == 1 else a for a, b in zip(have, want, strict=True)))]


def spread(node: BoundNode, data: Value, shape: tuple[int, ...]) -> Value:
    """A tensor repeated to a shape that NumPy would broadcast it to."""
    return node.tracer.restride(data, shape, spread_strides(data.shape, shape))


def spread_strides(sizes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides at which a packed tensor is repeated to a shape, as NumPy would broadcast it."""
    have = (1,) * (len(shape) - len(sizes)) + sizes
    return tuple(0 if a == 1 else stride for a, stride in zip(have, packed_strides(have), strict=True))


def concat_default(node: BoundNode) -> list[Value]:
    """Concat of opset 1, where the axis is 1 unless it is given."""
    return [_concat(node, node.integer("axis", 1))]


def concat(node: BoundNode) -> list[Value]:
    """Concat from opset 4 on."""
    return [_concat(node, node.integer("axis"))]


def _concat(node: BoundNode, given: int) -> Value:
    parts = node.inputs
    first = parts[0]
    axis = node.axis(given, len(first.shape))
    for i, part in enumerate(parts):
        if len(part.shape) != len(first.shape) or any(
            a != b for k, (a, b) in enumerate(zip(part.shape, first.shape, strict=True)) if k != axis
        ):
            rule = f"inputs[{i}] must have the sizes of the first, {first.shape}, except along axis {axis}"
            node.refuse(f"inputs[{i}]", rule, value=part.shape)
    shape = (*first.shape[:axis], sum(part.shape[axis] for part in parts), *first.shape[axis + 1 :])
    full = [part for part in parts if part.count]
    if not full:
        return Value(first.element, shape)
    return full[0] if len(full) == 1 else node.tracer.apply_to_list(dml.join, full, shape, axis)


def cast_by_name(node: BoundNode) -> list[Value]:
    """Cast of opset 1, where the type is a name."""
    name = node.text("to")
    if name not in ELEMENT_NUMBERS:
        node.refuse("to", "to must be the name of an element type", value=name)
    return [convert(node, node.input(0), read_element_type(ELEMENT_NUMBERS[name], node.label, "to"))]


def cast(node: BoundNode) -> list[Value]:
    """Cast from opset 6 on; what `saturate` and `round_mode` say is of types that DirectML lacks."""
    return [convert(node, node.input(0), read_element_type(node.integer("to"), node.label, "to"))]


def cast_like(node: BoundNode) -> list[Value]:
    """CastLike: a cast to another tensor's type."""
    return [convert(node, node.input(0), node.input(1).element)]


def bit_cast(node: BoundNode) -> list[Value]:
    """BitCast: the same memory, read as another type."""
    data, element = node.input(0), read_element_type(node.integer("to"), node.label, "to")
    bits = 8 * data.element.held.itemsize
    if 8 * element.held.itemsize != bits:
        rule = f"to must be a type of {bits} bits, as {data.element.name} is"
        node.refuse("to", rule, value=element.name, found=element.name)
    return [retyped(node, data, element)]


def retyped(node: BoundNode, data: Value, element: ElementType) -> Value:
    """The same memory as another type of as many bits."""
    return data.retyped(element) if data.is_known else node.tracer.reshape(data, data.shape).retyped(element)


def convert(node: BoundNode, data: Value, element: ElementType) -> Value:
    """Every element as a number of another type; a boolean is what is not 0."""
    if data.element == element:
        return data
    if element.is_bool:
        return _truths(node, data)
    if element.is_half:
        return _halves(node, data, element)
    if data.element.data_type == element.data_type:
        return retyped(node, data, element)
    return node.tracer.apply(dml.cast, [data], data.shape, element.data_type, element=element)


def _halves(node: BoundNode, data: Value, element: ElementType) -> Value:
    """Numbers of 4 bits: the lowest of whole numbers, as ONNX casts floats to them too."""
    whole, byte = element_of(element.data_type), element_of(DataType.UINT8)
    if data.element.data_type.is_float:
        data = convert(node, data, element_of(DataType.INT32))
    bits = compute(node, dml.bit_and, convert(node, data, byte), Value.of(byte, 15))
    if element.data_type.is_signed:  # the fourth bit is the sign
        raised = retyped(node, compute(node, dml.bit_xor, bits, Value.of(byte, 8)), whole)
        bits = compute(node, dml.subtract, raised, Value.of(whole, 8))
    return retyped(node, bits, element)


def _truths(node: BoundNode, data: Value) -> Value:
    if data.element.data_type is DataType.FLOAT64:  # which LOGICAL_EQUALS lacks: without its sign 0.0 is 64 zeros
        bits = retyped(node, data, UINT64)
        data = compute(node, dml.bit_and, bits, Value.of(UINT64, 2**63 - 1))
    is_zero = compute(node, dml.logical_equals, data, Value.of(data.element, 0))
    return compute(node, dml.logical_not, is_zero)


# Pad, CenterCropPad, Tile, DepthToSpace, SpaceToDepth, Col2Im, Trilu and EyeLike


_MODES = {"constant": PaddingMode.CONSTANT, "edge": PaddingMode.EDGE, "reflect": PaddingMode.REFLECTION}
_ORDERS = {"DCR": DepthSpaceOrder.DEPTH_COLUMN_ROW, "CRD": DepthSpaceOrder.COLUMN_ROW_DEPTH}
_FAR = 2**31 - 1


def pad_by_attributes(name: str) -> Callable[[BoundNode], list[Value]]:
    """Pad below opset 11: paddings are an attribute, which is called otherwise in opset 1, and so is the value."""

    def lower(node: BoundNode) -> list[Value]:
        given = node.integers(name)
        if given is None:
            node.refuse(name, f"{name} must be given")
        return [_pad(node, given, node.real("value"), range(len(node.input(0).shape)))]

    return lower


def pad(node: BoundNode) -> list[Value]:
    """Pad from opset 11 on: paddings are an input, of some axes or all."""
    data, value = node.input(0), node.one_number(2, "constant_value")
    number = 0 if value is None else value.values("constant_value").reshape(-1)[0].item()
    rank = len(data.shape)
    axes = range(rank) if node.optional(3) is None else node.axes(node.numbers(3, "axes"), rank)
    return [_pad(node, node.numbers(1, "pads"), number, axes)]


def _pad(node: BoundNode, given: Sequence[int], number: float, axes: Sequence[int]) -> Value:
    data = node.input(0)
    if len(given) != 2 * len(axes):
        rule = f"pads must have {2 * len(axes)} numbers, two for each axis"
        node.refuse("pads", rule, value=given, found=str(len(given)))
    modes = {**_MODES, "wrap": PaddingMode.WRAP} if node.version >= 19 else _MODES
    mode = modes[node.one_of("mode", modes)]
    pads = [[0, 0] for _ in data.shape]
    for i, axis in enumerate(axes):
        pads[axis] = [given[i], given[i + len(axes)]]
    return _padded(node, pads, mode, number)


def center_crop_pad(node: BoundNode) -> list[Value]:
    """CenterCropPad: the middle of a tensor, or zeros around it; of an odd number one more at the end."""
    shape, rank = node.input(0).shape, len(node.input(0).shape)
    given = node.integers("axes")
    axes = list(range(rank)) if given is None else node.axes(given, rank)
    wanted = node.sizes(1, "shape")
    if len(wanted) != len(axes) or any(size < 0 for size in wanted):
        node.refuse("shape", f"shape must have {len(axes)} sizes of at least 0, one for each axis", value=wanted)
    pads = [[0, 0] for _ in range(rank)]
    for axis, size in zip(axes, wanted, strict=True):
        more = abs(size - shape[axis])
        sign = 1 if size > shape[axis] else -1
        pads[axis] = [sign * (more // 2), sign * (more - more // 2)]
    return [_padded(node, pads, PaddingMode.CONSTANT, 0)]


def _padded(node: BoundNode, pads: Sequence[Sequence[int]], mode: PaddingMode, number: float) -> Value:
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
        node.refuse("pads", "the padded sizes must be below 2^31", value=shape)
    if mode is not PaddingMode.CONSTANT:
        if any(size == 0 != full for size, full in zip(data.shape, shape, strict=True)):
            node.refuse("data", f"data must have an element to pad with, for mode {node.text('mode')}", found="none")
        return node.tracer.apply(dml.padding1, [data], shape, tuple(low), tuple(high), mode)
    if not data.count:
        return node.tracer.fill(dml.fill_value_constant, data.element, shape, number)
    options: dict[str, Any] = {"padding_value": int(number) if data.element.is_bool else number}
    return node.tracer.apply(dml.padding1, [data], shape, tuple(low), tuple(high), mode, **options)


def _cropped(node: BoundNode, data: Value, pads: Sequence[Sequence[int]]) -> Value:
    """The rest of a tensor after paddings below 0."""
    first = [max(-low, 0) for low, _ in pads]
    last = [max(-high, 0) for _, high in pads]
    count = [size - low - high for size, low, high in zip(data.shape, first, last, strict=True)]
    if any(size < 0 for size in count):
        node.refuse("pads", f"pads must leave sizes of at least 0 of {data.shape}", found=str(count))
    return take(node, data, first, count, [1] * len(count)) if tuple(count) != data.shape else data


def tile(node: BoundNode) -> list[Value]:
    """Tile: of DOUBLE, which TILE lacks, its bits."""
    data, repeats = node.input(0), node.numbers(1, "repeats")
    if len(repeats) != len(data.shape) or any(repeat < 0 for repeat in repeats):
        rule = f"repeats must have {len(data.shape)} numbers of at least 0, one for each dimension"
        node.refuse("repeats", rule, value=repeats)
    return [_tiled(node, data, repeats)]


def tile_along_axis(node: BoundNode) -> list[Value]:
    """Tile of opset 1: so many tiles along one axis."""
    data = node.input(0)
    tiles, axis = (node.numbers(k, name, may_be_scalar=True) for k, name in ((1, "tiles"), (2, "axis")))
    if len(tiles) != 1 or len(axis) != 1 or tiles[0] < 0:
        node.refuse("tiles", "tiles and axis must be one number each, and tiles at least 0", value=tiles)
    repeats = [1] * len(data.shape)
    repeats[node.axis(axis[0], len(data.shape))] = tiles[0]
    return [_tiled(node, data, repeats)]


def _tiled(node: BoundNode, data: Value, repeats: Sequence[int]) -> Value:
    shape = tuple(size * repeat for size, repeat in zip(data.shape, repeats, strict=True))
    if shape == data.shape:
        return data
    bits = retyped(node, data, UINT64) if data.element is DOUBLE else data
    found = node.tracer.apply(dml.tile, [bits], shape, tuple(repeats))
    return retyped(node, found, DOUBLE) if data.element is DOUBLE else found


def depth_to_space(node: BoundNode) -> list[Value]:
    """DepthToSpace."""
    (n, c, h, w), block = _blocks(node)
    if c % block**2:
        node.refuse("input", f"input must have a multiple of {block**2} channels", found=str(c))
    return _in_blocks(node, dml.depth_to_space1, (n, c // block**2, h * block, w * block), block)


def space_to_depth(node: BoundNode) -> list[Value]:
    """SpaceToDepth."""
    (n, c, h, w), block = _blocks(node)
    if h % block or w % block:
        node.refuse("input", f"input must have multiples of {block} rows and columns", found=f"{h} and {w}")
    return _in_blocks(node, dml.space_to_depth1, (n, c * block**2, h // block, w // block), block)


def _blocks(node: BoundNode) -> tuple[Sequence[int], int]:
    data, block = node.input(0), node.integer("blocksize")
    node.check_rank("input", data, 4)
    if not 1 <= block < 2**16:
        node.refuse("blocksize", "blocksize must lie in 1 .. 65535", value=block)
    return data.shape, block


def _in_blocks(node: BoundNode, function: Callable[..., Any], shape: tuple[int, ...], block: int) -> list[Value]:
    order = _ORDERS[node.one_of("mode", _ORDERS, "DCR")]
    return [node.tracer.apply(function, [node.input(0)], shape, block, order)]


def triangle(node: BoundNode) -> list[Value]:
    """Trilu: what lies on one side of a diagonal, and zeros."""
    x, offset = node.input(0), node.one_number(1, "k")
    node.check_rank("input", x, least=2)
    height, width = x.shape[-2:]
    diagonal = 0 if offset is None else min(max(offset.ints("k")[0], -height), width)  # past a corner all are alike
    begin, end = (-_FAR, diagonal) if node.integer("upper") else (diagonal + 1, _FAR)
    flat = node.tracer.reshape(x, (math.prod(x.shape[:-2]), height, width))
    return [node.tracer.apply(dml.diagonal_matrix1, [flat], flat.shape, begin, end, 0).reshaped(x.shape)]


def eye_like(node: BoundNode) -> list[Value]:
    """EyeLike: ones on a diagonal of a matrix of another's shape."""
    like, k = node.input(0), node.integer("k")
    node.check_rank("input", like, 2)
    element = read_element_type(node.integer("dtype"), node.label, "dtype") if node.has("dtype") else like.element
    offset = min(max(k, -like.shape[0]), like.shape[1])
    return [node.tracer.fill(dml.diagonal_matrix, element, like.shape, offset, 1.0)]


def columns_to_image(node: BoundNode) -> list[Value]:
    """Col2Im: windows summed into a tensor."""
    x, image, block = node.input(0), node.sizes(1, "image_shape"), node.sizes(2, "block_shape")
    count = len(image)
    strides, dilations = (node.integers(name) or [1] * count for name in ("strides", "dilations"))
    pads = node.integers("pads") or [0] * (2 * count)
    held = math.prod(block)
    if not (len(block) == len(strides) == len(dilations) == count and len(pads) == 2 * count):
        node.refuse("block_shape", "block_shape, strides, dilations and pads must fit image_shape", value=block)
    if len(x.shape) != 3 or min([*block, *image], default=0) < 1 or x.shape[1] % held:
        rule = f"input must be {{N, C·{held}, L}}, and image_shape and block_shape at least 1"
        node.refuse("input", rule, value=x.shape)
    shape = (x.shape[0], x.shape[1] // held, *image)
    arrays = (tuple(block), tuple(strides), tuple(dilations), tuple(pads[:count]), tuple(pads[count:]))
    return [node.tracer.apply(dml.fold, [x], shape, shape, *arrays)]
