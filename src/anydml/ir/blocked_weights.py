"""Products with weights of few bits: a sum of a·q·s, with a whole number q and the scale s of a block along the sum.

A reduce of that form rounds nothing between a and q: q·s is no number of its own, as it is in a product with weights
that were dequantised before. The views say which blocks scales are for: a scale has a stride of 0 within its block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.ir.expressions import FOLDS, coordinate
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce


BYTE, F32 = DataType.UINT8, DataType.FLOAT32
ROWS = (F32, DataType.FLOAT16)
"""The types of rows and scales."""
BLOCKS = (32, 64, 128)
"""Weights that share a scale, or a multiple of the last; a scale for all of them may be for a multiple of the first."""
SHORT_BLOCK = 16
"""The same for the engines that say so."""
MOST = 32 * 1024
"""Products of a sum."""


def has_way(block: int, blocks: int, least: int = BLOCKS[0]) -> bool:
    """Whether an engine has a way of its own for sums of so many blocks, each with a scale."""
    is_whole = (
        block in BLOCKS
        or block == SHORT_BLOCK >= least
        or block % BLOCKS[-1] == 0
        or (blocks == 1 and block % BLOCKS[0] == 0)
    )
    return is_whole and block * blocks <= MOST


def number_in(byte: Expr, data_type: DataType, half: Expr | None) -> Expr:
    """The 4-bit number in a half of a byte, 0 or 1; in the low one without."""
    shifted = byte if half is None else byte >> (half.to(BYTE) * 4)
    bits = shifted & 15
    return bits if data_type is DataType.UINT4 else (bits ^ 8).to(DataType.INT8) - 8


class Dequantised(NamedTuple):
    """The parts of (x - z)·s, FLOAT32, of which the difference is exact."""

    number: Expr
    """x - z."""
    scale: Expr
    """A load, of FLOAT32 or FLOAT16."""
    byte: Expr
    """The load of x, or of the byte that has it in one half."""
    data_type: DataType
    """Of x."""
    half: int
    """Of 4 bits, the dimension that says in which half."""
    zero: Expr | None
    """z: a load, a constant, or nothing."""

    @property
    def has_zeros(self) -> bool:
        """Whether z is one for each block."""
        return self.zero is not None and self.zero.op == "load"

    @property
    def is_rounded(self) -> bool:
        """Whether it is what rows are rounded to: x·s."""
        is_zero = self.zero is None or (not self.has_zeros and not self.zero.value)
        return self.data_type is DataType.INT8 and is_zero


def match_dequantised(number: Expr, scale: Expr) -> Dequantised | None:
    """The parts of what DEQUANTIZE computes of weights of 4 and 8 bits; None for others."""
    scale = scale.args[0] if scale.op == "cast" and scale.args[0].type is DataType.FLOAT16 else scale
    if scale.op != "load" or scale.type not in ROWS or number.type is not F32 or number.op != "cast":
        return None
    (whole,) = number.args
    x, zero = whole.args if whole.op == "sub" else (whole, None)
    if whole.type is not DataType.INT32 or x.op != "cast" or (zero is not None and zero.op != "cast"):
        return None
    (x,), zero = x.args, zero.args[0] if zero is not None else None
    if zero is not None and zero.op not in ("load", "const"):
        return None
    if x.op == "load" and x.type in (DataType.INT8, DataType.UINT8):
        return Dequantised(number, scale, x, x.type, 0, zero)
    leaves = {node.op: node for node in walk(x) if node.op in ("load", "coordinate")}
    if len(leaves) == 2 and leaves["load"].type is BYTE:
        half = int(leaves["coordinate"].value)
        for kind in (DataType.UINT4, DataType.INT4):
            if number_in(leaves["load"], kind, coordinate(half)) is x:
                return Dequantised(number, scale, leaves["load"], kind, half, zero)
    return None


class Weights(NamedTuple):
    """A sum of a·q·s."""

    fold: Expr
    left: Expr
    """a."""
    right: Dequantised

    @property
    def rounded(self) -> Dequantised | None:
        """Of an a that is a whole number of 8 bits times a scale, the parts."""
        found = match_dequantised(*self.left.args) if self.left.op == "mul" else None
        return found if found is not None and found.is_rounded else None


def match_weights(primitive: Reduce) -> Weights | None:
    """The parts of a sum of a·q·s; None for other reduces."""
    fold = _sum_of_products(primitive)
    if fold is None or fold.args[0].args[0].op != "mul":
        return None
    product, scale = fold.args[0].args
    left, number = product.args
    right = match_dequantised(number, scale)
    return None if right is None else Weights(fold, left, right)


def match_rounded_weights(primitive: Reduce) -> tuple[Expr, Dequantised] | None:
    """The product q·s of a sum of a·(q·s), rounded before a is multiplied with it, and its parts; None for others."""
    fold = _sum_of_products(primitive)
    right = None if fold is None else fold.args[0].args[1]
    parts = match_dequantised(*right.args) if right is not None and right.op == "mul" else None
    return None if right is None or parts is None else (right, parts)


def _sum_of_products(primitive: Reduce) -> Expr | None:
    """The only fold of a reduce, where it is a sum of products."""
    folds = [node for node in walk(primitive.value) if node.op in FOLDS]
    is_ours = not primitive.also and len(folds) == 1 and folds[0].op == "fold_sum" and folds[0].args[0].op == "mul"
    return folds[0] if is_ours else None
