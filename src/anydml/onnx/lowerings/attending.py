"""ONNX Runtime's attentions: MultiHeadAttention and Attention by MULTIHEAD_ATTENTION, GroupQueryAttention by its 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.enums import DataType, IndexMode
from anydml.enums import MultiheadAttentionMaskType as Mask
from anydml.errors import show
from anydml.onnx.lowerings.attention import check_caches, rotate
from anydml.onnx.lowerings.elementwise import common_shape, compute
from anydml.onnx.lowerings.moving import retyped, spread, transposed
from anydml.onnx.lowerings.products import exact, multiply
from anydml.onnx.lowerings.running import within
from anydml.onnx.lowerings.slicing import take
from anydml.onnx.lowerings.whole import Whole
from anydml.onnx.types import element_of
from anydml.onnx.values import Parts, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node

_PARTS = ("query", "key", "value")


def multi_head_attention(node: Node) -> list[Value | None]:
    """MultiHeadAttention: query, key and value by themselves or stacked, and a past."""
    _refuse_others(node, (8, 9), 3)
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    heads = _heads(node, "num_heads")
    for name, one, ranks in (("query", query, (3, 5)), ("key", key, (3, 4, 5)), ("value", value, (3, 4))):
        if one is not None and len(one.shape) not in ranks:
            rule = f"{name} must have {' or '.join(map(str, ranks))} dimensions"
            node.refuse(name, rule, value=one.shape, found=str(one.shape))
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
    return _attend(node, tensors, scores, 4, 5, [bool(name) for name in node.proto.output[1:3]])


def _attend_to_past(node: Node, heads: int, past: list[Value | None]) -> list[Value | None]:
    """MultiHeadAttention without new keys: to those of the past, which stays as it is; to no keys at all it is 0."""
    query, key, value, bias = node.input(0), node.input(1), node.optional(2), node.optional(3)
    if len(query.shape) != 3 or query.shape[2] % heads:
        rule = f"query must have 3 dimensions, and whole heads in the last, of which there are {heads}"
        node.refuse("query", rule, value=query.shape, found=str(query.shape))
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


def attention(node: Node) -> list[Value | None]:
    """Attention: the product that makes query, key and value of one input comes first."""
    _refuse_others(node, (6,), 2)
    x, weights, bias = node.input(0), node.input(1), node.optional(2)
    sizes = _columns_of(node, x, weights, node.integers("qkv_hidden_sizes"))
    whole = multiply(node, x, weights)
    whole = whole if bias is None else compute(node, dml.add, whole, bias)
    return _attend_to_itself(node, whole, sizes, node.optional(4), (3, 5))


def attention_quantised(node: Node) -> list[Value | None]:
    """QAttention: the same with a first product of bytes."""
    x, weights = node.input(0), node.input(1)
    sizes = _columns_of(node, x, weights, None)
    factors = Whole(Parts(x, node.input(3), node.optional(6), 2), Parts(weights, node.input(4), node.optional(7), 1))
    whole = factors.scaled(node, exact(node, factors), node.input(2))
    return _attend_to_itself(node, whole, sizes, node.optional(8), (5, 9))


def _columns_of(node: Node, x: Value, weights: Value, given: list[int] | None) -> list[int]:
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
        node.refuse("qkv_hidden_sizes", rule, value=sizes, found=str(sizes))
    return sizes


def _attend_to_itself(
    node: Node, whole: Value, sizes: list[int], given: Value | None, beside: tuple[int, int]
) -> list[Value | None]:
    """Attention of the columns of one tensor; `beside` are the inputs that are a mask and what is added to scores."""
    tensors: dict[str, Value | None] = dict(zip(_PARTS, _columns(node, whole, sizes), strict=True))
    past, (batch, length, _) = _some(given, 3), whole.shape
    if past is not None:
        if len(past.shape) != 5 or past.shape[0] != 2:
            rule = "past must have the shape (2, batch, heads, past sequence, head size)"
            node.refuse("past", rule, value=past.shape, found=str(past.shape))
        for i, name in enumerate(("past_key", "past_value")):
            part = take(node, past, (i, 0, 0, 0, 0), (1, *past.shape[1:]), (1,) * 5)
            tensors[name] = node.tracer.reshape(part, past.shape[1:])
    total = length + (past.shape[3] if past is not None else 0)
    asks = node.output_count > 1 and bool(node.proto.output[1])
    scores = (batch, _heads(node, "num_heads"), length, total)
    output, *present = _attend(node, tensors, scores, *beside, [asks, asks])
    if not asks:
        return [output]
    parts = [node.tracer.reshape(one, (1, *one.shape)) for one in present if one is not None]
    return [output, node.tracer.apply_to_list(dml.join, parts, (2, *parts[0].shape[1:]), 0)]


def group_query_attention(node: Node) -> list[Value | None]:
    """GroupQueryAttention: a cache of keys and values, whose new ones may be turned by their positions first."""
    _refuse_others(node, (11, 12, 13, 14, 15), 3)
    usual_numbers = {"causal": 1, "local_window_size": -1, "sliding_window_cache": 0, "kv_cache_bit_width": 0}
    for name, usual in usual_numbers.items():
        if node.integer(name) != usual:
            node.unsupported(name, f"{name} is not supported")
    if node.real("softcap") or node.integer("smooth_softmax") > 0 or node.integer("qk_output"):
        node.unsupported("softcap", "softcap, smooth_softmax and qk_output are not supported")
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    heads, shared = _heads(node, "num_heads"), _heads(node, "kv_num_heads")
    if len(query.shape) != 3:
        node.refuse("query", "query must have 3 dimensions", value=query.shape, found=str(query.shape))
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
    room = past[0].shape[2] if past[0] is not None else 0
    total, known = _total(node, new, past), element_of(DataType.INT32)
    lengths = _past_lengths(node, (batch, length, total), max(total, room))
    if node.integer("do_rotary"):
        steps = compute(node, dml.add, node.tracer.reshape(lengths, (batch, 1)), Value.of(known, [range(length)]))
        positions = node.optional(9) if total != length else None
        angles = (node.input(7), node.input(8), steps if positions is None else positions)
        check_caches(node, *angles[:2])
        interleaved = bool(node.integer("rotary_interleaved"))
        query, key = (
            _turned(node, x, count, angles, interleaved=interleaved) if x.count else x
            for x, count in ((query, heads), (key, shared))
        )
    if not new and past[0] is not None and past[1] is not None:  # another layer has put them into the cache
        key, value = (_rows(node, one, lengths, length) for one in past if one is not None)
    room = max(total, room)
    tensors: dict[str, Value | None] = dict(zip(_PARTS, (query, key, value), strict=True))
    tensors["past_sequence_lengths"] = lengths
    for name, one in zip(("past_key", "past_value"), past, strict=True):
        if one is not None and one.shape[2] < room:
            rest = node.tracer.fill(dml.fill_value_constant, one.element, _long(one, room - one.shape[2]), 0)
            tensors[name] = node.tracer.apply_to_list(dml.join, [one, rest], _long(one, room), 2)
        else:
            tensors[name] = one
    asks = [bool(name) for name in node.proto.output[1:3]]
    return _attend(node, tensors, (batch, heads, length, room), None, 10, asks, shared)


def _after(node: Node, past: Value | None, one: Value | None) -> Value | None:
    """Keys or values by heads, after those of a past."""
    if past is None or one is None:
        return one
    if len(past.shape) != 4 or past.shape != _long(one, past.shape[2]):
        rule = "past_key and past_value must have the sizes of key and value, but for the sequence"
        node.refuse("past_key", rule, value=past.shape, found=f"{past.shape} and {one.shape}")
    return node.tracer.apply_to_list(dml.join, [past, one], _long(one, past.shape[2] + one.shape[2]), 2)


def _rows(node: Node, past: Value, first: Value, count: int) -> Value:
    """So many rows of a past, in each batch from another on, as new keys are given."""
    batch, heads, _, size = past.shape
    steps = Value.of(first.element, np.arange(count).reshape(1, 1, count, 1))
    places = compute(node, dml.add, node.tracer.reshape(first, (batch, 1, 1, 1)), steps)
    shape = (batch, heads, count, size)
    found = node.tracer.apply(dml.gather_elements, [past, spread(node, places, shape)], shape, 2, IndexMode.RAISE)
    return node.tracer.reshape(transposed(node, found, (0, 2, 1, 3)), (batch, count, heads * size))


def _total(node: Node, new: int, past: list[Value | None]) -> int:
    """All keys: those of a past and so many new ones, or as many as a past with room for them has then."""
    given, field = node.input(6).ints("total_sequence_length"), "total_sequence_length"
    shapes = [one.shape if one is not None else () for one in past]
    if bool(shapes[0]) != bool(shapes[1]) or shapes[0][:3] != shapes[1][:3] or len(shapes[0]) not in (0, 4):
        rule = "past_key and past_value must both be given, of 4 dimensions, and equally long"
        node.refuse("past_key", rule, value=shapes, found=" and ".join(str(shape or "none") for shape in shapes))
    room = shapes[0][2] if shapes[0] else 0
    if len(given) != 1 or (given[0] != room + new and not max(new, 1) <= given[0] <= room):
        rule = f"{field} must be {room + new}, the {room} keys of the past and {new} new ones"
        rule += f", or, in a past that has room for them, from {max(new, 1)} to {room}" if room >= max(new, 1) else ""
        node.refuse(field, rule, value=given, found=show(given))
    return given[0]


def _past_lengths(node: Node, sizes: tuple[int, int, int], room: int) -> Value:
    """The keys of each batch before the new ones, by seqlens_k, the last key's number: among as many as there is room.

    In the first step of all there are none, and seqlens_k counts what is no padding.
    """
    (batch, length, total), counts, kind = sizes, node.input(5), element_of(DataType.INT32)
    if counts.count != batch:
        rule = f"seqlens_k must have the shape {(batch,)}, a number for each of the batch"
        node.refuse("seqlens_k", rule, value=counts.shape, found=str(counts.shape))
    counts, word = node.tracer.reshape(counts, (batch,)), element_of(DataType.UINT32)
    if total == length:
        last = within(node, counts, room - 1, word, "seqlens_k")
        return Value.of(kind, np.zeros(batch)) if last.is_known else retyped(node, _none(node, last), kind)
    if length == 1:
        return retyped(node, within(node, counts, room - 1, word, "seqlens_k"), kind)
    before = compute(node, dml.add, counts, Value.of(kind, [1 - length]))
    said = f"seqlens_k less the {length - 1} keys before the last, the length of the past,"
    return retyped(node, within(node, before, room - length, word, "seqlens_k", said), kind)


def _none(node: Node, checked: Value) -> Value:
    """Zeros that are made of what was checked: a check that nothing reads is left out."""
    return compute(node, dml.min, checked, Value.of(checked.element, 0))


def _long(past: Value, count: int) -> tuple[int, ...]:
    """The shape of a past with another number of keys."""
    return (*past.shape[:2], count, past.shape[3])


def _turned(node: Node, x: Value, count: int, angles: tuple[Value, Value, Value], *, interleaved: bool) -> Value:
    sizes = (*x.shape[:2], count, x.shape[2] // count)
    turned = rotate(node, node.tracer.reshape(x, sizes), 1, angles, 2 * angles[0].shape[1], interleaved=interleaved)
    return node.tracer.reshape(turned, x.shape)


def _heads(node: Node, name: str) -> int:
    count = node.integer(name)
    if count < 1:
        node.refuse(name, f"{name} must be at least 1", value=count, found=str(count))
    return count


def _some(value: Value | None, axis: int = 2) -> Value | None:
    """A past; None for one of no keys."""
    return None if value is None or (len(value.shape) > axis and not value.shape[axis]) else value


def _refuse_others(node: Node, inputs: tuple[int, ...], outputs: int) -> None:
    """Say which inputs and outputs are not there."""
    for i in inputs:
        if node.optional(i) is not None:
            name = node.rules.inputs[i].name
            node.unsupported(name, f"{name} is not supported")
    if any(node.proto.output[outputs:]):
        node.unsupported(node.rules.outputs[outputs].name, "the scores are not supported as an output")


def _columns(node: Node, x: Value, sizes: list[int]) -> list[Value]:
    """Parts of the last dimension."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        take(node, x, (0, 0, start), (*x.shape[:2], size), (1, 1, 1)) for start, size in zip(starts, sizes, strict=True)
    ]


