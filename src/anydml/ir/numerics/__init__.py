"""Functions as trees of operations: the same bits on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.ir.expressions import FUNCTIONS, Expr, rewrite
from anydml.ir.numerics import error, exponential, inverse, logarithm, power, remainder, trigonometric
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

if TYPE_CHECKING:
    from collections.abc import Callable

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

_MODULES = (exponential, logarithm, trigonometric, inverse, error, remainder)
_TREES: dict[str, Callable[..., Expr]] = {
    "pow": power.power,
    **{name: getattr(module, name) for module in _MODULES for name in FUNCTIONS if hasattr(module, name)},
}
ULPS = dict.fromkeys(FUNCTIONS, 2)
"""By function, the largest distance from the exact result, in units of the result's last place."""


def expand(root: Expr) -> Expr:
    """A tree with the functions in it written out in operations."""
    return rewrite(root, lambda node: _TREES[node.op](*node.args) if node.op in _TREES else node)
