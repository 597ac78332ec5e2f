"""Functions as trees of operations: the same bits on every engine."""

from __future__ import annotations

from anydml.ir.numerics.integers import (
    bit_count,
    divide,
    integer_power,
    mean,
    modulus_floor,
    modulus_truncate,
    round_half_away,
    shift_left,
    shift_right,
    sign,
)

__all__ = [
    "bit_count",
    "divide",
    "integer_power",
    "mean",
    "modulus_floor",
    "modulus_truncate",
    "round_half_away",
    "shift_left",
    "shift_right",
    "sign",
]
