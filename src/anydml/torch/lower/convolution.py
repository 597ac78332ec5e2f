"""Convolutions and pools, of one to three spatial dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, as_list, cast, dml
from anydml.torch.lower.windows import adaptive_average, average_by_count, whole_convolution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def by_channel(x: Expression, rank: int) -> Any:
    """A number for each channel, the second of so many dimensions."""
    return dml.reshape(x, (1, x.sizes[0], *[1] * (rank - 2)))


def wide(x: Expression) -> Any:
    """A signal as an image of one row."""
    return dml.expand_dims(x, 2)


def _convolution(
    context: Context,
    x: Expression,
    weights: Expression,
    bias: Expression | None,
    stride: Sequence[int],
    padding: Sequence[Any],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
) -> Any:
    count = len(x.sizes) - 2
    if count < 1 or count > 3 or any(one < 0 for one in padding):
        raise context.refuse("a convolution of these dimensions")
    strides, pads, dilations = (as_list(one, count) for one in (stride, padding, dilation))
    if not context.data_type().is_float:
        return whole_convolution(context, x, weights, bias, strides, pads, dilations, groups, transposed=transposed)
    if not transposed:
        return convolved(x, weights, bias, strides, pads, dilations, groups, None)
    ends, past = more_at_end(pads, as_list(output_padding, count))
    if not any(past):
        return convolved(x, weights, bias, strides, pads, dilations, groups, context.sizes(), ends)
    sizes = context.sizes()
    inside = [*sizes[:2], *(want - more for want, more in zip(sizes[2:], past, strict=True))]
    found = convolved(x, weights, None, strides, pads, dilations, groups, inside, ends)
    found = dml.padding1(found, [0] * len(sizes), [0, 0, *past])
    return found if bias is None else dml.add(found, by_channel(bias, len(sizes)))


def more_at_end(pads: Sequence[int], output_padding: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of a transposed convolution with output padding: what is cut off at the end, and what no window reaches."""
    pairs = list(zip(pads, output_padding, strict=True))
    return [max(pad - more, 0) for pad, more in pairs], [max(more - pad, 0) for pad, more in pairs]


def convolved(
    x: Expression,
    weights: Expression,
    bias: Expression | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    backward_sizes: Sequence[Any] | None,
    ends: Sequence[int] | None = None,
) -> Any:
    """A convolution; with sizes of its result in the other direction."""
    if backward_sizes is not None and groups == 1 and set(dilations) == {1} and _has_few_channels(x, weights, strides):
        return _by_phases_as_channels(x, weights, bias, strides, pads, backward_sizes)
    ends, is_signal = list(pads if ends is None else ends), len(x.sizes) == 3
    more: dict[str, Any] = {} if bias is None else {"bias": bias}
    sizes = None if backward_sizes is None else list(backward_sizes)
    if is_signal:
        x, weights = wide(x), wide(weights)
        strides, pads, dilations, ends = [1, *strides], [0, *pads], [1, *dilations], [0, *ends]
        sizes = None if sizes is None else [*sizes[:2], 1, *sizes[2:]]
    if sizes is not None:
        more |= {"direction": "BACKWARD", "output_sizes": sizes}
    found = dml.convolution(
        x, weights, strides=strides, dilations=dilations, start_padding=pads, end_padding=ends, group_count=groups,
        **more,
    )  # fmt: skip
    return dml.squeeze(found, 2) if is_signal else found


_FEW = 4
"""Channels of a transposed convolution's result that are too few to fill a microkernel: of pictures."""


def _has_few_channels(x: Expression, weights: Expression, strides: Sequence[int]) -> bool:
    is_cut = len(strides) == 2 and 1 < math.prod(strides) <= 16
    return is_cut and weights.sizes[1] <= _FEW and all(isinstance(size, int) for size in x.sizes)


