"""fmod, exactly."""

from __future__ import annotations

from anydml.ir.expressions import Expr, absolute, const, fma, rint, where
from anydml.ir.numerics.parts import FLOAT, INF, INT, Pair, exactly, scale, signed

STEP = 22
"""Bits of the quotient found at a time: the error of a quotient of 22 bits is a quarter at most."""
STEPS = 277 // STEP
"""2^127 is 2^277 times the least denormal, and a little more."""


def fmod(a: Expr, b: Expr) -> Pair:
    """a - b·trunc(a/b): of a = m·2^k·2^e and b = d·2^e, with m and d of 24 bits, m·2^k mod d is found in steps.

    Each takes m to m·2^22 - q·d, with q the integer nearest to m·2^22/d or one beside it: |m| stays below 0.8·d, and
    the difference is an integer below 2^24, so that `fma` gives it exactly.
    """
    m, m_exponent = _normal(absolute(a))
    d, d_exponent = _normal(absolute(b))
    k = m_exponent - d_exponent
    inverse = const(1.0, FLOAT) / d

    def reduced(m: Expr) -> Expr:
        return fma(rint(m * inverse), -d, m)

    rest = reduced(m)
    for step in range(STEPS):
        rest = where(k >= STEP * (step + 1), reduced(rest * 2.0**STEP), rest)
    last = k - STEP * (k.to(FLOAT) * (1 / STEP)).to(INT)  # 1/22 is rounded up: multiples stay
    rest = reduced(rest * ((last + 127) << 23).bits(FLOAT))
    rest = where(rest < 0.0, rest + d, rest)
    found = signed(exactly(scale(rest, d_exponent)), a).high
    found = where(absolute(a) < absolute(b), a, found)
    is_number = (absolute(a) < INF) & (absolute(b) > 0.0)
    return exactly(where(is_number, found, const(float("nan"), FLOAT)))


def _normal(x: Expr) -> tuple[Expr, Expr]:
    """x as an integer of 24 bits, FLOAT32, times 2 to an exponent, INT32."""
    is_denormal = x < 2.0**-126
    bits = where(is_denormal, x * 2.0**24, x).bits(INT)
    exponent = (bits >> 23) - where(is_denormal, const(174, INT), 150)
    return ((bits & 0x7FFFFF) | (150 << 23)).bits(FLOAT), exponent
