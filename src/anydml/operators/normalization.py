"""The normalisations: of rows, MEAN_VARIANCE_NORMALIZATION in its three forms and LP_NORMALIZATION; and of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import Fault
from anydml.ir.expressions import absolute, fma, fold, given, maximum, sqrt
from anydml.operators.fields import Float, Input, OptionalInput, Output, Uint, UintArray  # noqa: TC001 - read at run time
from anydml.operators.folding import AlongAxes, Folding
from anydml.operators.fused import OptionalActivation, activation_faults
from anydml.operators.rules import axis_of_input, like_input, not_negative, repeats_along, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


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

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

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
            yield Fault(field="P", rule="P must be 1 or 2", value=self.p, found=str(self.p))

    def value(self, x: Expr) -> Expr:
        """x/max(‖x‖, Epsilon)."""
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
        """f(Scale·(x - μ)/√(v + Epsilon) + Bias)."""
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
        """f(Scale·(x - μ)/√(v + Epsilon) + Bias)."""
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
        """f(Scale·(x - μ)/√(v + Epsilon) + Bias)."""
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
        """f(Scale·(x - Mean)/√(Variance + Epsilon) + Bias)."""
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
        """The output, the mean and the variance."""
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
        """The three gradients."""
        return gradient * (scale * self._inverse(variance)), *self._sums(x, gradient, mean, variance)


class BatchNormalizationTrainingGrad(_BatchGrad):
    """The gradients of BATCH_NORMALIZATION_TRAINING with respect to its input, Scale and Bias.

    The input's is Scale/√(v + Epsilon)·(dy - mean(dy) - (x - mean(x))·mean(dy·(x - mean(x)))/(v + Epsilon)), v being
    Variance; the others are Σdy·(x - Mean)/√(v + Epsilon) and Σdy. The sums and means are of the dimensions in which
    the small tensors have a size of 1, and accumulate in FLOAT64.
    """

    def value(self, x: Expr, gradient: Expr, mean: Expr, variance: Expr, scale: Expr) -> tuple[Expr, ...]:
        """The three gradients."""
        precise, dy, v = x.to(STATISTICS), gradient.to(STATISTICS), variance.to(STATISTICS)
        centred = precise - self.mean(precise)
        along = self.mean(dy * centred) / (v + given(self.epsilon, STATISTICS))
        inside = dy - self.mean(dy) - centred * along
        result = inside.to(DataType.FLOAT32) * (scale.to(STATISTICS) * self._inverse(v)).to(DataType.FLOAT32)
        return result, *self._sums(x, gradient, mean, variance)
