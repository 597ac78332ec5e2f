"""Maps: an operator for each element, in the type in which PyTorch computes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import is_open
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.movement import window
from anydml.torch.lower.special import expm1

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
        if context.is_boolean(0) and context.is_boolean(1) and not context.data_type().is_float:
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
    if context.is_boolean(0) and context.is_boolean(1):
        return dml.logical_or(cast(a, kind), dml.logical_not(cast(b, kind)))
    if not kind.is_float:
        if isinstance(b, int) and 0 < b <= 8 and isinstance(a, dml.Expression):
            return _product([cast(a, kind)] * b)
        return _whole_power(context, a, b)
    if isinstance(b, (int, float)) and b == 2:
        x = cast(a, in_precision(context, b))
        return cast(dml.multiply(x, x), kind)
    work = in_precision(context, a, b)
    if not isinstance(b, dml.Expression):
        return cast(dml.constant_pow(cast(a, work), float(b)), kind)
    return cast(dml.pow(_spread(context, a, work), _spread(context, b, work)), kind)


def _whole_power(context: Context, a: Any, b: Any) -> Any:
    """A power of integers, modulo 2ⁿ: by squaring, for the bits of the exponent below n - 2.

    An odd number's powers repeat after 2ⁿ⁻² or fewer, and an even one's are 0 from the n-th on.
    """
    kind = context.data_type()
    bits = kind.size_in_bytes * 8
    a, b = _spread_whole(context, a, kind), _spread_whole(context, b, kind)
    unsigned = DataType[f"U{kind.name.removeprefix('U')}"]
    exponent, square, found = cast(b, unsigned), a, context.full(1, kind, a.sizes)
    for k in range(bits - 2):
        is_set = _not_equal(dml.bit_and(exponent, context.constant(1 << k, unsigned)), 0)
        found = dml.if_(is_set, dml.multiply(found, square), found)
        square = dml.multiply(square, square)
    is_odd = _not_equal(dml.modulus_floor(a, 2), 0)
    is_past = dml.logical_greater_than_or_equal(b, bits)
    found = dml.if_(dml.logical_and(is_past, dml.logical_not(is_odd)), 0, found)
    if not kind.is_signed:
        return found
    alternating = dml.if_(_not_equal(dml.bit_and(exponent, context.constant(1, unsigned)), 0), cast(-1, kind), 1)
    of_ones = dml.if_(dml.logical_equals(a, 1), cast(1, kind), dml.if_(dml.logical_equals(a, -1), alternating, 0))
    return dml.if_(dml.logical_less_than(b, 0), of_ones, found)


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
            return _floor_of_quotient(context, a, b)
        work = in_precision(context, a, b)
        return cast(dml.trunc(dml.divide(cast(a, work), cast(b, work))), kind)
    b = divisor(context, b, kind)
    a = _spread_whole(context, a, kind)
    if rounding_mode == "floor":
        a = dml.subtract(a, dml.modulus_floor(a, b))
    return dml.divide(a, b)


def divisor(context: Context, b: Any, kind: DataType) -> Any:
    """A divisor of integers, of which 0 is an error as the graph runs: the second element of one."""
    if not isinstance(b, dml.Expression):
        if not int(b):
            raise context.refuse("a divisor of 0")
        return int(b)
    b = cast(b, kind)
    at = dml.cast(dml.logical_equals(b, 0), DataType.INT64)
    one = context.graph.constant(np.ones(1, kind.dtype))
    return dml.multiply(b, dml.reshape(dml.gather(one, at, 0), b.sizes))


def _spread_whole(context: Context, x: Any, kind: DataType) -> Any:
    """An integer operand, of all of the result's sizes where it is a number."""
    return cast(x, kind) if isinstance(x, dml.Expression) else context.full(int(x), kind, context.sizes())


def _floor_of_quotient(context: Context, a: Any, b: Any) -> Any:
    """A quotient of floats rounded down: a less the exact remainder, divided, which is whole up to its rounding."""
    kind = context.data_type()
    a, b = _spread(context, a, F32), _spread(context, b, F32)
    rest = dml.modulus_truncate(a, b)
    whole = dml.divide(dml.subtract(a, rest), b)
    opposed = dml.logical_xor(dml.logical_less_than(b, 0.0), dml.logical_less_than(rest, 0.0))
    less = dml.logical_and(_not_equal(rest, 0.0), opposed)
    whole = dml.if_(less, dml.subtract(whole, 1.0), whole)
    down = dml.floor(whole)
    down = dml.if_(dml.logical_greater_than(dml.subtract(whole, down), 0.5), dml.add(down, 1.0), down)
    plain = dml.divide(a, b)
    found = dml.if_(_not_equal(whole, 0.0), down, dml.multiply(plain, 0.0))
    return cast(dml.if_(dml.logical_equals(b, 0.0), plain, found), kind)


