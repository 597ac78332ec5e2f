"""RotaryEmbedding: what attention has beside its products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.gathering import take_blocks
from anydml.onnx.lowerings.slicing import take

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def rotary_embedding(node: Node) -> list[Value]:
    """RotaryEmbedding: pairs of a head's numbers turned by angles, whose cosines and sines are given by position."""
    x = node.input(0)
    if len(x.shape) == 3:
        heads = node.integer("num_heads", 0)
        if heads < 1 or x.shape[2] % heads:
            rule = f"num_heads must be given for 3 dimensions, and the hidden size, {x.shape[2]}, a multiple of it"
            node.refuse("num_heads", rule, value=heads, found=str(heads))
        sizes = (*x.shape[:2], heads, x.shape[2] // heads)
        turned = _rotate(node, node.tracer.reshape(x, sizes), 1)
        return [node.tracer.reshape(turned, x.shape)]
    if len(x.shape) != 4:
        node.refuse("X", "X must have 3 or 4 dimensions", value=x.shape, found=str(x.shape))
    return [_rotate(node, x, 2)]


def _rotate(node: Node, x: Value, axis: int) -> Value:
    """The first numbers of the last dimension turned, by the positions along an axis."""
    size = x.shape[-1]
    count = node.integer("rotary_embedding_dim") or size
    if count % 2 or not 0 < count <= size:
        rule = f"rotary_embedding_dim must be even, and at most the head size, {size}"
        node.refuse("rotary_embedding_dim", rule, value=count, found=str(count))
    cosine, sine = (_angles(node, i, (x.shape[0], x.shape[axis], count // 2), axis) for i in (1, 2))
    is_interleaved = bool(node.integer("interleaved"))
    start, step = (1, 2) if is_interleaved else (count // 2, 1)
    first, second = (_part(node, x, begin, count // 2, step) for begin in (0, start))
    products = [[compute(node, dml.multiply, a, b) for b in (cosine, sine)] for a in (first, second)]
    real = compute(node, dml.subtract, products[0][0], products[1][1])
    imaginary = compute(node, dml.add, products[0][1], products[1][0])
    if is_interleaved:
        pairs = [node.tracer.reshape(value, (*value.shape, 1)) for value in (real, imaginary)]
        parts = [node.tracer.reshape(_joined(node, pairs), (*x.shape[:-1], count))]
    else:
        parts = [real, imaginary]
    if count < size:
        parts.append(_part(node, x, count, size - count, 1))
    return _joined(node, parts)


def _angles(node: Node, index: int, shape: tuple[int, int, int], axis: int) -> Value:
    """A cache of cosines or sines, looked up at the positions where there are any, with a size of 1 for the heads."""
    cache, positions, name = node.input(index), node.optional(3), node.rules.inputs[index].name
    if positions is not None:
        if positions.shape != shape[:2] or len(cache.shape) != 2:
            rule = f"position_ids must have the shape {shape[:2]}, and {name} 2 dimensions"
            node.refuse("position_ids", rule, value=positions.shape, found=f"{positions.shape} and {cache.shape}")
        cache = take_blocks(node, cache, positions, 0)
    if cache.shape != shape:
        node.refuse(name, f"{name} must have the shape {shape}", value=cache.shape, found=str(cache.shape))
    return node.tracer.reshape(cache, (shape[0], *((shape[1], 1) if axis == 1 else (1, shape[1])), shape[2]))


def _part(node: Node, x: Value, start: int, count: int, step: int) -> Value:
    rank = len(x.shape)
    first, counts, steps = [0] * (rank - 1), list(x.shape[:-1]), [1] * (rank - 1)
    return take(node, x, [*first, start], [*counts, count], [*steps, step])


def _joined(node: Node, parts: list[Value]) -> Value:
    shape = (*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
    return node.tracer.apply_to_list(dml.join, parts, shape, len(shape) - 1)
