"""Arithmetic that operations lack or leave undefined: guarded division and shifts, counts of bits, powers, rounding.

Each function takes and gives nodes. Integers wrap. What has a meaning for floats too takes FLOAT32 as well.
"""

from __future__ import annotations

import numpy as np

from anydml.core.enums import DataType
from anydml.ir.expressions import Expr, absolute, call, const, trunc, where


def divide(a: Expr, b: Expr) -> Expr:
    """The quotient, cut toward 0 for integers: x/0 is 0, and the lowest number by -1 is itself, as NumPy has them."""
    if _is_float(a):
        return a / b
    quotient = where(b.equals(0), const(0, a.type), a / _divisor(b))
    return where(b.equals(-1), -a, quotient) if _is_signed(a) else quotient


def modulus_truncate(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of a; x mod 0 is 0 for integers and NaN for floats."""
    return call("fmod", a, b) if _is_float(a) else a % _divisor(b)


def modulus_floor(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of b, as Python's %; x mod 0 is 0 for integers and NaN for floats."""
    rest = modulus_truncate(a, b)
    if _is_float(a):
        # A remainder of 0 has b's sign, and -1 mod inf is inf: so have Python and NumPy.
        zero = where(b < 0, const(-0.0, a.type), 0.0)
        return where(rest.equals(0) & ~b.equals(0), zero, where((rest < 0) ^ (b < 0), rest + b, rest))
    if not _is_signed(a):
        return rest
    return where(rest.equals(0) | b.equals(0), rest, where((rest ^ b) < 0, rest + b, rest))


def shift_left(a: Expr, b: Expr) -> Expr:
    """a·2^b; 0 for a b of the width or more."""
    amount, is_inside = _amount(a, b)
    return where(is_inside, a << amount, 0)


def shift_right(a: Expr, b: Expr) -> Expr:
    """a·2^-b, rounded down; for a b of the width or more 0, or -1 for negative numbers."""
    width = _width(a)
    if _is_signed(a):
        return a >> where(_unsigned(b) < width, b, width - 1)
    amount, is_inside = _amount(a, b)
    return where(is_inside, a >> amount, 0)


def bit_count(x: Expr) -> Expr:
    """The number of bits that are 1, in the unsigned type of the width."""
    width, x = _width(x), _unsigned(x)
    ones = (1 << width) - 1
    x = x - ((x >> 1) & ones // 3)  # counts of pairs, of fours, of bytes
    x = (x & ones // 5) + ((x >> 2) & ones // 5)
    x = (x + (x >> 4)) & ones // 17
    return x if width == 8 else (x * (ones // 255)) >> width - 8


def integer_power(x: Expr, y: Expr) -> Expr:
    """x^y of integers, wrapping; of a negative y what the fraction is cut to: 1 or -1 for an x of ±1, and 0.

    By squaring, up to half of the bits: for odd x, x^(2^k) is 1 + u with u a multiple of 2^(k+2), so that from
    2(k+2) >= width on (1 + u)^n = 1 + n·u. Even x give 0 for a y of the width or more.
    """
    width = _width(x)
    steps = max(width // 2 - 2, width.bit_length() - 1)
    exponent = Expr("cast", _unsigned(x).type, (y,)) if _width(y) != width else _unsigned(y)
    one = const(1, x.type)
    power, square = one, x
    for k in range(steps):
        power = where((exponent & 1 << k).equals(0), power, power * square)
        square = square * square
    many = (exponent >> steps).bits(_typed(x))
    power = power * (one + many * (square - one))
    power = where((x & 1).equals(0) & (y >= width), const(0, x.type), power)
    if not _is_signed(y):
        return power
    fraction = where(x.equals(1), one, 0)
    if _is_signed(x):
        fraction = where(x.equals(-1), where((y & 1).equals(0), one, -1), fraction)
    return where(y < 0, fraction, power)


def sign(x: Expr) -> Expr:
    """-1, 0 or 1; NaN stays, and -0.0 is 0."""
    if not _is_float(x) and not _is_signed(x):
        return where(x.equals(0), x, 1)
    zero = x + 0.0 if _is_float(x) else x
    return where(x > 0, const(1, x.type), where(x < 0, const(-1, x.type), zero))


def round_half_away(x: Expr) -> Expr:
    """The nearest integer of a float, halves away from 0."""
    whole = trunc(x)
    away = where(x < 0, const(-1, x.type), 1)
    return where(absolute(x - whole) >= 0.5, whole + away, whole)


def mean(a: Expr, b: Expr) -> Expr:
    """(a + b)/2; of integers it is cut toward 0, and no sum overflows."""
    if _is_float(a):
        return (a + b) * 0.5
    differing = a ^ b
    lower = (a & b) + (differing >> 1)
    return where(lower < 0, lower + (differing & 1), lower) if _is_signed(a) else lower


def _divisor(b: Expr) -> Expr:
    """One that may be divided by: 1 in the place of 0 and -1, of which remainders are 0 as well."""
    return where(b.equals(0) | b.equals(-1) if _is_signed(b) else b.equals(0), const(1, b.type), b)


def _amount(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """An amount that may be shifted by, and whether it is the one that was asked for."""
    is_inside = _unsigned(b) < _width(a)
    return where(is_inside, b, 0), is_inside


def _typed(x: Expr) -> DataType:
    if x.type is None:
        raise TypeError("a truth is no number: convert it")
    return x.type


def _is_float(x: Expr) -> bool:
    return _typed(x).is_float


def _is_signed(x: Expr) -> bool:
    return _typed(x).is_signed


def _width(x: Expr) -> int:
    return 8 * _typed(x).size_in_bytes


def _unsigned(x: Expr) -> Expr:
    return x.bits(DataType(np.dtype(f"uint{_width(x)}")))
