"""QuantizeLinear, DequantizeLinear, and products with weights of few bits."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.arrays.nibbles import pack
from anydml.core.enums import DataType, RoundingMode
from anydml.ir.blocked_weights import BLOCKS, has_way
from anydml.onnx.element_types import FLOAT, element_of, read_element_type
from anydml.onnx.lower.data_movement import convert, spread
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.indexing import take_blocks
from anydml.onnx.lower.interleaved_weights import can_be_interleaved
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Known, Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode

UINT8 = element_of(DataType.UINT8)

MOST_FOLDED = 256
"""Numbers below which what a model carries is computed at once, as shapes may depend on it."""
_TAKEN = ("INT8", "UINT8")
"""The results of ELEMENT_WISE_QUANTIZE_LINEAR."""


def quantize(node: BoundNode) -> list[Value]:
    """QuantizeLinear: round(x/scale) + zero point, halves to even, within the type's range."""
    x, zero = node.input(0), node.optional(2)
    element = zero.element if zero is not None else UINT8
    if zero is None and "output_dtype" in node.rules.attributes and node.integer("output_dtype", 0):
        element = read_element_type(node.integer("output_dtype"), node.label, "output_dtype")
    scale = _spread(node, node.input(1), x, "y_scale")
    point = _spread(node, zero, x, "y_zero_point") if zero is not None else Value.of(element, 0)
    if element.name in _TAKEN:
        if scale.element != x.element:  # a scale of FLOAT32 for numbers of FLOAT16, or the other way round
            x, scale = (convert(node, value, FLOAT) for value in (x, scale))
        return [compute(node, dml.quantize_linear, x, scale, point, element=element)]
    low, high = element.limits
    quotient = compute(node, dml.divide, convert(node, x, FLOAT), convert(node, scale, FLOAT))
    whole = compute(node, dml.round, quotient, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)
    moved = compute(node, dml.add, whole, convert(node, point, FLOAT))
    return [convert(node, compute(node, dml.clip, moved, min=float(low), max=float(high)), element)]


def dequantize(node: BoundNode) -> list[Value]:
    """DequantizeLinear: (x - zero point)·scale, of the scale's type."""
    x, zero = node.input(0), node.optional(2)
    found = _weights(node, x, node.input(1), zero)
    if found is None:
        scale = _spread(node, node.input(1), x, "x_scale")
        point = _spread(node, zero, x, "x_zero_point") if zero is not None else Value.of(x.element, 0)
        found = compute(node, dml.dequantize_linear, x, scale, point, element=scale.element)
    if "output_dtype" in node.rules.attributes and node.integer("output_dtype", 0):
        found = convert(node, found, read_element_type(node.integer("output_dtype"), node.label, "output_dtype"))
    return [found]