def _by_phases_as_channels(
    x: Expression,
    weights: Expression,
    bias: Expression | None,
    strides: Sequence[int],
    pads: Sequence[int],
    sizes: Sequence[Any],
) -> Any:
    """A transposed convolution to few channels as one without strides to a channel for each phase, then shuffled.

    6.8 ms at the stem of ResNet with 112 x 112 and a batch of 4, where phase by phase takes 32 and PyTorch 15.
    """
    (batch, many, *area), few, window = x.sizes, weights.sizes[1], weights.sizes[2:]
    (down, across), count = strides, math.prod(strides)
    taps = [-(-k // step) for k, step in zip(window, strides, strict=True)]
    more = [q * step - k for q, step, k in zip(taps, strides, window, strict=True)]
    zero = cast(0.0, weights.data_type)
    filters = dml.padding1(weights, [0] * 4, [0, 0, *more], padding_value=zero) if any(more) else weights
    filters = dml.reshape(filters, (many, few, taps[0], down, taps[1], across))
    filters = dml.reshape(dml.transpose(filters, (3, 5, 1, 0, 2, 4)), (count * few, many, *taps))
    reached = [-(-(size + pad) // step) for size, pad, step in zip(sizes[2:], pads, strides, strict=True)]
    found = dml.convolution(
        x,
        dml.flip(filters, (2, 3)),
        start_padding=[q - 1 for q in taps],
        end_padding=[max(want - n, 0) for want, n in zip(reached, area, strict=True)],
        **({} if bias is None else {"bias": dml.reshape(dml.broadcast_to(bias, (count, few)), (count * few,))}),
    )
    found = dml.slice(found, [0] * 4, [batch, count * few, *reached], [1] * 4)
    found = dml.transpose(dml.reshape(found, (batch, down, across, few, *reached)), (0, 3, 4, 1, 5, 2))
    found = dml.reshape(found, (batch, few, reached[0] * down, reached[1] * across))
    return dml.slice(found, [0, 0, *pads], list(sizes), [1] * 4)


def windows(
    own: Sequence[Any], wanted: Sequence[Any], size: Any, stride: Any, padding: Any, dilation: Any, spatial: int
) -> dict[str, Any]:
    """The windows of a pool of these sizes, whose padding at the end reaches as far as they do."""
    sizes, pads, dilations = (as_list(one, spatial) for one in (size, padding, dilation))
    strides = as_list(stride, spatial) if stride not in (None, [], ()) else sizes
    ends = []
    several = zip(own[-spatial:], wanted[-spatial:], sizes, strides, pads, dilations, strict=True)
    for n, want, k, step, pad, by in several:
        past = (want - 1) * step + (k - 1) * by + 1 - n - pad
        ends.append(past if past > 0 else 0)
    return {
        "window_size": sizes, "strides": strides, "start_padding": pads, "end_padding": ends, "dilations": dilations,
    }  # fmt: skip


def _spatial(context: Context, size: Any, k: int | None = None) -> int:
    """How many dimensions a pool's windows have."""
    several = as_list(size, 1)
    return len(several) if len(several) > 1 else len(context.sizes(k)) - 2


def _max_pool(
    context: Context,
    x: Expression,
    size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    del ceil_mode  # which is in the sizes of the result
    spatial, sizes = _spatial(context, size, 0), context.sizes(0)
    given = windows(x.sizes, sizes, size, stride, padding, dilation, spatial)
    x = as_images(x, spatial)
    if not context.is_read(1):
        return dml.reshape(dml.max_pooling2(x, **given)[0], sizes), None
    found = dml.max_pooling2(x, **given, output_indices=True)
    area = math.prod(x.sizes[-spatial:])  # PyTorch counts the places of maxima by channel
    places = cast(dml.modulus_floor(cast(found[1], DataType.INT64), area), DataType.INT64)
    return dml.reshape(found[0], sizes), dml.reshape(places, sizes)


def as_images(x: Expression, spatial: int) -> Any:
    """With a batch, where there is none."""
    return dml.expand_dims(x, 0) if len(x.sizes) == spatial + 1 else x


def _average_pool(
    context: Context,
    x: Expression,
    size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    given = windows(x.sizes, context.sizes(), size, stride, padding, 1, _spatial(context, size))
    includes = count_include_pad and any(given["start_padding"])
    past = [end - pad for end, pad in zip(given["end_padding"], given["start_padding"], strict=True)]
    is_ragged = ceil_mode and includes and any(one > 0 for one in past)
    if divisor_override is not None or is_ragged or not x.data_type.is_float:
        return average_by_count(
            context, x, size, stride, padding, len(past), include_pad=count_include_pad, divisor=divisor_override
        )
    found = dml.average_pooling1(as_images(x, len(given["window_size"])), **given, include_padding=includes)
    return dml.reshape(found, context.sizes())


def is_whole_average(sizes: Sequence[Any]) -> bool:
    """Whether an adaptive pool has one window."""
    return all(one == 1 for one in sizes)


def _adaptive_average(context: Context, x: Expression, size: Sequence[Any]) -> Any:
    count = len(size)
    own, wanted = x.sizes[-count:], context.sizes()[-count:]
    if is_whole_average(wanted):
        axes = tuple(range(len(x.sizes) - count, len(x.sizes)))
        return dml.average(x, axes, keepdims=True)
    if any(n % want for n, want in zip(own, wanted, strict=True)):
        return adaptive_average(context, x, count)
    window = [n // want for n, want in zip(own, wanted, strict=True)]
    found = dml.average_pooling1(as_images(x, count), window, strides=window)
    return dml.reshape(found, context.sizes())


def _shuffled(context: Context, x: Expression, factor: int) -> Any:
    """Channels become pixels."""
    *batch, channels, height, width = x.sizes
    count = math.prod(batch)
    split = dml.reshape(x, (count, channels // factor**2, factor, factor, height, width))
    return dml.reshape(dml.transpose(split, (0, 1, 4, 2, 5, 3)), context.sizes())


LOWERINGS: dict[str, Lowering] = {
    "convolution.default": _convolution,
    **{f"max_pool{rank}d_with_indices.default": _max_pool for rank in (2, 3)},
    **{f"avg_pool{rank}d.default": _average_pool for rank in (2, 3)},
    **{f"_adaptive_avg_pool{rank}d.default": _adaptive_average for rank in (2, 3)},
    "pixel_shuffle.default": _shuffled,
}
