"""RotaryEmbedding, and the rules of ONNX's Attention: what attention has beside its products."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

import anydml as dml
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.indexing import take_blocks
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value

Angles: TypeAlias = "tuple[Value, Value, Value | None]"


def rotary_embedding(node: Node) -> list[Value]:
    """RotaryEmbedding: pairs of a head's numbers turned by angles, whose cosines and sines are given by position."""
    x = node.input(0)
    heads = node.integer("num_heads", 0)
    if len(x.shape) == 3 and (heads < 1 or x.shape[2] % heads):
        rule = f"num_heads must be given for 3 dimensions, and the hidden size, {x.shape[2]}, a multiple of it"
        node.refuse("num_heads", rule, value=heads, found=str(heads))
    check_caches(node, node.input(1), node.input(2))
    return [_by_heads(node, x, heads, (node.input(1), node.input(2), node.optional(3)))]


def rotary_embedding_by_positions(node: Node) -> list[Value]:
    """ONNX Runtime's RotaryEmbedding: positions come first, and may be where the first of them is."""
    x, positions, cosine, sine = node.inputs
    check_caches(node, cosine, sine)
    if node.integer("is_packed_batching"):
        node.unsupported("is_packed_batching", "is_packed_batching is not supported")
    heads = node.integer("num_heads")
    if len(x.shape) == 3 and heads < 1:
        heads = x.shape[2] // max(2 * cosine.shape[-1], 1)
    if len(x.shape) == 3 and (heads < 1 or x.shape[2] % heads):
        rule = f"num_heads must be a divisor of the hidden size, {x.shape[2]}"
        node.refuse("num_heads", rule, value=heads, found=str(heads))
    if positions.count == 1 and len(positions.shape) < 2:
        shape = (x.shape[0], x.shape[-2])
        steps = Value.of(positions.element, np.broadcast_to(np.arange(shape[1]), shape))
        positions = compute(node, dml.add, steps, node.tracer.reshape(positions, (1, 1)))
    return [_by_heads(node, x, heads, (cosine, sine, positions))]


def check_caches(node: Node, cosine: Value, sine: Value) -> None:
    """Refuse caches of cosines and sines that are not alike."""
    if cosine.shape != sine.shape or len(cosine.shape) < 2:
        rule = "cos_cache and sin_cache must have one shape, of at least 2 dimensions"
        node.refuse("sin_cache", rule, value=sine.shape, found=f"{cosine.shape} and {sine.shape}")


def _by_heads(node: Node, x: Value, heads: int, angles: Angles) -> Value:
    count, interleaved = node.integer("rotary_embedding_dim"), bool(node.integer("interleaved"))
    if len(x.shape) == 3:
        split = node.tracer.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
        return node.tracer.reshape(rotate(node, split, 1, angles, count, interleaved=interleaved), x.shape)
    if len(x.shape) != 4:
        name = node.rules.inputs[0].name
        node.refuse(name, f"{name} must have 3 or 4 dimensions", value=x.shape, found=str(x.shape))
    return rotate(node, x, 2, angles, count, interleaved=interleaved)


