"""The normalizations: softmaxes, of rows, of batches, and LOCAL_RESPONSE_NORMALIZATION; with their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import Fault
from anydml.ir.expressions import absolute, call, const, fma, fold, given, load, maximum, sqrt, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.fused import OptionalActivation, activation_faults
from anydml.operators.lowering import around, by_row, temporary, wide, zeros
from anydml.operators.reductions import AlongAxes, Folding, first_of, log_of_sum
from anydml.operators.schema.fields import Float, Input, OptionalInput, Output, Uint, UintArray
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import (
    axis_of_input,
    fault,
    like_input,
    not_negative,
    repeats_along,
    same_data_type,
    same_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr


# Softmaxes, log-softmaxes and hardmaxes: of the last dimension, and of any


SUMS = DataType.FLOAT32
"""The type that the sums of exponentials accumulate in."""


class _Rowwise(Folding):
    """An element of the output for each of the input's."""

    if TYPE_CHECKING:
        output_tensor: Output

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)


class _Last(_Rowwise):
    """Of the last dimension of a matrix."""

    input_tensor: Input
    output_tensor: Output

    def folded(self) -> tuple[int, ...]:
        """The last dimension."""
        return (self.input_tensor.dimension_count - 1,)

    def rules(self) -> Iterator[Fault]:
        """At most the last two dimensions have a size."""
        yield from super().rules()
        sizes = self.input_tensor.sizes
        if any(size > 1 for size in sizes[:-2]):
            newer = f"{self.type.name}1"
            way_out = (
                f"use {newer}, dml.{newer.removeprefix('ACTIVATION_').lower()}(x, axes=...), which takes any sizes"
            )
            yield fault("InputTensor.Sizes", "must be 1 in all but the last two dimensions", sizes, way_out=way_out)


class _OfAxes(AlongAxes, _Rowwise):
    """Of the rows along some dimensions."""

    usual_axes: ClassVar[Any] = -1

    input_tensor: Input
    output_tensor: Output
    axes: UintArray


class _Softmax(Folding):
    def value(self, x: Expr) -> Expr:
        power = call("exp", x - fold("max", x))
        # One division for a row: 1.27 times as fast as one for each element, for one more rounding.
        return power * (1 / fold("sum", power.to(SUMS))).to(DataType.FLOAT32)


class _LogSoftmax(Folding):
    def value(self, x: Expr) -> Expr:
        less = x - fold("max", x)
        total = fold("sum", call("exp", less).to(SUMS))
        return less - (call("log", total) if SUMS is DataType.FLOAT32 else log_of_sum(total)).to(DataType.FLOAT32)


class _Hardmax(Folding):
    def value(self, x: Expr) -> Expr:
        return where(self.index().equals(first_of(self, x, "max")), const(1, x.type), 0)


class ActivationSoftmax(_Softmax, _Last):
    """The softmax of the last dimension: eˣ/Σeˣ, with the largest element taken out first.

    Every dimension before the last two has a size of 1. Sums accumulate in FLOAT32. A row with NaN or +inf, and a row
    of -inf, is NaN throughout, as PyTorch's: the documents leave it open.
    """


class ActivationSoftmax1(_Softmax, _OfAxes):
    """The softmax along Axes: eˣ/Σeˣ, with the largest element taken out first.

    Sums accumulate in FLOAT32. A row with NaN or +inf, and a row of -inf, is NaN throughout, as PyTorch's: the
    documents leave it open.
    """


class ActivationLogSoftmax(_LogSoftmax, _Last):
    """The logarithm of the softmax of the last dimension: x - ln Σeˣ, with the largest element taken out first.

    Every dimension before the last two has a size of 1. Sums accumulate in FLOAT32. A row with NaN or +inf, and a row
    of -inf, is NaN throughout, as PyTorch's: the documents leave it open.
    """


class ActivationLogSoftmax1(_LogSoftmax, _OfAxes):
    """The logarithm of the softmax along Axes: x - ln Σeˣ, with the largest element taken out first.

    Sums accumulate in FLOAT32. A row with NaN or +inf, and a row of -inf, is NaN throughout, as PyTorch's: the
    documents leave it open.
    """


class ActivationHardmax(_Hardmax, _Last):
    """1 at the first of the largest elements of the last dimension, and 0 elsewhere.

    Every dimension before the last two has a size of 1. A NaN is the largest, which the documents leave open.
    """


