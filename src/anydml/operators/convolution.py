"""CONVOLUTION, and those of integers, which are summed exactly and may be scaled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.enums import ConvolutionDirection, ConvolutionMode, DataType, FeatureLevel
from anydml.operators.convolving import Filtered
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Convolving,
    ConvolvingWay,
    Input,
    OptionalInput,
    Output,
    PerDimension,
    Uint,
)
from anydml.operators.fused import CLIP, FUSED, OptionalActivation, activation_faults, fused_level_faults
from anydml.operators.margins import repeated
from anydml.operators.quantisation import difference, quantised, sum_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.errors import Fault
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

F32 = DataType.FLOAT32


class Convolution(Filtered):
    """Lays a filter over every window of the input: the sum of their products over the channels of a group, plus bias.

    FilterTensor is {output channels, input channels/GroupCount, window}. Mode CONVOLUTION turns the filter around
    first. Direction BACKWARD is the transposed convolution, whose FilterTensor is {input channels, output
    channels/GroupCount, window}: each element is spread over a window, and the output may have any sizes from which a
    forward convolution gives the input's. OutputPadding adds zeros at the end of each dimension of the result.

    Sums are of FLOAT32 or better, in an order that does not depend on threads, for FLOAT16 too.
    """

    typed_like = dict.fromkeys(("FilterTensor", "BiasTensor", "OutputTensor"), "InputTensor")
    by_channel = ("BiasTensor",)
    sizes_are_free = True

    input_tensor: Input
    filter_tensor: Input
    bias_tensor: OptionalInput = None
    output_tensor: Output
    mode: Convolving = ConvolutionMode.CROSS_CORRELATION
    direction: ConvolvingWay = ConvolutionDirection.FORWARD
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    output_padding: PerDimension = 0
    group_count: Uint = 1
    fused_activation: OptionalActivation = None

    def is_backward(self) -> bool:
        """As Direction says."""
        return self.direction is ConvolutionDirection.BACKWARD

    def is_turned(self) -> bool:
        """As Mode says."""
        return self.mode is ConvolutionMode.CONVOLUTION

    def rules(self) -> Iterator[Fault]:
        """The filter fits, and the activation is one that can be fused."""
        yield from super().rules()
        yield from activation_faults(self.fused_activation, FUSED | CLIP)

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """CLIP is fused from 6_0 on."""
        yield from super().attribute_level_faults(level, where)
        yield from fused_level_faults(self.fused_activation, CLIP, FeatureLevel.LEVEL_6_0, level, where)

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """Elements in FLOAT32."""
        return elements["InputTensor"].to(F32), elements["FilterTensor"].to(F32)

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """f(total + bias)."""
        found = total + elements["BiasTensor"].to(F32) if "BiasTensor" in elements else total
        return found if self.fused_activation is None else self.fused_activation.apply(found)


class _Whole(Filtered):
    """A convolution of integers less their zero points; padding is the input's."""

    typed_like = {"InputZeroPointTensor": "InputTensor", "FilterZeroPointTensor": "FilterTensor"}  # noqa: RUF012 - a table that nobody writes to
    by_channel = ("FilterScaleTensor", "FilterZeroPointTensor", "BiasTensor")
    for_all = (
        "InputScaleTensor", "InputZeroPointTensor", "FilterScaleTensor", "FilterZeroPointTensor", "OutputScaleTensor",
        "OutputZeroPointTensor",
    )  # fmt: skip

    def fill(self, target: View) -> Map:
        """The filling of the padding: the input's zero point, so that differences are 0."""
        zero = self.inputs().get("InputZeroPointTensor")
        return super().fill(target) if zero is None else repeated("InputZeroPointTensor", zero, target)

    def _sum_type(self) -> DataType:
        """The type that holds every sum."""
        return sum_type(math.prod(self._window()) * self._channels()[0])

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """The input less its zero point, and the filter less its."""
        kind = self._sum_type()
        names = ("Input", "Filter")
        left, right = (difference(elements[f"{x}Tensor"], elements.get(f"{x}ZeroPointTensor"), kind) for x in names)
        return left, right


class ConvolutionInteger(_Whole):
    """The convolution of bytes, each less its zero point: Σ(x - zx)·(w - zw), exactly, wrapped to INT32.

    FilterTensor is {output channels, input channels/GroupCount, window}; padding is the input's zero point.
    """

    result_type = DataType.INT32

    input_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    group_count: Uint = 1

    def _sum_type(self) -> DataType:
        return DataType.INT32

    def implied_output_type(self) -> DataType:
        """INT32."""
        return DataType.INT32

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:  # noqa: ARG002 - as others
        """The sum."""
        return total


class QuantizedLinearConvolution(_Whole):
    """The convolution of quantised numbers, quantised: sx·sw·(Σ(x - zx)·(w - zw) + bias)/s, rounded, plus z.

    Sums are exact, and the bias, of INT32, is one of their numbers; halves are rounded to even, and what lies outside
    the type's range takes its nearest end. Padding is the input's zero point.
    """

    result_type = None
    typed_like = {**_Whole.typed_like, "OutputTensor": "OutputZeroPointTensor"}  # noqa: RUF012 - a table that nobody writes to

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_scale_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    group_count: Uint = 1

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or the input's."""
        return (self.output_zero_point_tensor or self.input_tensor).data_type

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """round((total + bias)·sx·sw/s) + z."""
        if "BiasTensor" in elements:
            kind = total.type or DataType.INT64
            total = total + elements["BiasTensor"].to(kind)
        scale = elements["InputScaleTensor"] * elements["FilterScaleTensor"] / elements["OutputScaleTensor"]
        return quantised(total.to(F32) * scale, elements.get("OutputZeroPointTensor"))
