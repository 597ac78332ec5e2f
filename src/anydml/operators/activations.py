"""The activation functions, and the gradient of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import Fault, show
from anydml.ir.expressions import absolute, call, fma, given, maximum, minimum, where
from anydml.operators.elementwise import ElementWise, Function, Unary, is_float, type_of
from anydml.operators.schema.fields import Float, Input, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


def _float(value: float) -> Expr:
    return given(value, DataType.FLOAT32)


class ActivationCelu(Unary):
    """The continuously differentiable exponential linear unit: max(0, x) + min(0, Alpha·(e^(x/Alpha) - 1))."""

    alpha: Float = 1.0

    def value(self, x: Expr) -> Expr:
        return where(x > 0, x, _float(self.alpha) * call("expm1", x / _float(self.alpha)))


class ActivationElu(Unary):
    """The exponential linear unit: x where x ≥ 0, and else Alpha·(eˣ - 1)."""

    alpha: Float = 1.0

    def value(self, x: Expr) -> Expr:
        return where(x >= 0, x, _float(self.alpha) * call("expm1", x))


class ActivationGelu(Function):
    """The Gaussian error linear unit: x·(1 + erf(x/√2))/2."""


class ActivationHardSigmoid(Unary):
    """A sigmoid of straight lines: max(0, min(Alpha·x + Beta, 1))."""

    alpha: Float = 0.2
    beta: Float = 0.5

    def value(self, x: Expr) -> Expr:
        return _hard_sigmoid(x, self.alpha, self.beta)


class ActivationHardSwish(Unary):
    """A swish of straight lines: x·max(0, min(Alpha·x + Beta, 1))."""

    alpha: Float = 1 / 6
    beta: Float = 0.5

    def value(self, x: Expr) -> Expr:
        return x * _hard_sigmoid(x, self.alpha, self.beta)


class ActivationLeakyRelu(Unary):
    """A rectifier that leaks: x where x ≥ 0, and else Alpha·x."""

    alpha: Float = 0.01

    def value(self, x: Expr) -> Expr:
        return where(x >= 0, x, _float(self.alpha) * x)


class ActivationLinear(Unary):
    """A straight line: Alpha·x + Beta, rounded once."""

    onnx = "Affine"

    alpha: Float
    beta: Float

    def value(self, x: Expr) -> Expr:
        return fma(x, _float(self.alpha), _float(self.beta))


class ActivationParameterizedRelu(ElementWise):
    """A rectifier with a slope for each element: x where x ≥ 0, and else slope·x. Integers wrap."""

    input_tensor: Input
    slope_tensor: Input
    output_tensor: Output

    def value(self, x: Expr, slope: Expr) -> Expr:
        return where(x >= 0, x, slope * x)


class ActivationParametricSoftplus(Unary):
    """A softplus of two parameters: Alpha·ln(1 + e^(Beta·x))."""

    alpha: Float
    beta: Float

    def value(self, x: Expr) -> Expr:
        return _float(self.alpha) * call("softplus", _float(self.beta) * x)


class ActivationRelu(Unary):
    """The rectifier: max(0, x). NaN stays, which the documents leave open."""

    def value(self, x: Expr) -> Expr:
        return maximum(x, 0)


class ActivationScaledElu(Unary):
    """The scaled exponential linear unit: Gamma·x where x > 0, and else Gamma·Alpha·(eˣ - 1)."""

    onnx = "Selu"

    alpha: Float = 1.67326319217681884765625
    gamma: Float = 1.05070102214813232421875

    def value(self, x: Expr) -> Expr:
        return _float(self.gamma) * where(x > 0, x, _float(self.alpha) * call("expm1", x))


class ActivationScaledTanh(Unary):
    """A hyperbolic tangent of two parameters: Alpha·tanh(Beta·x)."""

    alpha: Float = 1.0
    beta: Float = 0.5

    def value(self, x: Expr) -> Expr:
        return _float(self.alpha) * call("tanh", _float(self.beta) * x)


class ActivationShrink(Unary):
    """Shrinks toward zero: x - Bias where x > Threshold, x + Bias where x < -Threshold, and else 0.

    Integers are computed in FLOAT64, and the result loses its fraction, which the documents leave open.
    """

    onnx_names = (("lambd", "threshold"),)

    bias: Float = 0.0
    threshold: Float = 0.5

    def value(self, x: Expr) -> Expr:
        kind = type_of(x) if is_float(x) else DataType.FLOAT64
        x, bias, threshold = x.to(kind), given(self.bias, kind), given(self.threshold, kind)
        return where(x > threshold, x - bias, where(x < -threshold, x + bias, 0))


class ActivationSigmoid(Function):
    """The logistic function: 1/(1 + e⁻ˣ)."""


class ActivationSoftplus(Unary):
    """A smooth rectifier: ln(1 + e^(Steepness·x))/Steepness. Before 6_4 Steepness is at least 1."""

    steepness: Float = 1.0

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Before 6_4 the steepness is at least 1."""
        yield from super().attribute_level_faults(level, where)
        first = FeatureLevel.LEVEL_6_4
        if level < first and not self.steepness >= 1:
            rule = f"Steepness below 1 needs {first.dml_name}"
            yield Fault(
                field="Steepness",
                rule=rule,
                value=self.steepness,
                found=show(self.steepness),
                way_out=where,
                level=first,
            )

    def value(self, x: Expr) -> Expr:
        return call("softplus", _float(self.steepness) * x) / _float(self.steepness)


class ActivationSoftsign(Unary):
    """x/(1 + |x|)."""

    def value(self, x: Expr) -> Expr:
        return x / (1 + absolute(x))


class ActivationSwish(Unary):
    """The sigmoid linear unit: x·sigmoid(SigmoidInputScale·x)."""

    onnx_names = (("alpha", "sigmoid_input_scale"),)

    sigmoid_input_scale: Float = 1.0

    def value(self, x: Expr) -> Expr:
        return x * call("sigmoid", _float(self.sigmoid_input_scale) * x)


class ActivationTanh(Function):
    """The hyperbolic tangent: tanh x."""


class ActivationThresholdedRelu(Unary):
    """A rectifier with a threshold: x where x > Alpha, and else 0."""

    alpha: Float = 1.0

    def value(self, x: Expr) -> Expr:
        return where(x > _float(self.alpha), x, 0)


class ActivationReluGrad(ElementWise):
    """The gradient of RELU: the incoming one where x > 0, and else 0."""

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output

    def value(self, x: Expr, gradient: Expr) -> Expr:
        return where(x > 0, gradient, 0)


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return maximum(minimum(fma(x, _float(alpha), _float(beta)), 1), 0)
