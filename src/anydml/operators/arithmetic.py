"""Arithmetic element by element: sums to remainders, bounds, exponentials to trigonometry, powers; VALUE_SCALE_2D."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType, FeatureLevel, RoundingMode
from anydml.core.errors import Fault
from anydml.ir.expressions import (
    absolute,
    call,
    ceil,
    coordinate,
    floor,
    fma,
    given,
    maximum,
    minimum,
    rint,
    sqrt,
    trunc,
    where,
)
from anydml.ir.numerics import divide, integer_power, mean, modulus_floor, modulus_truncate, round_half_away, sign
from anydml.operators.elementwise import Binary, ElementWise, Function, Scaled, Unary, is_float, number, type_of
from anydml.operators.fused import OptionalActivation, activation_faults
from anydml.operators.schema.fields import (
    Float,
    FloatArray,
    Input,
    OptionalScaleBias,
    Output,
    Rounding,
    Scalar,
    ValueType,
)
from anydml.operators.schema.rules import fault, names_type_of, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


# One input


class ElementWiseAbs(Scaled):
    """The absolute value: |x|. The lowest number of an integer type, which has none, stays."""

    def value(self, x: Expr) -> Expr:
        return absolute(x)


class ElementWiseNegate(Unary):
    """The number of the other sign: -x. Integers wrap."""

    onnx = "Neg"

    def value(self, x: Expr) -> Expr:
        return -x


class ElementWiseSign(Unary):
    """-1, 0 or 1 for a negative number, zero or a positive number. NaN stays, which the documents leave open."""

    def value(self, x: Expr) -> Expr:
        return sign(x)


class ElementWiseRecip(Scaled):
    """The reciprocal: 1/x."""

    onnx = "Reciprocal"

    def value(self, x: Expr) -> Expr:
        return 1 / x


class ElementWiseSqrt(Scaled):
    """The square root: √x. It is NaN for negative numbers."""

    def value(self, x: Expr) -> Expr:
        return sqrt(x)


class ElementWiseCeil(Scaled):
    """The smallest integer that is not below: ⌈x⌉."""

    def value(self, x: Expr) -> Expr:
        return ceil(x)


class ElementWiseFloor(Scaled):
    """The largest integer that is not above: ⌊x⌋."""

    def value(self, x: Expr) -> Expr:
        return floor(x)


class ElementWiseRound(Unary):
    """Rounds to an integer: halves to even numbers (the default), toward zero, or halves away from zero.

    The last is DML_ROUNDING_MODE_TOWARD_INFINITY, which other fractions follow to the nearest.
    """

    rounding_mode: Rounding = RoundingMode.HALVES_TO_NEAREST_EVEN

    def value(self, x: Expr) -> Expr:
        if self.rounding_mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
            return rint(x)
        return trunc(x) if self.rounding_mode is RoundingMode.TOWARD_ZERO else round_half_away(x)


# Two inputs


class ElementWiseAdd(Binary):
    """The sum: a + b. Integers wrap."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return a + b


class ElementWiseAdd1(Binary):
    """The sum, and an activation of it: f(a + b)."""

    fused_activation: OptionalActivation = None

    def rules(self) -> Iterator[Fault]:
        """The inputs are alike, and the activation is one that can be fused."""
        yield from super().rules()
        yield from activation_faults(self.fused_activation)

    def value(self, a: Expr, b: Expr) -> Expr:
        return a + b if self.fused_activation is None else self.fused_activation.apply(a + b)


class ElementWiseSubtract(Binary):
    """The difference: a - b. Integers wrap."""

    onnx = "Sub"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a - b


class ElementWiseMultiply(Binary):
    """The product: a·b. Integers wrap."""

    onnx = "Mul"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a * b


class ElementWiseDivide(Binary):
    """The quotient: a/b. Of integers it is cut toward zero, and x/0 is 0, which the documents leave open."""

    onnx = "Div"

    def value(self, a: Expr, b: Expr) -> Expr:
        return divide(a, b)


class ElementWiseModulusTruncate(Binary):
    """The remainder of the division that is cut toward zero, with the sign of a: C's fmod.

    Of integers x mod 0 is 0, which the documents leave open.
    """

    def value(self, a: Expr, b: Expr) -> Expr:
        return modulus_truncate(a, b)


