"""LinearAttention and what stands around it: states of a fixed size, which each token decays and adds to.

Tokens are taken in chunks: within one everything is products of matrices, and states go from chunk to chunk by a scan.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import anydml as dml
from anydml.core.enums import AxisDirection, ReduceFunction
from anydml.onnx.element_types import BOOL, FLOAT
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.matmul import multiply
from anydml.onnx.lower.normalization import rms_normalised
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode

_RULES = ("linear", "gated", "delta", "gated_delta")
_CHUNK, _CHUNK_BY_KEY = 64, 16
"""Tokens of a chunk; where each number of a key decays by itself, pairs of tokens take as many numbers as a key has."""
_MOST_STATES = 8
"""Of `state_window`."""


# CausalConvWithState


def causal_convolution(node: BoundNode) -> list[Value]:
    """CausalConvWithState: each channel by itself, along the sequence; what it looks back at is carried over."""
    x, weight, bias, past = node.input(0), node.input(1), node.optional(2), node.optional(3)
    if node.integer("ndim") != 1:
        node.unsupported("ndim", f"an ndim of {node.integer('ndim')} is not supported: sequences have 1", "make it 1")
    dilation, window, is_last = node.integer("dilation"), _window(node), bool(node.integer("channels_last"))
    kind = node.one_of("activation", ("none", "silu", "swish"))
    if dilation < 1:
        node.refuse("dilation", "dilation must be at least 1", value=dilation)
    node.check_rank("input", x, *(() if is_last else (3,)), least=2)
    channels = math.prod(x.shape[2:]) if is_last else x.shape[1]
    batch, length = x.shape[0], x.shape[1] if is_last else x.shape[2]
    node.check_rank("weight", weight, 3)
    node.check_shape("weight", weight, (channels, 1, weight.shape[2]), why=", a row for each channel")
    node.check_shape("bias", bias, (channels,), why=", a number for each channel")
    taps = weight.shape[2]
    back = max(taps - 1, 0) * dilation
    own = (batch, back, *x.shape[2:]) if is_last else (batch, channels, back)
    held = (window, *own) if window else own
    node.check_shape("past_state", past, held, why=", the state that is carried over")
    # As rows of (batch, ahead, sequence, behind), of which one of the two is 1.
    ahead, behind = (1, channels) if is_last else (channels, 1)
    parts = [node.tracer.reshape(x, (batch, ahead, length, behind))]
    if back:
        before = _last_slot(node, past, own, window) if past is not None else spread(node, Value.of(x.element, 0), own)
        parts.insert(0, node.tracer.reshape(before, (batch, ahead, back, behind)))
    whole = _joined(node, [part for part in parts if part.count], 2) if length or back else parts[0]
    factors = node.tracer.reshape(convert(node, weight, FLOAT), (channels, taps))
    total: Value | None = None
    shape, along = (batch, ahead, length, behind), (1, ahead, 1, behind)
    for i in range(taps if length else 0):
        seen = convert(node, take(node, whole, (0, 0, i * dilation, 0), shape, (1,) * 4), FLOAT)
        factor = node.tracer.reshape(take(node, factors, (0, i), (channels, 1), (1, 1)), along)
        part = compute(node, dml.multiply, seen, factor)
        total = part if total is None else compute(node, dml.add, total, part)
    if total is None:
        total = spread(node, Value.of(FLOAT, 0), shape)
    if bias is not None:
        total = compute(node, dml.add, total, node.tracer.reshape(convert(node, bias, FLOAT), along))
    if kind != "none":
        total = compute(node, dml.multiply, total, compute(node, dml.sigmoid, total))
    y = node.tracer.reshape(convert(node, total, x.element), x.shape)
    slots = []
    for j in range(window or 1):
        end = length - (window or 1) + 1 + j
        if end < 1 and window:
            slots.append(spread(node, Value.of(x.element, 0), own))
        else:
            slot = take(node, whole, (0, 0, end, 0), (batch, ahead, back, behind), (1,) * 4)
            slots.append(node.tracer.reshape(slot, own))
    return [y, _windowed(node, slots, window)]


def _window(node: BoundNode) -> int:
    """How many states are kept; 0 for one that has no dimension for it."""
    window = node.integer("state_window")
    if not 0 <= window <= _MOST_STATES:
        node.refuse("state_window", f"state_window must lie in 0 .. {_MOST_STATES}", value=window)
    return window


def _last_slot(node: BoundNode, past: Value, shape: tuple[int, ...], window: int) -> Value:
    if not window:
        return past
    found = take(node, past, (window - 1, *(0 for _ in shape)), (1, *shape), (1,) * (len(shape) + 1))
    return node.tracer.reshape(found, shape)


def _windowed(node: BoundNode, slots: list[Value], window: int) -> Value:
    """States, one behind the other."""
    if not window:
        return slots[0]
    return _joined(node, [node.tracer.reshape(slot, (1, *slot.shape)) for slot in slots], 0)


def _joined(node: BoundNode, parts: list[Value], axis: int) -> Value:
    if len(parts) == 1:
        return parts[0]
    first = parts[0].shape
    shape = (*first[:axis], sum(part.shape[axis] for part in parts), *first[axis + 1 :])
    if not math.prod(shape):
        return Value(parts[0].element, shape)
    return node.tracer.apply_to_list(dml.join, parts, shape, axis)


# LinearAttention


class _Tokens(NamedTuple):
    """What tokens bring, in FLOAT32, by batch and head of the state."""

    query: Value
    """(batch, heads, queries of each, tokens, key size)"""
    key: Value
    """(batch, heads, tokens, key size)"""
    value: Value
    decay: Value | None
    """The logarithm of what is left of the state; of a last dimension of 1, or a key's size."""
    rate: Value | None
    """How much of the difference a delta rule adds, with a last dimension of 1."""

    def part(self, node: BoundNode, first: int, count: int) -> _Tokens:
        """So many tokens, from one on."""

        def cut(one: Value) -> Value:
            rank = len(one.shape)
            sizes = tuple(count if k == rank - 2 else size for k, size in enumerate(one.shape))
            return take(node, one, [first if k == rank - 2 else 0 for k in range(rank)], sizes, (1,) * rank)

        return _Tokens(
            cut(self.query),
            cut(self.key),
            cut(self.value),
            self.decay and cut(self.decay),
            self.rate and cut(self.rate),
        )


