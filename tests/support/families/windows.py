"""The operators that walk windows over an input: what they give in NumPy, and small examples."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.operators.convolution import Filtered
from drawing import Operator, pick, upto
from families.elementwise import activated, saturated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis import strategies as st

F32 = np.float32
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def offsets(desc: Any, window: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The places within a window, and how far each is from its first element."""
    for place in itertools.product(*map(range, window)):
        yield place, tuple(k * step for k, step in zip(place, dilations(desc, window), strict=True))


def dilations(desc: Any, window: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(getattr(desc, "dilations", (1,) * len(window)))


def padded(desc: Any, x: Array, value: Any) -> Array:
    pads = [(0, 0), (0, 0), *zip(desc.start_padding, desc.end_padding, strict=True)]
    return np.pad(x, pads, constant_values=value)


def lines(offset: tuple[int, ...], strides: Any, counts: tuple[int, ...]) -> tuple[Any, ...]:
    """What each window has at an offset, all windows together."""
    return (
        slice(None),
        slice(None),
        *(slice(o, o + (n - 1) * s + 1, s) for o, s, n in zip(offset, strides, counts, strict=True)),
    )


def at(place: tuple[int, ...]) -> Any:
    """One place of every channel's window."""
    return (..., *place)


def in_groups(x: Array, w: Array, groups: int, backward: bool) -> Array:
    """The channels of the output from those of the input, for one place of a window."""
    found = []
    for part, own in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        found.append(np.moveaxis(np.tensordot(part, own, ((1,), (0 if backward else 1,))), -1, 1))
    return np.concatenate(found, 1)


def convolved(desc: Any, x: Array, w: Array) -> Array:
    window, counts = w.shape[2:], desc.output_tensor.sizes[2:]
    if getattr(desc, "mode", None) is not None and desc.mode.name == "CONVOLUTION":
        w = np.flip(w, tuple(range(2, w.ndim)))
    ending = tuple(getattr(desc, "output_padding", (0,) * len(window)))
    counts = tuple(a - b for a, b in zip(counts, ending, strict=True))
    backward = getattr(desc, "direction", None) is not None and desc.direction.name == "BACKWARD"
    total = np.zeros((x.shape[0], desc.output_tensor.sizes[1], *counts), x.dtype)
    if backward:  # each element is added where it is spread to
        sizes = [
            a + b + (k - 1) * d + (n - 1) * s + c
            for a, b, k, d, n, s, c in zip(
                desc.start_padding, desc.end_padding, window, desc.dilations, x.shape[2:], desc.strides, counts,
                strict=True,
            )
        ]  # fmt: skip
        whole = np.zeros((*total.shape[:2], *sizes), x.dtype)
        for place, offset in offsets(desc, window):
            part = in_groups(x, w[at(place)], desc.group_count, True)
            whole[lines(offset, desc.strides, x.shape[2:])] += part
        cut = tuple(slice(a, a + c) for a, c in zip(desc.start_padding, counts, strict=True))
        total = whole[(slice(None), slice(None), *cut)]
    else:
        for place, offset in offsets(desc, window):
            total = total + in_groups(x[lines(offset, desc.strides, counts)], w[at(place)], desc.group_count, False)
    return total


def channels(array: Array, rank: int) -> Array:
    return array.reshape(1, -1, *(1,) * (rank - 2))


def convolution(desc: Any, arrays: Arrays) -> Array:
    x, w = (arrays[f"{name}Tensor"].astype(np.float64) for name in ("Input", "Filter"))
    total = convolved(desc, x if desc.direction.name == "BACKWARD" else padded(desc, x, 0), w)
    if "BiasTensor" in arrays:
        total = total + arrays["BiasTensor"].astype(np.float64)
    total = activated(total, desc.fused_activation)
    return np.pad(total, [(0, 0), (0, 0), *((0, n) for n in desc.output_padding)])


def whole_sum(desc: Any, arrays: Arrays) -> Array:
    """Of differences from the zero points, which padding does not have, in numbers of any size."""
    x, w = (arrays[f"{name}Tensor"].astype(object) for name in ("Input", "Filter"))
    if "InputZeroPointTensor" in arrays:
        x = x - int(arrays["InputZeroPointTensor"].ravel()[0])
    if "FilterZeroPointTensor" in arrays:
        w = w - arrays["FilterZeroPointTensor"].astype(object).reshape(-1, *(1,) * (w.ndim - 1))
    return convolved(desc, padded(desc, x, 0), w)


def integers(desc: Any, arrays: Arrays) -> Array:
    return np.array(whole_sum(desc, arrays), np.int64).astype(np.int32)


def quantised_convolution(desc: Any, arrays: Arrays) -> Array:
    total, rank = whole_sum(desc, arrays), arrays["InputTensor"].ndim
    if "BiasTensor" in arrays:
        total = total + arrays["BiasTensor"].astype(object)
    one = arrays["InputScaleTensor"].ravel()[0] * channels(arrays["FilterScaleTensor"], rank)
    scale = one.astype(F32) / arrays["OutputScaleTensor"].ravel()[0]
    return quantised(desc, arrays, total.astype(np.float64).astype(F32) * scale)


def quantised(desc: Any, arrays: Arrays, x: Array) -> Array:
    """Rounded, halves to even, and at the nearest end of the range."""
    zero = arrays.get("OutputZeroPointTensor", np.zeros(1)).ravel()[0]
    return saturated(np.rint(x).astype(np.float64) + float(zero), desc.output_tensor.data_type.dtype)


# Poolings


def each_window(desc: Any, x: Array, outside: Any, counts: tuple[int, ...]) -> Array:
    """The elements of each window, as a last dimension: what lies past the padding too."""
    window = tuple(desc.window_size)
    walk = zip(counts, desc.strides, window, dilations(desc, window), strict=True)
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in walk]
    whole = padded(desc, x, outside)
    more = [(0, 0), (0, 0), *((0, max(r - n, 0)) for r, n in zip(reach, whole.shape[2:], strict=True))]
    whole = np.pad(whole, more, constant_values=outside)
    return np.stack([whole[lines(offset, desc.strides, counts)] for _, offset in offsets(desc, window)], -1)