def _attend(
    node: Node,
    tensors: dict[str, Value | None],
    scores: tuple[int, int, int, int],
    mask: int | None,
    bias: int,
    asks: list[bool],
    shared: int | None = None,
) -> list[Value | None]:
    """The output, and the keys and values that are asked for; the mask and the bias are inputs."""
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
    added = node.optional(bias)
    if added is not None and shared is not None and len(added.shape) == 4 and added.shape[3] < total:
        ends = (0, 0, 0, total - added.shape[3])  # a past with room has keys that are not there yet
        padded = (*added.shape[:3], total)
        added = node.tracer.apply(dml.padding, [added], padded, start_padding=(0,) * 4, end_padding=ends)
    if added is not None and common_shape(node, added.shape, scores) != scores:
        rule = f"attention_bias must have a shape that can be broadcast to {scores}"
        node.refuse("attention_bias", rule, value=added.shape, found=str(added.shape))
    if mask is not None and node.integer("unidirectional"):
        later = np.triu(np.full((queries, total), -np.inf), total - queries + 1)
        causal = Value.of(element, later)
        added = causal if added is None else compute(node, dml.add, added, causal)
    if added is not None:
        tensors["relative_position_bias"] = spread(node, added, scores)
    given = {name: value for name, value in tensors.items() if value is not None}
    names = list(given)
    made: list[Any] = []
    asked = {f"output_present_{name}": True for name, one in zip(_PARTS[1:], asks, strict=False) if one}

    def call(*inputs: Any, **named: Any) -> Any:
        found = function(**dict(zip(names, inputs, strict=True)), **options, **asked, **named)
        made[:] = found if asked else [found]
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