def linear_attention(node: BoundNode) -> list[Value]:
    """LinearAttention: o = scale · Sᵀq of a state S, which is exp(g)·S + k·uᵀ after each token.

    u is v, or of a delta rule β·(v - (exp(g)·S)ᵀk).
    """
    query, key, value = (node.input(i) for i in range(3))
    past, decay, rate = (node.optional(i) for i in range(3, 6))
    rule, window = node.one_of("update_rule", _RULES), _window(node)
    heads, shared = (_at_least_1(node, name) for name in ("q_num_heads", "kv_num_heads"))
    for name, rows in (("query", query), ("key", key), ("value", value)):
        node.check_rank(name, rows, 3)
        if rows.shape[:2] != query.shape[:2]:
            said = f"{name} must have the batch and the length of query, {query.shape[:2]}"
            node.refuse(name, said, value=rows.shape)
    batch, length, width = query.shape
    if width % heads or value.shape[2] % shared or max(heads, shared) % min(heads, shared):
        said = "query must have q_num_heads whole heads, value kv_num_heads, and one number be a multiple of the other"
        node.refuse("q_num_heads", said, value=(heads, shared), found=f"{heads}, {shared}: {width}, {value.shape[2]}")
    size, value_size = width // heads, value.shape[2] // shared
    keys = key.shape[2] // size
    if key.shape[2] % size or not keys or shared % keys:
        said = f"key must have heads of {size}, as query has, and kv_num_heads, {shared}, be a multiple of their number"
        node.refuse("key", said, value=key.shape)
    is_gated, is_delta = "gated" in rule, "delta" in rule
    for name, one, is_used, widths in (
        ("decay", decay, is_gated, (shared, shared * size)), ("beta", rate, is_delta, (shared, 1))
    ):  # fmt: skip
        if is_used and one is None:
            node.refuse(name, f"{name} must be given where update_rule is {rule}")
        node.check_shape(name, one, *((batch, length, one) for one in widths), why=", a number for each head")
    own = (batch, shared, size, value_size)
    node.check_shape(
        "past_state", past, (window, *own) if window else own, why=", a matrix for each head of the values"
    )
    element = value.element if past is None else past.element
    if past is None:
        state = spread(node, Value.of(FLOAT, 0), own)
    else:
        state = convert(node, _last_slot(node, past, own, window), FLOAT)
    if not length or not math.prod(own):
        y = Value(query.element, (batch, length, max(heads, shared) * value_size))
        return [y, past if past is not None else spread(node, Value.of(element, 0), (window, *own) if window else own)]
    each = max(heads // shared, 1)
    tokens = _Tokens(
        _queries(node, query, heads, shared, each),
        _by_head(node, key, keys, shared),
        _by_head(node, value, shared, shared),
        _by_head(node, decay, shared, shared) if is_gated and decay is not None else None,
        _by_head(node, rate, rate.shape[2], shared) if is_delta and rate is not None else None,
    )
    singles = min(window - 1, length - 1) if window > 1 else 0
    outputs, slots = [], [spread(node, Value.of(FLOAT, 0), own)] * (max(window, 1) - singles - 1)
    for first, count in [(0, length - singles), *((length - singles + j, 1) for j in range(singles))]:
        part = tokens if count == length else tokens.part(node, first, count)
        made, state = _step(node, part, state)
        outputs.append(made)
        slots.append(state)
    whole = _joined(node, outputs, 3)
    scale = node.real("scale") or 1 / math.sqrt(size)
    whole = compute(node, dml.multiply, whole, Value.of(FLOAT, scale))
    flat = transposed(node, whole, (0, 3, 1, 2, 4))
    y = node.tracer.reshape(flat, (batch, length, shared * each * value_size))
    present = _windowed(node, [convert(node, slot, element) for slot in slots], window)
    return [convert(node, y, query.element), present]


def _at_least_1(node: BoundNode, name: str) -> int:
    count = node.integer(name)
    if count < 1:
        node.refuse(name, f"{name} must be at least 1", value=count)
    return count


def _queries(node: BoundNode, query: Value, heads: int, shared: int, each: int) -> Value:
    """Queries by the heads of the state: several of each, or of several one."""
    batch, length, width = query.shape
    size = width // heads
    apart = node.tracer.reshape(convert(node, query, FLOAT), (batch, length, heads, 1, size))
    if heads < shared:
        apart = spread(node, apart, (batch, length, heads, shared // heads, size))
    grouped = node.tracer.reshape(apart, (batch, length, shared, each, size))
    return transposed(node, grouped, (0, 2, 3, 1, 4))


def _by_head(node: BoundNode, rows: Value, heads: int, shared: int) -> Value:
    """What each token brings, by the heads of the state."""
    batch, length, width = rows.shape
    apart = node.tracer.reshape(convert(node, rows, FLOAT), (batch, length, heads, 1, width // heads))
    if heads < shared:
        apart = spread(node, apart, (batch, length, heads, shared // heads, width // heads))
    grouped = node.tracer.reshape(apart, (batch, length, shared, width // heads))
    return transposed(node, grouped, (0, 2, 1, 3))


class _Decay(NamedTuple):
    """What is left of states within chunks, as logarithms: each a sum of its own, no difference of two long ones."""

    since: Value
    """From the chunk's beginning to each token: (chunks, tokens, 1 or key size)."""
    between: Value
    """From one token to a later one: (chunks, later, earlier, 1 or key size)."""

    @classmethod
    def of(cls, node: BoundNode, decay: Value) -> _Decay:
        """What is less than e^-128 of anything is 0 in FLOAT32."""
        several, width, size = decay.shape
        decay = compute(node, dml.max, decay, Value.of(FLOAT, _LEAST))
        since = node.tracer.apply(dml.cumulative_summation, [decay], decay.shape, 1, AxisDirection.INCREASING, False)
        rows = node.tracer.reshape(transposed(node, decay, (0, 2, 1)), (several * size, 1, width))
        lower = np.tril(np.ones((width, width)))
        masked = compute(node, dml.if_, Value.of(BOOL, lower[None]), rows, Value.of(FLOAT, 0))
        sums = multiply(node, masked, Value.of(FLOAT, np.tril(lower, -1)))
        apart = node.tracer.reshape(sums, (several, size, width, width))
        return cls(since, transposed(node, apart, (0, 2, 3, 1)))

    def at_end(self, node: BoundNode) -> Value:
        """What is left of a state at the chunk's end: (chunks, 1, 1 or key size)."""
        several, width, size = self.since.shape
        found = take(node, self.since, (0, width - 1, 0), (several, 1, size), (1, 1, 1))
        return compute(node, dml.exp, found)

    def of_keys(self, node: BoundNode) -> Value:
        """What is left of each token at the chunk's end."""
        several, width, size = self.since.shape
        found = take(node, self.between, (0, width - 1, 0, 0), (several, 1, width, size), (1,) * 4)
        return compute(node, dml.exp, node.tracer.reshape(found, (several, width, size)))


_LEAST = -128.0


class _Chunk(NamedTuple):
    """Tokens of a chunk, several of which lie one behind the other in the first dimension."""

    decay: _Decay | None
    update: Value
    """What is added to the state, as far as it does not depend on it."""
    removed: Value | None
    """By which the state that a chunk begins with is multiplied, and taken off that."""
    last: Value
    """Keys, with the decay up to the end of the chunk."""


def _step(node: BoundNode, tokens: _Tokens, state: Value) -> tuple[Value, Value]:
    """The outputs of tokens, (batch, heads, queries of each, tokens, value size), and the state after them."""
    batch, heads, each, length, size = tokens.query.shape
    is_by_key = tokens.decay is not None and tokens.decay.shape[-1] > 1
    width = min(_CHUNK_BY_KEY if is_by_key else _CHUNK, length)
    count = -(-length // width)
    several = batch * heads * count
    query, key, value, given, rate = (one and _cut(node, one, width, count) for one in tokens)
    assert query is not None and key is not None and value is not None  # noqa: S101, PT018 - for type checkers
    decay = None if given is None else _Decay.of(node, given)
    own = _pairs(node, key, key, decay, width)
    if rate is not None:
        inverse = _inverse(node, compute(node, dml.multiply, own, rate), width)
        update = multiply(node, inverse, compute(node, dml.multiply, value, rate))
        seen = compute(node, dml.multiply, _decayed(node, key, decay and decay.since), rate)
        removed = multiply(node, inverse, seen)
    else:
        update, removed = value, None
    last = key if decay is None else compute(node, dml.multiply, key, decay.of_keys(node))
    chunk = _Chunk(decay, update, removed, last)
    value_size = value.shape[2]
    states, after = _states(node, chunk, node.tracer.reshape(state, (batch * heads, size, value_size)), count)
    if removed is not None:
        update = compute(node, dml.subtract, update, multiply(node, removed, states))
    rows = node.tracer.reshape(query, (several, each, width, size))
    shown = decay and node.tracer.reshape(decay.since, (several, 1, *decay.since.shape[1:]))
    wide = node.tracer.reshape(_decayed(node, rows, shown), (several, each * width, size))
    from_state = multiply(node, wide, states)
    products = [
        _pairs(node, _row(node, rows, i), key, decay, width, own=True) for i in range(each)
    ]  # fmt: skip
    among = _joined(node, products, 1)
    found = compute(node, dml.add, from_state, multiply(node, among, update))
    apart = node.tracer.reshape(found, (batch * heads, count, each, width, value_size))
    flat = node.tracer.reshape(
        transposed(node, apart, (0, 2, 1, 3, 4)), (batch, heads, each, count * width, value_size)
    )
    if count * width != length:
        flat = take(node, flat, (0,) * 5, (batch, heads, each, length, value_size), (1,) * 5)
    return flat, node.tracer.reshape(after, (batch, heads, size, value_size))


def _row(node: BoundNode, rows: Value, i: int) -> Value:
    several, _, width, size = rows.shape
    return node.tracer.reshape(
        take(node, rows, (0, i, 0, 0), (several, 1, width, size), (1,) * 4), (several, width, size)
    )


def _cut(node: BoundNode, rows: Value, width: int, count: int) -> Value:
    """Tokens in chunks, one behind the other; those that the last chunk lacks are zeros, which change no state."""
    *lead, length, size = rows.shape
    if length < width * count:
        rest = node.tracer.fill(dml.fill_value_constant, FLOAT, (*lead, width * count - length, size), 0)
        rows = _joined(node, [rows, rest], len(lead))
    if len(lead) == 2:
        return node.tracer.reshape(rows, (lead[0] * lead[1] * count, width, size))
    apart = node.tracer.reshape(rows, (lead[0] * lead[1], lead[2], count, width, size))
    return node.tracer.reshape(
        transposed(node, apart, (0, 2, 1, 3, 4)), (lead[0] * lead[1] * count, lead[2] * width, size)
    )


def _decayed(node: BoundNode, rows: Value, decay: Value | None) -> Value:
    """Rows times what is left at each of a state that the chunk begins with."""
    return rows if decay is None else compute(node, dml.multiply, rows, compute(node, dml.exp, decay))


def _pairs(node: BoundNode, rows: Value, key: Value, decay: _Decay | None, width: int, *, own: bool = False) -> Value:
    """The products of rows and the keys before them, or up to their `own`, with the decay in between."""
    several, _, size = key.shape
    lower = np.tril(np.ones((1, width, width)), 0 if own else -1)
    if decay is None:
        found = multiply(node, rows, transposed(node, key, (0, 2, 1)))
        return compute(node, dml.multiply, found, Value.of(FLOAT, lower))
    is_before, far = Value.of(BOOL, lower[..., None]), Value.of(FLOAT, -math.inf)
    left = compute(node, dml.exp, compute(node, dml.if_, is_before, decay.between, far))
    if left.shape[3] == 1:
        found = multiply(node, rows, transposed(node, key, (0, 2, 1)))
        return compute(node, dml.multiply, found, node.tracer.reshape(left, (several, width, width)))
    wide, long = (node.tracer.reshape(one, shape) for one, shape in (
        (rows, (several, width, 1, size)), (key, (several, 1, width, size))
    ))  # fmt: skip
    terms = compute(node, dml.multiply, compute(node, dml.multiply, wide, long), left)
    return node.tracer.reshape(reduce(node, terms, ReduceFunction.SUM, [3]), (several, width, width))


def _inverse(node: BoundNode, lower: Value, width: int) -> Value:
    """(I + L)⁻¹ of matrices that are 0 on and above the diagonal: of blocks twice as large at each step.

    With the inverses A and B of two blocks on the diagonal, that of the block below them is -B·L·A.
    """
    found = Value.of(FLOAT, np.eye(width)[None])
    block = 1
    while block < width:
        row, column = np.indices((width, width)) // block
        is_below = (row // 2 == column // 2) & (row % 2 == 1) & (column % 2 == 0)
        part = compute(node, dml.multiply, lower, Value.of(FLOAT, is_below))
        if block > 1:
            part = multiply(node, found, multiply(node, part, found))
        found = compute(node, dml.subtract, found, part)
        block *= 2
    return found if width > 1 else spread(node, found, lower.shape)


def _states(node: BoundNode, chunk: _Chunk, state: Value, count: int) -> tuple[Value, Value]:
    """The states that chunks begin with, one behind the other, and the one after the last."""
    rows, size, value_size = state.shape
    kept = None if chunk.decay is None else _column(node, chunk.decay.at_end(node))
    turned = transposed(node, chunk.last, (0, 2, 1))
    if count == 1:
        update = chunk.update
        if chunk.removed is not None:
            update = compute(node, dml.subtract, update, multiply(node, chunk.removed, state))
        rest = state if kept is None else compute(node, dml.multiply, state, kept)
        return state, compute(node, dml.add, rest, multiply(node, turned, update))
    unit = Value.of(FLOAT, np.eye(size)[None])
    factor = unit if kept is None else compute(node, dml.multiply, unit, kept)
    if chunk.removed is not None:
        factor = compute(node, dml.subtract, factor, multiply(node, turned, chunk.removed))
    factor = spread(node, factor, (rows * count, size, size)) if factor.shape[0] == 1 else factor
    factors = node.tracer.reshape(factor, (rows, count, size, size))
    added = node.tracer.reshape(multiply(node, turned, chunk.update), (rows, count, size, value_size))
    before = _scanned(node, factors, added, node.tracer.reshape(state, (rows, 1, size, value_size)))
    last = [
        take(node, one, (0, count - 1, 0, 0), (rows, 1, *one.shape[2:]), (1,) * 4) for one in (factors, added, before)
    ]
    after = compute(node, dml.add, multiply(node, last[0], last[2]), last[1])
    return node.tracer.reshape(before, (rows * count, size, value_size)), node.tracer.reshape(after, state.shape)


def _column(node: BoundNode, kept: Value) -> Value:
    """What is left of a state, by the rows that its keys' numbers are."""
    return transposed(node, kept, (0, 2, 1))


def _scanned(node: BoundNode, factors: Value, added: Value, state: Value) -> Value:
    """The states before each of several maps S → F·S + A, the first of which is given: of pairs of them first."""
    rows, count, size, value_size = added.shape
    if count == 1:
        return state
    half = count // 2
    first, second = ([_strided(node, one, i, half) for one in (factors, added)] for i in (0, 1))
    pairs = multiply(node, second[0], first[0])
    sums = compute(node, dml.add, multiply(node, second[0], first[1]), second[1])
    if count % 2:
        last = [take(node, one, (0, count - 1, 0, 0), (rows, 1, *one.shape[2:]), (1,) * 4) for one in (factors, added)]
        pairs, sums = _joined(node, [pairs, last[0]], 1), _joined(node, [sums, last[1]], 1)
    even = _scanned(node, pairs, sums, state)
    begun = take(node, even, (0,) * 4, (rows, half, size, value_size), (1,) * 4) if count % 2 else even
    odd = compute(node, dml.add, multiply(node, first[0], begun), first[1])
    both = [node.tracer.reshape(one, (rows, half, 1, size, value_size)) for one in (begun, odd)]
    found = node.tracer.reshape(_joined(node, both, 2), (rows, 2 * half, size, value_size))
    if count % 2:
        end = take(node, even, (0, half, 0, 0), (rows, 1, size, value_size), (1,) * 4)
        found = _joined(node, [found, end], 1)
    return found


def _strided(node: BoundNode, value: Value, first: int, count: int) -> Value:
    rows, _, *rest = value.shape
    return take(node, value, (0, first, 0, 0), (rows, count, *rest), (1, 2, 1, 1))


# Gates


def linear_attention_gate(node: BoundNode) -> list[Value | None]:
    """LinearAttentionGate: a scale times softplus(a + bias), and sigmoid(b)."""
    a, b = node.input(0), node.optional(3)
    node.check_rank("a", a, 3)
    for i, name in ((1, "dt_bias"), (2, "decay_scale")):
        node.check_shape(name, node.input(i), a.shape[2:], why=", a number for each head")
    node.check_shape("b", b, a.shape, why=", that of a")
    is_asked = node.output_count > 1 and bool(node.outputs[1])
    if is_asked and b is None:
        node.refuse("b", "b must be given for the output beta")
    total = compute(node, dml.add, convert(node, a, FLOAT), node.input(1))
    soft = compute(node, dml.softplus, total, steepness=1.0)
    decay = convert(node, compute(node, dml.multiply, soft, node.input(2)), a.element)
    rate = None if b is None else convert(node, compute(node, dml.sigmoid, convert(node, b, FLOAT)), a.element)
    return [decay, rate]


def gated_norm(node: BoundNode) -> list[Value]:
    """GatedRMSNorm: groups of a row by the root of their mean square, times a gate's activation."""
    x, scale, gate = (node.input(i) for i in range(3))
    node.check_rank("scale", scale, 1)
    if not x.shape or not scale.count or x.shape[-1] % scale.count:
        rule = f"X must have rows of whole groups of {scale.count}, as scale has numbers"
        node.refuse("X", rule, value=x.shape)
    node.check_shape("gate", gate, x.shape, why=", that of X")
    kind = node.one_of("activation", ("silu", "swish", "sigmoid"))
    if not x.count:
        return [x]
    wide = node.tracer.reshape(convert(node, x, FLOAT), (x.count // scale.count, scale.count))
    normal = rms_normalised(node, wide, convert(node, scale, FLOAT), node.real("epsilon"))
    z = convert(node, gate, FLOAT)
    factor = compute(node, dml.sigmoid, z)
    if kind != "sigmoid":
        factor = compute(node, dml.multiply, z, factor)
    found = compute(node, dml.multiply, node.tracer.reshape(normal, x.shape), factor)
    return [convert(node, found, x.element)]


def gated_add(node: BoundNode) -> list[Value]:
    """GatedAdd: X + Y·gate, a number for each row, and the product rounded first."""
    x, y, gate = (node.input(i) for i in range(3))
    node.check_rank("X", x, least=1)
    node.check_shape("Y", y, x.shape, why=", that of X")
    node.check_shape("gate", gate, (*x.shape[:-1], 1), why=", a number for each row of X")
    return [compute(node, dml.add, x, compute(node, dml.multiply, y, gate))]
