"""Maps: an operator for each element, in the type in which PyTorch computes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F16, F32 = DataType.FLOAT16, DataType.FLOAT32


def _unary(function: Callable[..., Any]) -> Lowering:
    """A function of one tensor, in the type of the result: integers become floats where it is one."""
    return lambda context, x, **_: function(cast(x, context.data_type()))


def _of_floats(function: Callable[..., Any]) -> Lowering:
    """The same of floats alone: integers are what they are already."""

    def lower(context: Context, x: Expression, **_: Any) -> Any:
        return function(x) if context.data_type().is_float else x

    return lower


def _test(function: Callable[..., Any], *, of_integers: int | None = None) -> Lowering:
    """A question about each element, which has one answer for all integers."""

    def lower(context: Context, x: Expression) -> Any:
        if of_integers is not None and not x.data_type.is_float:
            return context.full(of_integers, DataType.UINT8, x.sizes)
        return function(x)

    return lower


def in_precision(context: Context, *operands: Any) -> DataType:
    """The type for arithmetic with numbers: FLOAT32 for FLOAT16, whose numbers PyTorch does not round first."""
    found = context.data_type()
    return F32 if found is F16 and any(not isinstance(one, dml.Expression) for one in operands) else found


def _arithmetic(function: Callable[..., Any], of_booleans: Callable[..., Any] | None = None) -> Lowering:
    """Arithmetic of two operands, the second times alpha."""

    def lower(context: Context, a: Any, b: Any, *, alpha: float = 1) -> Any:
        if context.is_boolean(0) and context.is_boolean(1):
            if of_booleans is None or alpha != 1:
                raise context.refuse("arithmetic of booleans")
            return of_booleans(cast(a, DataType.UINT8), cast(b, DataType.UINT8))
        kind = in_precision(context, a, b, *(() if alpha == 1 else (alpha,)))
        a, b = cast(a, kind), cast(b, kind)
        if alpha != 1:
            b = b * cast(alpha, kind)
        return cast(function(a, b), context.data_type())

    return lower


def _reversed_subtract(context: Context, a: Any, b: Any, alpha: float = 1) -> Any:
    kind = in_precision(context, a, b)
    a, b = cast(a, kind), cast(b, kind)
    return cast(dml.subtract(b, a if alpha == 1 else dml.multiply(a, cast(alpha, kind))), context.data_type())


def _comparison(function: Callable[..., Any]) -> Lowering:
    """A comparison in the type that both operands have in common; of FLOAT16 with numbers that are not rounded."""

    def lower(context: Context, a: Any, b: Any) -> Any:
        kind = context.common(0, 1)
        return function(cast(a, kind), cast(b, kind))

    return lower


def _not_equal(a: Any, b: Any) -> Any:
    return dml.logical_not(dml.logical_equals(a, b))


def truth(x: Expression) -> Any:
    """Whether elements are not 0; NaN is not."""
    return _not_equal(x, 0)


def to_type(context: Context, x: Expression, *, k: int | None = None) -> Any:
    """The result's type: of a boolean it is a question, and a float beyond an integer type's range is PyTorch's."""
    if str(context.dtype(k)) == "torch.bool":
        return x if context.is_boolean(0) else truth(x)
    wanted = context.data_type(k)
    if x.data_type.is_float and wanted in (DataType.UINT8, DataType.INT8, DataType.INT16):
        x = cast(x, DataType.INT32)  # which wraps into fewer bits, as C's conversions do
    return cast(x, wanted)


def _logical(function: Callable[..., Any]) -> Lowering:
    """Logic of truths."""

    def lower(context: Context, *operands: Any) -> Any:
        several = enumerate(operands)
        return function(*(one if context.is_boolean(k) else truth(one) for k, one in several))

    return lower


def _bits(function: Callable[..., Any]) -> Lowering:
    """Bits of integers, or of truths, whose bytes are 0 and 1."""

    def lower(context: Context, a: Any, b: Any) -> Any:
        kind = context.data_type()
        unsigned = DataType[f"U{kind.name.removeprefix('U')}"]
        a, b = (_as_type(cast(one, kind), kind, unsigned) for one in (a, b))
        return _as_type(function(a, b), unsigned, kind)

    return lower