class ActivationHardmax1(_Hardmax, _OfAxes):
    """1 at the first of the largest elements along Axes, in row-major order, and 0 elsewhere.

    A NaN is the largest, which the documents leave open.
    """


# Rows


STATISTICS = DataType.FLOAT64
"""The type that norms, and the means of batches, accumulate in."""


class _Normalised(Folding):
    """An element of the output for each of the input's; Epsilon keeps a divisor from 0."""

    if TYPE_CHECKING:
        output_tensor: Output
        epsilon: Float

    def rules(self) -> Iterator[Fault]:
        """Epsilon is at least 0."""
        yield from super().rules()
        yield from not_negative(self, "epsilon")

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)


class LpNormalization(_Normalised):
    """Divides each row along Axis by its norm: x/max(‖x‖, Epsilon), with the norm Σ|x| for P = 1 and √Σx² for P = 2.

    Norms accumulate in FLOAT64. Where Epsilon enters the documents leave open: here as in PyTorch's `normalize`.
    """

    input_tensor: Input
    output_tensor: Output
    axis: Uint
    epsilon: Float = 1e-5
    p: Uint = 2

    def folded(self) -> tuple[int, ...]:
        """The axis."""
        return (self.axis,)

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and the norm one of two."""
        yield from super().rules()
        yield from axis_of_input(self, self.axis)
        if self.p not in (1, 2):
            yield fault("P", "must be 1 or 2", self.p)

    def value(self, x: Expr) -> Expr:
        precise = x.to(STATISTICS)
        norm = fold("sum", absolute(precise)) if self.p == 1 else sqrt(fold("sum", precise * precise))
        return x / maximum(norm, given(self.epsilon, STATISTICS)).to(DataType.FLOAT32)


class _MeanVariance(_Normalised):
    """The shared part of the three forms."""

    if TYPE_CHECKING:
        scale_tensor: OptionalInput
        bias_tensor: OptionalInput
        fused_activation: OptionalActivation

    def rules(self) -> Iterator[Fault]:
        """Scale and bias repeat along the input, and the activation is one that can be fused."""
        yield from super().rules()
        for field in list(self.inputs())[1:]:
            yield from repeats_along(self, field, "InputTensor")
        yield from activation_faults(self.fused_activation)

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Before 5_2 Scale and Bias come together or not at all."""
        yield from super().attribute_level_faults(level, where)
        first = FeatureLevel.LEVEL_5_2
        if level < first and (self.scale_tensor is None) != (self.bias_tensor is None):
            mine, other = ("ScaleTensor", "BiasTensor")[:: 1 if self.bias_tensor is None else -1]
            rule = f"{mine} without {other} needs {first.dml_name}"
            yield Fault(field=other, rule=rule, way_out=where, level=first)

    def _normalised(
        self, x: Expr, scale: Expr | None, bias: Expr | None, *, use_mean: bool = True, use_variance: bool
    ) -> Expr:
        """f(Scale·(x - μ)/√(v + Epsilon) + Bias).

        Elements less a μ of FLOAT32 are small, and their own mean, which is what that μ is off by, is precise: μ is as
        good as one of FLOAT64, with which 128 rows of 1,024 took 109 us, and take 84 (one thread of a Neoverse-N1).
        """
        epsilon = given(self.epsilon, DataType.FLOAT32)
        result = x - self.mean(x) if use_mean else x
        off = self.mean(result) if use_mean else None
        if use_variance:
            square = self.mean(result * result)
            by = 1 / sqrt((square if off is None else maximum(square - off * off, 0.0)) + epsilon)
            result = result * by if off is None else fma(result, by, -off * by)
        elif off is not None:
            result = result - off
        if scale is not None and bias is not None:
            result = fma(result, scale, bias)
        elif scale is not None or bias is not None:
            result = result + bias if bias is not None else result * scale  # type: ignore[operator]  # one of the two
        return result if self.fused_activation is None else self.fused_activation.apply(result)


class MeanVarianceNormalization(_MeanVariance):
    """Makes the mean of each image 0 and its variance 1: f(Scale·(x - μ)/√(v + Epsilon) + Bias).

    μ and v are the mean and the variance (Σ(x - μ)²/n) of each channel, or with CrossChannel of all channels together.
    Without NormalizeVariance nothing is divided by. Scale and Bias repeat where they have a size of 1. μ
    and v accumulate in FLOAT32, μ twice: it is as precise as one of FLOAT64.
    """

    input_tensor: Input
    scale_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output
    cross_channel: bool = False
    normalize_variance: bool = True
    epsilon: Float = 1e-5
    fused_activation: OptionalActivation = None

    def folded(self) -> tuple[int, ...]:
        """Height and width, and with CrossChannel the channels."""
        return (1, 2, 3) if self.cross_channel else (2, 3)

    def value(self, x: Expr, scale: Expr | None, bias: Expr | None) -> Expr:
        return self._normalised(x, scale, bias, use_variance=self.normalize_variance)


