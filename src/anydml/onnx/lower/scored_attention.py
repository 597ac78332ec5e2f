"""Attention whose scores are seen: masked in ways of their own, capped, beside the score of a sink, or an output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import anydml as dml
from anydml.core.symbolic_sizes import is_open
from anydml.onnx.element_types import BOOL, FLOAT
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.matmul import multiply
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode


class Seen(NamedTuple):
    """Which keys of a cache count."""

    pairs: Value
    """Those that a query sees: of a shape that is broadcast to (batch, heads, queries, keys)."""
    there: Value
    """Those that there are, (batch, 1, keys, 1): what else lies in the cache is nobody's, NaN perhaps."""


def is_seen(node: BoundNode, steps: Value, total: int, window: int | None) -> Value:
    """Which keys a query sees, of all in the cache: none after its own, and of a window so many up to that."""
    own = node.tracer.reshape(steps, (steps.shape[0], 1, steps.shape[1], 1))
    keys = node.tracer.fill(dml.fill_value_sequence, steps.element, (1, 1, 1, total), 0, 1, folds=not is_open(total))
    found = compute(node, dml.logical_less_than_or_equal, keys, own, element=BOOL)
    if window is None:
        return found
    first = compute(node, dml.subtract, own, Value.of(steps.element, window))
    near = compute(node, dml.logical_greater_than, keys, first, element=BOOL)
    return compute(node, dml.logical_and, found, near)


def attend_with_scores(
    node: BoundNode, query: Value, caches: list[Value], seen: Seen, bias: Value | None, sinks: Value | None
) -> tuple[Value, tuple[Value, Value]]:
    """Attention of rows to keys and values by heads, computed in FLOAT32.

    `sinks` are scores of keys without a value, one for each head. The scores before and after their softmax are given
    too.
    """
    keys, values = caches
    (batch, queries, width), (_, shared, total, size) = query.shape, keys.shape
    heads = width // size
    scores = (batch, heads, queries, total)
    by_head = node.tracer.reshape(convert(node, query, FLOAT), (batch, queries, heads, size))
    rows = node.tracer.reshape(
        transposed(node, by_head, (0, 2, 1, 3)), (batch, shared, heads // shared * queries, size)
    )
    found = multiply(node, rows, transposed(node, keys, (0, 1, 3, 2)))
    scale = node.real("scale") or 1 / math.sqrt(size)
    found = node.tracer.reshape(compute(node, dml.multiply, found, Value.of(FLOAT, scale)), scores)
    if cap := node.real("softcap"):
        flat = compute(node, dml.tanh, compute(node, dml.divide, found, Value.of(FLOAT, cap)))
        found = compute(node, dml.multiply, flat, Value.of(FLOAT, cap))
    if bias is not None:
        found = compute(node, dml.add, found, convert(node, bias, FLOAT))
    before = compute(node, dml.if_, seen.pairs, found, Value.of(FLOAT, 0))
    found = compute(node, dml.if_, seen.pairs, found, Value.of(FLOAT, -math.inf))
    if sinks is not None:
        column = spread(node, node.tracer.reshape(sinks, (1, heads, 1, 1)), (*scores[:3], 1))
        found = node.tracer.apply_to_list(dml.join, [found, column], (*scores[:3], total + 1), 3)
    found = node.tracer.apply(dml.softmax1, [found], found.shape, axes=(3,))
    shares = take(node, found, [0] * 4, list(scores), [1] * 4) if sinks is not None else found
    values = compute(node, dml.if_, seen.there, values, Value.of(FLOAT, 0))
    made = multiply(node, node.tracer.reshape(shares, (batch, shared, rows.shape[2], total)), values)
    made = node.tracer.reshape(made, (batch, heads, queries, values.shape[3]))
    flat = node.tracer.reshape(transposed(node, made, (0, 2, 1, 3)), (batch, queries, heads * values.shape[3]))
    return convert(node, flat, query.element), (before, shares)