def _as_type(x: Any, kind: DataType, wanted: DataType) -> Any:
    """The same bits in the type without, or with, a sign."""
    if kind is wanted:
        return x
    if not isinstance(x, dml.Expression):
        return int(x) % (1 << kind.size_in_bytes * 8)
    return dml.cast(x, wanted)


def _bit_not(context: Context, x: Expression) -> Any:
    if context.is_boolean():
        return dml.logical_not(x)
    kind = x.data_type
    return dml.subtract(-1, x) if kind.is_signed else dml.bit_not(x)


def _power(context: Context, a: Any, b: Any) -> Any:
    kind = context.data_type()
    if not kind.is_float:
        if isinstance(b, int) and 0 <= b <= 8 and isinstance(a, dml.Expression) and b:
            return _product([cast(a, kind)] * b)
        raise context.refuse("a power of integers")
    if isinstance(b, (int, float)) and b == 2:
        x = cast(a, in_precision(context, b))
        return cast(dml.multiply(x, x), kind)
    work = in_precision(context, a, b)
    if not isinstance(b, dml.Expression):
        return cast(dml.constant_pow(cast(a, work), float(b)), kind)
    return cast(dml.pow(_spread(context, a, work), _spread(context, b, work)), kind)


def _product(several: list[Any]) -> Any:
    return several[0] if len(several) == 1 else dml.multiply(_product(several[:-1]), several[-1])


def _spread(context: Context, x: Any, kind: DataType) -> Any:
    """An operand of all of the result's sizes, where it is a number."""
    return cast(x, kind) if isinstance(x, dml.Expression) else context.full(float(x), kind, context.sizes())