class ElementWiseModulusFloor(Binary):
    """The remainder of the division that is rounded down, with the sign of b: Python's %.

    Of integers x mod 0 is 0, and of an infinite b the remainder is Python's: the documents leave the first open, and
    their formula has NaN for the second.
    """

    def value(self, a: Expr, b: Expr) -> Expr:
        return modulus_floor(a, b)


class ElementWiseDifferenceSquare(Binary):
    """The square of the difference: (a - b)²."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return (a - b) * (a - b)


class ElementWiseMean(Binary):
    """The mean: (a + b)/2. Of integers it is cut toward zero and does not overflow, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return mean(a, b)


class ElementWiseMax(Binary):
    """The larger of two: max(a, b). It is NaN where one of them is, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return maximum(a, b)


class ElementWiseMin(Binary):
    """The smaller of two: min(a, b). It is NaN where one of them is, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return minimum(a, b)


# Exponentials, logarithms, trigonometry, and powers


_INT32_END = 2.0**31


class _Function(Function, Scaled):
    """A function with a scale and a bias."""


class ElementWiseExp(_Function):
    """The exponential function: eˣ."""


class ElementWiseLog(_Function):
    """The natural logarithm: ln x. It is -inf for 0, and NaN for negative numbers."""


class ElementWiseErf(_Function):
    """The error function: erf x."""


class ElementWiseSin(_Function):
    """The sine of an angle in radians: sin x."""


class ElementWiseCos(_Function):
    """The cosine of an angle in radians: cos x."""


class ElementWiseTan(_Function):
    """The tangent of an angle in radians: tan x."""


class ElementWiseAsin(_Function):
    """The angle whose sine is x: asin x. It is NaN outside -1 .. 1."""


class ElementWiseAcos(_Function):
    """The angle whose cosine is x: acos x. It is NaN outside -1 .. 1."""


class ElementWiseAtan(_Function):
    """The angle whose tangent is x: atan x."""


class ElementWiseSinh(_Function):
    """The hyperbolic sine: sinh x."""


class ElementWiseCosh(_Function):
    """The hyperbolic cosine: cosh x."""


class ElementWiseTanh(_Function):
    """The hyperbolic tangent: tanh x."""


class ElementWiseAsinh(_Function):
    """The number whose hyperbolic sine is x: asinh x."""


class ElementWiseAcosh(_Function):
    """The number whose hyperbolic cosine is x: acosh x. It is NaN below 1."""


class ElementWiseAtanh(_Function):
    """The number whose hyperbolic tangent is x: atanh x. It is NaN outside -1 .. 1."""


class ElementWiseAtanYX(Binary):
    """The angle of the point (b, a) with the positive x axis: atan2(a, b).

    The documents leave (0, 0) undefined: it is what C has, 0 or π by the sign of b, with the sign of a.
    """

    def value(self, a: Expr, b: Expr) -> Expr:
        return call("atan2", a, b)


class ElementWiseConstantPow(Scaled):
    """The power of a given exponent: x^Exponent. Of negative numbers it is NaN but for whole exponents."""

    exponent: Float

    def value(self, x: Expr) -> Expr:
        """x^Exponent; of 2 and 3 as products, which take a tenth of the time."""
        if self.exponent in (2, 3):
            return x * x if self.exponent == 2 else x * x * x
        return call("pow", x, given(self.exponent, DataType.FLOAT32))