class MeanVarianceNormalization1(AlongAxes, _MeanVariance):
    """Makes the mean of each row along Axes 0 and its variance 1: f(Scale·(x - μ)/√(v + Epsilon) + Bias).

    v is the population's variance, Σ(x - μ)²/n. Without NormalizeVariance nothing is divided by. Scale and Bias repeat
    where they have a size of 1. μ and v accumulate in FLOAT32, μ twice: it is as precise as one of FLOAT64.
    """

    input_tensor: Input
    scale_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output
    axes: UintArray
    normalize_variance: bool = True
    epsilon: Float = 1e-5
    fused_activation: OptionalActivation = None

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Before 4_0 Scale and Bias have the input's channels."""
        yield from super().attribute_level_faults(level, where)
        first, channels = FeatureLevel.LEVEL_4_0, 1
        for field, tensor in list(self.inputs().items())[1:]:
            sizes = (self.input_tensor.sizes[channels:], tensor.sizes[channels:])
            if level < first and all(sizes) and sizes[0][0] > 1 and sizes[1][0] == 1:
                rule = f"{field} that repeats along the channels needs {first.dml_name}"
                yield Fault(field=f"{field}.Sizes[{channels}]", rule=rule, value=1, way_out=where, level=first)

    def value(self, x: Expr, scale: Expr | None, bias: Expr | None) -> Expr:
        return self._normalised(x, scale, bias, use_variance=self.normalize_variance)


class MeanVarianceNormalization2(AlongAxes, _MeanVariance):
    """Makes the mean of each row along Axes 0 and its variance 1, or one of them: layer norm and RMS norm.

    With UseMean and UseVariance it is f(Scale·(x - μ)/√(v + Epsilon) + Bias), v being Σ(x - μ)²/n; without UseMean μ
    is 0, v being Σx²/n; without UseVariance nothing is divided by. Scale and Bias repeat where they have a size of 1.
    μ and v accumulate in FLOAT32, μ twice: it is as precise as one of FLOAT64. The documents say nothing of the
    operator: this is how ONNX Runtime uses it.
    """

    input_tensor: Input
    scale_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output
    axes: UintArray
    use_mean: bool = True
    use_variance: bool = True
    epsilon: Float = 1e-5
    fused_activation: OptionalActivation = None

    def value(self, x: Expr, scale: Expr | None, bias: Expr | None) -> Expr:
        return self._normalised(x, scale, bias, use_mean=self.use_mean, use_variance=self.use_variance)


# BATCH_NORMALIZATION, its form for training, and the gradients of both


_IMAGE = 2
"""The first dimension of height and width."""


class _Batch(Folding):
    """Tensors like the input, and small ones that repeat along it, which all have the sizes of one of them."""

    if TYPE_CHECKING:
        epsilon: Float
    likes_input = frozenset(
        {"InputGradientTensor", "FusedAddTensor", "OutputTensor", "OutputGradientTensor", "InputTensor"}
    )

    def _small(self) -> TensorDesc:
        """The tensor whose sizes the small ones have."""
        return next(tensor for field, tensor in self.inputs().items() if field not in self.likes_input)

    def folded(self) -> tuple[int, ...]:
        """The dimensions in which the small tensors have a size of 1."""
        return tuple(k for k, size in enumerate(self._small().sizes) if size == 1)

    def rules(self) -> Iterator[Fault]:
        """Small tensors repeat along the input, others have its sizes; Epsilon is at least 0."""
        yield from super().rules()
        yield from not_negative(self, "epsilon")
        if "fused_activation" in self.field_types():
            yield from activation_faults(getattr(self, "fused_activation"))  # noqa: B009 - not every one has it
        for field in list(self.inputs())[1:]:
            yield from self._sized(field)

    def output_rules(self) -> Iterator[Fault]:
        """So are the outputs."""
        yield from super().output_rules()
        for field in self.outputs():
            yield from self._sized(field)

    def _sized(self, field: str) -> Iterator[Fault]:
        if field in self.likes_input:
            yield from same_sizes(self, field, "InputTensor")
            return
        first = next(name for name in self.inputs() if name not in self.likes_input)
        yield from repeats_along(self, field, "InputTensor") if field == first else same_sizes(self, field, first)

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The first has the input's sizes, the others those of the small tensors."""
        kind, small = self.input_tensor.data_type, self._small().sizes
        others = [TensorDesc(kind, small) for _ in self.output_names()[1:]]
        return (TensorDesc(kind, self.input_tensor.sizes), *others)

    def _inverse(self, variance: Expr) -> Expr:
        """1/√(v + Epsilon), in the type of the variance."""
        assert variance.type is not None  # noqa: S101 - for type checkers: a number
        return 1 / sqrt(variance + given(self.epsilon, variance.type))


