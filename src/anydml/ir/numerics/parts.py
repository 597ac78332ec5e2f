"""Building blocks of the functions: polynomials, sums of two floats, powers of two."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from anydml.core.enums import DataType
from anydml.core.package_data import read_json
from anydml.ir.expressions import Expr, absolute, const, fma, maximum, minimum, where

FLOAT, INT, UINT = DataType.FLOAT32, DataType.INT32, DataType.UINT32
INF = float("inf")
MAGIC = 1.5 * 2**23
"""Added to a float below 2^22 it rounds that to an integer, which its last bits then are."""
MAGIC_BITS = 0x4B400000


@functools.cache
def _file(name: str = "coefficients") -> dict[str, Any]:
    found: dict[str, Any] = read_json(__file__, f"{name}.json")
    return found


def coefficients(name: str) -> list[float]:
    """Of a polynomial, the lowest power's first."""
    found: list[float] = _file()[name]
    return found


def split(name: str) -> list[float]:
    """A constant as a sum of three FLOAT32."""
    found: list[float] = _file()["constants"][name]
    return found


def half_numbers(name: str) -> list[Any]:
    """The numbers that `scripts/fit_halves.py` found for a function."""
    found: list[Any] = _file("halves")[name]
    return found


def words() -> list[int]:
    """2/π in words of 32 bits, after 9 zeros."""
    found: list[int] = _file()["2/pi"]
    return found


def two_chains(x: Expr, numbers: list[float]) -> Expr:
    """A polynomial by Horner, even and odd powers apart: twice as much at a time, where nothing else is at hand."""
    square = x * x
    return fma(polynomial(square, numbers[1::2]), x, polynomial(square, numbers[::2]))


def polynomial(x: Expr, numbers: list[float]) -> Expr:
    """By Horner."""
    total = const(numbers[-1], FLOAT)
    for number in reversed(numbers[:-1]):
        total = fma(total, x, number)
    return total


class Pair(NamedTuple):
    """high + low, unevaluated: twice the digits. Low is at most a unit in the last place of high, or about that.

    Functions give one: high is the result in FLOAT32, and low, which costs nothing where nobody asks for it, the part
    that rounding took, which decides what the nearest FLOAT16 of two arguments is.
    """

    high: Expr
    low: Expr


def sum_of(a: Expr, b: Expr | float) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    total = a + b
    return Pair(total, b - (total - a))


def any_sum_of(a: Expr, b: Expr) -> Pair:
    """a + b exactly."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def product_of(a: Expr, b: Expr | float) -> Pair:
    """a·b exactly, where nothing underflows."""
    product = a * b
    return Pair(product, fma(a, b, -product))


def negate_if(test: Expr, x: Expr) -> Expr:
    """-x where a test holds."""
    return where(test, -x, x)


def select(test: Expr, yes: Pair, no: Pair) -> Pair:
    """One of two pairs."""
    return Pair(where(test, yes.high, no.high), where(test, yes.low, no.low))


def signed(x: Pair, sign: Expr) -> Pair:
    """A pair with the signs turned where the first bit of another float, or UINT32, is set."""
    turn = sign.bits(UINT) & 0x80000000
    return Pair((x.high.bits(UINT) ^ turn).bits(FLOAT), (x.low.bits(UINT) ^ turn).bits(FLOAT))


def with_sign(x: Expr, sign: Expr) -> Expr:
    """A FLOAT32 with the sign of another: one instruction of an Arm."""
    return ((x.bits(UINT) & 0x7FFFFFFF) | (sign.bits(UINT) & 0x80000000)).bits(FLOAT)


def exactly(x: Expr | float) -> Pair:
    """A number that nothing is missing of."""
    return Pair(x if isinstance(x, Expr) else const(x, FLOAT), const(0.0, FLOAT))


def clamp(x: Expr, low: float, high: float) -> Expr:
    """Within bounds; NaN stays."""
    return minimum(maximum(x, low), high)


def shifted_by(x: Expr, factor: float, bias: int) -> tuple[Expr, Expr]:
    """n, the integer nearest to x·factor, as FLOAT32, and 2^(n + bias), where that is no denormal."""
    magic = MAGIC + (127 + bias)  # the last bits are the exponent's
    shifted = fma(x, factor, magic)
    return shifted - magic, (shifted.bits(UINT) << 23).bits(FLOAT)


def power_of_two(n: Expr) -> Expr:
    """2^n for an INT32 n of -126 to 127."""
    return ((n + 127) << 23).bits(FLOAT)


def scale(x: Expr, n: Expr) -> Expr:
    """x·2^n for an INT32 n of -252 to 254, rounded once where x is near 1."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def scaled(x: Pair, n: Expr) -> Pair:
    """A pair times 2^n, as `scale`."""
    return Pair(scale(x.high, n), scale(x.low, n))


def doubled(x: Pair) -> Pair:
    """A pair times 2."""
    return Pair(x.high + x.high, x.low + x.low)


def to_half(x: Pair) -> Expr:
    """The number that a FLOAT16 is made of: rounded to odd, so that one near the middle of two falls to its side."""
    side = where(absolute(x.high) < 65536.0, x.low, 0.0) * x.high
    bits = x.high.bits(INT)
    toward = where(side < 0.0, (bits - 1) | 1, bits)
    return where(side > 0.0, bits | 1, toward).bits(FLOAT)


def is_tiny(x: Expr) -> Expr:
    """Whether f(x) = x for every f that is x + O(x²): signed zeros and denormals go this way."""
    return absolute(x) < 2.0**-26
