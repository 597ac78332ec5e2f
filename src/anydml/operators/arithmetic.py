"""The arithmetic operators: sums, products, quotients, remainders, roundings, the larger and the smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import RoundingMode
from anydml.ir.expressions import absolute, ceil, floor, maximum, minimum, rint, sqrt, trunc
from anydml.ir.numerics import divide, mean, modulus_floor, modulus_truncate, round_half_away, sign
from anydml.operators.elementwise import Binary, Scaled, Unary
from anydml.operators.fields import Rounding  # noqa: TC001 - read at run time
from anydml.operators.fused import OptionalActivation, activation_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.core.errors import Fault
    from anydml.ir.expressions import Expr

# One input


class ElementWiseAbs(Scaled):
    """The absolute value: |x|. The lowest number of an integer type, which has none, stays."""

    def value(self, x: Expr) -> Expr:
        """|x|."""
        return absolute(x)


class ElementWiseNegate(Unary):
    """The number of the other sign: -x. Integers wrap."""

    onnx = "Neg"

    def value(self, x: Expr) -> Expr:
        """-x."""
        return -x


class ElementWiseSign(Unary):
    """-1, 0 or 1 for a negative number, zero or a positive number. NaN stays, which the documents leave open."""

    def value(self, x: Expr) -> Expr:
        """sign(x)."""
        return sign(x)


class ElementWiseRecip(Scaled):
    """The reciprocal: 1/x."""

    onnx = "Reciprocal"

    def value(self, x: Expr) -> Expr:
        """1/x."""
        return 1 / x


class ElementWiseSqrt(Scaled):
    """The square root: √x. It is NaN for negative numbers."""

    def value(self, x: Expr) -> Expr:
        """√x."""
        return sqrt(x)


class ElementWiseCeil(Scaled):
    """The smallest integer that is not below: ⌈x⌉."""

    def value(self, x: Expr) -> Expr:
        """⌈x⌉."""
        return ceil(x)


class ElementWiseFloor(Scaled):
    """The largest integer that is not above: ⌊x⌋."""

    def value(self, x: Expr) -> Expr:
        """⌊x⌋."""
        return floor(x)


class ElementWiseRound(Unary):
    """Rounds to an integer: halves to even numbers (the default), toward zero, or halves away from zero.

    The last is DML_ROUNDING_MODE_TOWARD_INFINITY, which other fractions follow to the nearest.
    """

    rounding_mode: Rounding = RoundingMode.HALVES_TO_NEAREST_EVEN

    def value(self, x: Expr) -> Expr:
        """The function of the mode."""
        if self.rounding_mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
            return rint(x)
        return trunc(x) if self.rounding_mode is RoundingMode.TOWARD_ZERO else round_half_away(x)


# Two inputs


class ElementWiseAdd(Binary):
    """The sum: a + b. Integers wrap."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """a + b."""
        return a + b


class ElementWiseAdd1(Binary):
    """The sum, and an activation of it: f(a + b)."""

    fused_activation: OptionalActivation = None

    def rules(self) -> Iterator[Fault]:
        """The inputs are alike, and the activation is one that can be fused."""
        yield from super().rules()
        yield from activation_faults(self.fused_activation)

    def value(self, a: Expr, b: Expr) -> Expr:
        """f(a + b)."""
        return a + b if self.fused_activation is None else self.fused_activation.apply(a + b)


class ElementWiseSubtract(Binary):
    """The difference: a - b. Integers wrap."""

    onnx = "Sub"

    def value(self, a: Expr, b: Expr) -> Expr:
        """a - b."""
        return a - b


class ElementWiseMultiply(Binary):
    """The product: a·b. Integers wrap."""

    onnx = "Mul"

    def value(self, a: Expr, b: Expr) -> Expr:
        """a·b."""
        return a * b


class ElementWiseDivide(Binary):
    """The quotient: a/b. Of integers it is cut toward zero, and x/0 is 0, which the documents leave open."""

    onnx = "Div"

    def value(self, a: Expr, b: Expr) -> Expr:
        """a/b."""
        return divide(a, b)


class ElementWiseModulusTruncate(Binary):
    """The remainder of the division that is cut toward zero, with the sign of a: C's fmod.

    Of integers x mod 0 is 0, which the documents leave open.
    """

    def value(self, a: Expr, b: Expr) -> Expr:
        """A - b·trunc(a/b)."""
        return modulus_truncate(a, b)


class ElementWiseModulusFloor(Binary):
    """The remainder of the division that is rounded down, with the sign of b: Python's %.

    Of integers x mod 0 is 0, and of an infinite b the remainder is Python's: the documents leave the first open, and
    their formula has NaN for the second.
    """

    def value(self, a: Expr, b: Expr) -> Expr:
        """A - b·⌊a/b⌋."""
        return modulus_floor(a, b)


class ElementWiseDifferenceSquare(Binary):
    """The square of the difference: (a - b)²."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """(a - b)²."""
        return (a - b) * (a - b)


class ElementWiseMean(Binary):
    """The mean: (a + b)/2. Of integers it is cut toward zero and does not overflow, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """(a + b)/2."""
        return mean(a, b)


class ElementWiseMax(Binary):
    """The larger of two: max(a, b). It is NaN where one of them is, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """max(a, b)."""
        return maximum(a, b)


class ElementWiseMin(Binary):
    """The smaller of two: min(a, b). It is NaN where one of them is, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """min(a, b)."""
        return minimum(a, b)
