"""The operators that walk windows over an input: what they give in NumPy, and small examples."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from elementwise import saturated
from elementwise_oracle import activated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


ORACLE: dict[str, Callable[[Any, Arrays], Any]] = {
    "CONVOLUTION": convolution,
    "CONVOLUTION_INTEGER": integers,
    "QUANTIZED_LINEAR_CONVOLUTION": quantised_convolution,
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
}
