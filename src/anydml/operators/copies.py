"""The operators that keep the numbers: copies, scaled on the way, and conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.operators.elementwise import Scaled, Unary

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr


class ElementWiseIdentity(Scaled):
    """Copies every element: Output = Input, or Input·Scale + Bias where ScaleBias is given.

    Of integers the scaled number is what is left without its fraction.
    """

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        """x: a copy, or where there is a scale a number that is rounded once."""
        return x


class ActivationIdentity(Unary):
    """Copies every element."""

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        """x."""
        return x


class Cast(Unary):
    """Converts every element to the output's type.

    The documents leave open what becomes of a number that the type does not have. Here a float loses its fraction and
    takes the nearest end of an integer's range, NaN being 0, as Direct3D converts; integers wrap; and floats are
    rounded to the nearest, ties to even.
    """

    free_types = ("OutputTensor",)
    implies_output = False
    keeps_type = True

    def value(self, x: Expr) -> Expr:
        """x: a copy between equal types."""
        return x