def _quotient(context: Context, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    kind = context.data_type()
    if rounding_mode is None:
        work = in_precision(context, a, b)
        return cast(dml.divide(cast(a, work), cast(b, work)), kind)
    if kind.is_float:
        if rounding_mode != "trunc":
            raise context.refuse("a quotient of floats rounded down")
        work = in_precision(context, a, b)
        return cast(dml.trunc(dml.divide(cast(a, work), cast(b, work))), kind)
    if isinstance(b, dml.Expression) or not b:
        raise context.refuse("a quotient of integers, which PyTorch checks for a divisor of 0")
    a = cast(a, kind)
    if rounding_mode == "floor":
        a = dml.subtract(a, dml.modulus_floor(a, int(b)))
    return dml.divide(a, int(b))


def _floor_divide(context: Context, a: Any, b: Any) -> Any:
    return _quotient(context, a, b, rounding_mode="floor")


def _remainder(function: Callable[..., Any]) -> Lowering:
    def lower(context: Context, a: Any, b: Any) -> Any:
        kind = context.data_type()
        if not kind.is_float and (isinstance(b, dml.Expression) or not b):
            raise context.refuse("a remainder of integers, which PyTorch checks for a divisor of 0")
        work = in_precision(context, a, b)
        return cast(function(cast(a, work), cast(b, work)), kind)

    return lower


def _clamp(context: Context, x: Expression, low: Any = None, high: Any = None) -> Any:
    kind = context.data_type()
    x = cast(x, kind)
    numbers = all(isinstance(one, (int, float)) for one in (low, high))
    if kind.is_float and numbers and low <= high:
        return dml.clip1(x, cast(low, kind), cast(high, kind))
    for function, bound in ((dml.max, low), (dml.min, high)):
        if bound is not None:
            x = function(x, cast(bound, kind) if isinstance(bound, dml.Expression) else context.constant(bound, kind))
    return x


def _hardtanh(context: Context, x: Expression, low: float = -1.0, high: float = 1.0) -> Any:
    return _clamp(context, x, low, high)


def gelu(context: Context, x: Expression, *, approximate: str = "none") -> Any:
    """GELU by erf, or with tanh: x·sigmoid(2t) for t = √(2/π)·(x + 0.044715·x³)."""
    if approximate == "none":
        return dml.gelu(x)
    x = cast(x, F32)
    scale = 2 * math.sqrt(2 / math.pi)
    factor = dml.identity(dml.multiply(x, x), (0.044715 * scale, scale))
    return cast(dml.multiply(x, dml.sigmoid(dml.multiply(x, factor))), context.data_type())


def _silu(_: Context, x: Expression) -> Any:
    return dml.multiply(x, dml.sigmoid(x))


def _elu(context: Context, x: Expression, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale != 1 or scale != 1:
        raise context.refuse("ELU with scales")
    return dml.elu(x, alpha)


def _leaky_relu(_: Context, x: Expression, slope: float = 0.01) -> Any:
    return dml.if_(dml.logical_less_than(x, 0), dml.multiply(x, slope), x)


def _choice(context: Context, test: Any, a: Any, b: Any) -> Any:
    kind = context.data_type()
    return dml.if_(test, cast(a, kind), cast(b, kind))


def _masked_fill(context: Context, x: Expression, mask: Expression, number: Any) -> Any:
    kind = context.data_type()
    return dml.if_(mask, cast(number, kind), cast(x, kind))


def _log1p(context: Context, x: Expression) -> Any:
    """log(1 + x), right to the last digits near 0: x·log(u)/(u - 1) for u = 1 + x rounded."""
    x = cast(x, F32)
    u = dml.add(x, 1.0)
    less = dml.subtract(u, 1.0)
    found = dml.divide(dml.multiply(x, dml.log(u)), less)
    is_plain = dml.logical_or(dml.logical_equals(less, 0.0), dml.is_infinity(u))
    return cast(dml.if_(is_plain, dml.if_(dml.is_infinity(u), dml.log(u), x), found), context.data_type())


def _sign(context: Context, x: Expression) -> Any:
    return x if context.is_boolean() else dml.sign(x)


def _relu(context: Context, x: Expression) -> Any:
    return dml.relu(x) if x.data_type.is_float else dml.max(x, context.constant(0, x.data_type))


def _rsqrt(context: Context, x: Expression) -> Any:
    x = cast(x, F32) if context.data_type() is F16 else cast(x, context.data_type())
    return cast(dml.recip(dml.sqrt(x)), context.data_type())


def _as_is(context: Context, x: Expression, *_: Any, **__: Any) -> Any:
    return to_type(context, x)


def _fill_number(context: Context, _: Any, number: Any, **__: Any) -> Any:
    return _filled(context, number)


def _fill_sizes(context: Context, _: Any, number: Any = 0, **__: Any) -> Any:
    return _filled(context, number)


def _filled(context: Context, number: Any) -> Any:
    kind = context.data_type()
    if str(context.dtype()) == "torch.bool" and not isinstance(number, dml.Expression):
        number = bool(number)
    if isinstance(number, dml.Expression):
        return dml.broadcast_to(cast(number, kind), context.sizes())
    if not kind.is_float and isinstance(number, float):
        number = int(number)
    return context.full(number, kind, context.sizes())


def _filled_with(number: float) -> Lowering:
    return lambda context, *_, **__: _filled(context, number)


def _one_number(context: Context, number: Any, **_: Any) -> Any:
    return _filled(context, number)


def _arange(context: Context, start: Any, _: Any, step: Any = 1, **__: Any) -> Any:
    return dml.fill_value_sequence(context.sizes(), start, step, context.data_type(), graph=context.graph)


_MATH = {
    "exp": dml.exp, "log": dml.log, "sqrt": dml.sqrt, "sin": dml.sin, "cos": dml.cos, "tan": dml.tan,
    "asin": dml.asin, "acos": dml.acos, "atan": dml.atan, "sinh": dml.sinh, "cosh": dml.cosh, "asinh": dml.asinh,
    "acosh": dml.acosh, "atanh": dml.atanh, "tanh": dml.tanh, "sigmoid": dml.sigmoid, "erf": dml.erf,
    "reciprocal": dml.recip,
}  # fmt: skip
_COMPARED = {
    "eq": dml.logical_equals, "ne": _not_equal, "lt": dml.logical_less_than, "gt": dml.logical_greater_than,
    "le": dml.logical_less_than_or_equal, "ge": dml.logical_greater_than_or_equal,
}  # fmt: skip
_BITS = {"and": dml.bit_and, "or": dml.bit_or, "xor": dml.bit_xor}

LOWERINGS: dict[str, Lowering] = {
    **{f"{name}.default": _unary(function) for name, function in _MATH.items()},
    **{
        f"{name}.default": _of_floats(function)
        for name, function in {"floor": dml.floor, "ceil": dml.ceil, "round": dml.round, "trunc": dml.trunc}.items()
    },
    **{
        f"{name}.{kind}": _comparison(function) for name, function in _COMPARED.items() for kind in ("Tensor", "Scalar")
    },
    **{f"bitwise_{name}.{kind}": _bits(function) for name, function in _BITS.items() for kind in ("Tensor", "Scalar")},
    **{f"logical_{name}.default": _logical(getattr(dml, f"logical_{name}")) for name in ("and", "or", "xor", "not")},
    **{f"add.{kind}": _arithmetic(dml.add, dml.logical_or) for kind in ("Tensor", "Scalar")},
    **{f"sub.{kind}": _arithmetic(dml.subtract) for kind in ("Tensor", "Scalar")},
    **{f"rsub.{kind}": _reversed_subtract for kind in ("Tensor", "Scalar")},
    **{f"mul.{kind}": _arithmetic(dml.multiply, dml.logical_and) for kind in ("Tensor", "Scalar")},
    **{f"div.{kind}": _quotient for kind in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")},
    **{f"remainder.{kind}": _remainder(dml.modulus_floor) for kind in ("Tensor", "Scalar")},
    **{f"fmod.{kind}": _remainder(dml.modulus_truncate) for kind in ("Tensor", "Scalar")},
    **{f"pow.{kind}": _power for kind in ("Tensor_Scalar", "Tensor_Tensor", "Scalar")},
    **{f"clamp.{kind}": _clamp for kind in ("default", "Tensor")},
    **{f"masked_fill.{kind}": _masked_fill for kind in ("Scalar", "Tensor")},
    "abs.default": lambda _, x: dml.abs(x),
    "arange.start_step": _arange,
    "atan2.default": _arithmetic(dml.atan_yx),
    "bitwise_not.default": _bit_not,
    "clamp_max.default": lambda context, x, high: _clamp(context, x, None, high),
    "clamp_min.default": lambda context, x, low: _clamp(context, x, low),
    "clone.default": _as_is,
    "copy.default": lambda context, _, x, *__: dml.broadcast_to(to_type_of(context, x), context.sizes()),
    "elu.default": _elu,
    "empty.memory_format": _filled_with(0),
    "fill.Scalar": _fill_number,
    "fill.Tensor": _fill_number,
    "floor_divide.default": _floor_divide,
    "full.default": _fill_sizes,
    "full_like.default": _fill_number,
    "gelu.default": gelu,
    "hardtanh.default": _hardtanh,
    "isinf.default": _test(dml.is_infinity, of_integers=0),
    "isnan.default": _test(dml.is_nan, of_integers=0),
    "leaky_relu.default": _leaky_relu,
    "log1p.default": _log1p,
    "maximum.default": _arithmetic(dml.max, dml.logical_or),
    "minimum.default": _arithmetic(dml.min, dml.logical_and),
    "neg.default": lambda _, x: dml.negate(x),
    "ones.default": _filled_with(1),
    "ones_like.default": _filled_with(1),
    "relu.default": _relu,
    "rsqrt.default": _rsqrt,
    "scalar_tensor.default": _one_number,
    "sign.default": _sign,
    "silu.default": _silu,
    "where.self": _choice,
    "zeros.default": _filled_with(0),
    "zeros_like.default": _filled_with(0),
    "_to_copy.default": _as_is,
}


def to_type_of(context: Context, x: Expression) -> Any:
    """A source in the type of the result that takes its elements."""
    if str(context.dtype()) == "torch.bool" and not context.is_boolean(1):
        return truth(x)
    return cast(x, context.data_type())
