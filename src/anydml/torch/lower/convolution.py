"""Convolutions and pools, of one to three spatial dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, as_list, cast, dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def by_channel(x: Expression, rank: int) -> Any:
    """A number for each channel, the second of so many dimensions."""
    return dml.reshape(x, (1, x.sizes[0], *[1] * (rank - 2)))


def _wide(x: Expression) -> Any:
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
    ends, sizes = list(pads), list(context.sizes())
    more: dict[str, Any] = {}
    if bias is not None:
        more["bias"] = bias
    if count == 1:
        x, weights = _wide(x), _wide(weights)
        strides, pads, dilations, ends = [1, *strides], [0, *pads], [1, *dilations], [0, *ends]
        sizes = [*sizes[:2], 1, *sizes[2:]]
    if transposed:
        del output_padding  # which is in the sizes of the result
        more |= {"direction": "BACKWARD", "output_sizes": sizes}
    found = dml.convolution(
        x, weights, strides=strides, dilations=dilations, start_padding=pads, end_padding=ends, group_count=groups,
        **more,
    )  # fmt: skip
    return dml.squeeze(found, 2) if count == 1 else found


def _windows(
    context: Context, x: Expression, size: Any, stride: Any, padding: Any, dilation: Any, *, has_images: bool = True
) -> dict[str, Any]:
    """The windows of a pool, whose padding at the end reaches as far as they do."""
    count = len(context.node.meta["val"][0].shape if not has_images else context.sizes())
    spatial = len(as_list(size, 1)) if len(as_list(size, 1)) > 1 else count - 2
    sizes, pads, dilations = (as_list(one, spatial) for one in (size, padding, dilation))
    strides = as_list(stride, spatial) if stride not in (None, [], ()) else sizes
    own = x.sizes[-spatial:]
    wanted = context.sizes(None if has_images else 0)[-spatial:]
    ends = []
    for n, want, k, step, pad, by in zip(own, wanted, sizes, strides, pads, dilations, strict=True):
        past = (want - 1) * step + (k - 1) * by + 1 - n - pad
        ends.append(past if past > 0 else 0)
    return {
        "window_size": sizes, "strides": strides, "start_padding": pads, "end_padding": ends, "dilations": dilations,
    }  # fmt: skip


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
    windows = _windows(context, x, size, stride, padding, dilation, has_images=False)
    sizes, spatial = context.sizes(0), len(windows["window_size"])
    x = _as_images(x, spatial)
    if not context.is_read(1):
        return dml.reshape(dml.max_pooling2(x, **windows)[0], sizes), None
    found = dml.max_pooling2(x, **windows, output_indices=True)
    if spatial == 3 and len(sizes) == 4:
        raise context.refuse("places in a volume without a batch")
    if any(windows["start_padding"]) or x.sizes[1] != 1 or x.sizes[0] != 1:
        raise context.refuse("the places of maxima, which PyTorch counts by channel")
    return dml.reshape(found[0], sizes), dml.reshape(cast(found[1], DataType.INT64), sizes)


def _as_images(x: Expression, spatial: int) -> Any:
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
    windows = _windows(context, x, size, stride, padding, 1)
    includes = count_include_pad and any(windows["start_padding"])
    past = [end - pad for end, pad in zip(windows["end_padding"], windows["start_padding"], strict=True)]
    if divisor_override is not None or (ceil_mode and includes and any(one > 0 for one in past)):
        raise context.refuse("an average by another count")
    found = dml.average_pooling1(_as_images(x, len(windows["window_size"])), **windows, include_padding=includes)
    return dml.reshape(found, context.sizes())


def _adaptive_average(context: Context, x: Expression, size: Sequence[Any]) -> Any:
    count = len(size)
    own, wanted = x.sizes[-count:], context.sizes()[-count:]
    if all(one == 1 for one in wanted):
        axes = tuple(range(len(x.sizes) - count, len(x.sizes)))
        return dml.average(x, axes, keepdims=True)
    if any(n % want for n, want in zip(own, wanted, strict=True)):
        raise context.refuse("adaptive windows of several sizes")
    window = [n // want for n, want in zip(own, wanted, strict=True)]
    found = dml.average_pooling1(_as_images(x, count), window, strides=window)
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
