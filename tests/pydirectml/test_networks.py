"""The networks of Microsoft's samples with made-up weights and few channels: PyDirectML gives what NumPy gives.

Each layer is added to a graph and computed by NumPy at once, so that a network is written once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pydirectml as dml

Array = np.ndarray[Any, Any]
RELU = dml.OperatorType.ACTIVATION_RELU


@dataclass
class Layer:
    """A tensor of the graph, and its values."""

    expr: dml.Expression
    values: Array


@dataclass
class Net:
    device: dml.Device = field(default_factory=lambda: dml.Device(False, True))
    bindings: list[dml.Binding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder = dml.GraphBuilder(self.device)
        self.chance = np.random.default_rng(5)

    def given(self, *sizes: int, scale: float = 1.0, owned: bool = True, above: float | None = None) -> Layer:
        """An input with made-up values: normal, or evenly above a number."""
        values = self.chance.normal(0, scale, sizes) if above is None else self.chance.uniform(above, above + 1, sizes)
        flags = dml.TensorFlags.OWNED_BY_DML if owned else dml.TensorFlags.NONE
        desc = dml.TensorDesc(dml.TensorDataType.FLOAT32, flags, list(sizes))
        return self.bind(desc, values.astype("float32"))

    def bind(self, desc: dml.TensorDesc, values: Array) -> Layer:
        expr = dml.input_tensor(self.builder, len(self.bindings), desc)
        self.bindings.append(dml.Binding(expr, values))
        return Layer(expr, values.astype("float64"))

    def repeated(self, channels: int, *sizes: int) -> Layer:
        """A number for each channel, repeated along height and width by strides of 0."""
        desc = dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, channels, *sizes], [channels, 1, 0, 0])
        made = self.bind(desc, self.chance.normal(0, 1, channels).astype("float32"))
        return Layer(made.expr, made.values.reshape(1, -1, 1, 1))

    def convolution(
        self, x: Layer, channels: int, size: int, *, stride: int = 1, padding: int = 0, groups: int = 1,
        activation: dml.OperatorType | None = None, has_bias: bool = True,
    ) -> Layer:  # fmt: skip
        depth = x.values.shape[1] // groups
        weight = self.given(channels, depth, size, size, scale=(depth * size * size) ** -0.5)
        bias = self.given(1, channels, 1, 1) if has_bias else None
        options: dict[str, Any] = {"strides": [stride] * 2} if stride > 1 else {}
        options |= {"start_padding": [padding] * 2, "end_padding": [padding] * 2} if padding else {}
        options |= {"group_count": groups} if groups > 1 else {}
        options |= {"fused_activation": dml.FusedActivation(activation)} if activation else {}
        expr = dml.convolution(x.expr, weight.expr, bias.expr if bias else None, **options)
        padded = np.pad(x.values, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = windows_of(padded, size)[:, :, ::stride, ::stride]
        parts = zip(np.split(windows, groups, 1), np.split(weight.values, groups), strict=True)
        values = np.concatenate([np.einsum("nchwij,ocij->nohw", *part) for part in parts], 1)
        values = values if bias is None else values + bias.values
        return Layer(expr, np.maximum(values, 0) if activation is RELU else np.tanh(values) if activation else values)

    def transposed(self, x: Layer, channels: int, size: int) -> Layer:
        """A convolution backwards, by a stride of 2; a row and a column more than it needs, as candy.py asks for."""
        weight = self.given(x.values.shape[1], channels, size, size, scale=0.2)
        bias = self.given(1, channels, 1, 1)
        batch, _, height, width = x.values.shape
        sizes = [batch, channels, 2 * height + 2, 2 * width + 2]
        expr = dml.convolution(
            x.expr, weight.expr, bias.expr, mode=dml.ConvolutionMode.CROSS_CORRELATION,
            direction=dml.ConvolutionDirection.BACKWARD, strides=[2, 2], start_padding=[0, 0], end_padding=[0, 0],
            output_sizes=sizes,
        )  # fmt: skip
        values = np.zeros(sizes)
        for i, j in np.ndindex(height, width):
            part = np.einsum("nc,coij->noij", x.values[:, :, i, j], weight.values)
            values[:, :, 2 * i : 2 * i + size, 2 * j : 2 * j + size] += part
        return Layer(expr, values + bias.values)

    def max_pool(self, x: Layer, size: int, stride: int) -> Layer:
        made = dml.max_pooling(x.expr, strides=[stride] * 2, window_sizes=[size] * 2)
        return Layer(made.values, windows_of(x.values, size)[:, :, ::stride, ::stride].max((4, 5)))

    def average_all(self, x: Layer) -> Layer:
        sizes = list(x.values.shape[2:])
        expr = dml.average_pooling(x.expr, [1, 1], sizes, [0, 0], [0, 0], 0)
        return Layer(expr, x.values.mean((2, 3), keepdims=True))

    def batch_normal(self, x: Layer, *, is_active: bool) -> Layer:
        channels = x.values.shape[1]
        mean, scale, bias = (self.given(1, channels, 1, 1, owned=False) for _ in range(3))
        variance = self.given(1, channels, 1, 1, above=0.5, owned=False)
        options = {"fused_activation": dml.FusedActivation(RELU)} if is_active else {}
        expr = dml.batch_normalization(
            x.expr, mean.expr, variance.expr, scale.expr, bias.expr, 1, 0.000009999999747378752, **options
        )
        values = (x.values - mean.values) / np.sqrt(variance.values + 1e-5) * scale.values + bias.values
        return Layer(expr, np.maximum(values, 0) if is_active else values)

    def instance_normal(self, x: Layer, *, is_active: bool) -> Layer:
        channels = x.values.shape[1]
        scale, bias = self.given(1, channels, 1, 1, owned=False), self.given(1, channels, 1, 1)
        last = (dml.FusedActivation(RELU),) if is_active else ()
        expr = dml.mean_variance_normalization(x.expr, scale.expr, bias.expr, [0, 2, 3], 1, 1e-5, *last)
        axes = (0, 2, 3)
        values = (x.values - x.values.mean(axes, keepdims=True)) / np.sqrt(x.values.var(axes, keepdims=True) + 1e-5)
        values = values * scale.values + bias.values
        return Layer(expr, np.maximum(values, 0) if is_active else values)

    def crop(self, x: Layer, margin: int) -> Layer:
        inner = slice(margin, -margin)
        values = x.values[:, :, inner, inner]
        return Layer(dml.slice(x.expr, [0, 0, margin, margin], list(values.shape), [1, 1, 1, 1]), values)

    def softmax(self, x: Layer) -> Layer:
        count = x.values.size
        rows = dml.reinterpret(x.expr, dml.TensorDataType.FLOAT32, [1, 1, 1, count], [count, count, count, 1])
        powers = np.exp(x.values - x.values.max()).reshape(1, 1, 1, count)
        return Layer(dml.activation_soft_max(rows), powers / powers.sum())

    def check(self, x: Layer) -> None:
        model = self.builder.build(dml.ExecutionFlags.NONE, [x.expr])
        (found,) = self.device.compute(model, self.bindings, [x.expr])
        assert found.dtype == np.float32
        np.testing.assert_allclose(np.array(found), x.values, rtol=2e-4, atol=2e-5 * float(np.abs(x.values).max()))


def windows_of(x: Array, size: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (1, 1, size, size))[:, :, :, :, 0, 0]


def add(a: Layer, b: Layer) -> Layer:
    return Layer(dml.add(a.expr, b.expr), a.values + b.values)


def relu(x: Layer) -> Layer:
    return Layer(dml.activation_relu(x.expr), np.maximum(x.values, 0))


def test_digits() -> None:
    """mnist.py: two convolutions with biases that repeat, a product with a weight that passed an identity, softmax."""
    net = Net()
    x = net.given(1, 1, 28, 28, owned=False)
    for channels, size in ((8, 2), (16, 3)):
        x = net.convolution(x, channels, 5, padding=2)
        x = relu(add(x, net.repeated(channels, *x.values.shape[2:])))
        x = net.max_pool(x, size, size)
    row = dml.reinterpret(x.expr, dml.TensorDataType.FLOAT32, [1, 1, 1, 256], [256, 256, 256, 1])
    weight = net.given(16, 4, 4, 10, scale=0.1)
    matrix = dml.reinterpret(
        dml.activation_identity(weight.expr), dml.TensorDataType.FLOAT32, [1, 1, 256, 10], [2560, 2560, 10, 1]
    )
    bias = net.given(1, 1, 1, 10)
    values = x.values.reshape(1, 1, 1, 256) @ weight.values.reshape(256, 10) + bias.values
    net.check(net.softmax(Layer(dml.add(dml.gemm(row, matrix), bias.expr), values)))


def test_categories_by_fire_modules() -> None:
    """squeezenet.py: convolutions with RELU, whose results are joined."""
    net = Net()
    x = net.convolution(net.given(1, 3, 35, 35, owned=False), 8, 3, stride=2, activation=RELU)
    for squeeze, expand in ((2, 8), (2, 8), (0, 0), (4, 16), (0, 0), (6, 24)):
        if not squeeze:
            x = net.max_pool(x, 3, 2)
            continue
        small = net.convolution(x, squeeze, 1, activation=RELU)
        parts = [net.convolution(small, expand, size, padding=size // 2, activation=RELU) for size in (1, 3)]
        expr = dml.join([part.expr for part in parts], 1)
        x = Layer(expr, np.concatenate([part.values for part in parts], 1))
    x = Layer(dml.activation_identity(x.expr), x.values)
    net.check(net.softmax(net.average_all(net.convolution(x, 10, 1, activation=RELU))))


def test_categories_by_inverted_bottlenecks() -> None:
    """mobilenet.py: depthwise convolutions, batch normalisations, and sums past them."""
    net = Net()
    x = net.convolution(net.given(1, 3, 24, 24, owned=False), 8, 3, stride=2, padding=1)
    x = net.batch_normal(x, is_active=True)
    for channels, stride in ((4, 1), (6, 2), (6, 1), (8, 2), (8, 1)):
        before, wide = x, 3 * x.values.shape[1]
        x = net.batch_normal(net.convolution(x, wide, 1), is_active=True)
        x = net.batch_normal(net.convolution(x, wide, 3, stride=stride, padding=1, groups=wide), is_active=True)
        x = net.batch_normal(net.convolution(x, channels, 1), is_active=False)
        x = add(x, before) if x.values.shape == before.values.shape else x
    net.check(net.softmax(net.convolution(net.average_all(x), 10, 1, has_bias=False)))


def test_more_pixels() -> None:
    """superres.py: four convolutions, whose last channels are the pixels between."""
    net = Net()
    x = net.given(1, 1, 20, 20, owned=False)
    for channels, size in ((16, 5), (16, 3), (8, 3), (9, 3)):
        x = net.convolution(x, channels, size, padding=size // 2, activation=RELU)
    net.check(x)


def test_another_style() -> None:
    """candy.py: reflected margins, residual blocks that crop, and convolutions backwards."""
    net = Net()
    image, bias = net.given(1, 3, 24, 24, owned=False), [-1.5, -2.0, -0.5]
    x = Layer(dml.value_scale_2d(image.expr, 1.5, bias), 1.5 * image.values + np.reshape(bias, (1, 3, 1, 1)))
    padded = dml.padding(x.expr, dml.PaddingMode.REFLECTION, 0.0, [0, 0, 10, 10], [0, 0, 10, 10])
    x = Layer(padded, np.pad(x.values, ((0, 0), (0, 0), (10, 10), (10, 10)), "reflect"))
    for channels, size, stride in ((4, 9, 1), (6, 3, 2), (8, 3, 2)):
        x = net.instance_normal(net.convolution(x, channels, size, stride=stride, padding=size // 2), is_active=True)
    for _ in range(2):
        inner = net.instance_normal(net.convolution(x, 8, 3), is_active=True)
        inner = net.instance_normal(net.convolution(inner, 8, 3), is_active=False)
        x = add(inner, net.crop(x, 2))
    for channels in (6, 4):
        x = net.instance_normal(net.crop(net.transposed(x, channels, 3), 1), is_active=True)
    x = net.convolution(x, 3, 9, padding=4, activation=dml.OperatorType.ACTIVATION_TANH)
    scale, shift = (net.repeated(3, *x.values.shape[2:]) for _ in range(2))
    colours = dml.multiply(dml.activation_linear(x.expr, 150, 0), scale.expr)
    net.check(Layer(dml.add(colours, shift.expr), 150 * x.values * scale.values + shift.values))


@pytest.mark.parametrize("mode", [dml.InterpolationMode.NEAREST_NEIGHBOR, dml.InterpolationMode.LINEAR])
def test_images_grow(mode: dml.InterpolationMode) -> None:
    """`up_sample_2d`: centres of pixels are compared, and the edge is repeated."""
    net = Net()
    x = net.given(1, 2, 3, 4, owned=False)
    expr = dml.up_sample_2d(x.expr, dml.Size2D(2, 3), mode)
    values = x.values
    for axis, scale in ((2, 3), (3, 2)):
        size = values.shape[axis]
        at = np.clip((np.arange(size * scale) + 0.5) / scale - 0.5, 0, size - 1)
        low = np.floor(at).astype(int)
        if mode is dml.InterpolationMode.NEAREST_NEIGHBOR:
            values = values.take(np.arange(size * scale) // scale, axis)
        else:
            weight = np.expand_dims(at - low, tuple(range(1, 4 - axis)))
            values = values.take(low, axis) * (1 - weight) + values.take(np.minimum(low + 1, size - 1), axis) * weight
    net.check(Layer(expr, values))


def test_the_largest_and_where_they_are() -> None:
    net = Net()
    x = net.given(1, 2, 5, 6, owned=False)
    made = dml.max_pooling(x.expr, [2, 3], [1, 2], dilations=[2, 1], output_indices=True)
    model = net.builder.build(dml.ExecutionFlags.NONE, [made.values, made.indices])
    values, indices = net.device.compute(model, net.bindings, [made.values, made.indices])
    assert indices.dtype == np.uint32
    np.testing.assert_array_equal(x.values.ravel()[np.array(indices)], values)
    assert made.indices.get_output_desc().sizes == list(values.shape)
