"""Attention by heads: a product, a softmax and a product, which the graph makes one pass where the engine has such."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.memory import HOST
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.movement import reshaped, window

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def _attention(
    context: Context,
    query: Expression,
    key: Expression,
    value: Expression,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Expression | None = None,
    scale: float | None = None,
) -> Any:
    """softmax(query·keyᵀ·scale + mask)·value."""
    if dropout:
        raise context.refuse("attention with dropout")
    rank = len(query.sizes)
    scores, _ = scores_of(context, query, key, is_causal, attn_mask, scale)
    kind = scores.data_type
    weights = dml.softmax1(scores, [rank - 1]) if attn_mask is None else _masked_softmax(scores, rank - 1, kind)
    found = cast(dml.gemm(weights, cast(value, kind)), query.data_type)
    return found, _logsumexp(scores, rank - 1) if context.is_read(1) else None


def scores_of(
    context: Context,
    query: Expression,
    key: Expression,
    is_causal: bool,
    mask: Expression | None,
    scale: float | None,
) -> tuple[Any, float]:
    """query·keyᵀ·scale + mask, and the scale.

    On the host in FLOAT32, as PyTorch has it: scores of 200 that are rounded to FLOAT16 are off by 0.06, and answers
    were by 0.08 instead of 0.004.
    """
    if context.graph.device.engine.memory == HOST:
        query, key = (cast(one, DataType.FLOAT32) for one in (query, key))
    kind, rank = query.data_type, len(query.sizes)
    factor = 1 / math.sqrt(query.sizes[-1]) if scale is None else scale
    scores = dml.gemm(query, dml.swapaxes(key, rank - 2, rank - 1), alpha=factor)
    if is_causal:
        rows, columns = query.sizes[-2], key.sizes[-2]
        # row - column of each score: below 0 where the key comes later
        row = dml.fill_value_sequence((rows, 1), 0, 1, DataType.INT32, graph=context.graph)
        column = dml.fill_value_sequence((1, columns), 0, 1, DataType.INT32, graph=context.graph)
        is_later = dml.reshape(dml.logical_less_than(row, column), [*[1] * (rank - 2), rows, columns])
        scores = dml.add(scores, cast(dml.if_(is_later, -math.inf, 0.0), kind))
    if mask is not None:
        if str(context.node.kwargs["attn_mask"].meta["val"].dtype) == "torch.bool":
            mask = dml.if_(mask, 0.0, -math.inf)
        scores = dml.add(scores, cast(mask, kind))
    return scores, factor


def _logsumexp(scores: Expression, axis: int) -> Any:
    """The logarithm of each row's sum of exponentials, which the gradient reads; -∞ of a row of them."""
    scores = cast(scores, DataType.FLOAT32)
    most = dml.amax(scores, axis, keepdims=True)
    most = dml.if_(dml.is_infinity(most), 0.0, most)
    sums = dml.sum(dml.exp(dml.subtract(scores, most)), (axis,), True)
    return dml.squeeze(dml.add(dml.log(sums), most), axis)


def _masked_softmax(scores: Expression, axis: int, kind: DataType) -> Any:
    """A softmax that is 0 where all of a row is masked."""
    is_masked = dml.logical_equals(dml.amax(scores, axis, keepdims=True), -math.inf)
    return dml.if_(is_masked, cast(0.0, kind), dml.softmax1(scores, [axis]))


def _linear(x: Expression, weight: Expression, bias: Expression | None) -> Any:
    """x·weightᵀ + bias, of rows."""
    found = dml.gemm(x, dml.transpose(weight, (1, 0)))
    return found if bias is None else dml.add(found, bias)


def _by_heads(x: Expression, heads: int, qkv: tuple[Expression, Expression], out: tuple[Expression, Expression]) -> Any:
    """Attention of a sequence to itself: one product for queries, keys and values, and one after it."""
    batch, count, width = x.sizes
    whole = reshaped(_linear(reshaped(x, (batch * count, width)), *qkv), (batch, count, 3, heads, width // heads))
    query, key, value = (
        dml.transpose(dml.reshape(window(whole, 2, k, 1), (batch, count, heads, width // heads)), (0, 2, 1, 3))
        for k in range(3)
    )
    scores = dml.gemm(query, dml.swapaxes(key, 2, 3), alpha=1 / math.sqrt(width // heads))
    found = dml.transpose(dml.gemm(dml.softmax1(scores, [3]), value), (0, 2, 1, 3))
    return dml.reshape(_linear(dml.reshape(found, (batch * count, width)), *out), (batch, count, width))


def _encoder_layer(
    context: Context,
    x: Expression,
    width: int,
    heads: int,
    qkv_weight: Expression,
    qkv_bias: Expression,
    out_weight: Expression,
    out_bias: Expression,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *rest: Any,
) -> Any:
    """nn.TransformerEncoderLayer, which PyTorch has as one operator where no gradient is asked for."""
    first, second, up, down, masks = rest[:2], rest[2:4], rest[4:6], rest[6:8], rest[8:]
    if any(isinstance(one, dml.Expression) for one in masks):
        raise context.refuse("a layer with a mask")

    def norm(y: Expression, scale_and_shift: Any) -> Any:
        scale, shift = (reshaped(one, (1, 1, width)) for one in scale_and_shift)
        return dml.mean_variance_normalization2(y, [2], scale, shift, epsilon=eps)

    def attend(y: Expression) -> Any:
        return _by_heads(y, heads, (qkv_weight, qkv_bias), (out_weight, out_bias))

    def feed(y: Expression) -> Any:
        rows = reshaped(y, (y.sizes[0] * y.sizes[1], width))
        wide = _linear(rows, *up)
        return dml.reshape(_linear(dml.gelu(wide) if use_gelu else dml.relu(wide), *down), y.sizes)

    if norm_first:
        x = dml.add(x, attend(norm(x, first)))
        return dml.add(x, feed(norm(x, second)))
    x = norm(dml.add(x, attend(x)), first)
    return norm(dml.add(x, feed(x)), second)


def _heads(
    context: Context,
    query: Expression,
    key: Expression,
    value: Expression,
    width: int,
    heads: int,
    qkv_weight: Expression,
    qkv_bias: Expression,
    out_weight: Expression,
    out_bias: Expression,
    mask: Any = None,
    *_: Any,
) -> Any:
    """nn.MultiheadAttention, likewise."""
    del width
    if context.node.args[0] is not context.node.args[1] or context.node.args[1] is not context.node.args[2]:
        raise context.refuse("attention to another sequence")
    if mask is not None or context.is_read(1):
        raise context.refuse("attention with a mask, or with its weights")
    del key, value
    return _by_heads(query, heads, (qkv_weight, qkv_bias), (out_weight, out_bias)), None


LOWERINGS: dict[str, Lowering] = {
    "_native_multi_head_attention.default": _heads,
    "_scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "_transformer_encoder_layer_fwd.default": _encoder_layer,
}