def _floor_divide(context: Context, a: Any, b: Any) -> Any:
    return _quotient(context, a, b, rounding_mode="floor")


def _remainder(function: Callable[..., Any]) -> Lowering:
    def lower(context: Context, a: Any, b: Any) -> Any:
        kind = context.data_type()
        if not kind.is_float:
            return function(_spread_whole(context, a, kind), divisor(context, b, kind))
        work = in_precision(context, a, b)
        return cast(function(cast(a, work), cast(b, work)), kind)

    return lower


def _greatest_divisor(context: Context, a: Any, b: Any) -> Any:
    """The greatest common divisor by Euclid's steps, of which the nearest multiple halves a remainder at least.

    Two remainders fall by 1 + √2 a step, so that 1.273 bits are gone: 50 steps for 63 bits, 25 for 31.
    """
    kind = context.data_type()
    unsigned = DataType[f"U{kind.name.removeprefix('U')}"]
    a, b = (_spread_whole(context, one, kind) for one in (a, b))
    a, b = (cast(dml.abs(one), unsigned) if kind.is_signed else one for one in (a, b))
    bits = kind.size_in_bytes * 8
    for _ in range(math.ceil(bits / math.log2(1 + math.sqrt(2))) + 1):
        is_left = _not_equal(b, 0)
        rest = dml.modulus_truncate(a, dml.if_(is_left, b, cast(1, unsigned)))
        nearer = dml.min(rest, dml.subtract(b, rest))
        a, b = dml.if_(is_left, b, a), dml.if_(is_left, nearer, b)
    return cast(a, kind)


def _least_multiple(context: Context, a: Any, b: Any) -> Any:
    """|a / gcd·b|, which wraps, as C has it in 32 bits or more; 0 where both are."""
    kind = context.data_type()
    work = kind if kind.size_in_bytes >= 4 else DataType.INT32
    found = cast(_greatest_divisor(context, a, b), work)
    a, b = (cast(_spread_whole(context, one, kind), work) for one in (a, b))
    found = dml.multiply(dml.divide(a, dml.max(found, context.constant(1, work))), b)
    return cast(dml.abs(found), kind)


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


_SIXTH = 1 / 6
"""The slope of hardsigmoid and hardswish, one step each: a division by 6 joined the mean behind it, and a MobileNet's
pictures lay plane by plane for that: 16.1 ms an image on a thread of a Xeon, and 10.6 so."""


def _silu(_: Context, x: Expression) -> Any:
    return dml.multiply(x, dml.sigmoid(x))