def average(desc: Any, x: Array, counts: tuple[int, ...]) -> tuple[Array, Array]:
    """The sum of each window, and how many elements the mean is of."""
    real = each_window(desc, np.ones(x.shape, int), 0, counts).sum(-1)
    count = np.full(real.shape, np.prod(desc.window_size)) if desc.include_padding else np.maximum(real, 1)
    return each_window(desc, x, 0, counts).sum(-1), count


def average_pooling(desc: Any, arrays: Arrays) -> Array:
    total, count = average(desc, arrays["InputTensor"].astype(np.float64), desc.output_tensor.sizes[2:])
    return total / count


def quantised_average(desc: Any, arrays: Arrays) -> Array:
    x, zero = arrays["InputTensor"].astype(np.int64), int(arrays.get("InputZeroPointTensor", np.zeros(1)).ravel()[0])
    total, count = average(desc, x - zero, desc.output_tensor.sizes[2:])
    mean = total.astype(F32) * arrays["InputScaleTensor"].ravel()[0] / count.astype(F32)
    return quantised(desc, arrays, mean / arrays["OutputScaleTensor"].ravel()[0])


def lp_pooling(desc: Any, arrays: Arrays) -> Array:
    windows = each_window(desc, arrays["InputTensor"].astype(np.float64), 0, desc.output_tensor.sizes[2:])
    return np.asarray(np.linalg.norm(windows, desc.p, -1))


def largest(desc: Any, x: Array, counts: tuple[int, ...]) -> tuple[Array, Array]:
    """The largest of each window, and where the first of them lies in the input as one row."""
    below = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = each_window(desc, x, below, counts)
    numbers = each_window(desc, np.arange(x.size).reshape(x.shape), -1, counts)
    found = windows.max(-1)
    is_found = (windows == found[..., None]) | np.isnan(windows)
    first = np.where(is_found & (numbers >= 0), numbers, x.size - 1).min(-1)
    return found, first


def max_pooling(desc: Any, arrays: Arrays) -> list[Array]:
    return list(largest(desc, arrays["InputTensor"], desc.output_tensor.sizes[2:])[: len(desc.outputs())])


def average_grad(desc: Any, arrays: Arrays) -> Array:
    dy, sizes = arrays["InputGradientTensor"].astype(np.float64), desc.output_gradient_tensor.sizes
    _, count = average(desc, np.zeros(sizes), dy.shape[2:])
    numbers = each_window(desc, np.arange(np.prod(sizes)).reshape(sizes), -1, dy.shape[2:])
    found = np.zeros(np.prod(sizes) + 1)
    np.add.at(found, numbers, np.broadcast_to((dy / count).astype(F32)[..., None], numbers.shape))
    return found[:-1].reshape(sizes)


