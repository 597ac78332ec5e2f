"""The poolings: each window of the input made one number, its mean, its norm or its largest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.enums import DataType
from anydml.errors import Fault
from anydml.ir.expressions import absolute, call, coordinate, fold, given, sqrt, where
from anydml.ir.patterns import filled
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Input,
    OptionalInput,
    OptionalOutput,
    Output,
    PerDimension,
    Uint,
)
from anydml.operators.margins import repeated
from anydml.operators.pooled import Pooling
from anydml.operators.quantisation import difference, quantised
from anydml.operators.reductions import is_extreme
from anydml.operators.rules import same_sizes
from anydml.operators.sizes import pad
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map, Primitive
    from anydml.ir.views import View
    from anydml.operators.sizes import Sizes, Spread

F32, SUMS, INT64 = DataType.FLOAT32, DataType.FLOAT64, DataType.INT64


class _Plain(Pooling):
    input_tensor: Input
    output_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0


class _Dilated(_Plain):
    dilations: PerDimension = 1


class _Average(Pooling):
    if TYPE_CHECKING:
        include_padding: bool

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """Σx/count."""
        return fold("sum", elements["InputTensor"]) / self.mean_divisor(include_padding=self.include_padding).to(F32)


class AveragePooling(_Plain, _Average):
    """The mean of each window.

    Padding counts as 0 with IncludePadding; otherwise the mean is of the elements that are not padding, and 0 where
    there are none. Sums are of FLOAT32.
    """

    include_padding: bool = False


class AveragePooling1(_Dilated, _Average):
    """The mean of each window, whose elements are Dilations apart.

    Padding counts as 0 with IncludePadding; otherwise the mean is of the elements that are not padding, and 0 where
    there are none. Sums are of FLOAT32.
    """

    include_padding: bool = False


class QuantizedLinearAveragePooling(_Average):
    """The mean of each window of quantised numbers, quantised: round(s·Σ(x - z)/count/sy) + zy, halves to even.

    Elements of a window are Dilations apart. Padding is the input's zero point with IncludePadding, and is not counted
    otherwise. What lies outside the type's range takes its nearest end. Scales and zero points are single numbers.
    """

    broadcasts = True
    result_type = None
    typed_like = {"InputZeroPointTensor": "InputTensor", "OutputTensor": "OutputZeroPointTensor"}  # noqa: RUF012 - a table that nobody writes to

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    dilations: PerDimension = 1
    include_padding: bool = False

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs: numbers have as many dimensions as the input."""
        rank = len(sizes["InputTensor"])
        seen = {field: own if field == "InputTensor" else pad(own, rank) for field, own in sizes.items()}
        return {field: (own, own) for field, own in seen.items()}

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """One number."""
        return F32 if "Scale" in field else first.data_type, (1,) * first.dimension_count

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or the input's."""
        return (self.output_zero_point_tensor or self.input_tensor).data_type

    def rules(self) -> Iterator[Fault]:
        """The windows fit, and scales and zero points are single numbers."""
        yield from super().rules()
        for field in list(self.inputs())[1:]:
            sizes = self.tensors()[field].sizes
            if math.prod(sizes) != 1:
                rule = f"{field}.Sizes must be {(1,) * len(sizes)}, a number for all"
                yield Fault(field=f"{field}.Sizes", rule=rule, value=sizes, found=str(sizes))

    def fill(self, target: View) -> Map:
        """The filling of the padding: the input's zero point, so that differences are 0."""
        zero = self.input_zero_point_tensor
        return super().fill(target) if zero is None else repeated("InputZeroPointTensor", zero, target)

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """round(s·Σ(x - z)/count/sy) + zy."""
        total = fold("sum", difference(elements["InputTensor"], elements.get("InputZeroPointTensor"), INT64))
        count = self.mean_divisor(include_padding=self.include_padding).to(F32)
        mean = total.to(F32) * elements["InputScaleTensor"] / count
        return quantised(mean / elements["OutputScaleTensor"], elements.get("OutputZeroPointTensor"))


class _Lp(Pooling):
    if TYPE_CHECKING:
        p: Uint

    def rules(self) -> Iterator[Fault]:
        """The windows fit, and P is a power."""
        yield from super().rules()
        if self.p < 1:
            yield Fault(field="P", rule="P must be at least 1", value=self.p, found=str(self.p))

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """(Σ|x|ᵖ)^(1/p), of which powers are summed in FLOAT64."""
        x = absolute(elements["InputTensor"])
        if self.p == 1:
            return fold("sum", x)
        if self.p == 2:
            return sqrt(fold("sum", x.to(SUMS) * x.to(SUMS)))
        total = fold("sum", call("pow", x, given(self.p, F32)).to(SUMS)).to(F32)
        return call("pow", total, given(1 / self.p, F32))


class LpPooling(_Plain, _Lp):
    """The norm of each window: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""

    p: Uint = 2


class LpPooling1(_Dilated, _Lp):
    """The norm of each window, whose elements are Dilations apart: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""

    p: Uint = 2


class _Largest(Pooling):
    def fill(self, target: View) -> Map:
        """The filling of the padding: the least value of the type."""
        return filled(target, -math.inf if target.data_type.is_float else target.data_type.limits[0])

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """max(x)."""
        return fold("max", elements["InputTensor"])


class MaxPooling(_Plain, _Largest):
    """The largest of each window, NaN where one is. Padding is below all numbers."""


class _WithIndices(_Largest):
    input_tensor: Input
    output_tensor: Output
    output_indices_tensor: OptionalOutput = None
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The largest, and indices of UINT32."""
        (output,) = super().implied_outputs()
        return output, TensorDesc(DataType.UINT32, output.sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The outputs have an element for each window."""
        yield from super().output_rules()
        if self.output_indices_tensor is not None:
            yield from same_sizes(self, "OutputIndicesTensor", "OutputTensor")

    def lower(self) -> tuple[Primitive, ...]:
        """The input with its padding, then a reduce over its windows for each output."""
        found = super().lower()
        if self.output_indices_tensor is None:
            return found
        whole, index = self.framed_input()[0], self.first_largest(self.elements()["InputTensor"])
        return (*found, self.reduced(whole, "OutputIndicesTensor", self.output_indices_tensor, index))

    def first_largest(self, x: Expr) -> Expr:
        """Where the first largest of a window lies in the input, counted from its very first element; INT64."""
        sizes, places = self.input_tensor.sizes, self.places()
        index = coordinate(0) * given(sizes[1], INT64) + coordinate(1)
        is_found = is_extreme(x, "max")
        for size, place in zip(sizes[2:], places, strict=True):
            index = index * given(size, INT64) + place
            if self.has_padding():
                is_found = is_found & (place >= 0) & (place <= given(size - 1, INT64))
        return fold("min", where(is_found, index, given(math.prod(sizes) - 1, INT64)))


class MaxPooling1(_WithIndices):
    """The largest of each window, NaN where one is, and where it lies. Padding is below all numbers.

    An index is that of the first of equals, a NaN being the largest, in the input as one row.
    """


class MaxPooling2(_WithIndices):
    """The largest of each window, whose elements are Dilations apart, NaN where one is, and where it lies.

    Padding is below all numbers. An index is that of the first of equals, a NaN being the largest, in the input as one
    row. A window that is larger than the input with its padding is there once, as DirectMLX has it.
    """

    dilations: PerDimension = 1

    def rules(self) -> Iterator[Fault]:
        """The fields have a number for each spatial dimension."""
        yield from self.spatial_faults()
