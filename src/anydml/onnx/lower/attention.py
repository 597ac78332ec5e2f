"""Attention: the rules of ONNX's, RotaryEmbedding, and ONNX Runtime's own.

MultiHeadAttention and Attention are MULTIHEAD_ATTENTION, GroupQueryAttention its form 1.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import anydml as dml
from anydml.core.enums import DataType, IndexMode
from anydml.core.enums import MultiheadAttentionMaskType as Mask
from anydml.onnx.element_types import FLOAT, element_of
from anydml.onnx.lower.bound_node import BoundNode
from anydml.onnx.lower.cumulative import within
from anydml.onnx.lower.data_movement import convert, retyped, spread, spread_strides, transposed
from anydml.onnx.lower.elementwise import common_shape, compute
from anydml.onnx.lower.indexing import take_blocks
from anydml.onnx.lower.kv_cache import by_heads, few_bits, from_row, placed, slid
from anydml.onnx.lower.matmul import exact, multiply
from anydml.onnx.lower.normalization import rms_normalised
from anydml.onnx.lower.qdq_to_int8 import Whole
from anydml.onnx.lower.scored_attention import Seen, attend_with_scores, is_seen
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Parts, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.lower.kv_cache import Slide


# RotaryEmbedding, and the rules of ONNX's Attention


Angles: TypeAlias = "tuple[Value, Value, Value | None]"


def rotary_embedding(node: BoundNode) -> list[Value]:
    """RotaryEmbedding: pairs of a head's numbers turned by angles, whose cosines and sines are given by position."""
    x = node.input(0)
    heads = node.integer("num_heads", 0)
    if len(x.shape) == 3 and (heads < 1 or x.shape[2] % heads):
        rule = f"num_heads must be given for 3 dimensions, and the hidden size, {x.shape[2]}, a multiple of it"
        node.refuse("num_heads", rule, value=heads)
    check_caches(node, node.input(1), node.input(2))
    return [_by_heads(node, x, heads, (node.input(1), node.input(2), node.optional(3)))]


def rotary_embedding_by_positions(node: BoundNode) -> list[Value]:
    """ONNX Runtime's RotaryEmbedding: positions come first, and may be where the first of them is."""
    x, positions, cosine, sine = node.inputs
    heads = _heads_turned(node, x, cosine, sine)
    if positions.count == 1 and len(positions.shape) < 2:
        shape = (x.shape[0], x.shape[-2])
        steps = Value.of(positions.element, np.broadcast_to(np.arange(shape[1]), shape))
        positions = compute(node, dml.add, steps, node.tracer.reshape(positions, (1, 1)))
    return [_by_heads(node, x, heads, (cosine, sine, positions))]


def rotary_embedding_by_sections(node: BoundNode) -> list[Value]:
    """MRotaryEmbedding: each token has a time, a row and a column, and each pair of a head's numbers turns by one."""
    x, positions, cosine, sine = node.inputs
    heads = _heads_turned(node, x, cosine, sine)
    batch, length, half = x.shape[0], x.shape[-2 if len(x.shape) == 4 else 1], cosine.shape[-1]
    sections, layout = node.integers("mrope_section") or [], node.integer("mrope_layout")
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        rule = f"mrope_section must have 3 counts, of together {half} pairs as cos_cache has them"
        node.refuse("mrope_section", rule, value=tuple(sections))
    if layout not in (0, 1):
        node.refuse("mrope_layout", "mrope_layout must be 0, for sections, or 1, interleaved", value=layout)
    node.check_shape("position_ids", positions, (3, batch, length))
    streams = np.repeat(np.arange(3), sections)
    if layout:
        pairs = np.arange(half)
        streams = np.where(pairs < 3 * np.take(sections, pairs % 3), pairs % 3, 0)
    columns = Value.of(positions.element, streams * half + np.arange(half))
    by_token = transposed(node, positions, (1, 2, 0))
    shape = (batch, length, 3 * half)
    found = [node.tracer.reshape(take_blocks(node, cache, by_token, 0), shape) for cache in (cosine, sine)]
    cosine, sine = (take_blocks(node, angles, columns, 2) for angles in found)
    return [_by_heads(node, x, heads, (cosine, sine, None))]


def _heads_turned(node: BoundNode, x: Value, cosine: Value, sine: Value) -> int:
    """The heads that ONNX Runtime's operators turn."""
    check_caches(node, cosine, sine)
    heads = node.integer("num_heads")
    if len(x.shape) == 3 and heads < 1:
        heads = x.shape[2] // max(2 * cosine.shape[-1], 1)
    if len(x.shape) == 3 and (heads < 1 or x.shape[2] % heads):
        node.refuse("num_heads", f"num_heads must be a divisor of the hidden size, {x.shape[2]}", value=heads)
    return heads