def rotate(node: Node, x: Value, axis: int, angles: Angles, count: int, *, interleaved: bool) -> Value:
    """The first numbers of the last dimension turned, by the positions along an axis; 0 stands for all of them.

    `angles` are caches of cosines and sines, and the positions at which they are looked up, where there are any.
    """
    size = x.shape[-1]
    count = count or size
    if count % 2 or not 0 < count <= size:
        rule = f"rotary_embedding_dim must be even, and at most the head size, {size}"
        node.refuse("rotary_embedding_dim", rule, value=count, found=str(count))
    shape = (x.shape[0], x.shape[axis], count // 2)
    caches = {"cos_cache": angles[0], "sin_cache": angles[1]}
    cosine, sine = (_angles(node, name, cache, angles[2], shape, axis) for name, cache in caches.items())
    start, step = (1, 2) if interleaved else (count // 2, 1)
    first, second = (_part(node, x, begin, count // 2, step) for begin in (0, start))
    products = [[compute(node, dml.multiply, a, b) for b in (cosine, sine)] for a in (first, second)]
    real = compute(node, dml.subtract, products[0][0], products[1][1])
    imaginary = compute(node, dml.add, products[0][1], products[1][0])
    if interleaved:
        pairs = [node.tracer.reshape(value, (*value.shape, 1)) for value in (real, imaginary)]
        parts = [node.tracer.reshape(_joined(node, pairs), (*x.shape[:-1], count))]
    else:
        parts = [real, imaginary]
    if count < size:
        parts.append(_part(node, x, count, size - count, 1))
    return _joined(node, parts)


def _angles(
    node: Node, name: str, cache: Value, positions: Value | None, shape: tuple[int, int, int], axis: int
) -> Value:
    """A cache of cosines or sines, looked up at the positions where there are any, with a size of 1 for the heads."""
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


def check_heads(node: Node) -> None:
    """Refuse an Attention whose heads or lengths do not go together; ONNX's definition tells of a Reshape inside it."""
    shapes = [node.input(i).shape for i in range(3)]
    ranks = {len(shape) for shape in shapes}
    if ranks not in ({3}, {4}):
        found = ", ".join(map(str, shapes))
        node.refuse("Q", "Q, K and V must have 3 dimensions each, or 4 each", value=shapes, found=found)
    names = ("q_num_heads", "kv_num_heads")
    heads = [shape[1] for shape in shapes[:2]]
    if ranks == {3}:
        heads = [node.integer(name, 0) for name in names]
        for name, count, shape in zip((*names, names[1]), (*heads, heads[1]), shapes, strict=True):
            if count < 1 or shape[2] % count:
                rule = f"{name} must be given for 3 dimensions, and the hidden size, {shape[2]}, a multiple of it"
                node.refuse(name, rule, value=count, found=str(count))
    elif shapes[1][1] != shapes[2][1]:
        node.refuse("V", f"V must have as many heads as K, {heads[1]}", value=shapes[2], found=str(shapes[2]))
    if heads[1] and heads[0] % heads[1]:
        rule = f"the heads of Q must be a multiple of those of K and V, {heads[1]}"
        node.refuse(names[0], rule, value=heads[0], found=str(heads[0]))
    if shapes[1][-2] != shapes[2][-2]:
        rule = f"V must have the length of K, {shapes[1][-2]}"
        node.refuse("V", rule, value=shapes[2], found=str(shapes[2]))
    _check_mask(node, heads[0])


def without_heads(node: Node) -> Node:
    """An Attention without the numbers of heads where its inputs have them as a dimension.

    ONNX's definition takes the numbers for a sign of 3 dimensions, and gives a result of as many.
    """
    names = ("q_num_heads", "kv_num_heads")
    if len(node.input(0).shape) == 3 or not any(map(node.has, names)):
        return node
    proto = type(node.proto)()
    proto.CopyFrom(node.proto)
    for attribute in [each for each in proto.attribute if each.name in names]:
        proto.attribute.remove(attribute)
    return Node(proto, node.version, [node.optional(i) for i in range(len(proto.input))], node.tracer)


def _check_mask(node: Node, heads: int) -> None:
    """Refuse a mask that fits no scores; from opset 24 on its rows may end before the keys do."""
    mask, past = node.optional(3), node.optional(4)
    if mask is None:
        return
    q, k = node.input(0).shape, node.input(1).shape
    total = k[-2] + (past.shape[2] if past is not None and len(past.shape) == 4 else 0)
    scores = (q[0], heads, q[-2], total)[-len(mask.shape) or 4 :]
    is_short = node.version >= 24 and bool(mask.shape) and mask.shape[-1] < total
    sizes = [*mask.shape[:-1], total] if is_short else mask.shape
    if len(sizes) > 4 or any(size not in (1, wanted) for size, wanted in zip(sizes, scores, strict=True)):
        rule = f"attn_mask must have a shape that can be broadcast to {(q[0], heads, q[-2], total)}"
        node.refuse("attn_mask", rule, value=mask.shape, found=str(mask.shape))