def _weights(node: BoundNode, x: Value, scale: Value, zero: Value | None) -> Value | None:
    """A model's weights by DEQUANTIZE, which products read as they lie; None for those that DEQUANTIZE does not take.

    Numbers of 4 bits that lie two to a byte stay so.
    """
    axis = node.axis(node.integer("axis", 1), max(len(x.shape), 1)) if scale.count > 1 else 0
    sizes = [1] * len(x.shape)
    if scale.count > 1 and len(scale.shape) == len(x.shape):
        sizes = list(scale.shape)
    elif scale.count > 1:
        sizes[axis] = scale.count
    block = node.integer("block_size", 0) if "block_size" in node.rules.attributes else 0
    if block:  # DEQUANTIZE has blocks of one length: no shorter one at the end
        wanted = [-(-size // block) if k == axis else size for k, size in enumerate(x.shape)]
        is_even = sizes == wanted and (sizes[axis] == 1 or x.shape[axis] % block == 0)
    else:
        is_even = scale.count == 1 or scale.shape == x.shape[axis : axis + 1]
    is_known = x.is_known and (zero is None or zero.is_known) and x.element.data_type in (DataType.INT8, DataType.UINT8)
    if x.count < MOST_FOLDED or not (is_known and is_even) or (zero and zero.shape != scale.shape):
        return None
    halves = DataType[x.element.name] if x.halves is not None else None
    numbers = [x, zero if zero is not None else Value.of(x.element, np.zeros(sizes))]
    if halves is not None:
        numbers = [Value(UINT8, (halves.bytes_of(one.count),), _bytes_of(one)) for one in numbers]

    def dequantise(*tensors: Any, **named: Any) -> Any:
        whole, point = (
            tensor.reinterpret(shape, data_type=halves)
            for tensor, shape in zip(tensors[::2], (x.shape, tuple(sizes)), strict=True)
        )
        return dml.dequantize(whole, tensors[1].reinterpret(tuple(sizes)), point, **named)

    return node.tracer.apply(dequantise, [numbers[0], scale, numbers[1]], x.shape, element=scale.element, folds=False)


def _bytes_of(value: Value) -> Known:
    """The bytes that numbers of 4 bits share."""
    return value.halves or Known(make=lambda: pack(value.values("")))


def _spread(node: BoundNode, value: Value, x: Value, name: str) -> Value:
    """A scale or a zero point: one for all, one for each place along an axis, or one for each block along it."""
    if value.count == 1:
        return node.tracer.reshape(value, ())
    axis = node.axis(node.integer("axis", 1), len(x.shape))
    block = node.integer("block_size", 0) if "block_size" in node.rules.attributes else 0
    if block < 0:
        node.refuse("block_size", "block_size must be at least 0", value=block)
    if not block:
        if value.shape != (x.shape[axis],):
            rule = f"{name} must be one number, or have one for each of the {x.shape[axis]} places along axis {axis}"
            node.refuse(name, rule, value=value.shape)
        return node.tracer.reshape(value, (value.count, *(1,) * (len(x.shape) - axis - 1)))
    wanted = tuple(-(-size // block) if k == axis else size for k, size in enumerate(x.shape))
    node.check_shape(name, value, wanted, why=f", a number for each block of {block} along axis {axis}")
    return _repeated(node, value, axis, block, x)


def _repeated(node: BoundNode, value: Value, axis: int, block: int, x: Value) -> Value:
    """A number for each block along an axis, as one for each element; the last block may be shorter."""
    before, after = value.shape[: axis + 1], value.shape[axis + 1 :]
    column = node.tracer.reshape(value, (*before, 1, *after))
    whole = spread(node, column, (*before, block, *after))
    long = node.tracer.reshape(whole, (*before[:-1], before[-1] * block, *after))
    return take(node, long, [0] * len(x.shape), list(x.shape), [1] * len(x.shape)) if long.shape != x.shape else long


_ROUNDS = 4
"""The accuracy level that allows rows to be rounded to 8 bits."""
_FEW = 8
"""Rows up to which they are, where an engine does not read weights of few bits by more."""
_BY_SIZES = ", as K, N, bits and block_size say"
_KINDS = {4: DataType.UINT4, 8: DataType.UINT8}
"""By the bits of a weight, what its bytes are."""


def matmul_bits(node: BoundNode) -> list[Value]:
    """MatMulNBits: A times weights of 2, 4 or 8 bits, by columns, each block of which has a scale and a zero point."""
    a, packed, scales, zeros, bias = node.input(0), node.input(1), node.input(2), node.optional(3), node.optional(5)
    length, columns, bits, block = (node.integer(name) for name in ("K", "N", "bits", "block_size"))
    if bits not in (2, *_KINDS):
        node.unsupported("bits", f"weights of {bits} bits are not supported", "quantise them to 2, 4 or 8")
    _check_prepacked(node, packed, columns, length, bits)
    if block < 16 or block & (block - 1) or length < 1 or columns < 1:
        rule = "block_size must be a power of two from 16 on, and K and N at least 1"
        node.refuse("block_size", rule, value=block, found=str((length, columns, block)))
    count = -(-length // block)
    row = count * block * bits // 8
    node.check_shape("B", packed, (columns, count, row // count), why=_BY_SIZES)
    for name, given in (("scales", scales), ("zero_points", zeros)):
        if given is not None:
            is_bytes = given.element is UINT8
            width = -(-count * bits // 8) if is_bytes else count
            node.check_shape(name, given, (columns * width,), (columns, width), why=_BY_SIZES)
    if bias is not None:
        node.check_shape("bias", bias, (columns,), why=_BY_SIZES)
    scale = node.tracer.reshape(scales, (columns, count))
    whole = (columns, count * block)
    rows = node.tracer.reshape(packed, (columns, row))
    if bits == 2:
        bits, rows = 4, _widened(node, rows)
        zeros = _wide_zeros(node, zeros, columns, count)
    if a.shape[-1:] != (length,):
        node.refuse("A", f"A must have rows of K = {length}", value=a.shape)
    if (groups := node.optional(4)) is not None:
        node.check_shape("g_idx", groups, (length,), (count * block,), why=", a block for each number of a column")
        found = _product_by_groups(node, a, rows, scale, zeros, groups, bits)
        return [_with_bias(node, found, bias, a)]

    is_packed = zeros is not None and not zeros.element.data_type.is_float
    traits = node.tracer.graph.device.engine.traits
    reads = traits.weight_only_rows
    # FLOAT16 would round each weight. An engine that reads weights of FLOAT32 alone as they lie is faster so, too: one
    # row by 4096 x 8192 takes 1.6 ms, where it took 3.0 (two threads, AVX-512); 64 rows take 1.3 times as long.
    if (DataType.FLOAT16, bits) not in reads or (zeros is not None and not is_packed):
        scale = convert(node, scale, FLOAT)
    inputs = [rows, scale]
    if zeros is not None and is_packed:
        inputs.append(zeros)

    def unpack(x: Any, by: Any, *points: Any) -> Any:
        kind = _KINDS[bits]
        # A row of zero points begins with a byte.
        pitch = 8 // bits * -(-count * bits // 8)
        points = tuple(point.reinterpret((columns, count), (pitch, 1), kind) for point in points)
        return dml.dequantize(x.reinterpret(whole, data_type=kind), by, *points)

    weights = node.tracer.apply(unpack, inputs, whole, element=scale.element, folds=False)
    if zeros is not None and not is_packed:  # without one it is the middle of the range: what is away from it is added
        apart = compute(node, dml.subtract, Value.of(scale.element, 2 ** (bits - 1)), _zero_points(node, zeros, scale))
        by_block = node.tracer.reshape(compute(node, dml.multiply, apart, scale), (columns, count, 1))
        weights = compute(node, dml.add, node.tracer.reshape(weights, (columns, count, block)), by_block)
        weights = node.tracer.reshape(weights, whole)
    flat = node.tracer.reshape(a, (a.count // length, length))
    is_whole = whole[1] == length and has_way(block, count, traits.weight_only_blocks.get(bits, BLOCKS[0]))
    is_whole = is_whole and (zeros is None or is_packed)
    if whole[1] != length:  # zeros for the rest of the last block: weights are read as they lie
        flat = _padded(node, flat, whole[1])
    rounds = node.integer("accuracy_level", 0) == _ROUNDS and packed.is_known  # as ONNX Runtime, which packs them
    few = max(_FEW, *(reads.get((kind, bits), 0) for kind in (DataType.FLOAT32, DataType.INT8)))
    # An engine that reads weights by rows of FLOAT16 as they lie has those multiplied as such.
    may_be = a.element.name == "FLOAT" or (a.element.name == "FLOAT16" and (DataType.FLOAT16, bits) not in reads)
    if rounds and is_whole and flat.shape[0] <= few and may_be:
        flat = convert(node, flat, FLOAT)
        flat = node.tracer.apply(functools.partial(_round_rows, block), [flat], flat.shape)
    flat = convert(node, flat, weights.element)
    found = node.tracer.apply(dml.gemm, [flat, weights], (flat.shape[0], columns), trans_b="TRANSPOSE")
    return [_with_bias(node, found, bias, a)]


def _with_bias(node: BoundNode, found: Value, bias: Value | None, a: Value) -> Value:
    """Rows of a product as the result's."""
    result = node.tracer.reshape(found, (*a.shape[:-1], found.shape[1]))
    if bias is not None:
        result = compute(node, dml.add, result, convert(node, bias, result.element))
    return convert(node, result, a.element)


def _product_by_groups(
    node: BoundNode, a: Value, packed: Value, scale: Value, zeros: Value | None, groups: Value, bits: int
) -> Value:
    """The product where g_idx says of each number of a column which scale and zero point it has."""
    (columns, count), length = scale.shape, a.shape[-1]
    groups = take(node, groups, [0], [length], [1])
    numbers = convert(node, unpacked(node, packed, bits, length, columns), FLOAT)
    points = Value.of(FLOAT, 2 ** (bits - 1))
    if zeros is not None and zeros.element.data_type.is_float:
        points = take_blocks(node, convert(node, _zero_points(node, zeros, scale), FLOAT), groups, 1)
    elif zeros is not None:
        points = convert(node, take_blocks(node, unpacked(node, zeros, bits, count, columns), groups, 1), FLOAT)
    by = take_blocks(node, convert(node, scale, FLOAT), groups, 1)
    weights = compute(node, dml.multiply, compute(node, dml.subtract, numbers, points), by)
    rows = a.count // length
    flat = convert(node, node.tracer.reshape(a, (rows, length)), FLOAT)
    return node.tracer.apply(dml.gemm, [flat, weights], (rows, columns), trans_b="TRANSPOSE")


def unpacked(node: BoundNode, packed: Value, bits: int, count: int, rows: int) -> Value:
    """Numbers of few bits, of which each row begins with a byte: (rows, count)."""
    each, width = 8 // bits, packed.count // rows
    mask = Value.of(UINT8, 2**bits - 1)
    parts = []
    for i in range(each):
        moved = compute(node, dml.bit_shift_right, packed, Value.of(UINT8, bits * i)) if i else packed
        parts.append(node.tracer.reshape(compute(node, dml.bit_and, moved, mask), (rows, width, 1)))
    joined = node.tracer.apply_to_list(dml.join, parts, (rows, width, each), 2) if each > 1 else parts[0]
    flat = node.tracer.reshape(joined, (rows, width * each))
    return take(node, flat, (0, 0), (rows, count), (1, 1)) if width * each != count else flat


def _widened(node: BoundNode, rows: Value) -> Value:
    """Rows of bytes with numbers of 2 bits as such of 4, of which the engines have kernels."""
    halves = []
    for first in (0, 4):
        pair = compute(node, dml.bit_shift_right, rows, Value.of(UINT8, first)) if first else rows
        low, high = (compute(node, dml.bit_and, pair, Value.of(UINT8, mask)) for mask in (3, 12))
        high = compute(node, dml.bit_shift_left, high, Value.of(UINT8, 2))
        halves.append(node.tracer.reshape(compute(node, dml.bit_or, low, high), (*rows.shape, 1)))
    joined = node.tracer.apply_to_list(dml.join, halves, (*rows.shape, 2), 2)
    return node.tracer.reshape(joined, (rows.shape[0], 2 * rows.shape[1]))


def _wide_zeros(node: BoundNode, zeros: Value | None, columns: int, count: int) -> Value:
    """Zero points of weights of 2 bits for such of 4; where there are none, 2."""
    if zeros is None:
        return Value.of(UINT8, np.full((columns, -(-count // 2)), 0x22))
    if zeros.element.data_type.is_float:
        return zeros
    wide = _widened(node, node.tracer.reshape(zeros, (columns, zeros.count // columns)))
    return take(node, wide, (0, 0), (columns, -(-count // 2)), (1, 1))


def _check_prepacked(node: BoundNode, packed: Value, columns: int, length: int, bits: int) -> None:
    """Weights that lie as CUDA reads them are sorted as they are decoded: see `interleaved_weights.py`."""
    if not (mode := node.integer("weight_prepacked", 0)):
        return
    way_out = "build the model with matmulnbits_weights_prepacked=0"
    if mode not in (1, 2):
        rule = "weight_prepacked must be 0, 1 (for CUDA's compute capability 8.0) or 2 (for 9.0)"
        node.refuse("weight_prepacked", rule, value=mode)
    if not can_be_interleaved(columns, length, bits):
        rule = f"weights of {columns} columns of {length} numbers of {bits} bits are not packed for CUDA"
        node.unsupported("weight_prepacked", rule, way_out)
    if not packed.is_known:
        node.unsupported("weight_prepacked", "weights packed for CUDA must be initializers", way_out)


def _padded(node: BoundNode, rows: Value, length: int) -> Value:
    """Rows with zeros after them, up to a length."""
    after = (0, length - rows.shape[1])
    return node.tracer.apply(dml.padding, [rows], (rows.shape[0], length), start_padding=(0, 0), end_padding=after)


def gather_blocks(node: BoundNode) -> list[Value]:
    """GatherBlockQuantized: what indices point at of numbers of 2, 4 or 8 bits, each block of which has a scale.

    Rows of whole blocks are read as they lie.
    """
    data, indices, scales, zeros = node.input(0), node.input(1), node.input(2), node.optional(3)
    bits, block = 4 if data.element.is_half else node.integer("bits"), node.integer("block_size")
    axes = [node.axis(node.integer(name), len(data.shape)) for name in ("gather_axis", "quantize_axis")]
    if bits not in (2, *_KINDS) or block < 1:
        node.refuse("bits", "bits must be 2, 4 or 8, and block_size at least 1", found=f"{bits}, {block}")
    packed = data
    if data.element.is_half and data.halves is not None and data.shape[-1] % 2 == 0:
        packed = Value(UINT8, (*data.shape[:-1], data.shape[-1] // 2), data.halves)
    length = packed.shape[-1] * 8 // bits
    is_plain = zeros is None and DataType[data.element.name] is not DataType.UINT4  # without zero points theirs is 0
    is_plain = is_plain if data.element.is_half else zeros is None or zeros.element == UINT8
    if bits == 2 or axes != [0, len(data.shape) - 1] or packed.element != UINT8 or length % block or not is_plain:
        return [_gather_numbers(node, (data, indices, scales, zeros), axes[0], axes[1], bits, block)]
    node.check_shape("scales", scales, (*data.shape[:-1], length // block), why=f", one for each block of {block}")
    kind = DataType[data.element.name] if data.element.is_half else _KINDS[bits]
    given = [packed, scales]
    if zeros is not None:
        width = -(-length // block * bits // 8)
        node.check_shape("zero_points", zeros, (*data.shape[:-1], width), why=f", one for each block of {block}")
        given.append(zeros)
    rows, by, *points = (take_blocks(node, one, indices, 0) for one in given)
    whole = (math.prod(rows.shape[:-1]), length)
    blocks = (whole[0], length // block)

    def unpack(x: Any, scale: Any, *points: Any, **named: Any) -> Any:
        pitch = 8 // bits * -(-blocks[1] * bits // 8)  # a row of zero points begins with a byte
        points = tuple(point.reinterpret(blocks, (pitch, 1), kind) for point in points)
        return dml.dequantize(x.reinterpret(whole, data_type=kind), scale.reinterpret(blocks), *points, **named)

    found = node.tracer.apply(unpack, [rows, by, *points], whole, element=scales.element, folds=False)
    return [node.tracer.reshape(found, (*rows.shape[:-1], length))]


def _gather_numbers(
    node: BoundNode,
    given: tuple[Value, Value, Value, Value | None],
    axis: int,
    along: int,
    bits: int,
    block: int,
) -> Value:
    """The same along any axes, with a shorter block at the end, or of numbers of 2 bits: (x - zero point)·scale."""
    data, indices, scales, zeros = given
    if not data.element.is_half and along != len(data.shape) - 1:
        node.unsupported("quantize_axis", "numbers that share a byte must be quantised along the last dimension")
    if not data.element.is_half:
        data = _numbers(node, data, bits, data.shape[-1] * 8 // bits)
    wanted = tuple(-(-n // block) if k == along else n for k, n in enumerate(data.shape))
    node.check_shape("scales", scales, wanted, why=f", a number for each block of {block}")
    if zeros is not None and not zeros.element.is_half:
        lead = (*wanted[:-1], -(-wanted[-1] * bits // 8))
        node.check_shape("zero_points", zeros, lead, why=f", a number for each block of {block}")
        zeros = _numbers(node, zeros, bits, wanted[-1])
    elif zeros is None and not given[0].element.is_half:
        zeros = Value.of(UINT8, np.full(wanted, 2 ** (bits - 1)))
    node.check_shape("zero_points", zeros, wanted, why=f", a number for each block of {block}")
    rows = convert(node, take_blocks(node, data, indices, axis), scales.element)
    place = along + len(indices.shape) - 1 if along > axis else along

    def taken(value: Value) -> Value:
        """A number for each that is gathered."""
        if axis == along:  # blocks follow one another before the gather alone
            whole = _repeated(node, value, along, block, data)
            return convert(node, take_blocks(node, whole, indices, axis), scales.element)
        return _repeated(
            node, convert(node, take_blocks(node, value, indices, axis), scales.element), place, block, rows
        )

    apart = rows if zeros is None else compute(node, dml.subtract, rows, taken(zeros))
    return compute(node, dml.multiply, apart, taken(scales))


def _numbers(node: BoundNode, packed: Value, bits: int, count: int) -> Value:
    """Numbers of few bits that lie along the last dimension."""
    rows = math.prod(packed.shape[:-1])
    return node.tracer.reshape(unpacked(node, packed, bits, count, rows), (*packed.shape[:-1], count))


def _round_rows(block: int, x: Any, **named: Any) -> Any:
    """Rows as a whole number of 8 bits each, times a scale for each block: what ONNX Runtime rounds them to."""
    rows, length = x.desc.sizes
    blocks = x.reinterpret((rows, length // block, block))
    most = dml.reduce(dml.abs(blocks), "MAX", axes=(2,))
    scale = (most * (1 / 127)).reinterpret((rows, length // block))
    return dml.dequantize(dml.quantize(x, scale, data_type="int8"), scale, **named)


def _zero_points(node: BoundNode, zeros: Value, scale: Value) -> Value:
    """A zero point for each block, in the scale's type."""
    return node.tracer.reshape(convert(node, zeros, scale.element), scale.shape)
