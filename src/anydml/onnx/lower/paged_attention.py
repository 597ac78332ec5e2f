"""PagedAttention, whose keys and values lie in blocks by a table, and SparseAttention, which leaves blocks out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.core.enums import DataType, IndexMode, ReduceFunction
from anydml.onnx.element_types import BOOL, FLOAT, element_of
from anydml.onnx.lower.attention import check_caches, rotate
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.indexing import take_blocks
from anydml.onnx.lower.kv_cache import FewBits, by_heads
from anydml.onnx.lower.matmul import multiply
from anydml.onnx.lower.normalization import rms_normalised
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.scored_attention import Seen, attend_with_scores
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.fused_nodes import Maker

_WORD = element_of(DataType.INT32)
_LAYOUTS = ("SEPARATE", "LATENT")
_FEW_BITS = ("NONE", "PER_TENSOR", "PER_CHANNEL")


# PagedAttention


class _Pages:
    """Where the tokens of several sequences lie, which follow one another without padding."""

    def __init__(self, node: BoundNode, tokens: int, block: int) -> None:
        ends, past, table = (node.input(i) for i in (5, 6, 7))
        node.check_rank("block_table", table, 2)
        self.node, self.block, self.table = node, block, table
        batch, width = table.shape
        node.check_shape("cumulative_sequence_length", ends, (batch + 1,), why=", one more than block_table has rows")
        node.check_shape("past_seqlens", past, (batch,), why=", a number for each row of block_table")
        starts, stops = (take(node, ends, (i,), (batch,), (1,)) for i in (0, 1))
        steps = node.tracer.fill(dml.fill_value_sequence, _WORD, (tokens, 1), 0, 1)
        is_after = compute(node, dml.logical_less_than_or_equal, node.tracer.reshape(stops, (1, batch)), steps)
        one, none = Value.of(_WORD, 1), Value.of(_WORD, 0)
        before = reduce(node, compute(node, dml.if_, is_after, one, none), ReduceFunction.SUM, [1])
        self.owner = compute(node, dml.min, before, Value.of(_WORD, batch - 1))
        """The sequence of each token, (tokens, 1)."""
        self.totals = compute(node, dml.add, past, compute(node, dml.subtract, stops, starts))
        """The keys of each sequence, with the new ones."""
        offset = compute(node, dml.subtract, past, starts)
        flat = node.tracer.reshape(self.owner, (tokens,))
        moved = node.tracer.apply(dml.gather, [offset, flat], (tokens,), 0, IndexMode.CLAMP)
        self.places = compute(node, dml.add, node.tracer.reshape(moved, (tokens, 1)), steps)
        """The position of each token in its sequence, (tokens, 1)."""
        self.keys = batch * width * block

    def slots(self) -> Value:
        """The row of the cache that each token's key goes to, (tokens, 1)."""
        node, (batch, width) = self.node, self.table.shape
        size = Value.of(_WORD, self.block)
        page = compute(node, dml.divide, self.places, size)
        inside = compute(node, dml.subtract, self.places, compute(node, dml.multiply, page, size))
        row = compute(node, dml.add, compute(node, dml.multiply, self.owner, Value.of(_WORD, width)), page)
        blocks = take_blocks(node, node.tracer.reshape(self.table, (batch * width,)), row, 0)
        return compute(node, dml.add, compute(node, dml.multiply, blocks, size), inside)

    def rows(self, cache: Value) -> Value:
        """What lies in the blocks of all sequences, (1, heads, keys, size); those that a table has not are any."""
        node, (count, _, heads, size) = self.node, cache.shape
        names = compute(node, dml.max, self.table, Value.of(_WORD, 0))
        flat = node.tracer.reshape(cache, (count, self.block * heads * size))
        found = take_blocks(node, flat, node.tracer.reshape(names, (names.count,)), 0)
        return transposed(node, node.tracer.reshape(found, (1, self.keys, heads, size)), (0, 2, 1, 3))

    def seen(self, window: int, *, is_causal: bool) -> Seen:
        """Which keys tokens see: those of their own sequence, up to their own or all, and of a window the last."""
        node, batch, tokens = self.node, self.table.shape[0], self.places.shape[0]
        each = self.keys // batch
        owners, places = (np.arange(self.keys).reshape(1, -1) // each, np.arange(self.keys).reshape(1, -1) % each)
        place = Value.of(_WORD, places)
        found = compute(node, dml.logical_equals, self.owner, Value.of(_WORD, owners))
        lengths = spread(node, node.tracer.reshape(self.totals, (batch, 1)), (batch, each))
        there = compute(node, dml.logical_less_than, place, node.tracer.reshape(lengths, (1, self.keys)), element=BOOL)
        limit = there
        if is_causal:
            limit = compute(node, dml.logical_less_than_or_equal, place, self.places, element=BOOL)
        found = compute(node, dml.logical_and, found, limit)
        if window > 0:
            first = compute(node, dml.subtract, self.places, Value.of(_WORD, window))
            found = compute(node, dml.logical_and, found, compute(node, dml.logical_greater_than, place, first))
        pairs = node.tracer.reshape(found, (1, 1, tokens, self.keys))
        return Seen(pairs, node.tracer.reshape(there, (1, 1, self.keys, 1)))


def paged_attention(node: BoundNode) -> list[Value | None]:
    """PagedAttention: the new keys and values go into blocks, and queries attend to those of their sequence."""
    query, key, value, caches = node.input(0), node.optional(1), node.optional(2), [node.input(3), node.optional(4)]
    heads, shared = (_at_least_1(node, name) for name in ("num_heads", "kv_num_heads"))
    is_latent = node.one_of("kv_cache_layout", _LAYOUTS) == "LATENT"
    window, is_causal = node.integer("local_window_size"), bool(node.integer("is_causal"))
    if window == 0 or window < -1:
        rule = "local_window_size must be -1, for all keys, or at least 1"
        node.refuse("local_window_size", rule, value=window)
    if heads % shared:
        node.refuse("num_heads", f"num_heads must be a multiple of kv_num_heads, {shared}", value=heads)
    if is_latent and (key is None or value is not None or caches[1] is not None or shared != 1):
        rule = "kv_cache_layout LATENT needs key, one kv_num_heads, and neither value nor value_cache"
        node.refuse("kv_cache_layout", rule, value=shared)
    if not is_latent and ((key is None) != (value is None) or caches[1] is None):
        node.refuse("value", "value and value_cache must be given beside key and key_cache")
    node.check_rank("query", query, 2)
    tokens = query.shape[0]
    if key is None:
        size = query.shape[1] // (heads + 2 * shared)
        sizes, start, parts = [heads * size, shared * size, shared * size], 0, []
        for width in sizes:
            parts.append(take(node, query, (0, start), (tokens, width), (1, 1)))
            start += width
        query, key, value = parts
    size = query.shape[1] // heads
    if query.shape[1] % heads or size < 1:
        node.refuse("query", f"query must have whole heads, of which there are {heads}", value=query.shape)
    rows = {"key": key, **({} if value is None else {"value": value})}
    for name, one in rows.items():
        node.check_shape(name, one, (tokens, shared * size), why=", a row for each of query's")
    block = caches[0].shape[1] if caches[0] is not None and len(caches[0].shape) == 4 else 0
    few = [
        _few_bits(node, name, i, cache, shared, size) for i, (name, cache) in enumerate(zip("kv", caches, strict=True))
    ]
    for name, cache, kind in zip(("key_cache", "value_cache"), caches, few, strict=True):
        if cache is not None:
            wanted = (cache.shape[0], block, shared, size // 2 if kind is not None and kind.bits == 4 else size)
            node.check_shape(name, cache, wanted, why=", by blocks")
    if not tokens:
        width = node.integer("v_head_size") if is_latent else 0
        return [Value(query.element, (0, heads * (width or size))), *caches]
    pages = _Pages(node, tokens, block)
    query, key = _turned(node, pages, query, heads, key, shared)
    slots = _given_slots(node, pages, caches[0])
    made = [
        cache and _put(node, cache, one, shared, slots, kind)
        for cache, one, kind in zip(caches, (key, value), few, strict=True)
    ]
    seen = pages.seen(window, is_causal=is_causal)
    read = []
    for cache, kind in zip(made, few, strict=True):
        if cache is not None:
            found = pages.rows(cache)
            found = kind.given(node, found) if kind is not None else convert(node, found, FLOAT)
            read.append(compute(node, dml.if_, seen.there, found, Value.of(FLOAT, 0)))
    sinks = node.optional(11)
    node.check_shape("head_sink", sinks, (heads,), why=", a score for each head")
    whole = node.tracer.reshape(query, (1, *query.shape))
    sinks = sinks and convert(node, sinks, FLOAT)
    y, _ = attend_with_scores(node, whole, [read[0], read[-1]], seen, None, sinks)
    y = node.tracer.reshape(y, query.shape)
    width = node.integer("v_head_size")
    if is_latent and width not in (0, size):
        if not 0 < width < size:
            node.refuse("v_head_size", f"v_head_size must lie in 1 .. {size}, the size of a head", value=width)
        apart = node.tracer.reshape(y, (tokens, heads, size))
        y = take(node, apart, (0, 0, 0), (tokens, heads, width), (1, 1, 1))
        y = node.tracer.reshape(y, (tokens, heads * width))
    return [y, *made]


def _at_least_1(node: BoundNode, name: str) -> int:
    count = node.integer(name)
    if count < 1:
        node.refuse(name, f"{name} must be at least 1", value=count)
    return count


def _few_bits(node: BoundNode, part: str, i: int, cache: Value | None, heads: int, size: int) -> FewBits | None:
    """How a cache is made of few bits, by its type; None where it is of floats."""
    kind, scale, said = (
        node.one_of(f"{part}_quant_type", _FEW_BITS),
        node.optional(14 + i),
        node.text(f"{part}_cache_dtype"),
    )
    name = f"{part}_quant_type"
    if cache is None or cache.element.data_type.is_float:
        if kind != "NONE" or scale is not None:
            node.refuse(name, f"{name} must be NONE, and {part}_scale left out, for a cache of floats", value=kind)
        return None
    bits = 8 if cache.element.data_type is DataType.INT8 else 4 if said == "int4" else 0
    if not bits:
        rule = f"a cache of {cache.element.name} called {said!r} is not supported: INT8, and UINT8 called int4, are"
        node.unsupported(f"{part}_cache_dtype", rule)
    count = 1 if kind == "PER_TENSOR" else heads * size
    if kind == "NONE" or scale is None or scale.count != count:
        rule = f"{name} must be PER_TENSOR, with one number in {part}_scale, or PER_CHANNEL, with {heads * size}"
        node.refuse(name, rule, value=kind)
    return FewBits(bits, node.tracer.reshape(scale, (1, 1, 1, 1) if count == 1 else (1, heads, 1, size)))


def _turned(node: BoundNode, pages: _Pages, query: Value, heads: int, key: Value, shared: int) -> tuple[Value, Value]:
    """Queries and keys, normalised by head and turned by their positions where that is asked for."""
    weights = {"q_norm_weight": node.optional(12), "k_norm_weight": node.optional(13)}
    if (weights["q_norm_weight"] is None) != (weights["k_norm_weight"] is None):
        node.refuse("k_norm_weight", "q_norm_weight and k_norm_weight must both be given")
    tokens, size, offset = query.shape[0], query.shape[1] // heads, node.integer("rotary_offset")
    found = []
    for x, count, (name, weight) in zip((query, key), (heads, shared), weights.items(), strict=True):
        by_head = node.tracer.reshape(x, (1, tokens, count, size))
        if weight is not None:
            node.check_shape(name, weight, (size,), why=", a number for each of a head's")
            by_head = rms_normalised(node, by_head, weight, node.real("qk_norm_epsilon"))
        if node.integer("do_rotary"):
            angles = (node.input(8), node.input(9), node.tracer.reshape(pages.places, (1, tokens)))
            check_caches(node, *angles[:2])
            if not 0 <= offset < size:
                node.refuse("rotary_offset", f"rotary_offset must lie in 0 .. {size - 1}", value=offset)
            rest = take(node, by_head, (0, 0, 0, offset), (1, tokens, count, size - offset), (1,) * 4)
            interleaved = bool(node.integer("rotary_interleaved"))
            rest = rotate(node, rest, 1, angles, 2 * angles[0].shape[1], interleaved=interleaved)
            if offset:
                first = take(node, by_head, (0,) * 4, (1, tokens, count, offset), (1,) * 4)
                rest = node.tracer.apply_to_list(dml.join, [first, rest], by_head.shape, 3)
            by_head = rest
        found.append(node.tracer.reshape(by_head, x.shape))
    return found[0], found[1]


def _given_slots(node: BoundNode, pages: _Pages, cache: Value | None) -> tuple[Value, bool]:
    """The rows that keys go to, and whether some may go to none: to the one after the last."""
    given = node.optional(10)
    if given is None:
        return pages.slots(), False
    assert cache is not None  # noqa: S101 - for type checkers: the keys' must be given
    tokens, rows = pages.places.shape[0], cache.shape[0] * cache.shape[1]
    node.check_shape("slot_mapping", given, (tokens,), why=", a row for each token")
    is_none = compute(node, dml.logical_less_than, given, Value.of(_WORD, 0), element=BOOL)
    found = compute(node, dml.if_, is_none, Value.of(_WORD, rows), given)
    return node.tracer.reshape(found, (tokens, 1)), True


def _put(
    node: BoundNode, cache: Value, rows: Value | None, heads: int, slots: tuple[Value, bool], kind: FewBits | None
) -> Value:
    """A cache with the keys or values of new tokens in it."""
    assert rows is not None  # noqa: S101 - for type checkers: it was looked at
    tokens, places = rows.shape[0], slots[0]
    new = convert(node, rows, cache.element) if kind is None else rows
    if kind is not None:
        packed = kind.taken(node, by_heads(node, node.tracer.reshape(rows, (1, *rows.shape)), heads))
        new = transposed(node, packed, (0, 2, 1, 3))
    count, width = cache.shape[0] * cache.shape[1], cache.shape[2] * cache.shape[3]
    flat, total = node.tracer.reshape(cache, (count, width)), count + slots[1]
    if slots[1]:
        beyond = node.tracer.fill(dml.fill_value_constant, cache.element, (1, width), 0)
        flat = node.tracer.apply_to_list(dml.join, [flat, beyond], (total, width), 0)
    found = node.tracer.apply(dml.scatter_nd, [flat, places, node.tracer.reshape(new, (tokens, width))], (total, width))
    if slots[1]:
        found = take(node, found, (0, 0), (count, width), (1, 1))
    return node.tracer.reshape(found, cache.shape)


# SparseAttention


def sparse_attention(node: BoundNode, make: Maker) -> list[Value | None]:
    """SparseAttention: GroupQueryAttention in a cache with room, where what is added to scores leaves blocks out."""
    query, caches, total_ = node.input(0), [node.input(3), node.input(4)], node.input(7)
    heads, size = _at_least_1(node, "num_heads"), _at_least_1(node, "sparse_block_size")
    lengths = node.input(8)
    node.check_rank("query", query, 3)
    node.check_rank("past_key", caches[0], 4)
    batch, count, _ = query.shape
    node.check_shape("key_total_sequence_lengths", lengths, (batch,), why=", a number for each of the batch")
    given = total_.ints("total_sequence_length")
    room = caches[0].shape[2]
    if len(given) != 1 or not max(count, 1) <= given[0] <= room:
        rule = f"total_sequence_length must lie in {max(count, 1)} .. {room}, the rows that past_key has"
        node.refuse("total_sequence_length", rule, value=given)
    total = given[0]
    one = Value.of(_WORD, 1)
    lasts = compute(node, dml.subtract, lengths, one)
    first = (
        Value.of(_WORD, np.zeros(batch))
        if total == count
        else compute(node, dml.subtract, lengths, Value.of(_WORD, count))
    )
    steps = node.tracer.fill(dml.fill_value_sequence, _WORD, (1, count), 0, 1)
    own = compute(node, dml.add, node.tracer.reshape(first, (batch, 1)), steps)
    bias = _blocks(node, own, heads, total, size)
    inputs = [query, node.optional(1), node.optional(2), *caches, lasts, total_, node.optional(9), node.optional(10)]
    options = {name: node.integer(name) for name in ("num_heads", "kv_num_heads", "do_rotary", "rotary_interleaved")}
    bias = convert(node, bias, query.element)
    return make.several("GroupQueryAttention", 3, *inputs, None, bias, scale=node.real("scale"), **options)


def _blocks(node: BoundNode, own: Value, heads: int, total: int, size: int) -> Value:
    """0 for the blocks that queries at these positions see, by the layout of each head, and -inf for others."""
    rows, columns = node.input(5), node.input(6)
    if (
        len(rows.shape) != 2
        or len(columns.shape) != 2
        or rows.shape[0] != columns.shape[0]
        or heads % max(rows.shape[0], 1)
    ):
        rule = "block_row_indices and block_col_indices must have a row for each layout, a divisor of num_heads"
        node.refuse("block_row_indices", rule, value=rows.shape, found=f"{rows.shape} and {columns.shape}")
    layouts, blocks, most = rows.shape[0], rows.shape[1] - 1, columns.shape[1]
    if blocks * size < total:
        rule = f"block_row_indices must have blocks for {total} keys: {-(-total // size) + 1} columns"
        node.refuse("block_row_indices", rule, value=rows.shape)
    numbers = node.tracer.fill(dml.fill_value_sequence, _WORD, (1, 1, most), 0, 1)
    starts, stops = (
        node.tracer.reshape(take(node, rows, (0, i), (layouts, blocks), (1, 1)), (layouts, blocks, 1)) for i in (0, 1)
    )
    is_after = compute(node, dml.logical_less_than_or_equal, starts, numbers, element=BOOL)
    is_own = compute(node, dml.logical_and, is_after, compute(node, dml.logical_greater_than, stops, numbers))
    names = node.tracer.fill(dml.fill_value_sequence, _WORD, (1, 1, blocks), 0, 1)
    is_there = compute(node, dml.logical_equals, node.tracer.reshape(columns, (layouts, most, 1)), names)
    zero, unit = Value.of(FLOAT, 0), Value.of(FLOAT, 1)
    counts = multiply(node, *(compute(node, dml.if_, one, unit, zero) for one in (is_own, is_there)))
    none = compute(node, dml.logical_equals, counts, zero)
    bias = compute(node, dml.if_, none, Value.of(FLOAT, -math.inf), zero)
    wide = spread(node, node.tracer.reshape(bias, (layouts, blocks, blocks, 1)), (layouts, blocks, blocks, size))
    by_key = take(
        node, node.tracer.reshape(wide, (layouts, blocks, blocks * size)), (0,) * 3, (layouts, blocks, total), (1,) * 3
    )
    (batch, count), line = own.shape, compute(node, dml.divide, own, Value.of(_WORD, size))
    found = transposed(node, take_blocks(node, by_key, line, 1), (1, 0, 2, 3))
    shape = (batch, heads // layouts, layouts, count, total)
    return node.tracer.reshape(
        spread(node, node.tracer.reshape(found, (batch, 1, *shape[2:])), shape), (batch, heads, count, total)
    )
