"""Normalisation by batch, layer and group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, NotLoweredError, cast, dml
from anydml.torch.lower.convolution import by_channel
from anydml.torch.lower.movement import reshaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32 = DataType.FLOAT32


def _batch(
    context: Context,
    x: Expression,
    weight: Expression | None,
    bias: Expression | None,
    mean: Expression,
    variance: Expression,
    momentum: float,
    eps: float,
) -> Any:
    """Batch normalisation by the means that were learnt."""
    del momentum
    if any(context.is_read(k) and math.prod(context.sizes(k)) for k in (1, 2)):
        raise context.refuse("the moments of a batch that was not looked at")
    rank, kind = len(x.sizes), x.data_type
    usual = (0, 1, 1, 0)
    several = [
        context.full(number, kind, (1, x.sizes[1], *[1] * (rank - 2)))
        if one is None
        else by_channel(cast(one, kind), rank)
        for one, number in zip((mean, variance, weight, bias), usual, strict=True)
    ]
    return dml.batch_normalization(x, *several, epsilon=eps), None, None


def _by_moments(x: Expression, axes: Sequence[int], eps: float) -> tuple[Any, Any, Any]:
    """The mean, the variance and 1/√(variance + eps) along dimensions, which are kept."""
    x = cast(x, F32)
    middle = dml.average(x, tuple(axes), keepdims=True)
    variance = dml.average(dml.difference_square(x, middle), tuple(axes), keepdims=True)
    return middle, variance, dml.recip(dml.sqrt(dml.add(variance, eps)))


def _moments(context: Context, x: Expression, axes: Sequence[int], eps: float) -> list[Any]:
    """The mean and the reciprocal deviation, where somebody reads them."""
    if not (context.is_read(1) or context.is_read(2)):
        return [None, None]
    middle, _, scale = _by_moments(x, axes, eps)
    return [reshaped(cast(one, context.data_type(k)), context.sizes(k)) for k, one in ((1, middle), (2, scale))]


def _layer(
    context: Context,
    x: Expression,
    shape: Sequence[Any],
    weight: Expression | None,
    bias: Expression | None,
    eps: float,
) -> Any:
    axes = list(range(len(x.sizes) - len(shape), len(x.sizes)))
    front = [1] * (len(x.sizes) - len(shape))
    if eps < 0:
        return _layer_by_moments(context, x, axes, weight, bias, eps)
    scale, shift = (
        None if one is None else reshaped(cast(one, x.data_type), [*front, *x.sizes[len(front) :]])
        for one in (weight, bias)
    )
    if scale is None and shift is not None:
        scale = context.full(1, x.data_type, shift.sizes)
    found = dml.mean_variance_normalization2(x, axes, scale, shift, epsilon=eps)
    return found, *_moments(context, x, axes, eps)


def _layer_by_moments(
    context: Context, x: Expression, axes: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, ...]:
    """Layer normalisation with a negative epsilon, which DirectML's operator does not take."""
    middle, _, scale = _by_moments(x, axes, eps)
    found = dml.multiply(dml.subtract(cast(x, F32), middle), scale)
    sizes = [x.sizes[k] if k in axes else 1 for k in range(len(x.sizes))]
    for one, function in ((weight, dml.multiply), (bias, dml.add)):
        found = found if one is None else function(found, reshaped(cast(one, F32), sizes))
    return cast(found, x.data_type), *_moments(context, x, axes, eps)


def _group(
    context: Context,
    x: Expression,
    weight: Expression | None,
    bias: Expression | None,
    _batch: Any,
    _channels: Any,
    _area: Any,
    groups: int,
    eps: float,
) -> Any:
    rank, kind = len(x.sizes), context.data_type(0)
    x = cast(x, F32)  # FLOAT16 is rounded once, after weight and bias
    grouped = reshaped(x, (x.sizes[0], groups, -(-x.sizes[1] // groups), *x.sizes[2:]))
    axes = list(range(2, len(grouped.sizes)))
    if eps < 0:  # which DirectML's operator does not take
        middle, _, scale = _by_moments(grouped, axes, eps)
        found = dml.multiply(dml.subtract(grouped, middle), scale)
    else:
        found = dml.mean_variance_normalization2(grouped, axes, epsilon=eps)
    found = reshaped(found, x.sizes)
    if weight is not None:
        found = dml.multiply(found, by_channel(cast(weight, F32), rank))
    if bias is not None:
        found = dml.add(found, by_channel(cast(bias, F32), rank))
    return cast(found, kind), *_moments(context, grouped, axes, eps)


def _batch_in_training(
    context: Context,
    x: Expression,
    weight: Expression | None,
    bias: Expression | None,
    running_mean: Expression,
    running_var: Expression,
    is_training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch normalisation by the batch's own moments, and the running ones after it."""
    if not is_training:
        found = _batch(context, x, weight, bias, running_mean, running_var, momentum, eps)
        return *found, running_mean, running_var
    found, flat, count = _by_own_moments(x, weight, bias, eps)
    unbiased = dml.multiply(flat[2], count / (count - 1))
    after = [
        dml.add(dml.multiply(cast(old, F32), 1 - momentum), dml.multiply(new, momentum))
        for old, new in ((running_mean, flat[0]), (running_var, unbiased))
    ]
    return found, *flat[:2], *after


def _without_running(
    context: Context,
    x: Expression,
    weight: Expression | None,
    bias: Expression | None,
    is_training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """The same where nobody keeps moments, as of instances."""
    del momentum
    if not is_training:
        raise context.refuse("moments that are not the batch's own")
    found, flat, _ = _by_own_moments(x, weight, bias, eps)
    return found, *flat[:2]


def _by_own_moments(
    x: Expression, weight: Expression | None, bias: Expression | None, eps: float
) -> tuple[Any, list[Any], Any]:
    """Normalised by channel; the mean, the reciprocal deviation and the variance; and of how many elements they are."""
    rank, count = len(x.sizes), x.sizes[0]
    axes = (0, *range(2, rank))
    for size in x.sizes[2:]:
        count = count * size
    if count == 1:
        raise NotLoweredError("the variance of one element")
    middle, variance, scale = _by_moments(x, axes, eps)
    found = dml.multiply(dml.subtract(cast(x, F32), middle), scale)
    if weight is not None:
        found = dml.multiply(found, by_channel(cast(weight, F32), rank))
    if bias is not None:
        found = dml.add(found, by_channel(cast(bias, F32), rank))
    flat = [reshaped(one, (x.sizes[1],)) for one in (middle, scale, variance)]
    return cast(found, x.data_type), flat, count


LOWERINGS: dict[str, Lowering] = {
    "_native_batch_norm_legit_no_training.default": _batch,
    "_native_batch_norm_legit_functional.default": _batch_in_training,
    "_native_batch_norm_legit.no_stats": _without_running,
    "native_layer_norm.default": _layer,
    "native_group_norm.default": _group,
}