def _sizes(
    node: Node, given: dict[str, Value], scores: tuple[int, int, int, int], shared: int | None
) -> list[tuple[int, ...]]:
    """The shapes of the output, the keys and the values."""
    batch, heads, queries, total = scores
    count = shared or heads
    size = _head_size(node, given, ("query", heads), 0)
    own = _head_size(node, given, ("value", count), 1) if "value" in given else None
    value_size = own or (given["past_value"].shape[3] if "past_value" in given else size)
    return [(batch, queries, heads * value_size), (batch, count, total, size), (batch, count, total, value_size)]


def _head_size(node: Node, given: dict[str, Value], part: tuple[str, int], place: int) -> int:
    name, count = part
    if name not in given:
        return given["stacked_query_key_value"].shape[4]
    if len(given[name].shape) != 3 or given[name].shape[2] % count:
        rule = f"{name} must have 3 dimensions, and whole heads in the last, of which there are {count}"
        node.refuse(node.rules.inputs[place].name, rule, value=given[name].shape, found=str(given[name].shape))
    return given[name].shape[2] // count


def _mask(node: Node, mask: Value, scores: tuple[int, int, int, int]) -> tuple[Mask, Value]:
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
        rule = f"the mask must have one of the shapes {', '.join(map(str, known))}"
        node.refuse("mask", rule, value=mask.shape, found=str(mask.shape))
    return Mask.BOOLEAN, spread(node, node.tracer.reshape(mask, shapes[mask.shape]), scores)
