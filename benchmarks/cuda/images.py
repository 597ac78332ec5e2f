"""Rows of pictures: convolutions, poolings and resampling, with channels last and as DirectML has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

import anydml as dml
from anydml.core.enums import DataType
from benchmarks.cuda.kinds import Call
from benchmarks.cuda.pool import Pool, Tensor
from benchmarks.cuda.reduces import ReduceRow


@dataclass(kw_only=True)
class ImageRow(ReduceRow):
    """A row of pictures, whose channels may lie beside one another."""

    is_last: bool

    def seen(self, x: Tensor) -> Tensor:
        """A packed tensor as it is described."""
        batch, channels, high, wide = x.shape
        return x.view(batch, high, wide, channels).permute(0, 3, 1, 2) if self.is_last else x

    def bind(self, engine: dml.Device, inputs: Sequence[Tensor], out: Tensor) -> Call:
        """Our call on a set."""
        return engine.compile(self.desc).bind(*inputs, out=self.seen(out)).dispatch

    def fault(self, inputs: Sequence[Tensor], got: Tensor) -> str:
        """What is wrong with ours, or nothing."""
        return super().fault(inputs, self.seen(got))


def _described(dtype: str, sizes: Sequence[int], *, is_last: bool) -> dml.TensorDesc:
    _, channels, high, wide = sizes
    strides = (high * wide * channels, 1, wide * channels, channels) if is_last else None
    return dml.TensorDesc(dtype, sizes, strides=strides)


def image_row(
    name: str, pool: Pool, dtype: str, sizes: Sequence[int], outputs: int, window: int, stride: int, *,
    is_last: bool = False, groups: int = 1, **options: Any,
) -> ImageRow:  # fmt: skip
    """A convolution of windows that keep the sizes but for the stride; without outputs the largest of each window."""
    batch, channels, side, _ = sizes
    pad, count = window // 2, (side + 2 * (window // 2) - window) // stride + 1
    shape = {"strides": (stride,) * 2, "start_padding": (pad,) * 2, "end_padding": (pad,) * 2}
    x = _described(dtype, sizes, is_last=is_last)
    y = _described(dtype, (batch, outputs or channels, count, count), is_last=is_last)
    filters = (outputs, channels // groups, window, window)
    desc: dml.OperatorDesc
    if outputs:
        w = _described(dtype, filters, is_last=is_last)
        desc = dml.Convolution(input_tensor=x, filter_tensor=w, output_tensor=y, group_count=groups, **shape)  # type: ignore[arg-type]  # by field
    else:
        desc = dml.MaxPooling(input_tensor=x, output_tensor=y, window_size=(window,) * 2, **shape)

    def expression(x: Tensor, w: Tensor | None = None) -> Tensor:
        if w is None:
            return functional.max_pool2d(x, window, stride, pad)
        return functional.conv2d(x, w, None, stride, pad, 1, groups)

    def sets(number: int) -> list[list[Tensor]]:
        pictures = pool.values(dtype, sizes, number)
        weights = pool.values(dtype, filters, 1) if outputs else []
        return [[made.seen(one) for one in (x, *weights)] for x in pictures]

    def by_torch(*arguments: Tensor) -> Call:
        plain = partial(expression, *arguments[:-1])
        return (lambda: plain().permute(0, 2, 3, 1)) if is_last else plain  # as the memory lies

    width, taps = DataType(dtype).size_in_bytes, channels // groups * window * window
    made = ImageRow(
        name=name, family="image", exact=False, desc=desc, sets=sets, expression=expression, torch=by_torch,
        moved=width * (batch * channels * side * side + batch * (outputs or channels) * count * count),
        flops=2 * batch * outputs * count * count * taps, error=2e-3 if dtype == "float16" else 2e-6, is_last=is_last,
        **options,
    )  # fmt: skip
    return made


def sample_row(name: str, pool: Pool, dtype: str, sizes: Sequence[int], *, is_last: bool, **options: Any) -> ImageRow:
    """Pictures made twice as high and wide, by weighted neighbours."""
    batch, channels, side, _ = sizes
    x = _described(dtype, sizes, is_last=is_last)
    y = _described(dtype, (batch, channels, 2 * side, 2 * side), is_last=is_last)
    desc = dml.Resample(input_tensor=x, output_tensor=y, interpolation_mode="linear", scales=(1, 1, 2, 2))

    def expression(x: Tensor) -> Tensor:
        return functional.interpolate(x, scale_factor=2, mode="bilinear")

    def by_torch(*arguments: Tensor) -> Call:
        plain = partial(expression, arguments[0])
        return (lambda: plain().permute(0, 2, 3, 1)) if is_last else plain  # as the memory lies

    made = ImageRow(
        name=name, family="image", exact=False, desc=desc, expression=expression, torch=by_torch, is_last=is_last,
        sets=lambda number: [[made.seen(one)] for one in pool.values(dtype, sizes, number)], flops=0,
        moved=DataType(dtype).size_in_bytes * 5 * batch * channels * side * side,
        error=2e-3 if dtype == "float16" else 2e-6, **options,
    )  # fmt: skip
    return made


def image_rows(pool: Pool, n: int, *, quick: bool = False) -> list[ImageRow]:
    """Those of ResNet-50, 32 pictures at once, on a square of 32768; smaller ones on others."""
    torch.backends.cudnn.allow_tf32 = False  # FLOAT32 is meant
    is_full = n >= 8192
    sizes = [(64, 56, 64, 3, 1), (256, 14, 256, 3, 1), (3, 224, 64, 7, 2)] if is_full else [(16, 5, 8, 3, 1)]
    made = []
    for dtype in ("float16", "float32"):
        for channels, side, outputs, window, stride in sizes:
            for is_last in (True, False):
                layout = "channels last" if is_last else "channels first"
                name = f"convolution, {channels} to {outputs} of {side} x {side}, {layout}, {dtype}"
                goal = 0.9 if is_last and dtype == "float16" else 1.0
                shape = (32 if is_full else 1, channels, side, side)
                made.append(
                    image_row(
                        name, pool, dtype, shape, outputs, window, stride, is_last=is_last, goal=goal, quick=quick
                    )
                )
    shape = (64, 64, 112, 112) if is_full else (1, 8, 6, 6)
    for is_last, layout in ((True, "last"), (False, "first")):
        name = f"pooling, the largest of 3 x 3, channels {layout}, float16"
        made.append(image_row(name, pool, "float16", shape, 0, 3, 2, is_last=is_last, share=0.9, quick=quick))
        name = f"resampling by 2, linear, channels {layout}, float16"
        made.append(sample_row(name, pool, "float16", shape, is_last=is_last, share=0.9, quick=quick))
        wide, side = (96, 56) if is_full else (8, 6)
        name = f"convolution, depthwise, {wide} of {side} x {side}, channels {layout}, float16"
        sizes_of = (shape[0] // 2 or 1, wide, side, side)
        made.append(image_row(name, pool, "float16", sizes_of, wide, 3, 1, is_last=is_last, groups=wide, quick=quick))
    return made