class BatchNormalization(_Batch):
    """Normalises with a mean and a variance that are given: f(Scale·(x - Mean)/√(Variance + Epsilon) + Bias).

    Each tensor repeats where it has a size of 1. Spatial has no effect from level 4_0 on.
    """

    input_tensor: Input
    mean_tensor: Input
    variance_tensor: Input
    scale_tensor: Input
    bias_tensor: Input
    output_tensor: Output
    spatial: bool = True
    epsilon: Float = 1e-5
    fused_activation: OptionalActivation = None

    def folded(self) -> tuple[int, ...]:
        """None."""
        return ()

    def _sized(self, field: str) -> Iterator[Fault]:
        """The small tensors repeat each in its own way."""
        yield from super()._sized(field) if field in self.likes_input else repeats_along(self, field, "InputTensor")

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Before 4_0 height and width repeat only where the locations are spatial."""
        yield from super().attribute_level_faults(level, where)
        first, sizes = FeatureLevel.LEVEL_4_0, self.input_tensor.sizes
        for field in ("MeanTensor", "VarianceTensor"):
            own = self.tensors()[field].sizes
            if level < first and not self.spatial and own[_IMAGE:] != sizes[_IMAGE:]:
                rule = f"{field} that repeats along height or width without Spatial needs {first.dml_name}"
                yield Fault(field=f"{field}.Sizes", rule=rule, value=own, way_out=where, level=first)

    def value(self, x: Expr, mean: Expr, variance: Expr, scale: Expr, bias: Expr) -> Expr:
        result = fma(x - mean, scale * self._inverse(variance), bias)
        return result if self.fused_activation is None else self.fused_activation.apply(result)


class BatchNormalizationTraining(_Batch):
    """Normalises with the mean μ and the variance v of the input: f(Scale·(x - μ)/√(v + Epsilon) + Bias + FusedAdd).

    μ and v come out as well. They are of the dimensions in which Scale and Bias have a size of 1, v being Σ(x - μ)²/n,
    and accumulate in FLOAT64.
    """

    input_tensor: Input
    scale_tensor: Input
    bias_tensor: Input
    fused_add_tensor: OptionalInput = None
    output_tensor: Output
    output_mean_tensor: Output
    output_variance_tensor: Output
    epsilon: Float = 1e-5
    fused_activation: OptionalActivation = None

    def value(self, x: Expr, scale: Expr, bias: Expr, fused_add: Expr | None) -> tuple[Expr, ...]:
        precise = x.to(STATISTICS)
        mean = self.mean(precise)
        centred = precise - mean
        variance = self.mean(centred * centred)
        result = fma(centred.to(DataType.FLOAT32), scale * self._inverse(variance).to(DataType.FLOAT32), bias)
        result = result if fused_add is None else result + fused_add
        return result if self.fused_activation is None else self.fused_activation.apply(result), mean, variance


class _BatchGrad(_Batch):
    """The gradients of the input, the scale and the bias."""

    input_tensor: Input
    input_gradient_tensor: Input
    mean_tensor: Input
    variance_tensor: Input
    scale_tensor: Input
    output_gradient_tensor: Output
    output_scale_gradient_tensor: Output
    output_bias_gradient_tensor: Output
    epsilon: Float = 1e-5

    def _sums(self, x: Expr, gradient: Expr, mean: Expr, variance: Expr) -> tuple[Expr, Expr]:
        """The gradients of the scale and of the bias."""
        precise = gradient.to(STATISTICS)
        total = fold("sum", precise * (x.to(STATISTICS) - mean.to(STATISTICS)))
        return total * self._inverse(variance.to(STATISTICS)), fold("sum", precise)


class BatchNormalizationGrad(_BatchGrad):
    """The gradients of BATCH_NORMALIZATION with respect to its input, Scale and Bias.

    They are dy·Scale/√(Variance + Epsilon), Σdy·(x - Mean)/√(Variance + Epsilon) and Σdy, the sums being of the
    dimensions in which the small tensors have a size of 1. Sums accumulate in FLOAT64.
    """

    def value(self, x: Expr, gradient: Expr, mean: Expr, variance: Expr, scale: Expr) -> tuple[Expr, ...]:
        return gradient * (scale * self._inverse(variance)), *self._sums(x, gradient, mean, variance)


class BatchNormalizationTrainingGrad(_BatchGrad):
    """The gradients of BATCH_NORMALIZATION_TRAINING with respect to its input, Scale and Bias.

    The input's is Scale/√(v + Epsilon)·(dy - mean(dy) - (x - mean(x))·mean(dy·(x - mean(x)))/(v + Epsilon)), v being
    Variance; the others are Σdy·(x - Mean)/√(v + Epsilon) and Σdy. The sums and means are of the dimensions in which
    the small tensors have a size of 1, and accumulate in FLOAT64.
    """

    def value(self, x: Expr, gradient: Expr, mean: Expr, variance: Expr, scale: Expr) -> tuple[Expr, ...]:
        precise, dy, v = x.to(STATISTICS), gradient.to(STATISTICS), variance.to(STATISTICS)
        centred = precise - self.mean(precise)
        along = self.mean(dy * centred) / (v + given(self.epsilon, STATISTICS))
        inside = dy - self.mean(dy) - centred * along
        result = inside.to(DataType.FLOAT32) * (scale.to(STATISTICS) * self._inverse(v)).to(DataType.FLOAT32)
        return result, *self._sums(x, gradient, mean, variance)


# LOCAL_RESPONSE_NORMALIZATION and its gradient: each element beside the squares of its neighbours


NEIGHBOURS = DataType.FLOAT64
"""The type that the sums of neighbours accumulate in."""


class _LocalResponse(Computed):
    """The shared part of the operator and its gradient."""

    if TYPE_CHECKING:
        input_tensor: Input
        cross_channel: bool
        local_size: Uint
        alpha: Float
        beta: Float
        bias: Float

    def rules(self) -> Iterator[Fault]:
        """The tensors are alike, and a region has an element."""
        for field in list(self.inputs())[1:]:
            yield from self._like_input(field)
        if self.local_size < 1:
            yield fault("LocalSize", "must be at least 1", self.local_size)

    def output_rules(self) -> Iterator[Fault]:
        """The output is like the input."""
        for field in self.outputs():
            yield from self._like_input(field)

    def _like_input(self, field: str) -> Iterator[Fault]:
        yield from same_data_type(self, field, "InputTensor")
        yield from same_sizes(self, field, "InputTensor")

    # How it is computed

    def _reach(self) -> tuple[tuple[int, int], ...]:
        """How far a region reaches before and after its element, in each dimension; never past all others."""
        before = (self.local_size - 1) // 2
        wanted = (before, self.local_size - 1 - before)
        inside = (1,) if self.cross_channel else (2, 3)
        sizes = self.input_tensor.sizes
        return tuple(
            (min(wanted[0], size - 1), min(wanted[1], size - 1)) if k in inside else (0, 0)
            for k, size in enumerate(sizes)
        )

    def _base(self, squares: Expr) -> Expr:
        """Bias + Alpha/LocalSize·Σx², of the sum of the squares."""
        return (given(self.alpha / self.local_size, NEIGHBOURS) * squares + given(self.bias, NEIGHBOURS)).to(
            DataType.FLOAT32
        )

    def _power(self, base: Expr, exponent: float) -> Expr:
        return call("pow", base, given(exponent, DataType.FLOAT32))


def _margins(inner: View, reach: Sequence[tuple[int, int]], name: str) -> tuple[View, list[Map]]:
    """A temporary that holds `inner` with room before and after, and what fills the room with 0."""
    whole = temporary(
        name, inner.data_type, [low + n + high for n, (low, high) in zip(inner.sizes, reach, strict=True)]
    )
    return whole, around(whole, [low for low, _ in reach], (1,) * len(reach), inner.sizes, zeros)


def _inside(whole: View, reach: Sequence[tuple[int, int]], sizes: Sequence[int]) -> View:
    return whole.window([low for low, _ in reach], (1,) * len(sizes), sizes)


def _regions(whole: View, reach: Sequence[tuple[int, int]], sizes: Sequence[int]) -> View:
    """[…, i, … | …, j, …]: for each element its region, which overlaps those of others."""
    counts = tuple(low + 1 + high for low, high in reach)
    return View(whole.tensor, whole.data_type, (*sizes, *counts), (*whole.strides, *whole.strides), whole.offset)


def _beside(field: str, tensor: TensorDesc | View, regions: View) -> View:
    """A tensor that repeats along each region."""
    view = tensor if isinstance(tensor, View) else View.of(field, tensor)
    added = len(regions.sizes) - len(view.sizes)
    return View(view.tensor, view.data_type, regions.sizes, (*view.strides, *(0,) * added), view.offset)


class LocalResponseNormalization(_LocalResponse):
    """Divides by what the neighbours are: x/(Bias + Alpha/LocalSize·Σx²)^Beta, the sum being of a region around x.

    The region has LocalSize channels with CrossChannel, and else LocalSize rows and columns; what of it lies outside
    the tensor counts as 0. Of an even LocalSize there is one more after the element than before it. Sums accumulate in
    FLOAT64.
    """

    input_tensor: Input
    output_tensor: Output
    cross_channel: bool = True
    local_size: Uint
    alpha: Float = 1e-4
    beta: Float = 0.75
    bias: Float = 1.0

    def lower(self) -> tuple[Map | Reduce, ...]:
        """The input with margins of 0, then a reduce over the regions."""
        x, reach = View.of("InputTensor", self.input_tensor), self._reach()
        whole, filling = _margins(x, reach, "padded")
        regions = _regions(whole, reach, x.sizes)
        own, near = (wide(load(slot, x.data_type)) for slot in (0, 1))
        squares = fold("sum", near.to(NEIGHBOURS) * near.to(NEIGHBOURS))
        value = (own / self._power(self._base(squares), self.beta)).to(x.data_type)
        target = by_row(View.of("OutputTensor", self.output_tensor), len(x.sizes))
        sources = (_beside("InputTensor", x, regions), regions)
        return (*filling, copy_of(x, _inside(whole, reach, x.sizes)), Reduce(sources, target, value, len(x.sizes)))


class LocalResponseNormalizationGrad(_LocalResponse):
    """The gradient of LOCAL_RESPONSE_NORMALIZATION with respect to its input.

    dy/D^Beta - 2·Alpha·Beta/LocalSize·x·Σdy·x/D^(Beta + 1), D being Bias + Alpha/LocalSize·Σx² around each element,
    and the first sum being of the elements whose region x is in. Sums accumulate in FLOAT64.
    """

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output
    cross_channel: bool = True
    local_size: Uint
    alpha: Float = 1e-4
    beta: Float = 0.75
    bias: Float = 1.0

    def lower(self) -> tuple[Map | Reduce, ...]:
        """Each region's sum, each element's part in its neighbours, and a reduce over those."""
        x, dy = View.of("InputTensor", self.input_tensor), View.of("InputGradientTensor", self.input_gradient_tensor)
        reach, kind = self._reach(), DataType.FLOAT32
        whole, filling = _margins(x, reach, "padded")
        regions = _regions(whole, reach, x.sizes)
        near = wide(load(0, x.data_type)).to(NEIGHBOURS)
        base = temporary("base", kind, x.sizes)
        bases = Reduce((regions,), by_row(base, len(x.sizes)), self._base(fold("sum", near * near)), len(x.sizes))
        back = tuple((high, low) for low, high in reach)
        parts = temporary("parts", kind, x.sizes)
        around, more = _margins(parts, back, "parts")
        loads = [wide(load(slot, view.data_type)) for slot, view in enumerate((x, dy, base))]
        part = loads[0] * loads[1] * self._power(loads[2], -self.beta - 1)
        spread = Map((x, dy, base), _inside(around, back, x.sizes), part)
        total = fold("sum", load(3, kind).to(NEIGHBOURS))
        factor = given(-2 * self.alpha * self.beta / self.local_size, NEIGHBOURS)
        value = (loads[1] * self._power(loads[2], -self.beta)).to(NEIGHBOURS) + factor * loads[0].to(NEIGHBOURS) * total
        near_parts = _regions(around, back, x.sizes)
        sources = (*(_beside("", view, near_parts) for view in (x, dy, base)), near_parts)
        target = by_row(View.of("OutputGradientTensor", self.output_gradient_tensor), len(x.sizes))
        result = Reduce(sources, target, value.to(target.data_type), len(x.sizes))
        return (*filling, copy_of(x, _inside(whole, reach, x.sizes)), bases, *more, spread, result)
