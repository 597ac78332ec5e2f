"""Python's operators on the expressions of a graph, as DirectMLX has them: see `Arithmetic`.

A number with a float tensor is ELEMENT_WISE_IDENTITY with a ScaleBias wherever that is exact. It is a constant beside
integers, which a ScaleBias computes in floats, and for quotients, whose reciprocals are rounded: the results are those
of the functions, bit for bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard

from anydml.api.broadcasting import is_number, read_as
from anydml.api.derived import function_of
from anydml.api.expression import Expression, operations
from anydml.core.enums import DataType
from anydml.core.operator_type import OperatorType
from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.operators import OperatorDesc


def _class(name: str) -> type[OperatorDesc]:
    return OPERATORS[OperatorType[f"ELEMENT_WISE_{name}"]]


def _element_wise(name: str, *operands: Any) -> Expression:
    made: Expression = function_of(_class(name))(*operands)
    return made


def _is_float(x: object) -> TypeGuard[Expression]:
    """Whether a ScaleBias, which is of FLOAT32, is exact with it."""
    return isinstance(x, Expression) and x.data_type in (DataType.FLOAT32, DataType.FLOAT16)


def _scaled(x: Expression, scale: float, bias: float = -0.0) -> Expression:
    """x·scale + bias: a bias of -0.0 leaves every product as it is, -0.0 too."""
    return _element_wise("IDENTITY", x, (scale, bias))


def _as(number: object, x: Expression, name: str, field: str, like: str) -> float:
    """A number as the tensor's type has it."""
    return float(read_as(number, x.data_type, _class(name), field, like, in_graph=True))


def _add(a: Any, b: Any) -> Expression:
    # A ScaleBias of 1 and 0 is a copy, and -0.0 + 0 is 0: so it is with what the type rounds to 0.
    if _is_float(a) and is_number(b) and (number := _as(b, a, "ADD", "BTensor", "ATensor")):
        return _scaled(a, 1.0, number)
    if is_number(a) and _is_float(b) and (number := _as(a, b, "ADD", "ATensor", "BTensor")):
        return _scaled(b, 1.0, number)
    return _element_wise("ADD", a, b)


def _subtract(a: Any, b: Any) -> Expression:
    if _is_float(a) and is_number(b) and (number := _as(b, a, "SUBTRACT", "BTensor", "ATensor")):
        return _scaled(a, 1.0, -number)
    if is_number(a) and _is_float(b):
        return _scaled(b, -1.0, _as(a, b, "SUBTRACT", "ATensor", "BTensor"))
    return _element_wise("SUBTRACT", a, b)


def _multiply(a: Any, b: Any) -> Expression:
    if _is_float(a) and is_number(b):
        return _scaled(a, _as(b, a, "MULTIPLY", "BTensor", "ATensor"))
    if is_number(a) and _is_float(b):
        return _scaled(b, _as(a, b, "MULTIPLY", "ATensor", "BTensor"))
    return _element_wise("MULTIPLY", a, b)


def _divide(a: Any, b: Any) -> Expression:
    if _is_float(a) and is_number(b):
        number = _as(b, a, "DIVIDE", "BTensor", "ATensor")
        if math.frexp(number)[0] in (0.5, -0.5) and 2.0**-126 <= abs(number) <= 2.0**126:  # its reciprocal is a FLOAT
            return _scaled(a, 1 / number)
    if is_number(a) and _is_float(b) and a == 1:
        return _element_wise("RECIP", b)
    return _element_wise("DIVIDE", a, b)


def _power(a: Any, b: Any) -> Expression:
    if _is_float(a) and is_number(b):
        return _element_wise("CONSTANT_POW", a, _as(b, a, "POW", "ExponentTensor", "InputTensor"))
    return _element_wise("POW", a, b)


def _product(a: Any, b: Any) -> Expression:
    made: Expression = function_of(OPERATORS[OperatorType.GEMM])(a, b)
    return made


def _negate(a: Expression) -> Expression:
    """NEGATE, which has been there from 5_0 on; before, of floats, a scale."""
    if a.graph.device.feature_level < _class("NEGATE").introduced() and a.data_type.is_float:
        return _scaled(a, -1.0)
    return _element_wise("NEGATE", a)


def _absolute(a: Expression) -> Expression:
    """ABS, which takes no unsigned types: a copy of those."""
    is_unsigned = not (a.data_type.is_float or a.data_type.is_signed)
    return _element_wise("IDENTITY" if is_unsigned else "ABS", a)


def _plain(name: str) -> Callable[..., Expression]:
    return lambda *operands: _element_wise(name, *operands)


operations.update(
    add=_add,
    sub=_subtract,
    mul=_multiply,
    matmul=_product,
    truediv=_divide,
    pow=_power,
    neg=_negate,
    abs=_absolute,
    mod=_plain("MODULUS_TRUNCATE"),
    and_=_plain("BIT_AND"),
    or_=_plain("BIT_OR"),
    xor=_plain("BIT_XOR"),
    invert=_plain("BIT_NOT"),
    lshift=_plain("BIT_SHIFT_LEFT"),
    rshift=_plain("BIT_SHIFT_RIGHT"),
    lt=_plain("LOGICAL_LESS_THAN"),
    le=_plain("LOGICAL_LESS_THAN_OR_EQUAL"),
    gt=_plain("LOGICAL_GREATER_THAN"),
    ge=_plain("LOGICAL_GREATER_THAN_OR_EQUAL"),
    eq=_plain("LOGICAL_EQUALS"),
)
