"""The exponential, logarithmic, trigonometric and hyperbolic functions, and powers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import Fault
from anydml.ir.expressions import absolute, call, floor, given, where
from anydml.ir.numerics import integer_power
from anydml.operators.elementwise import Binary, ElementWise, Function, Scaled, is_float, type_of
from anydml.operators.fields import Float, Input, OptionalScaleBias, Output  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr


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
        """atan2(a, b)."""
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
        """x^y."""
        if is_float(x):
            return call("pow", x, y.to(DataType.FLOAT32))
        if not is_float(y):
            return integer_power(x, y)
        is_whole = floor(y).equals(y) & (absolute(y) < _INT32_END)
        power = call("pow", x.to(DataType.FLOAT32), y).to(type_of(x))
        return where(is_whole, integer_power(x, y.to(DataType.INT32)), power)
