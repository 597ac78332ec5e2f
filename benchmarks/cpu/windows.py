"""The rows of windows: convolutions of networks of images, and poolings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow


class Window(NamedTuple):
    """Channels in and out, pixels of a side, and how a square window walks over them."""

    inputs: int
    outputs: int
    pixels: int
    side: int
    stride: int = 1
    dilation: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        """What keeps the sizes, but for the stride."""
        return self.dilation * (self.side // 2)


CONVOLUTIONS = {
    "3 x 3, 64 to 64 at 56": Window(64, 64, 56, 3),
    "3 x 3, 256 to 256 at 14": Window(256, 256, 14, 3),
    "1 x 1, 64 to 256 at 56": Window(64, 256, 56, 1),
    "1 x 1, 1024 to 256 at 14": Window(1024, 256, 14, 1),
    "7 x 7 by 2, 3 to 64 at 224": Window(3, 64, 224, 7, stride=2),
    "3 x 3 by 2, 128 to 128 at 56": Window(128, 128, 56, 3, stride=2),
    "3 x 3 dilated, 64 to 64 at 56": Window(64, 64, 56, 3, dilation=2),
    "3 x 3 in 8 groups, 128 to 128 at 28": Window(128, 128, 28, 3, groups=8),
    "3 x 3 depthwise, 144 at 56": Window(144, 144, 56, 3, groups=144),
    "3 x 3 depthwise by 2, 144 at 56": Window(144, 144, 56, 3, stride=2, groups=144),
    "3 x 3 depthwise, 384 at 14": Window(384, 384, 14, 3, groups=384),
}
BYTES = {
    name: CONVOLUTIONS[name]
    for name in (
        "3 x 3, 64 to 64 at 56", "1 x 1, 64 to 256 at 56", "7 x 7 by 2, 3 to 64 at 224", "3 x 3 depthwise, 144 at 56",
        "3 x 3 depthwise by 2, 144 at 56", "3 x 3 depthwise, 384 at 14",
    )
}  # fmt: skip
"""Those that are measured in UINT8 by INT8 too."""
POOLINGS = {
    "largest of 3 x 3 by 2, 64 at 112": ("max", Window(64, 64, 112, 3, stride=2)),
    "largest of 2 x 2 by 2, 64 at 56": ("max", Window(64, 64, 56, 2, stride=2)),
    "largest of 3 x 3, 192 at 35": ("max", Window(192, 192, 35, 3)),
    "mean of 2 x 2 by 2, 256 at 14": ("average", Window(256, 256, 14, 2, stride=2)),
    "mean of 3 x 3, 64 at 56": ("average", Window(64, 64, 56, 3)),
    "mean of 7 x 7, 2048 at 7": ("average", Window(2048, 2048, 7, 7)),
}


def with_channels_last(pictures: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same pictures, the channels of a place side by side."""
    return np.ascontiguousarray(pictures.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def convolution_row(
    name: str, w: Window, batch: int, rng: np.random.Generator, *, is_last: bool = False, **options: Any
) -> CpuRow:
    """A convolution with a bias. Filters are given ahead: to ONNX Runtime as initializers.

    `is_last` is against PyTorch alone, with the channels of input and result last, as oneDNN likes them, and with filters
    that it has laid out ahead.
    """
    shape = (w.outputs, w.inputs // w.groups, w.side, w.side)
    x, filters, bias = (
        rng.random(sizes, np.float32) - np.float32(0.5)
        for sizes in ((batch, w.inputs, w.pixels, w.pixels), shape, (1, w.outputs, 1, 1))
    )
    x = with_channels_last(x) if is_last else x
    owned = dml.TensorFlags.OWNED_BY_DML
    desc = dml.Convolution.infer(
        input_tensor=dml.TensorDesc.of(x), filter_tensor=dml.TensorDesc("float32", shape, flags=owned),
        bias_tensor=dml.TensorDesc("float32", bias.shape, flags=owned), strides=w.stride, dilations=w.dilation,
        start_padding=w.padding, end_padding=w.padding, group_count=w.groups,
    )  # fmt: skip

    if is_last:
        result = with_channels_last(np.empty(desc.output_tensor.sizes, np.float32))
        desc = replace(desc, output_tensor=dml.TensorDesc.of(result))

    def by_torch(torch: Any) -> Any:
        a, b, c = map(torch.from_numpy, (x, filters, bias.reshape(-1)))
        if is_last:
            walk = [[number] * 2 for number in (w.padding, w.stride, w.dilation)]
            lay_out = torch._C._nn.mkldnn_reorder_conv2d_weight  # noqa: SLF001 - nothing public lays filters out
            laid_out = lay_out(b.to_mkldnn(), *walk, w.groups, list(a.shape))
            packed = torch.ops.mkldnn._convolution_pointwise  # noqa: SLF001 - as above
            return lambda out: packed(a, laid_out, c, *walk, w.groups, "none", [], "")  # noqa: ARG005 - it has no out=
        compute = torch.nn.functional.conv2d
        return lambda out: compute(a, b, c, w.stride, w.padding, w.dilation, w.groups)  # noqa: ARG005 - it has no out=

    attributes = {
        "strides": [w.stride] * 2, "dilations": [w.dilation] * 2, "pads": [w.padding] * 4, "group": w.groups,
    }  # fmt: skip
    sizes = desc.output_tensor.sizes
    onnx = {"op": "Conv", "constants": [filters, bias.reshape(-1)], "attributes": attributes}
    return CpuRow(
        name=name, family="product", inputs=[x], owned=[filters, bias], desc=desc, numpy=None, torch=by_torch,
        onnx=None if is_last else onnx, exact=False, rtol=1e-4, atol=1e-4, lines=x.nbytes + filters.nbytes + 4 * int(np.prod(sizes)),
        flops=2 * int(np.prod(sizes)) * int(np.prod(shape[1:])), **options,
    )  # fmt: skip


def bytes_row(name: str, w: Window, batch: int, rng: np.random.Generator, **options: Any) -> CpuRow:
    """A convolution of UINT8 by INT8, with a scale for each filter, quantised. All but the input is given ahead.

    Filters have 7 bits: of two products with larger ones ONNX Runtime cuts off the sum, on an x86 without VNNI.
    """
    shape = (w.outputs, w.inputs // w.groups, w.side, w.side)
    x = rng.integers(0, 256, (batch, w.inputs, w.pixels, w.pixels)).astype(np.uint8)
    one, each = (1, 1, 1, 1), (1, w.outputs, 1, 1)
    scale = np.float32(0.05 * np.sqrt(np.prod(shape[1:])))
    owned = {
        "input_scale_tensor": np.full(one, 0.02, "f"), "input_zero_point_tensor": np.full(one, 120, np.uint8),
        "filter_tensor": rng.integers(-64, 64, shape).astype(np.int8),
        "filter_scale_tensor": rng.random(each, np.float32) * np.float32(0.01) + np.float32(0.001),
        "filter_zero_point_tensor": np.zeros(each, np.int8),
        "bias_tensor": rng.integers(-1000, 1000, each).astype(np.int32),
        "output_scale_tensor": np.full(one, scale), "output_zero_point_tensor": np.full(one, 128, np.uint8),
    }  # fmt: skip
    flags = dml.TensorFlags.OWNED_BY_DML
    tensors = {k: dml.TensorDesc(str(v.dtype), v.shape, flags=flags) for k, v in owned.items()}
    desc = dml.QuantizedLinearConvolution.infer(
        input_tensor=dml.TensorDesc.of(x), **tensors, strides=w.stride, dilations=w.dilation, start_padding=w.padding,
        end_padding=w.padding, group_count=w.groups,
    )  # fmt: skip
    attributes = {
        "strides": [w.stride] * 2, "dilations": [w.dilation] * 2, "pads": [w.padding] * 4, "group": w.groups,
    }  # fmt: skip
    numbers = [v if v.shape == shape else v.reshape(-1) if v.size > 1 else v.reshape(()) for v in owned.values()]
    bias = numbers.pop(5)
    sizes = desc.output_tensor.sizes
    return CpuRow(
        name=name, family="product", inputs=[x], owned=list(owned.values()), desc=desc, numpy=None, torch=None,
        onnx={"op": "QLinearConv", "constants": [*numbers, bias], "attributes": attributes}, exact=False, atol=1.0,
        lines=x.nbytes + int(np.prod(shape)) + int(np.prod(sizes)),
        flops=2 * int(np.prod(sizes)) * int(np.prod(shape[1:])), **options,
    )  # fmt: skip


def pooling_row(name: str, way: str, w: Window, batch: int, rng: np.random.Generator, **options: Any) -> CpuRow:
    """The largest or the mean of windows; padding is not counted. Its limit is memory."""
    x = rng.random((batch, w.inputs, w.pixels, w.pixels), np.float32)
    padding = 0 if w.side in (2, w.pixels) else w.padding
    kind = dml.MaxPooling if way == "max" else dml.AveragePooling
    desc = kind.infer(
        input_tensor=dml.TensorDesc.of(x), window_size=w.side, strides=w.stride, start_padding=padding,
        end_padding=padding,
    )  # fmt: skip

    def by_torch(torch: Any) -> Any:
        a, compute = torch.from_numpy(x), torch.nn.functional
        if way == "max":
            return lambda out: compute.max_pool2d(a, w.side, w.stride, padding)  # noqa: ARG005 - it has no out=
        return lambda out: compute.avg_pool2d(a, w.side, w.stride, padding, count_include_pad=False)  # noqa: ARG005 - as above

    attributes = {"kernel_shape": [w.side] * 2, "strides": [w.stride] * 2, "pads": [padding] * 4}
    return CpuRow(
        name=name, family="reduce", inputs=[x], desc=desc, numpy=None, torch=by_torch,
        onnx={"op": f"{way.capitalize()}Pool", "constants": [], "attributes": attributes}, exact=False, rtol=1e-5,
        lines=x.nbytes + 4 * int(np.prod(desc.output_tensor.sizes)), **options,
    )  # fmt: skip


def windows(
    rng: np.random.Generator, quick: bool, pixels: int | None = None, only: str = ""
) -> list[Callable[[], CpuRow]]:
    """Every row of windows whose name has something in it; small ones for a number of pixels that is given."""
    made: list[partial[CpuRow]] = []
    for batch in (1,) if quick else (1, 8):
        images = "" if batch == 1 else f", {batch} images"
        for name, w in CONVOLUTIONS.items():
            goal = 3.0 if w.groups == w.inputs else 1.05
            own = w._replace(pixels=pixels) if pixels else w
            title = f"convolution, {name}{images}"
            made += [
                partial(convolution_row, title, own, batch, rng, goal=goal),
                partial(convolution_row, f"{title}, channels last", own, batch, rng, is_last=True, goal=1.0),
            ]
        for name, w in BYTES.items():
            own = w._replace(pixels=pixels) if pixels else w
            made.append(partial(bytes_row, f"convolution of bytes, {name}{images}", own, batch, rng, goal=1.0))
        for name, (way, w) in POOLINGS.items():
            own = w._replace(pixels=max(pixels, w.side)) if pixels else w
            made.append(partial(pooling_row, f"pooling, {name}{images}", way, own, batch, rng, goal=1.0))
    return [make for make in made if only in make.args[0]]
