"""Transpose, Expand, Concat, Cast, CastLike and BitCast: every element, elsewhere or otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.enums import DataType
from anydml.errors import show
from anydml.memory import packed_strides
from anydml.onnx.library import TensorProto
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.types import BOOL, UINT64, element_of, read_element_type
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType


def transpose(node: Node) -> list[Value]:
    """Transpose: a view at other strides, copied where nothing reads it so."""
    data = node.input(0)
    rank = len(data.shape)
    order = node.integers("perm")
    order = list(range(rank))[::-1] if order is None else order
    if sorted(order) != list(range(rank)):
        node.refuse("perm", f"perm must name each of 0 .. {rank - 1} once", value=order, found=show(order))
    return [transposed(node, data, order)]


def transposed(node: Node, data: Value, order: Sequence[int] = (1, 0)) -> Value:
    """A tensor with its dimensions in another order; a matrix, if nothing is said, transposed."""
    strides = packed_strides(data.shape)
    return node.tracer.restride(data, tuple(data.shape[k] for k in order), tuple(strides[k] for k in order))


def expand(node: Node) -> list[Value]:
    """Expand: a view that repeats elements, with strides of 0."""
    data, wanted = node.input(0), node.sizes(1, "shape")
    rank = max(len(data.shape), len(wanted))
    have = (1,) * (rank - len(data.shape)) + data.shape
    want = [1] * (rank - len(wanted)) + wanted
    if any(size < 0 for size in want) or any(a != b and a != 1 and b != 1 for a, b in zip(have, want, strict=True)):
        rule = f"shape must be one that {data.shape} can be broadcast to"
        node.refuse("shape", rule, value=wanted, found=show(wanted))
    return [spread(node, data, tuple(b if a == 1 else a for a, b in zip(have, want, strict=True)))]


def spread(node: Node, data: Value, shape: tuple[int, ...]) -> Value:
    """A tensor repeated to a shape that NumPy would broadcast it to."""
    have = (1,) * (len(shape) - len(data.shape)) + data.shape
    strides = [0 if a == 1 else stride for a, stride in zip(have, packed_strides(have), strict=True)]
    return node.tracer.restride(data, shape, tuple(strides))


def concat_default(node: Node) -> list[Value]:
    """Concat of opset 1, where the axis is 1 unless it is given."""
    return [_concat(node, node.integer("axis", 1))]


def concat(node: Node) -> list[Value]:
    """Concat from opset 4 on."""
    return [_concat(node, node.integer("axis"))]


def _concat(node: Node, given: int) -> Value:
    parts = node.inputs
    first = parts[0]
    axis = node.axis(given, len(first.shape))
    for i, part in enumerate(parts):
        if len(part.shape) != len(first.shape) or any(
            a != b for k, (a, b) in enumerate(zip(part.shape, first.shape, strict=True)) if k != axis
        ):
            rule = f"inputs[{i}] must have the sizes of the first, {first.shape}, but along axis {axis}"
            node.refuse(f"inputs[{i}]", rule, value=part.shape, found=str(part.shape))
    shape = (*first.shape[:axis], sum(part.shape[axis] for part in parts), *first.shape[axis + 1 :])
    full = [part for part in parts if part.count]
    if not full:
        return Value(first.element, shape)
    return full[0] if len(full) == 1 else node.tracer.apply_to_list(dml.join, full, shape, axis)


def cast_by_name(node: Node) -> list[Value]:
    """Cast of opset 1, where the type is a name."""
    name = node.text("to")
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 - protobuf's, which is no dict
        node.refuse("to", "to must be the name of an element type", value=name, found=show(name))
    return [convert(node, node.input(0), read_element_type(TensorProto.DataType.Value(name), node.label, "to"))]


def cast(node: Node) -> list[Value]:
    """Cast from opset 6 on; what `saturate` and `round_mode` say is of types that DirectML lacks."""
    return [convert(node, node.input(0), read_element_type(node.integer("to"), node.label, "to"))]


def cast_like(node: Node) -> list[Value]:
    """CastLike: a cast to another tensor's type."""
    return [convert(node, node.input(0), node.input(1).element)]


def bit_cast(node: Node) -> list[Value]:
    """BitCast: the same memory, read as another type."""
    data, element = node.input(0), read_element_type(node.integer("to"), node.label, "to")
    bits = 8 * data.element.held.itemsize
    if 8 * element.held.itemsize != bits:
        rule = f"to must be a type of {bits} bits, as {data.element.name} is"
        node.refuse("to", rule, value=element.name, found=element.name)
    return [retyped(node, data, element)]


def retyped(node: Node, data: Value, element: ElementType) -> Value:
    """The same memory as another type of as many bits."""
    return data.retyped(element) if data.is_known else node.tracer.reshape(data, data.shape).retyped(element)


def convert(node: Node, data: Value, element: ElementType) -> Value:
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


def _halves(node: Node, data: Value, element: ElementType) -> Value:
    """Numbers of 4 bits: the lowest of whole numbers, as ONNX casts floats to them too."""
    whole, byte = element_of(element.data_type), element_of(DataType.UINT8)
    if data.element.data_type.is_float:
        data = convert(node, data, element_of(DataType.INT32))
    bits = compute(node, dml.bit_and, convert(node, data, byte), Value.of(byte, 15))
    if element.data_type.is_signed:  # the fourth bit is the sign
        raised = retyped(node, compute(node, dml.bit_xor, bits, Value.of(byte, 8)), whole)
        bits = compute(node, dml.subtract, raised, Value.of(whole, 8))
    return retyped(node, bits, element)


def _truths(node: Node, data: Value) -> Value:
    if data.element.data_type is DataType.FLOAT64:  # which LOGICAL_EQUALS lacks: without its sign 0.0 is 64 zeros
        bits = retyped(node, data, UINT64)
        data = compute(node, dml.bit_and, bits, Value.of(UINT64, 2**63 - 1))
    is_zero = compute(node, dml.logical_equals, data, Value.of(data.element, 0), element=BOOL)
    return compute(node, dml.logical_not, is_zero)