def _elu(context: Context, x: Expression, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale == 1 and scale == 1:
        return dml.elu(x, alpha)
    x = cast(x, F32)
    low = dml.multiply(expm1(dml.multiply(x, input_scale)), alpha * scale)
    return cast(dml.if_(dml.logical_greater_than(x, 0.0), dml.multiply(x, scale), low), context.data_type())


def _leaky_relu(_: Context, x: Expression, slope: float = 0.01) -> Any:
    return dml.if_(dml.logical_less_than(x, 0), dml.multiply(x, slope), x)


def _multiply_add(context: Context, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, of which optimisers are made."""
    kind = in_precision(context, a, b, c)
    return cast(dml.add(dml.multiply(cast(a, kind), cast(b, kind)), cast(c, kind)), context.data_type())


def _added(function: Callable[..., Any]) -> Lowering:
    """a + value·b·c, or a + value·b/c; of FLOAT16 rounded once, where PyTorch's decompositions round each operation."""

    def lower(context: Context, a: Expression, b: Expression, c: Expression, *, value: float = 1) -> Any:
        kind = context.data_type()
        work = F32 if kind is F16 else kind
        a, b, c = (cast(one, work) for one in (a, b, c))
        if value != 1:
            b = dml.multiply(b, cast(value, work))
        return cast(dml.add(a, function(b, c)), kind)

    return lower


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
    if context.is_boolean() or not x.data_type.is_float:
        return x if context.is_boolean() else dml.sign(x)
    of_less = dml.if_(dml.logical_less_than(x, 0), cast(-1, x.data_type), 0)
    return dml.if_(dml.logical_greater_than(x, 0), cast(1, x.data_type), of_less)  # 0 of NaN, as PyTorch has it


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
    if context.dtype() is torch.bfloat16 and not isinstance(number, dml.Expression):
        number = torch.tensor(number, dtype=torch.bfloat16).item()
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
    if is_open(start) and step == 1:  # a number would tie the plan to this very size: the end of a longer one
        (count,) = context.sizes()
        whole = dml.fill_value_sequence((start + count,), 0, 1, context.data_type(), graph=context.graph)
        return window(whole, 0, start, count)
    return dml.fill_value_sequence(context.sizes(), start, step, context.data_type(), graph=context.graph)


def _spaced(function: Callable[..., Any]) -> Lowering:
    """Numbers between two that are known: PyTorch's own, to the last bit."""

    def lower(context: Context, start: Any, end: Any, steps: int, *base: Any, **_: Any) -> Any:
        if not isinstance(steps, int):
            raise context.refuse("a symbolic count of steps")
        found = function(start, end, steps, *base, dtype=context.dtype(), device="cpu")
        return context.graph.constant(found.numpy())

    return lower


def _triangle(context: Context, *args: Any, **_: Any) -> Any:
    """The places of a triangle, which are PyTorch's own."""
    return context.graph.constant(context.node.target(*args, dtype=context.dtype(), device="cpu").numpy())


def _shift(context: Context, a: Any, b: Any, *, left: bool) -> Any:
    """Shifts of integers: by as many bits as there are, or by less than none, all are shifted out."""
    kind = context.data_type()
    unsigned = DataType[f"U{kind.name.removeprefix('U')}"]
    a, b = _spread_whole(context, a, kind), _spread_whole(context, b, kind)
    bits = kind.size_in_bytes * 8
    inside = dml.logical_and(dml.logical_greater_than_or_equal(b, 0), dml.logical_less_than(b, bits))
    by, plain = cast(dml.if_(inside, b, 0), unsigned), cast(a, unsigned)
    if left:
        return dml.if_(inside, cast(dml.bit_shift_left(plain, by), kind), 0)
    found = cast(dml.bit_shift_right(plain, by), kind)
    if not kind.is_signed:
        return dml.if_(inside, found, 0)
    is_less = dml.logical_less_than(a, 0)
    of_less = dml.subtract(-1, cast(dml.bit_shift_right(cast(dml.subtract(-1, a), unsigned), by), kind))
    return dml.if_(inside, dml.if_(is_less, of_less, found), dml.if_(is_less, cast(-1, kind), 0))


def _left_shift(context: Context, a: Any, b: Any) -> Any:
    return _shift(context, a, b, left=True)


def _right_shift(context: Context, a: Any, b: Any) -> Any:
    return _shift(context, a, b, left=False)


def _of_numbers(function: Callable[..., Any]) -> Lowering:
    """The greater or the lesser, of which one that is no number is left out."""

    def lower(context: Context, a: Any, b: Any) -> Any:
        kind = context.data_type()
        a, b = cast(a, kind), cast(b, kind)
        if context.is_boolean(0) and context.is_boolean(1):
            return (dml.logical_or if function is dml.max else dml.logical_and)(a, b)
        found = function(a, b)
        return dml.if_(dml.is_nan(a), b, dml.if_(dml.is_nan(b), a, found)) if kind.is_float else found

    return lower


def is_signed(x: Any) -> Any:
    """Whether the sign's bit is set: of 0 the sign of its reciprocal. NaN is taken for one without."""
    if not x.data_type.is_float:
        return dml.logical_less_than(x, 0)
    x = cast(x, F32)
    return dml.logical_less_than(dml.if_(dml.logical_equals(x, 0.0), dml.recip(x), x), 0.0)


def _signbit(context: Context, x: Expression) -> Any:
    kind = x.data_type
    return is_signed(x) if kind.is_float or kind.is_signed else context.full(0, DataType.UINT8, x.sizes)


def _with_sign(context: Context, a: Any, b: Any) -> Any:
    kind = context.data_type()
    size = dml.abs(cast(a, kind)) if isinstance(a, dml.Expression) else abs(float(a))
    test = is_signed(_spread(context, b, F32) if not isinstance(b, dml.Expression) else cast(b, F32))
    return dml.if_(test, dml.negate(size), size)


def _hypotenuse(context: Context, a: Expression, b: Expression) -> Any:
    """√(a² + b²), scaled by the larger so that no square overflows."""
    a, b = (dml.abs(cast(one, F32)) for one in (a, b))
    large, small = dml.max(a, b), dml.min(a, b)
    ratio = dml.divide(small, large)
    found = dml.multiply(large, dml.sqrt(dml.add(dml.multiply(ratio, ratio), 1.0)))
    found = dml.if_(dml.logical_equals(large, 0.0), 0.0, found)
    is_infinite = dml.logical_or(dml.is_infinity(a), dml.is_infinity(b))
    return cast(dml.if_(is_infinite, math.inf, found), context.data_type())


def _round_to(context: Context, x: Expression, *, decimals: int) -> Any:
    if not context.data_type().is_float:
        return x
    factor, work = float(10 ** abs(decimals)), cast(x, F32)
    if decimals < 0:
        found = dml.multiply(dml.round(dml.divide(work, factor)), factor)
    else:
        found = dml.divide(dml.round(dml.multiply(work, factor)), factor)
    return cast(found, context.data_type())


def _angle(context: Context, x: Expression) -> Any:
    kind = context.data_type()
    if context.is_boolean():
        return context.full(0, kind, x.sizes)
    is_less = dml.logical_less_than(x, 0)
    found = dml.if_(is_less, context.constant(math.pi, kind), context.constant(0, kind))
    return dml.if_(dml.is_nan(x), x, found) if x.data_type.is_float else found


def _load_exponent(context: Context, x: Expression, exponent: Expression) -> Any:
    power = dml.exp(dml.multiply(cast(exponent, F32), math.log(2)))
    return cast(dml.multiply(cast(x, F32), power), context.data_type())


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
    **{
        f"bitwise_{name}.{kind}": _bits(function)
        for name, function in _BITS.items()
        for kind in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{f"logical_{name}.default": _logical(getattr(dml, f"logical_{name}")) for name in ("and", "or", "xor", "not")},
    **{f"add.{kind}": _arithmetic(dml.add, dml.logical_or) for kind in ("Tensor", "Scalar")},
    **{f"sub.{kind}": _arithmetic(dml.subtract) for kind in ("Tensor", "Scalar")},
    **{f"rsub.{kind}": _reversed_subtract for kind in ("Tensor", "Scalar")},
    **{f"mul.{kind}": _arithmetic(dml.multiply, dml.logical_and) for kind in ("Tensor", "Scalar")},
    **{f"div.{kind}": _quotient for kind in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")},
    **{f"remainder.{kind}": _remainder(dml.modulus_floor) for kind in ("Tensor", "Scalar", "Scalar_Tensor")},
    **{f"fmod.{kind}": _remainder(dml.modulus_truncate) for kind in ("Tensor", "Scalar")},
    **{f"pow.{kind}": _power for kind in ("Tensor_Scalar", "Tensor_Tensor", "Scalar")},
    **{f"clamp.{kind}": _clamp for kind in ("default", "Tensor")},
    **{f"masked_fill.{kind}": _masked_fill for kind in ("Scalar", "Tensor")},
    **{f"fm{end}.default": _of_numbers(function) for end, function in (("ax", dml.max), ("in", dml.min))},
    **{f"copysign.{kind}": _with_sign for kind in ("Tensor", "Scalar")},
    **{
        f"bitwise_{way}_shift.{kind}": function
        for way, function in (("left", _left_shift), ("right", _right_shift))
        for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    },
    **{
        f"__{way}shift__.{kind}": function
        for way, function in (("l", _left_shift), ("r", _right_shift))
        for kind in ("Tensor", "Scalar")
    },
    "_efficientzerotensor.default": _filled_with(0),
    "addcdiv.default": _added(dml.divide),
    "addcmul.default": _added(dml.multiply),
    "angle.default": _angle,
    "empty_permuted.default": _filled_with(0),
    "empty_strided.default": _filled_with(0),
    "gcd.default": _greatest_divisor,
    "hypot.default": _hypotenuse,
    "lcm.default": _least_multiple,
    "ldexp.Tensor": _load_exponent,
    "new_empty_strided.default": _filled_with(0),
    "round.decimals": _round_to,
    "signbit.default": _signbit,
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
    "hardsigmoid.default": lambda _, x: dml.hard_sigmoid(x, _SIXTH, 0.5),
    "hardswish.default": lambda _, x: dml.hard_swish(x, _SIXTH, 0.5),
    "hardtanh.default": _hardtanh,
    "isinf.default": _test(dml.is_infinity, of_integers=0),
    "isnan.default": _test(dml.is_nan, of_integers=0),
    "linspace.default": _spaced(torch.linspace),
    "logspace.default": _spaced(torch.logspace),
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
    "prims.fma.default": _multiply_add,
    "tril_indices.default": _triangle,
    "triu_indices.default": _triangle,
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