def max_grad(desc: Any, arrays: Arrays) -> Array:
    x, dy = arrays["InputTensor"], arrays["InputGradientTensor"].astype(np.float64)
    found = np.zeros(x.size)
    is_real = each_window(desc, np.ones(x.shape, int), 0, dy.shape[2:]).any(-1)
    np.add.at(found, largest(desc, x, dy.shape[2:])[1], np.where(is_real, dy, 0))
    return found.reshape(x.shape)


def unpooled(desc: Any, arrays: Arrays) -> Array:
    found = np.zeros(desc.output_tensor.element_count, arrays["InputTensor"].dtype)
    for index, x in zip(arrays["IndicesTensor"].ravel().tolist(), arrays["InputTensor"].ravel(), strict=True):
        if index < found.size:
            found[index] = x
    return found


ORACLE: dict[str, Callable[[Any, Arrays], Any]] = {
    "CONVOLUTION": convolution,
    "CONVOLUTION_INTEGER": integers,
    "QUANTIZED_LINEAR_CONVOLUTION": quantised_convolution,
    **dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1"), average_pooling),
    "AVERAGE_POOLING_GRAD": average_grad,
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), lp_pooling),
    **dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), max_pooling),
    "MAX_POOLING_GRAD": max_grad,
    "MAX_UNPOOLING": unpooled,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": quantised_average,
}


def _array(data_type: str, values: Any, *sizes: int) -> Array:
    return np.array(values, data_type).reshape(sizes or (1, 1, 1, 1))


_BYTES = {
    "InputTensor": _array("uint8", range(9), 1, 1, 3, 3),
    "FilterTensor": _array("int8", range(-2, 6), 2, 1, 2, 2),
}
_ZEROS = {"InputZeroPointTensor": _array("uint8", 4), "FilterZeroPointTensor": _array("int8", [1, -1], 1, 2, 1, 1)}
_SCALES = {
    "InputScaleTensor": _array("float32", 0.5),
    "FilterScaleTensor": _array("float32", [0.25, 0.5], 1, 2, 1, 1),
    "OutputScaleTensor": _array("float32", 0.5),
    "OutputZeroPointTensor": _array("uint8", 100),
}
_PAD = {"start_padding": (1, 0), "end_padding": (0, 1), "strides": (1, 2)}
_IMAGE = _array("float32", [1, 5, 2, 4, 4, 0, 3, -7, 6], 1, 1, 3, 3)
_POOL = {"window_size": (2, 2), "strides": (2, 1), "start_padding": (1, 0), "end_padding": (0, 1)}
SMALL: dict[str, tuple[Arrays, dict[str, Any]]] = {
    # DxDispatch's dml_convolution_2d
    "CONVOLUTION": (
        {
            "InputTensor": _array("float32", range(1, 10), 1, 1, 3, 3),
            "FilterTensor": _array("float32", [1, 0, 0, 1], 1, 1, 2, 2),
            "BiasTensor": _array("float32", 1),
        },
        {"strides": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)},
    ),
    "CONVOLUTION_INTEGER": ({**_BYTES, **_ZEROS}, _PAD),
    "QUANTIZED_LINEAR_CONVOLUTION": (
        {**_BYTES, **_ZEROS, **_SCALES, "BiasTensor": _array("int32", [7, -9], 1, 2, 1, 1)},
        _PAD,
    ),
    **{
        name: ({"InputTensor": _IMAGE}, {**_POOL, **more})
        for name, more in dict[str, dict[str, Any]](
            {
                "AVERAGE_POOLING": {"include_padding": True},
                "AVERAGE_POOLING1": {"window_size": (1, 2)},
                "LP_POOLING": {"p": 1},
                "LP_POOLING1": {"p": 1, "dilations": (2, 1)},
                "MAX_POOLING": {},
                "MAX_POOLING1": {},
                "MAX_POOLING2": {"dilations": (1, 2)},
            }
        ).items()
    },
    "AVERAGE_POOLING_GRAD": ({"InputGradientTensor": _IMAGE}, {"window_size": (2, 2), "strides": (2, 1)}),
    "MAX_POOLING_GRAD": (
        {"InputTensor": _IMAGE, "InputGradientTensor": _IMAGE[..., :2, :2].copy()},
        {"window_size": (2, 2), "start_padding": (0, 1), "strides": (1, 2)},
    ),
    "MAX_UNPOOLING": (
        {"InputTensor": _IMAGE[..., :1, :].copy(), "IndicesTensor": _array("uint32", [2, 0, 2], 1, 1, 1, 3)},
        {},
    ),
    "QUANTIZED_LINEAR_AVERAGE_POOLING": (
        {
            "InputTensor": _BYTES["InputTensor"],
            **{name: one for name, one in {**_ZEROS, **_SCALES}.items() if "Filter" not in name},
        },
        {"window_size": (2, 2), **_PAD},
    ),
}


