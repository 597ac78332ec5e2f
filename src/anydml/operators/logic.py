"""Truths and bits: comparisons, logic, tests of floats, the choice by a condition; logic, shifts and counts of bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType, IsInfinityMode
from anydml.ir.expressions import absolute, const, where
from anydml.ir.numerics import bit_count, shift_left, shift_right
from anydml.operators.elementwise import Binary, ElementWise, Unary, type_of
from anydml.operators.schema.fields import Infinity, Input, Output

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr


class ElementWiseLogicalEquals(Binary):
    """Whether two are equal: a = b, as 1 or 0."""

    onnx = "Equal"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a.equals(b)


class ElementWiseLogicalGreaterThan(Binary):
    """Whether the first is larger: a > b, as 1 or 0."""

    onnx = "Greater"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a > b


class ElementWiseLogicalGreaterThanOrEqual(Binary):
    """Whether the first is larger or equal: a ≥ b, as 1 or 0."""

    onnx = "GreaterOrEqual"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a >= b


class ElementWiseLogicalLessThan(Binary):
    """Whether the first is smaller: a < b, as 1 or 0."""

    onnx = "Less"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a < b


class ElementWiseLogicalLessThanOrEqual(Binary):
    """Whether the first is smaller or equal: a ≤ b, as 1 or 0."""

    onnx = "LessOrEqual"

    def value(self, a: Expr, b: Expr) -> Expr:
        return a <= b


class ElementWiseLogicalNot(Unary):
    """Whether a number is 0, as 1 or 0."""

    onnx = "Not"

    def value(self, x: Expr) -> Expr:
        return x.equals(0)


class ElementWiseLogicalAnd(Binary):
    """Whether neither of two is 0, as 1 or 0."""

    onnx = "And"

    def value(self, a: Expr, b: Expr) -> Expr:
        return _truth(a) & _truth(b)


class ElementWiseLogicalOr(Binary):
    """Whether one of two is not 0, as 1 or 0."""

    onnx = "Or"

    def value(self, a: Expr, b: Expr) -> Expr:
        return _truth(a) | _truth(b)


class ElementWiseLogicalXor(Binary):
    """Whether exactly one of two is 0, as 1 or 0."""

    onnx = "Xor"

    def value(self, a: Expr, b: Expr) -> Expr:
        return _truth(a) ^ _truth(b)


class ElementWiseIsNaN(Unary):
    """Whether a number is a NaN, as 1 or 0."""

    def value(self, x: Expr) -> Expr:
        return x.is_nan


class ElementWiseIsInfinity(Unary):
    """Whether a number is an infinity, either of the two or one of them, as 1 or 0."""

    infinity_mode: Infinity = IsInfinityMode.EITHER

    def value(self, x: Expr) -> Expr:
        number = absolute(x) if self.infinity_mode is IsInfinityMode.EITHER else x
        return number.equals(float("-inf" if self.infinity_mode is IsInfinityMode.NEGATIVE else "inf"))


class ElementWiseIf(ElementWise):
    """One of two, by a condition: a where it is not 0, b where it is. Bits are moved."""

    onnx = "Where"
    keeps_type = True

    condition_tensor: Input
    a_tensor: Input
    b_tensor: Input
    output_tensor: Output

    def value(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        if a.type is not DataType.FLOAT16:
            return where(_truth(condition), a, b)
        return where(_truth(condition), a.bits(DataType.UINT16), b.bits(DataType.UINT16)).bits(DataType.FLOAT16)


def _truth(x: Expr) -> Expr:
    return ~x.equals(const(0, x.type))


# Bits: floats are the bits that they are made of


class ElementWiseBitNot(Unary):
    """Every bit the other way round: ~x."""

    onnx = "BitwiseNot"
    keeps_type = True

    def value(self, x: Expr) -> Expr:
        return (~_bits(x)).bits(type_of(x))


class ElementWiseBitAnd(Binary):
    """The bits that are 1 in both: a & b."""

    onnx = "BitwiseAnd"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        return (_bits(a) & _bits(b)).bits(type_of(a))


class ElementWiseBitOr(Binary):
    """The bits that are 1 in one or both: a | b."""

    onnx = "BitwiseOr"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        return (_bits(a) | _bits(b)).bits(type_of(a))


class ElementWiseBitXor(Binary):
    """The bits that differ: a ^ b."""

    onnx = "BitwiseXor"
    keeps_type = True

    def value(self, a: Expr, b: Expr) -> Expr:
        return (_bits(a) ^ _bits(b)).bits(type_of(a))


class ElementWiseBitShiftLeft(Binary):
    """The bits b places higher: a << b. It is 0 for a b of the width or more, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return shift_left(a, b)


class ElementWiseBitShiftRight(Binary):
    """The bits b places lower: a >> b. It is 0 for a b of the width or more, which the documents leave open."""

    def value(self, a: Expr, b: Expr) -> Expr:
        return shift_right(a, b)


class ElementWiseBitCount(Unary):
    """The number of bits that are 1."""

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        return bit_count(_bits(x))


def _bits(x: Expr) -> Expr:
    return x.bits(DataType[f"UINT{8 * type_of(x).size_in_bytes}"]) if type_of(x).is_float else x
