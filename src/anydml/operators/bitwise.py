"""The operators of bits: logic, shifts and counts. Floats are the bits that they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.ir.numerics import bit_count, shift_left, shift_right
from anydml.operators.elementwise import Binary, Unary, type_of

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr


class ElementWiseBitNot(Unary):
    """Every bit the other way round: ~x."""

    onnx = "BitwiseNot"
    keeps_type = True

    def value(self, x: Expr) -> Expr:
        """~x."""
        return (~_bits(x)).bits(type_of(x))


class ElementWiseBitAnd(Binary):
    """The bits that are 1 in both: a & b."""

    onnx = "BitwiseAnd"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        """A & b."""
        return (_bits(a) & _bits(b)).bits(type_of(a))


class ElementWiseBitOr(Binary):
    """The bits that are 1 in one or both: a | b."""

    onnx = "BitwiseOr"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        """A | b."""
        return (_bits(a) | _bits(b)).bits(type_of(a))


class ElementWiseBitXor(Binary):
    """The bits that differ: a ^ b."""

    onnx = "BitwiseXor"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        """A ^ b."""
        return (_bits(a) ^ _bits(b)).bits(type_of(a))


class ElementWiseBitShiftLeft(Binary):
    """The bits b places higher: a << b. It is 0 for a b of the width or more, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """A << b."""
        return shift_left(a, b)


class ElementWiseBitShiftRight(Binary):
    """The bits b places lower: a >> b. It is 0 for a b of the width or more, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        """A >> b."""
        return shift_right(a, b)


class ElementWiseBitCount(Unary):
    """The number of bits that are 1."""

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        """popcount(x)."""
        return bit_count(_bits(x))


def _bits(x: Expr) -> Expr:
    return x.bits(DataType[f"UINT{8 * type_of(x).size_in_bytes}"]) if type_of(x).is_float else x
