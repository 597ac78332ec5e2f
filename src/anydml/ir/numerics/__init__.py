"""Functions as trees of operations: the same bits on every engine."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.ir.expressions import FUNCTIONS, Expr
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
from anydml.ir.trees import rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.numerics.parts import Pair

__all__ = [
    "ULPS",
    "bit_count",
    "divide",
    "expand",
    "integer_power",
    "mean",
    "modulus_floor",
    "modulus_truncate",
    "round_half_away",
    "shift_left",
    "shift_right",
    "sign",
]

ULPS = dict.fromkeys(FUNCTIONS, 1) | dict.fromkeys(("erf", "gelu", "sigmoid", "tanh"), 2) | {"fmod": 0}
"""By function, the largest distance from the exact result, in units of the result's last place, in FLOAT32.

On 10^8 values each (`scripts/measure_numerics.py --engine cpu -n 100000000`) tanh is off by 2.00 at most, gelu by
1.98, sigmoid by 1.70, erf by 1.55, and all others by 0.98.

A FLOAT16 that is made at once of a FLOAT16's result is the nearest to the exact result, for each of the 65,536
arguments; of pairs of arguments, for all but a few in a million.
"""


@functools.cache
def _trees() -> dict[str, Callable[..., Pair]]:
    """By function, imported where one is first written out: 10 ms."""
    names = ("exponential", "logarithm", "trigonometric", "inverse", "error", "remainder", "power")
    *modules, power = (import_alone(f"{__name__}.{name}") for name in names)
    found = {name: getattr(module, name) for module in modules for name in FUNCTIONS if hasattr(module, name)}
    return found | {"pow": power.power}


def expand(root: Expr) -> Expr:
    """A tree with the functions in it written out in operations.

    What becomes FLOAT16 at once is rounded to that well: of one FLOAT16 by `halves`, of two arguments from more digits
    than FLOAT32 has.
    """
    results: dict[Expr, tuple[Expr, Pair]] = {}

    def change(node: Expr) -> Expr:
        if node.op in FUNCTIONS:
            result = _trees()[node.op](*node.args)
            results[result.high] = node, result
            return result.high
        if node.op == "cast" and node.type is DataType.FLOAT16 and node.args[0] in results:
            return Expr("cast", node.type, (_for_half(*results[node.args[0]]),))
        return node

    return rewrite(root, change)


def _for_half(function: Expr, result: Pair) -> Expr:
    """The number that a FLOAT16 is made of."""
    import_alone("anydml.ir.numerics.halves", "anydml.ir.numerics.parts")
    from anydml.ir.numerics.halves import nearest_half  # as above
    from anydml.ir.numerics.parts import to_half

    x, *others = function.args
    if others and result.low.op != "const":
        return to_half(result)
    if not others and x.op == "cast" and x.args[0].type is DataType.FLOAT16:
        return nearest_half(function.op, x, result.high)
    return result.high