def check_caches(node: BoundNode, cosine: Value, sine: Value) -> None:
    """Refuse caches of cosines and sines that are not alike."""
    if cosine.shape != sine.shape or len(cosine.shape) < 2:
        rule = "cos_cache and sin_cache must have one shape, of at least 2 dimensions"
        node.refuse("sin_cache", rule, value=sine.shape, found=f"{cosine.shape} and {sine.shape}")


def _by_heads(node: BoundNode, x: Value, heads: int, angles: Angles) -> Value:
    count, interleaved = node.integer("rotary_embedding_dim"), bool(node.integer("interleaved"))
    if len(x.shape) == 3:
        split = node.tracer.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
        return node.tracer.reshape(rotate(node, split, 1, angles, count, interleaved=interleaved), x.shape)
    node.check_rank(node.rules.inputs[0].name, x, 3, 4)
    return rotate(node, x, 2, angles, count, interleaved=interleaved)


def rotate(node: BoundNode, x: Value, axis: int, angles: Angles, count: int, *, interleaved: bool) -> Value:
    """The first numbers of the last dimension turned, by the positions along an axis; 0 stands for all of them.

    `angles` are caches of cosines and sines, and the positions at which they are looked up, where there are any.
    """
    size = x.shape[-1]
    count = count or size
    if count % 2 or not 0 < count <= size:
        rule = f"rotary_embedding_dim must be even, and at most the head size, {size}"
        node.refuse("rotary_embedding_dim", rule, value=count)
    shape = (x.shape[0], x.shape[axis], count // 2)
    caches = {"cos_cache": angles[0], "sin_cache": angles[1]}
    cosine, sine = (_angles(node, name, cache, angles[2], shape, axis) for name, cache in caches.items())
    start, step = (1, 2) if interleaved else (count // 2, 1)
    wide = FLOAT if x.element.name == "FLOAT16" else x.element
    first, second = (convert(node, _part(node, x, begin, count // 2, step), wide) for begin in (0, start))
    cosine, sine = (convert(node, one, wide) for one in (cosine, sine))
    products = [[compute(node, dml.multiply, a, b) for b in (cosine, sine)] for a in (first, second)]
    # FLOAT16 is rounded once: with each product rounded the error was 1.6 times as large.
    real = convert(node, compute(node, dml.subtract, products[0][0], products[1][1]), x.element)
    imaginary = convert(node, compute(node, dml.add, products[0][1], products[1][0]), x.element)
    if interleaved:
        pairs = [node.tracer.reshape(value, (*value.shape, 1)) for value in (real, imaginary)]
        parts = [node.tracer.reshape(_joined(node, pairs), (*x.shape[:-1], count))]
    else:
        parts = [real, imaginary]
    if count < size:
        parts.append(_part(node, x, count, size - count, 1))
    return _joined(node, parts)


def _angles(
    node: BoundNode, name: str, cache: Value, positions: Value | None, shape: tuple[int, int, int], axis: int
) -> Value:
    """A cache of cosines or sines, looked up at the positions where there are any, with a size of 1 for the heads."""
    if positions is not None:
        if positions.shape != shape[:2] or len(cache.shape) != 2:
            rule = f"position_ids must have the shape {shape[:2]}, and {name} 2 dimensions"
            node.refuse("position_ids", rule, value=positions.shape, found=f"{positions.shape} and {cache.shape}")
        cache = take_blocks(node, cache, positions, 0)
    node.check_shape(name, cache, shape)
    return node.tracer.reshape(cache, (shape[0], *((shape[1], 1) if axis == 1 else (1, shape[1])), shape[2]))


def _part(node: BoundNode, x: Value, start: int, count: int, step: int) -> Value:
    rank = len(x.shape)
    first, counts, steps = [0] * (rank - 1), list(x.shape[:-1]), [1] * (rank - 1)
    return take(node, x, [*first, start], [*counts, count], [*steps, step])


def _joined(node: BoundNode, parts: list[Value]) -> Value:
    shape = (*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
    return node.tracer.apply_to_list(dml.join, parts, shape, len(shape) - 1)


def check_heads(node: BoundNode) -> None:
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
                node.refuse(name, rule, value=count)
    elif shapes[1][1] != shapes[2][1]:
        node.refuse("V", f"V must have as many heads as K, {heads[1]}", value=shapes[2])
    if heads[1] and heads[0] % heads[1]:
        node.refuse(names[0], f"the heads of Q must be a multiple of those of K and V, {heads[1]}", value=heads[0])
    if shapes[1][-2] != shapes[2][-2]:
        node.refuse("V", f"V must have the length of K, {shapes[1][-2]}", value=shapes[2])
    _check_mask(node, heads[0])


def without_heads(node: BoundNode) -> BoundNode:
    """An Attention without the numbers of heads where its inputs have them as a dimension.

    ONNX's definition takes the numbers for a sign of 3 dimensions, and gives a result of as many.
    """
    names = ("q_num_heads", "kv_num_heads")
    if len(node.input(0).shape) == 3 or not any(map(node.has, names)):
        return node
    origin = replace(node.origin, attribute=tuple(each for each in node.origin.attribute if each.name not in names))
    return BoundNode(origin, node.version, [node.optional(i) for i in range(node.input_count)], node.tracer)


def _check_mask(node: BoundNode, heads: int) -> None:
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
        node.refuse("attn_mask", rule, value=mask.shape)


# ONNX Runtime's attentions


_PARTS = ("query", "key", "value")


def multi_head_attention(node: BoundNode) -> list[Value | None]:
    """MultiHeadAttention: query, key and value by themselves or stacked, and a past."""
    _refuse_others(node, (8, 9), 3)
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    heads = _heads(node, "num_heads")
    for name, one, ranks in (("query", query, (3, 5)), ("key", key, (3, 4, 5)), ("value", value, (3, 4))):
        if one is not None and len(one.shape) not in ranks:
            node.refuse(name, f"{name} must have {' or '.join(map(str, ranks))} dimensions", value=one.shape)
    tensors: dict[str, Value | None] = {"query": query, "key": key, "value": value, "bias": node.optional(3)}
    past = [_some(node.optional(i)) for i in (6, 7)]
    before = past[0]
    if key is not None and not key.shape[2 if len(key.shape) == 4 else 1]:
        return _attend_to_past(node, heads, past)
    if len(query.shape) == 5:
        tensors |= {"query": None, "stacked_query_key_value": query}
    elif key is not None and len(key.shape) == 5:
        tensors |= {"key": None, "stacked_key_value": key}
    elif key is not None and len(key.shape) == 4:  # of another sequence, which the first step left
        tensors |= {"key": None, "value": None}
        past = [_after(node, kept, one) for kept, one in zip(past, (key, value), strict=True)]
    elif key is None or value is None:
        node.refuse("key", "key and value must be given beside a query of 3 dimensions")
    tensors |= {"past_key": past[0], "past_value": past[1]}
    length = query.shape[1] if key is None else 0 if len(key.shape) == 4 else key.shape[1]
    total = length + (past[0].shape[2] if past[0] is not None else 0)
    scores = (query.shape[0], heads, query.shape[1], total)
    own = total if before is None else total - before.shape[2]
    if node.integer("unidirectional") and own != query.shape[1]:
        rule = f"unidirectional is not supported where key has another length, {own}, than query, {query.shape[1]}"
        node.unsupported("unidirectional", rule)
    return _attend(node, tensors, scores, 4, 5, [bool(name) for name in node.outputs[1:3]])


def _attend_to_past(node: BoundNode, heads: int, past: list[Value | None]) -> list[Value | None]:
    """MultiHeadAttention without new keys: to those of the past, which stays as it is; to no keys at all it is 0."""
    query, key, value, bias = node.input(0), node.input(1), node.optional(2), node.optional(3)
    if len(query.shape) != 3 or query.shape[2] % heads:
        rule = f"query must have 3 dimensions, and whole heads in the last, of which there are {heads}"
        node.refuse("query", rule, value=query.shape)
    batch, length, width = query.shape
    if bias is not None:  # of which the rest is the keys' and the values'
        query = compute(node, dml.add, query, take(node, bias, [0], [width], [1]))
    last = value if value is not None else key
    sizes = [width // heads, last.shape[2] // heads if len(last.shape) == 3 else last.shape[-1]]
    if past[0] is not None and past[1] is not None:
        tensors: dict[str, Value | None] = {"query": query, "past_key": past[0], "past_value": past[1]}
        scores = (batch, heads, length, past[0].shape[2])
        output = _attend(node, tensors, scores, 4, 5, [])[0]
    else:
        output = node.tracer.fill(dml.fill_value_constant, query.element, (batch, length, heads * sizes[1]), 0)
    none = [Value(query.element, (batch, heads, 0, size)) for size in sizes]
    return [output, *(one or empty for one, empty in zip(past, none, strict=True))][: node.output_count]


def attention(node: BoundNode) -> list[Value | None]:
    """Attention: the product that makes query, key and value of one input comes first."""
    _refuse_others(node, (6,), 2)
    x, weights, bias = node.input(0), node.input(1), node.optional(2)
    sizes = _columns_of(node, x, weights, node.integers("qkv_hidden_sizes"))
    whole = multiply(node, x, weights)
    whole = whole if bias is None else compute(node, dml.add, whole, bias)
    return _attend_to_itself(node, whole, sizes, node.optional(4), (3, 5))


def attention_quantised(node: BoundNode) -> list[Value | None]:
    """QAttention: the same with a first product of bytes."""
    x, weights = node.input(0), node.input(1)
    sizes = _columns_of(node, x, weights, None)
    factors = Whole(Parts(x, node.input(3), node.optional(6), 2), Parts(weights, node.input(4), node.optional(7), 1))
    whole = factors.scaled(node, exact(node, factors), node.input(2))
    return _attend_to_itself(node, whole, sizes, node.optional(8), (5, 9))


def _columns_of(node: BoundNode, x: Value, weights: Value, given: list[int] | None) -> list[int]:
    """How many numbers query, key and value have."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.integer(name):
            node.unsupported(name, f"{name} is not supported")
    if len(x.shape) != 3 or len(weights.shape) != 2:
        rule = "input must have 3 dimensions, and weights 2"
        node.refuse("input", rule, value=x.shape, found=f"{x.shape} and {weights.shape}")
    sizes = given or [weights.shape[1] // 3] * 3
    if len(sizes) != 3 or sum(sizes) != weights.shape[1] or min(sizes) < 1:
        rule = f"qkv_hidden_sizes must be three numbers whose sum is {weights.shape[1]}, as weights has columns"
        node.refuse("qkv_hidden_sizes", rule, value=sizes)
    return sizes


def _attend_to_itself(
    node: BoundNode, whole: Value, sizes: list[int], given: Value | None, beside: tuple[int, int]
) -> list[Value | None]:
    """Attention of the columns of one tensor; `beside` are the inputs that are a mask and what is added to scores."""
    tensors: dict[str, Value | None] = dict(zip(_PARTS, _columns(node, whole, sizes), strict=True))
    past, (batch, length, _) = _some(given, 3), whole.shape
    if past is not None:
        if len(past.shape) != 5 or past.shape[0] != 2:
            rule = "past must have the shape (2, batch, heads, past sequence, head size)"
            node.refuse("past", rule, value=past.shape)
        for i, name in enumerate(("past_key", "past_value")):
            part = take(node, past, (i, 0, 0, 0, 0), (1, *past.shape[1:]), (1,) * 5)
            tensors[name] = node.tracer.reshape(part, past.shape[1:])
    total = length + (past.shape[3] if past is not None else 0)
    asks = node.output_count > 1 and bool(node.outputs[1])
    if asks and sizes[1] != sizes[2]:
        rule = f"present holds keys and values of one size: qkv_hidden_sizes has {sizes[1]} and {sizes[2]}"
        node.unsupported("present", rule, "leave present out, or use MultiHeadAttention")
    scores = (batch, _heads(node, "num_heads"), length, total)
    output, *present = _attend(node, tensors, scores, *beside, [asks, asks])
    if not asks:
        return [output]
    parts = [node.tracer.reshape(one, (1, *one.shape)) for one in present if one is not None]
    return [output, node.tracer.apply_to_list(dml.join, parts, (2, *parts[0].shape[1:]), 0)]


def group_query_attention(node: BoundNode) -> list[Value | None]:
    """GroupQueryAttention: a cache of keys and values, whose new ones may be turned by their positions first."""
    window, slides = node.integer("local_window_size"), bool(node.integer("sliding_window_cache"))
    is_causal, shown = bool(node.integer("causal")), node.integer("qk_output")
    if window == 0 or window < -1:
        rule = "local_window_size must be -1, for all keys, or at least 1"
        node.refuse("local_window_size", rule, value=window)
    if not is_causal and window > 0:
        node.refuse("local_window_size", "local_window_size must be -1 where causal is 0", value=window)
    if shown not in (0, 1, 2) or (shown and not (node.output_count > 3 and node.outputs[3])):
        rule = "qk_output must be 0, or 1 or 2 with the output output_qk: scores before or after their softmax"
        node.refuse("qk_output", rule, value=shown)
    if not shown and node.output_count > 3 and node.outputs[3]:
        node.refuse("qk_output", "qk_output must be 1 or 2 for the output output_qk", value=shown)
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    heads, shared = _heads(node, "num_heads"), _heads(node, "kv_num_heads")
    node.check_rank("query", query, 3)
    if heads % shared:
        node.refuse("num_heads", f"num_heads must be a multiple of kv_num_heads, {shared}", value=heads)
    if key is None:
        size = query.shape[2] // (heads + 2 * shared)
        query, key, value = _columns(node, query, [heads * size, shared * size, shared * size])
    if value is None:
        node.refuse("value", "value must be given beside key")
    (batch, length, _), new = query.shape, key.shape[1] if len(key.shape) == 3 else 0
    is_like = len(key.shape) == 3 and key.shape[0] == batch and key.shape[:-1] == value.shape[:-1]
    if not is_like or new not in (0, length):
        rule = f"key and value must have the batch and the length of query, {query.shape[:2]}, before their heads"
        node.refuse("key", rule, value=key.shape, found=f"{key.shape} and {value.shape}")
    past = [_some(node.optional(i)) for i in (3, 4)]
    scales = {f"{name}_scale": (f"{name}_quant_type", node.optional(i)) for i, name in ((12, "k"), (13, "v"))}
    few = few_bits(node, scales, shared, query.shape[2] // heads)
    room = past[0].shape[2] if past[0] is not None else 0
    if slides and not (0 < window <= room and new):
        rule = "sliding_window_cache needs new keys, a local_window_size, and a past of at least as many rows"
        node.refuse("sliding_window_cache", rule, value=(window, room))
    total = _total(node, new, past, slides=slides)
    lengths = _past_lengths(node, (batch, length, total), total if slides else max(total, room), slides=slides)
    query, key = _normalised_by_head(node, query, heads, key, shared)
    steps = _by_step(node, lengths, length)
    if node.integer("do_rotary"):
        positions = node.optional(9)
        if positions is not None and total == length:  # of a prompt ONNX Runtime looks at the first alone
            node.check_shape("position_ids", positions, (batch, length))
            first = take(node, positions, (0, 0), (1, 1), (1, 1))
            rest = node.tracer.fill(dml.fill_value_sequence, positions.element, (1, length), 0, 1)
            positions = spread(node, compute(node, dml.add, first, rest), (batch, length))
        angles = (node.input(7), node.input(8), steps if positions is None else positions)
        check_caches(node, *angles[:2])
        interleaved = bool(node.integer("rotary_interleaved"))
        query, key = (
            _turned(node, x, count, angles, interleaved=interleaved) if x.count else x
            for x, count in ((query, heads), (key, shared))
        )
    slide = slid(node, lengths, length, room, window) if slides else None
    capacity, room = room, room + length if slides else max(total, room)
    if slide is not None:
        lengths, steps = slide.held, _by_step(node, slide.held, length)
    ends = node.tracer.reshape(node.input(5), (batch, 1))
    own = ends if not is_causal else compute(node, dml.min, steps, ends) if total == length else steps
    scores, reach = (batch, heads, length, room), window if 0 < window < room else None
    asks = [bool(name) for name in node.outputs[1:3]]
    if few:
        presents: list[Value | None] = [
            placed(node, one, kind.taken(node, by_heads(node, rows, shared)), lengths, room) if new else one
            for one, rows, kind in zip(past, (key, value), few, strict=True)
        ]
        caches = [kind.given(node, one) for kind, one in zip(few, presents, strict=True) if one is not None]
    else:
        if not new and past[0] is not None and past[1] is not None:  # another layer has put them into the cache
            key, value = (_rows(node, one, lengths, length) for one in past if one is not None)
        tensors: dict[str, Value | None] = dict(zip(_PARTS, (query, key, value), strict=True))
        tensors["past_sequence_lengths"] = lengths
        for name, one in zip(("past_key", "past_value"), past, strict=True):
            if one is not None and one.shape[2] < room:
                more = (0, 0, room - one.shape[2], 0)
                tensors[name] = node.tracer.apply(
                    dml.padding, [one], _long(one, room), start_padding=(0,) * 4, end_padding=more
                )
            else:
                tensors[name] = one
        changes = node.real("softcap") or _sinks(node, heads) is not None
        bias = node.optional(10)
        if not length or (is_causal and not changes and not shown and not (slide and bias)):
            far = None if reach is None else is_seen(node, steps, room, reach)
            output, *presents = _attend(node, tensors, scores, None, 10, asks, shared, far)
            return [output, *_slid_back(node, presents, slide, capacity)]
        _, *presents = _attend(node, tensors, scores, None, None, [True, True], shared)
        caches = [convert(node, present, FLOAT) for present in presents if present is not None]
    added = _bias(node, node.optional(10), (*scores[:3], total), is_cached=slide is None)
    if added is not None and slide is not None:
        added = from_row(node, added, slide.start, room, 3)
    elif added is not None:
        added = _bias(node, added, scores, is_cached=True)
    seen, end = is_seen(node, own, room, reach), take(node, own, (0, own.shape[1] - 1), (batch, 1), (1, 1))
    there = node.tracer.reshape(is_seen(node, end, room, None), (batch, 1, room, 1))
    output, products = attend_with_scores(node, query, caches, Seen(seen, there), added, _sinks(node, heads))
    presents = _slid_back(node, presents, slide, capacity)
    found = [output, *(one if ask else None for one, ask in zip(presents, asks, strict=False))]
    if shown:
        sizes = (*scores[:3], total)
        found.append(convert(node, take(node, products[shown - 1], (0,) * 4, sizes, (1,) * 4), query.element))
    return found


def _by_step(node: BoundNode, lengths: Value, count: int) -> Value:
    """The positions of so many queries in each batch."""
    steps = node.tracer.count_up(lengths.element, count)
    return compute(node, dml.add, node.tracer.reshape(lengths, (lengths.count, 1)), steps)


def _slid_back(node: BoundNode, presents: list[Value | None], slide: Slide | None, capacity: int) -> list[Value | None]:
    """The rows of a sliding cache that are kept; of others all."""
    if slide is None:
        return presents
    return [one and from_row(node, one, slide.shift, capacity, 2) for one in presents]


def _normalised_by_head(node: BoundNode, query: Value, heads: int, key: Value, shared: int) -> tuple[Value, Value]:
    """Queries and keys by the root mean square of each head, where there are weights for it."""
    weights = {name: node.optional(i) for i, name in ((14, "q_norm_weight"), (15, "k_norm_weight"))}
    given = [weight for weight in weights.values() if weight is not None]
    if not given:
        return query, key
    if len(given) < 2:
        node.refuse("k_norm_weight", "q_norm_weight and k_norm_weight must both be given")
    made: list[Value] = []
    for x, count, (name, weight) in zip((query, key), (heads, shared), weights.items(), strict=True):
        size = x.shape[2] // count
        node.check_shape(name, weight, (size,), why=", a number for each of a head's")
        by_head = node.tracer.reshape(x, (*x.shape[:2], count, size))
        if x.count:
            by_head = rms_normalised(node, by_head, weight, node.real("qk_norm_epsilon"))
        made.append(node.tracer.reshape(by_head, x.shape))
    return made[0], made[1]


def _sinks(node: BoundNode, heads: int) -> Value | None:
    """A score for each head, of a key without a value: what `smooth_softmax` adds is 0 for all of them."""
    sinks = node.optional(11)
    if sinks is not None:
        node.check_shape("head_sink", sinks, (heads,), why=", a score for each head")
        return convert(node, sinks, FLOAT)
    return Value.of(FLOAT, np.zeros(heads)) if node.integer("smooth_softmax") > 0 else None


def _after(node: BoundNode, past: Value | None, one: Value | None) -> Value | None:
    """Keys or values by heads, after those of a past."""
    if past is None or one is None:
        return one
    if len(past.shape) != 4 or past.shape != _long(one, past.shape[2]):
        rule = "past_key and past_value must have the sizes of key and value, but for the sequence"
        node.refuse("past_key", rule, value=past.shape, found=f"{past.shape} and {one.shape}")
    return node.tracer.apply_to_list(dml.join, [past, one], _long(one, past.shape[2] + one.shape[2]), 2)


def _rows(node: BoundNode, past: Value, first: Value, count: int) -> Value:
    """So many rows of a past, in each batch from another on, as new keys are given."""
    batch, heads, _, size = past.shape
    steps = node.tracer.fill(dml.fill_value_sequence, first.element, (1, 1, count, 1), 0, 1)
    places = compute(node, dml.add, node.tracer.reshape(first, (batch, 1, 1, 1)), steps)
    shape = (batch, heads, count, size)
    found = node.tracer.apply(dml.gather_elements, [past, spread(node, places, shape)], shape, 2, IndexMode.RAISE)
    return node.tracer.reshape(transposed(node, found, (0, 2, 1, 3)), (batch, count, heads * size))


def _total(node: BoundNode, new: int, past: list[Value | None], *, slides: bool) -> int:
    """All keys: those of a past and so many new ones, or as many as a past with room for them has then.

    A past that slides has the last of them alone.
    """
    given, field = node.input(6).ints("total_sequence_length"), "total_sequence_length"
    shapes = [one.shape if one is not None else () for one in past]
    if bool(shapes[0]) != bool(shapes[1]) or shapes[0][:3] != shapes[1][:3] or len(shapes[0]) not in (0, 4):
        rule = "past_key and past_value must both be given, of 4 dimensions, and equally long"
        node.refuse("past_key", rule, value=shapes, found=" and ".join(str(shape or "none") for shape in shapes))
    room = shapes[0][2] if shapes[0] else 0
    if slides and len(given) == 1 and given[0] >= new:
        return given[0]
    if len(given) != 1 or (given[0] != room + new and not max(new, 1) <= given[0] <= room):
        rule = f"{field} must be {room + new}, the {room} keys of the past and {new} new ones"
        rule += f", or, in a past that has room for them, from {max(new, 1)} to {room}" if room >= max(new, 1) else ""
        node.refuse(field, f"{field} must be at least {new}, the new keys" if slides else rule, value=given)
    return given[0]


def _past_lengths(node: BoundNode, sizes: tuple[int, int, int], room: int, *, slides: bool) -> Value:
    """The keys of each batch before the new ones, by seqlens_k, the last key's number: among as many as there is room.

    In the first step of all there are none, and seqlens_k counts what is no padding.
    """
    (batch, length, total), counts, kind = sizes, node.input(5), element_of(DataType.INT32)
    if counts.count != batch:
        rule = f"seqlens_k must have the shape {(batch,)}, a number for each of the batch"
        node.refuse("seqlens_k", rule, value=counts.shape)
    counts, word = node.tracer.reshape(counts, (batch,)), element_of(DataType.UINT32)
    if total == length and not slides:
        last = within(node, counts, room - 1, word, "seqlens_k")
        return Value.of(kind, np.zeros(batch)) if last.is_known else retyped(node, _none(node, last), kind)
    if length == 1:
        return retyped(node, within(node, counts, room - 1, word, "seqlens_k"), kind)
    before = compute(node, dml.add, counts, Value.of(kind, [1 - length]))
    said = "seqlens_k less the new keys before the last, the length of the past,"
    return retyped(node, within(node, before, room - length, word, "seqlens_k", said), kind)


def _none(node: BoundNode, checked: Value) -> Value:
    """Zeros that are made of what was checked: a check that nothing reads is left out."""
    return compute(node, dml.min, checked, Value.of(checked.element, 0))


def _long(past: Value, count: int) -> tuple[int, ...]:
    """The shape of a past with another number of keys."""
    return (*past.shape[:2], count, past.shape[3])


def _turned(node: BoundNode, x: Value, count: int, angles: tuple[Value, Value, Value], *, interleaved: bool) -> Value:
    sizes = (*x.shape[:2], count, x.shape[2] // count)
    turned = rotate(node, node.tracer.reshape(x, sizes), 1, angles, 2 * angles[0].shape[1], interleaved=interleaved)
    return node.tracer.reshape(turned, x.shape)


def _heads(node: BoundNode, name: str) -> int:
    count = node.integer(name)
    if count < 1:
        node.refuse(name, f"{name} must be at least 1", value=count)
    return count


def _some(value: Value | None, axis: int = 2) -> Value | None:
    """A past; None for one of no keys."""
    return None if value is None or (len(value.shape) > axis and not value.shape[axis]) else value


def _refuse_others(node: BoundNode, inputs: tuple[int, ...], outputs: int) -> None:
    """Say which inputs and outputs are not there."""
    for i in inputs:
        if node.optional(i) is not None:
            name = node.rules.inputs[i].name
            node.unsupported(name, f"{name} is not supported")
    if any(node.outputs[outputs:]):
        node.unsupported(node.rules.outputs[outputs].name, "the scores are not supported as an output")


def _columns(node: BoundNode, x: Value, sizes: list[int]) -> list[Value]:
    """Parts of the last dimension."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        take(node, x, (0, 0, start), (*x.shape[:2], size), (1, 1, 1)) for start, size in zip(starts, sizes, strict=True)
    ]


def _attend(
    node: BoundNode,
    tensors: dict[str, Value | None],
    scores: tuple[int, int, int, int],
    mask: int | None,
    bias: int | None,
    asks: list[bool],
    shared: int | None = None,
    seen: Value | None = None,
) -> list[Value | None]:
    """The output, and the keys and values that are asked for; the mask and the bias are inputs.

    `seen` are the keys that queries attend to, beside what the operator's form says of that.
    """
    _, heads, queries, total = scores
    options: dict[str, Any] = {"head_count": heads}
    function: Callable[..., Any] = dml.multihead_attention
    if shared is not None:
        function, options = dml.multihead_attention1, {"query_head_count": heads, "key_value_head_count": shared}
    if scale := node.real("scale"):
        options["scale"] = scale
    masks = node.optional(mask) if mask is not None else None
    if masks is not None:
        options["mask_type"], tensors["mask"] = _mask(node, masks, scores)
        options["mask_filter_value"] = node.real("mask_filter_value")
    element = next(value.element for value in tensors.values() if value is not None)
    added = None if bias is None else _bias(node, node.optional(bias), scores, is_cached=shared is not None)
    if seen is not None:
        numbers = [Value.of(element, number) for number in (0, -math.inf)]
        far = compute(node, dml.if_, seen, *numbers)
        added = far if added is None else compute(node, dml.add, added, far)
    if mask is not None and node.integer("unidirectional") and queries != 1:  # the last query sees every key
        later = np.triu(np.full((queries, total), -np.inf), total - queries + 1)
        causal = Value.of(element, later)
        added = causal if added is None else compute(node, dml.add, added, causal)
    if added is not None:
        tensors["relative_position_bias"] = added
    given = {name: value for name, value in tensors.items() if value is not None}
    names = list(given)
    made: list[Any] = []
    asked = {f"output_present_{name}": True for name, one in zip(_PARTS[1:], asks, strict=False) if one}

    def call(*inputs: Any, **named: Any) -> Any:
        own = dict(zip(names, inputs, strict=True))
        if added is not None:  # read where it lies: one row for all heads leaves a step's attention in one pass
            bias = own["relative_position_bias"]
            own["relative_position_bias"] = bias.reinterpret(scores, spread_strides(added.shape, scores))
        found = function(**own, **options, **asked, **named)
        made[:] = [one for one in found if one is not None]
        return made[0]

    sizes = _sizes(node, given, scores, shared)
    output = node.tracer.apply(call, list(given.values()), sizes[0], element=element, folds=False)
    if not made:  # there are no queries
        if any(asks) and "past_key" in given and given["past_key"].shape[2] != total:
            node.unsupported("query", "the keys and values of no queries are not supported as outputs")
        return [output, *(given.get(f"past_{name}") for name in _PARTS[1:])][: 1 + len(asks)]
    rest = iter(made[1:])
    presents: list[Value | None] = []
    for one, shape in zip(asks, sizes[1:], strict=False):
        expression = next(rest, None) if one else None
        presents.append(Value(element, shape, None, expression, needs=output.needs) if one else None)
    return [output, *presents]


def _bias(node: BoundNode, added: Value | None, scores: tuple[int, int, int, int], *, is_cached: bool) -> Value | None:
    """What is added to scores: 0 for the keys that a cache with room has not yet."""
    if added is None:
        return None
    total = scores[3]
    if is_cached and len(added.shape) == 4 and added.shape[3] < total:
        padded = (*added.shape[:3], total)
        ends = (0, 0, 0, total - added.shape[3])
        added = node.tracer.apply(dml.padding, [added], padded, start_padding=(0,) * 4, end_padding=ends)
    if common_shape(node, added.shape, scores) != scores:
        rule = f"attention_bias must have a shape that can be broadcast to {scores}"
        node.refuse("attention_bias", rule, value=added.shape)
    return added


def _sizes(
    node: BoundNode, given: dict[str, Value], scores: tuple[int, int, int, int], shared: int | None
) -> list[tuple[int, ...]]:
    """The shapes of the output, the keys and the values."""
    batch, heads, queries, total = scores
    count = shared or heads
    size = _head_size(node, given, ("query", heads), 0)
    own = _head_size(node, given, ("value", count), 1) if "value" in given else None
    value_size = own or (given["past_value"].shape[3] if "past_value" in given else size)
    return [(batch, queries, heads * value_size), (batch, count, total, size), (batch, count, total, value_size)]


def _head_size(node: BoundNode, given: dict[str, Value], part: tuple[str, int], place: int) -> int:
    name, count = part
    if name not in given:
        return given["stacked_query_key_value"].shape[4]
    if len(given[name].shape) != 3 or given[name].shape[2] % count:
        rule = f"{name} must have 3 dimensions, and whole heads in the last, of which there are {count}"
        node.refuse(node.rules.inputs[place].name, rule, value=given[name].shape)
    return given[name].shape[2] // count


def _mask(node: BoundNode, mask: Value, scores: tuple[int, int, int, int]) -> tuple[Mask, Value]:
    """A mask in a form that DirectML has, by its shape."""
    batch, _, queries, total = scores
    forms: dict[tuple[int, ...], Mask] = {
        (3 * batch + 2,): Mask.KEY_QUERY_SEQUENCE_LENGTH_START_END,
        (2 * batch,): Mask.KEY_SEQUENCE_END_START,
        (batch,): Mask.KEY_SEQUENCE_LENGTH,
    }
    if mask.shape in forms:
        kind = forms[mask.shape]
        return kind, node.tracer.reshape(mask, (2, batch)) if kind is Mask.KEY_SEQUENCE_END_START else mask
    shapes = {(batch, total): (batch, 1, 1, total), (batch, queries, total): (batch, 1, queries, total), scores: scores}
    if mask.shape not in shapes:
        known = [*forms, *shapes]
        node.refuse("mask", f"the mask must have one of the shapes {', '.join(map(str, known))}", value=mask.shape)
    return Mask.BOOLEAN, spread(node, node.tracer.reshape(mask, shapes[mask.shape]), scores)