# Random descriptions: every count of dimensions, stride, dilation and padding


Sizes = tuple[int, ...]


def window_sizes(draw: st.DrawFn, cls: Operator, rank: int) -> tuple[dict[str, Sizes], dict[str, Any]]:
    """The sizes of the tensors by DirectML's names, and the attributes."""
    count = rank - 2
    most = {1: 7, 2: 5, 3: 3}[count]
    attributes: dict[str, Any] = {
        name: tuple(1 + draw(upto(2)) if name in ("strides", "dilations") else draw(upto(2)) for _ in range(count))
        for name in ("strides", "dilations", "start_padding", "end_padding")
        if name in cls.field_types()
    }
    window = tuple(1 + draw(upto(2)) for _ in range(count))
    if issubclass(cls, Filtered):
        return _filtered(draw, cls, window, most, attributes), attributes
    return _pooled(draw, cls, window, most, attributes), attributes


def _pooled(draw: st.DrawFn, cls: Operator, window: Sizes, most: int, attributes: dict[str, Any]) -> dict[str, Sizes]:
    attributes["window_size"] = window
    if "include_padding" in cls.field_types():
        attributes["include_padding"] = pick(draw, (True, False))
    if "p" in cls.field_types():
        attributes["p"] = pick(draw, (1, 2, 3))
    whole, pooled = [], []
    for i, size in enumerate(window):
        reach, pads = (size - 1) * attributes.get("dilations", (1,) * 3)[i] + 1, attributes["start_padding"][i]
        pads += attributes["end_padding"][i]
        whole.append(max(reach - pads, 1) + draw(upto(most)))
        pooled.append((whole[-1] + pads - reach) // attributes["strides"][i] + 1)
    both = (1 + draw(upto(1)), 1 + draw(upto(2)))
    large, small, ones = (*both, *whole), (*both, *pooled), (1, 1, *(1 for _ in window))
    return {
        "InputTensor": large,
        "OutputTensor": small,
        "OutputIndicesTensor": small,
        "InputGradientTensor": small,
        "OutputGradientTensor": large,
        **dict.fromkeys(_SINGLE, ones),
    }


def _filtered(draw: st.DrawFn, cls: Operator, window: Sizes, most: int, attributes: dict[str, Any]) -> dict[str, Sizes]:
    groups, inner, outer = pick(draw, (1, 2, 3)), 1 + draw(upto(2)), 1 + draw(upto(2))
    attributes["group_count"] = groups
    batch, backward = 1 + draw(upto(1)), False
    if cls is dml.Convolution:
        attributes["mode"] = pick(draw, tuple(dml.ConvolutionMode))
        attributes["direction"] = pick(draw, tuple(dml.ConvolutionDirection))
        attributes["output_padding"] = tuple(pick(draw, (0, 0, 1)) for _ in window)
        backward = attributes["direction"] is dml.ConvolutionDirection.BACKWARD
    steps, pads = attributes["strides"], zip(attributes["start_padding"], attributes["end_padding"], strict=True)
    reaches = [(k - 1) * d + 1 for k, d in zip(window, attributes["dilations"], strict=True)]
    small, large = [], []
    for step, (before, after), reach in zip(steps, pads, reaches, strict=True):
        # Of the larger side: at least a window, and so that there is an element without the padding.
        size = max(reach - before - after, 1) + draw(upto(most))
        large.append(size)
        small.append((size + before + after - reach) // step + 1)
    own, result = (small, large) if backward else (large, small)
    ending = attributes.get("output_padding", (0,) * len(window))
    output = tuple(a + b for a, b in zip(result, ending, strict=True))
    filters = (inner * groups, outer) if backward else (outer * groups, inner)
    ones = (1,) * len(window)
    channels = (1, outer * groups, *ones)
    return {
        "InputTensor": (batch, inner * groups, *own),
        "FilterTensor": (*filters, *window),
        "OutputTensor": (batch, outer * groups, *output),
        "BiasTensor": channels,
        "FilterScaleTensor": pick(draw, (channels, (1, 1, *ones))),
        "FilterZeroPointTensor": pick(draw, (channels, (1, 1, *ones))),
        **dict.fromkeys(_SINGLE, (1, 1, *ones)),
    }


_SINGLE = ("InputScaleTensor", "InputZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor")
