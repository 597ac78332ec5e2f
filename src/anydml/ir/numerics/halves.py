"""Functions from FLOAT16 to FLOAT16 in FLOAT32: the nearest result for each of the 65,536 arguments, in few operations.

Nearly all arguments allow for an error of several units in FLOAT32's last place, and a polynomial of so many terms has
as much; a few have an exact result that lies so near to the middle of two FLOAT16 that chance decides. The numbers are
those of many tried for which it decides well (`scripts/fit_halves.py`). There is no division: of a GPU's time it takes
as much as ten products, and as much of an Arm's.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from anydml.ir.expressions import Expr, absolute, const, fma, minimum, where
from anydml.ir.numerics.logarithm import parted
from anydml.ir.numerics.parts import FLOAT, INF, INT, MAGIC, UINT, clamp, half_numbers, polynomial

if TYPE_CHECKING:
    from collections.abc import Callable

LN2 = math.log(2)
GELU_CURVE, GELU_SLOPE = 0.65625, 0.84375
"""a and b of few digits for which Φ(-t) ~ ½·2^-(a·t² + b·t): FLOAT32 holds a·t + b exactly for a FLOAT16 t."""
ERF_MIDDLE = 3.5
"""About that of the squares of 0 to 2.625, from where on erf is 1 in FLOAT16."""
INVERSE = 0x7EF31000
"""The bits of a float, taken from this, are those of its inverse, 5 % off at most."""


def _scaled_power(shifted: Expr, scale: float) -> Expr:
    """scale·2^n for an n that was added to MAGIC."""
    bits: int = struct.unpack("I", struct.pack("f", scale))[0]
    return ((shifted.bits(UINT) << 23) + bits).bits(FLOAT)


def _nearly_inverse(x: Expr) -> Expr:
    """1/x, 2^-12.8 of it off at most: an error of a becomes one of a³."""
    guess = (const(INVERSE, UINT) - x.bits(UINT)).bits(FLOAT)
    error = fma(-x, guess, 1.0)
    return fma(guess, fma(error, error, error), guess)


def _quotient(above: Expr | None, below: Expr) -> Expr:
    """above/below, or 1/below: an error of a becomes one of a²."""
    inverse = _nearly_inverse(below)
    found = inverse if above is None else above * inverse
    return fma(found, fma(-below, inverse, 1.0), found)


def exp(x: Expr, numbers: list[float]) -> Expr:
    """e^x."""
    scale, *terms = numbers
    bounded = clamp(x, -18.0, 12.0)
    shifted = fma(bounded, 1 / LN2, MAGIC)
    r = fma(shifted - MAGIC, -LN2, bounded)
    return polynomial(r, terms) * _scaled_power(shifted, scale)


def sigmoid(x: Expr, numbers: list[float]) -> Expr:
    """1/(1 + e^-x), moved to an odd last bit on the side of ½.

    Near 0 it is ½ + x/4 - x³/48, where ½ + x/4 is a middle of two FLOAT16 and the rest too little for FLOAT32.
    """
    scale, *terms = numbers
    bounded = clamp(x, -18.0, 9.5)
    shifted = fma(bounded, -1 / LN2, MAGIC)
    r = fma(shifted - MAGIC, LN2, bounded)
    found = _quotient(None, fma(polynomial(r, terms), _scaled_power(shifted, scale), 1.0))
    return ((found.bits(INT) - (x.bits(INT) >> 31) - 1) | 1).bits(FLOAT)


def tanh(x: Expr, numbers: list[float]) -> Expr:
    """x·P(x²)/Q(x²): Q is 0 at the two poles that are nearest."""
    bounded = clamp(x, -4.53125, 4.53125)  # beyond it is 1
    square = bounded * bounded
    return _quotient(polynomial(square, numbers[3:]) * bounded, polynomial(square, numbers[:3]))


def erf(x: Expr, numbers: list[float]) -> Expr:
    """x·P(x²)."""
    bounded = clamp(x, -2.625, 2.625)
    return polynomial(fma(bounded, bounded, -ERF_MIDDLE), numbers) * bounded


def gelu(x: Expr, numbers: list[float]) -> Expr:
    """x·Φ(x) = max(x, 0) - t·Φ(-t) for t = |x|, and Φ(-t) = ½·2^-(a·t² + b·t + t·S(t)), t·S(t) below 0.2."""
    scale, terms, slope = numbers[0], numbers[1:7], numbers[7:]
    t = minimum(absolute(x), 5.75)
    line = fma(t, GELU_CURVE, GELU_SLOPE)
    shifted = fma(line, -t, MAGIC)
    r = fma(polynomial(t, slope), t, fma(line, t, shifted - MAGIC))
    tail = t * _scaled_power(shifted, scale)
    return fma(-tail, polynomial(r, terms), where(x < 0.0, const(-0.0, FLOAT), x))


def log(x: Expr, numbers: list[float]) -> Expr:
    """k·ln 2 + f·P(f): as FLOAT32 no FLOAT16 is denormal."""
    k, f = parted(x)
    scale, ln2, *terms = numbers
    found = fma(k.to(FLOAT), ln2, polynomial(f, terms) * f) * scale
    found = where(x < INF, found, x)
    return where(x > 0.0, found, where(x.equals(0.0), const(-INF, FLOAT), float("nan")))


HALVES: dict[str, Callable[[Expr, list[float]], Expr]] = {
    "exp": exp, "sigmoid": sigmoid, "tanh": tanh, "erf": erf, "gelu": gelu, "log": log,
}  # fmt: skip


def nearest_half(name: str, x: Expr, single: Expr) -> Expr:
    """The number that the nearest FLOAT16 is made of, by FLOAT32's result: a few are put right where there is no tree.

    They lie beside the middle of two FLOAT16, or on it, and are moved across by a factor.
    """
    numbers = half_numbers(name)
    if name in HALVES:
        return HALVES[name](x, numbers)
    factor = const(1.0, FLOAT)
    for size, other in numbers:
        factor = where(absolute(x).equals(size), const(other, FLOAT), factor)
    return single * factor if numbers else single
