"""Endings: the values that the tiles of a contraction compute from their sums, and the layout of their reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.endings import COLUMN, FOLD, ROW, Ending
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.tile import Tile
    from anydml.engines.cpu.programs.sides import Sides

CACHE_LINE = 64
"""Bytes of a line of the cache."""
CHEAP = frozenset(
    (
        "load",
        "const",
        "given",
        "add",
        "sub",
        "mul",
        "fma",
        "min",
        "max",
        "lt",
        "eq",
        "not",
        "or",
        "and",
        "where",
        "cast",
        "neg",
        "abs",
        "rint",
    )
)
"""Operations of what is computed from sums where they are."""
SUM_BYTES = 4
"""Of a sum, whatever its type."""
SHORT = 24
"""And the most of them, which are written for each vector of a tile."""


def fills_lines(tile: Tile) -> bool:
    """Whether a row of a tile fills lines of the cache, so that it may be written where results lie.

    An Arm's does not: ResNet-50 takes 248 ms so, and 242 where whole rows are written (one thread of a Neoverse-N1).
    Products that end in a bias and a rectifier take 16 lanes nine tenths of the time.
    """
    return tile.vectors * tile.lanes * 4 % CACHE_LINE == 0


def ending_of(sides: Sides, longest: int = SHORT) -> Ending | None:
    """The value computed from sums where they are, if it is short, and its reads lie as the results do.

    A function of an element alone would be computed for every tile: it is left to rows, which compute it once.
    """
    leaves, lies = sides.leaves(sides.finish)
    nodes = list(walk(sides.finish))
    if sides.finish is sides.sum or sides.target.along(sides.columns) != sides.target.width or len(nodes) > longest:
        return None
    depends = {sides.sum}
    for node in nodes:  # arguments come before what they are arguments of
        if any(arg in depends for arg in node.args):
            depends.add(node)
    if any(node.op not in CHEAP and (longest == SHORT or node not in depends) for node in nodes):
        return None
    moves = []
    for leaf, lie in zip(leaves, lies, strict=True):
        along, across = lie.along(sides.columns), lie.along(sides.rows)
        if leaf is not sides.sum and along not in (0, lie.width):
            return None
        is_each = leaf is sides.sum or (along and across)
        moves.append(FOLD if is_each else COLUMN if along else ROW if across else "")
    is_long = len(nodes) > SHORT or any(node.op not in CHEAP for node in nodes)
    return Ending(sides.finish, sides.sum, tuple(leaves), tuple(moves), is_long)


def may_place(sides: Sides, ending: Ending) -> bool:
    """Whether sums may lie where the results come to lie: as large, and nothing is read that may lie there too.

    2048 x 2048 x 2048 with a bias and a rectifier packs its right factor once so, and eight times where a unit has
    room for the sums of 256 rows alone.
    """
    is_alike = sides.target.width == sides.target.along(sides.columns) == SUM_BYTES and not sides.line
    others = (move for leaf, move in zip(ending.leaves, ending.moves, strict=True) if leaf is not ending.fold)
    return is_alike and FOLD not in others
