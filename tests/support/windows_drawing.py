"""Random descriptions of operators that walk windows: every count of dimensions, stride, dilation and padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.operators.convolution import Filtered
from drawing import Operator, pick, upto

if TYPE_CHECKING:
    from hypothesis import strategies as st

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
