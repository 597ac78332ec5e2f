"""Gradients: of convolutions, pools, embeddings and attention; PyTorch's decompositions have those of norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.attention import scores_of
from anydml.torch.lower.context import Context, as_list, cast, dml
from anydml.torch.lower.convolution import as_images, convolved, is_whole_average, more_at_end, wide, windows
from anydml.torch.lower.movement import window
from anydml.torch.lower.windows import adaptive_average_gradient, average_by_count_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32 = DataType.FLOAT32
_MOST_ONE_HOT = 1 << 26
"""Multiplications of a one-hot matrix by a GEMM; more are slower than PyTorch's additions one by one."""


# Convolutions


def _convolution(
    context: Context,
    grad: Expression,
    x: Expression,
    weights: Expression,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    """Of the input by the convolution in the other direction, of weights by one with the batch as channels."""
    del bias_sizes
    count = len(x.sizes) - 2
    strides, pads, dilations = (as_list(one, count) for one in (stride, padding, dilation))
    if not 1 <= count <= 3 or any(one < 0 for one in pads):
        raise context.refuse("a convolution of these dimensions")
    found: list[Any] = [None, None, None]
    if wanted[2]:
        found[2] = dml.sum(grad, (0, *range(2, count + 2)), False)
    ends: Sequence[int] | None = None
    if transposed:  # what no window reaches has no part in the other two
        ends, past = more_at_end(pads, as_list(output_padding, count))
        for k, more in enumerate(past):
            grad = window(grad, 2 + k, 0, grad.sizes[2 + k] - more) if more else grad
    if wanted[0]:
        sizes = None if transposed else x.sizes
        found[0] = convolved(grad, weights, None, strides, pads, dilations, groups, sizes, ends)
    if wanted[1]:
        # a transposed convolution is the gradient of one whose input is its result
        image, windowed = (grad, x) if transposed else (x, grad)
        is_depthwise = groups == image.sizes[1] == windowed.sizes[1] and image.data_type is F32
        if is_depthwise and count == 2 and set(dilations) == {1} and _are_numbers(image, windowed):
            found[1] = _of_depthwise_weights(image, windowed, weights.sizes, strides, pads)
        else:
            found[1] = _of_weights(image, windowed, weights.sizes, strides, pads, dilations, groups)
    return tuple(found)


def _are_numbers(*several: Expression) -> bool:
    return all(isinstance(size, int) for x in several for size in x.sizes)


def _of_weights(
    x: Expression,
    grad: Expression,
    sizes: Sequence[Any],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Any:
    """grad as the filter of x: strides and dilations change places, and the batch is what is summed over."""
    batch, channels, *area = x.sizes
    count = len(area)
    image = dml.reshape(x, (batch, groups, channels // groups, *area))
    order = (2, 1, 0, *range(3, count + 3))
    image = dml.reshape(dml.transpose(image, order), (channels // groups, groups * batch, *area))
    rows = dml.transpose(grad, (1, 0, *range(2, count + 2)))
    starts, ends, kept = [0] * (count + 2), [*image.sizes[:2]], []
    for n, out, k, step, pad, by in zip(area, grad.sizes[2:], sizes[2:], strides, pads, dilations, strict=True):
        past = (out - 1) * step + (k - 1) * by + 1 - n - pad  # below 0 where the last elements are in no window
        ends.append(n + min(past, 0))
        kept.append(max(past, 0))
    if ends != list(image.sizes):
        image = dml.slice(image, starts, ends, [1] * len(starts))
    if count == 1:
        image, rows = wide(image), wide(rows)
        strides, pads, dilations, kept = [1, *strides], [0, *pads], [1, *dilations], [0, *kept]
    found = dml.convolution(
        image, rows, strides=dilations, dilations=strides, start_padding=pads, end_padding=kept, group_count=groups
    )
    found = dml.transpose(found, (1, 0, *range(2, len(found.sizes))))
    return dml.reshape(found, tuple(sizes))


def _of_depthwise_weights(
    x: Expression, grad: Expression, sizes: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> Any:
    """Of each tap the sum of grad times the input as the tap sees it, planes as one long row each.

    Where grad's rows are as long as the input's, zeros behind them, a tap is the same row further on: 6 ms for 120
    channels of 28 x 28, 5 x 5 taps and a batch of 8, where a convolution of as many groups takes 19 and PyTorch 28.
    With strides the input is first cut into the images that single taps see.
    """
    batch, channels, height, width = x.sizes
    rows, columns = grad.sizes[2:]
    taps = [-(-k // step) for k, step in zip(sizes[2:], strides, strict=True)]  # of each of the images
    high, wide = rows + taps[0] - 1, columns + taps[1] - 1
    down, across = strides
    whole = [high * down, wide * across]
    x = dml.slice(
        dml.padding1(
            x,
            [0, 0, *pads],
            [0, 0, *(max(want - n - pad, 0) for want, n, pad in zip(whole, (height, width), pads, strict=True))],
            padding_value=cast(0.0, x.data_type),
        ),
        [0] * 4,
        [batch, channels, *whole],
        [1] * 4,
    )
    images = dml.reshape(x, (batch, channels, high, down, wide, across))
    images = dml.reshape(dml.transpose(images, (0, 1, 3, 5, 2, 4)), (batch, channels, down, across, high * wide))
    long = (rows - 1) * wide + columns
    seen = images.reinterpret(
        (batch, channels, taps[0], down, taps[1], across, long),
        (
            channels * down * across * high * wide,
            down * across * high * wide,
            wide,
            across * high * wide,
            1,
            high * wide,
            1,
        ),
    )
    grad = dml.padding1(grad, [0] * 4, [0, 0, 0, wide - columns], padding_value=cast(0.0, grad.data_type))
    grad = window(dml.reshape(grad, (batch, channels, rows * wide)), 2, 0, long)
    grad = dml.broadcast_to(dml.reshape(grad, (batch, channels, 1, 1, 1, 1, long)), seen.sizes)
    found = dml.reshape(dml.sum(dml.multiply(seen, grad), (0, 6)), (channels, 1, taps[0] * down, taps[1] * across))
    return dml.slice(found, [0] * 4, list(sizes), [1] * 4)


# Pools


def _max_pool(
    context: Context,
    grad: Expression,
    x: Expression,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """Each number to the first of the largest of its window, which is looked for again."""
    del ceil_mode, indices
    spatial = len(as_list(size, 1)) if len(as_list(size, 1)) > 1 else len(context.sizes()) - 2
    given = windows(x.sizes, grad.sizes, size, stride, padding, dilation, spatial)
    found = dml.max_pooling_grad(as_images(x, spatial), as_images(grad, spatial), **given)
    return dml.reshape(found, context.sizes())


def _average_pool(
    context: Context,
    grad: Expression,
    x: Expression,
    size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    spatial = len(as_list(size, 1)) if len(as_list(size, 1)) > 1 else len(context.sizes()) - 2
    given = windows(x.sizes, grad.sizes, size, stride, padding, 1, spatial)
    includes = count_include_pad and any(given["start_padding"])
    past = [end - pad for end, pad in zip(given["end_padding"], given["start_padding"], strict=True)]
    if divisor_override is not None or (ceil_mode and includes and any(one > 0 for one in past)):
        return average_by_count_gradient(
            context, grad, x, size, stride, padding, spatial, include_pad=count_include_pad, divisor=divisor_override
        )
    sizes = as_images(x, spatial).sizes
    del given["dilations"]
    found = dml.average_pooling_grad(
        as_images(grad, spatial), **given, include_padding=bool(includes), output_sizes=list(sizes)
    )
    return dml.reshape(found, context.sizes())


def _adaptive_average(context: Context, grad: Expression, x: Expression) -> Any:
    count = 2 if str(context.node.target).startswith("aten._adaptive_avg_pool2d") else 3
    own, wanted = x.sizes[-count:], grad.sizes[-count:]
    if any(n % want for n, want in zip(own, wanted, strict=True)):
        return adaptive_average_gradient(context, grad, x, count)
    area = 1
    for n, want in zip(own, wanted, strict=True):
        area = area * (n // want)
    if is_whole_average(wanted):
        return dml.broadcast_to(dml.multiply(grad, 1 / area), context.sizes())
    window = [n // want for n, want in zip(own, wanted, strict=True)]
    sizes = as_images(x, count).sizes
    found = dml.average_pooling_grad(as_images(grad, count), window, strides=window, output_sizes=list(sizes))
    return dml.reshape(found, context.sizes())


def _upsampled(context: Context, grad: Expression, _: Any, own: Sequence[Any], *__: Any) -> Any:
    """Of the nearest by whole factors: the sum of each block."""
    several = list(zip(grad.sizes[2:], own[2:], strict=True))
    if any(n % size for n, size in several):
        raise context.refuse("blocks of several sizes")
    blocks = [one for n, size in several for one in (size, n // size)]
    split = dml.reshape(grad, (*grad.sizes[:2], *blocks))
    return dml.sum(split, tuple(range(3, 2 + len(blocks), 2)), False)


# Embeddings


def embedding_gradient(
    context: Context, grad: Expression, indices: Expression, count: Any, padding: Any, by_frequency: bool
) -> Any:
    """A GEMM with the one-hot matrix of the indices, where that is small."""
    *_, width = grad.sizes
    rows = 1
    for size in indices.sizes:
        rows = rows * size
    if not isinstance(rows, int) or count * rows * width > _MOST_ONE_HOT:
        raise context.refuse("an embedding of many rows")
    kind = grad.data_type
    places = dml.reshape(cast(indices, DataType.INT32), (1, rows))
    numbers = dml.fill_value_sequence((count, 1), 0, 1, DataType.INT32, graph=context.graph)
    is_row = dml.logical_equals(numbers, places)
    if padding >= 0:
        is_row = dml.logical_and(is_row, dml.logical_not(dml.logical_equals(places, int(padding))))
    made = dml.gemm(cast(is_row, kind), dml.reshape(grad, (rows, width)))
    if not by_frequency:
        return made
    return dml.divide(made, dml.max(dml.sum(cast(is_row, kind), (1,), True), 1.0))


# Attention


def _attention(
    context: Context,
    grad: Expression,
    query: Expression,
    key: Expression,
    value: Expression,
    out: Expression,
    logsumexp: Expression,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: Expression | None = None,
    scale: float | None = None,
) -> Any:
    """With P = exp(scores - logsumexp): dV = Pᵀ·dO, dS = P·(dO·Vᵀ - Σ dO·O), dQ = dS·K·scale, dK = dSᵀ·Q·scale."""
    if dropout:
        raise context.refuse("attention with dropout")
    kind, rank = query.data_type, len(query.sizes)
    scores, factor = scores_of(context, query, key, is_causal, attn_mask, scale)
    sums = dml.reshape(logsumexp, (*logsumexp.sizes, 1))
    # a row that is masked as a whole has -∞ for its sum, and no weights
    sums = dml.if_(dml.is_infinity(sums), 0.0, sums)
    weights = dml.exp(dml.subtract(cast(scores, F32), sums))
    columns, rows = rank - 2, rank - 1
    to_weights = cast(dml.gemm(grad, dml.swapaxes(value, columns, rows)), F32)
    along = dml.sum(dml.multiply(cast(grad, F32), cast(out, F32)), (rows,), True)
    to_scores = cast(dml.multiply(weights, dml.subtract(to_weights, along)), kind)
    return (
        dml.gemm(to_scores, key, alpha=factor),
        dml.gemm(dml.swapaxes(to_scores, columns, rows), query, alpha=factor),
        dml.gemm(dml.swapaxes(cast(weights, kind), columns, rows), grad),
    )


LOWERINGS: dict[str, Lowering] = {
    "convolution_backward.default": _convolution,
    **{f"max_pool{rank}d_with_indices_backward.default": _max_pool for rank in (2, 3)},
    **{f"avg_pool{rank}d_backward.default": _average_pool for rank in (2, 3)},
    **{f"_adaptive_avg_pool{rank}d_backward.default": _adaptive_average for rank in (2, 3)},
    **{f"upsample_nearest{rank}d_backward.default": _upsampled for rank in (1, 2, 3)},
    "embedding_dense_backward.default": embedding_gradient,
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": _attention,
}