class ElementWisePow(ElementWise):
    """The power: x^y. The exponents may be of another type from 3_0 on.

    Of two integers it is exact and wraps; the fraction that a negative exponent gives is cut off. Of an integer and a
    float it is the same where the exponent is whole, and else the float's power as CAST converts it. Of a float
    and an integer the exponent is made FLOAT32. Of floats it is NaN for negative numbers but for whole exponents.
    """

    free_types = ("ExponentTensor",)

    input_tensor: Input
    exponent_tensor: Input
    output_tensor: Output
    scale_bias: OptionalScaleBias = None

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Before 3_0 the types are equal."""
        yield from super().attribute_level_faults(level, where)
        mine, theirs, first = self.exponent_tensor.data_type, self.input_tensor.data_type, FeatureLevel.LEVEL_3_0
        if level < first and mine is not theirs:
            rule = f"ExponentTensor.DataType other than InputTensor.DataType, {theirs.name}, needs {first.dml_name}"
            yield Fault(field="ExponentTensor.DataType", rule=rule, value=mine, way_out=where, level=first)

    def value(self, x: Expr, y: Expr) -> Expr:
        if is_float(x):
            return call("pow", x, y.to(DataType.FLOAT32))
        if not is_float(y):
            return integer_power(x, y)
        is_whole = floor(y).equals(y) & (absolute(y) < _INT32_END)
        power = call("pow", x.to(DataType.FLOAT32), y).to(type_of(x))
        return where(is_whole, integer_power(x, y.to(DataType.INT32)), power)


# Bounds: THRESHOLD, and CLIP and its gradient, with bounds of FLOAT or of the tensors' type


class ElementWiseThreshold(Scaled):
    """At least a bound: max(x, Min). Of integers the bound loses its fraction; NaN stays."""

    min: Float

    def value(self, x: Expr) -> Expr:
        return maximum(x, number(self.min, x))


class ElementWiseClip(Scaled):
    """Between two bounds: max(Min, min(x, Max)). A Min above Max is what comes out everywhere.

    The bounds are made numbers of the tensor's type: for integers they lose their fraction. NaN stays, which the
    documents leave open.
    """

    min: Float
    max: Float

    def value(self, x: Expr) -> Expr:
        return maximum(minimum(x, number(self.max, x)), number(self.min, x))


class _TypedBounds(ElementWise):
    """Bounds whose type is said, and is the tensors'."""

    if TYPE_CHECKING:
        min_max_data_type: ValueType
        min: Scalar
        max: Scalar

    def rules(self) -> Iterator[Fault]:
        """The bounds are of the type that is said."""
        yield from super().rules()
        for field, bound in (("Min", self.min), ("Max", self.max)):
            yield from type_faults(bound, DataType(self.min_max_data_type), field)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type too."""
        yield from super().output_rules()
        yield from names_type_of(self, "min_max_data_type", *self.outputs())


class ElementWiseClip1(_TypedBounds, Scaled):
    """Between two bounds of the tensor's type: max(Min, min(x, Max)). A Min above Max is what comes out everywhere.

    NaN stays, which the documents leave open.
    """

    min_max_data_type: ValueType
    min: Scalar
    max: Scalar

    def value(self, x: Expr) -> Expr:
        return maximum(minimum(x, number(self.max, x)), number(self.min, x))


class _ClipGrad(ElementWise):
    """The tensors of the gradients."""

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output

    def _inside(self, x: Expr, gradient: Expr, low: float, high: float) -> Expr:
        kind = self.input_tensor.data_type
        return where((number(low, x, kind) < x) & (x < number(high, x, kind)), gradient, 0)


class ElementWiseClipGrad(_ClipGrad):
    """The gradient of CLIP: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""

    min: Float
    max: Float

    def value(self, x: Expr, gradient: Expr) -> Expr:
        return self._inside(x, gradient, self.min, self.max)


class ElementWiseClipGrad1(_TypedBounds, _ClipGrad):
    """The gradient of CLIP1: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""

    min_max_data_type: ValueType
    min: Scalar
    max: Scalar

    def value(self, x: Expr, gradient: Expr) -> Expr:
        return self._inside(x, gradient, self.min, self.max)


# VALUE_SCALE_2D


_CHANNELS = 1


class ValueScale2D(Unary):
    """Scale·x + Bias of the element's channel, rounded once. There are 1 or 3 channels, in the second dimension."""

    scale: Float
    bias: FloatArray

    @property
    def channel_count(self) -> int:
        """DirectML's ChannelCount."""
        return len(self.bias)

    def rules(self) -> Iterator[Fault]:
        """There is a bias for each channel."""
        yield from super().rules()
        if self.channel_count not in (1, 3):
            yield fault("Bias", "must have 1 or 3 values, one for each channel", self.bias, self.channel_count)
        elif self.input_tensor.dimension_count > _CHANNELS:
            sizes = self.input_tensor.sizes
            if sizes[_CHANNELS] != self.channel_count:
                rule = (
                    f"InputTensor.Sizes[{_CHANNELS}] must be {self.channel_count}, as many channels as Bias has values"
                )
                yield Fault(field="InputTensor.Sizes", rule=rule, value=sizes, found=str(sizes))

    def value(self, x: Expr) -> Expr:
        biases = [given(bias, DataType.FLOAT32) for bias in self.bias]
        bias = biases.pop()
        while biases:
            bias = where(coordinate(_CHANNELS).equals(len(biases) - 1), biases.pop(), bias)
        return fma(x, given(self.scale, DataType.FLOAT32), bias)
