"""Epilogues: what may be computed from the sums of a contraction where they are, in registers, before they are stored.

Which reads there are beside the sum, along which of a tile's rows and columns each of them moves, and how often each
node need be computed. Engines emit it; what does not fit into registers they compute in a pass over rows of sums.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anydml.ir.contraction import StridedContraction
    from anydml.ir.expressions import Expr


ROW, COLUMN, FOLD = "row", "column", "fold"
"""Along what a read moves: one number for each row, one for each column, or one for each fold."""
CHEAP = {
    *("load", "const", "given", "cast", "where", "add", "sub", "mul", "fma", "neg", "abs", "rint", "min", "max"),
    *("lt", "eq", "not", "or", "and"),
}
"""Operations that take an instruction or two."""


class Epilogue(NamedTuple):
    """A tree, and how its leaves lie in a tile."""

    value: Expr
    fold: Expr
    """The leaf that is the fold."""
    leaves: tuple[Expr, ...]
    """The loads and coordinates: the fold first."""
    moves: tuple[str, ...]
    """Of each of them, along which of `row` and `column` it moves, if any; one that moves along both, as `fold`."""
    is_long: bool = False
    """Whether the text of it is too long to be written for each row: folds are put down, and rows taken in turn."""

    @property
    def name(self) -> str:
        """A digest of the text that it makes."""
        leaves = repr([(str(leaf.value), leaf.op) for leaf in self.leaves])
        text = f"{write(self.value, numbers=False)}{leaves}{self.moves}{self.is_long}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def reads(self) -> list[str]:
        """Along what the leaves but the fold move."""
        return [move for leaf, move in zip(self.leaves, self.moves, strict=True) if leaf is not self.fold]

    def levels(self) -> dict[Expr, frozenset[str]]:
        """Of each node, along what its leaves move: nothing for what is computed once for a tile."""
        own = dict(zip(self.leaves, self.moves, strict=True))
        found: dict[Expr, frozenset[str]] = {}
        for node in walk(self.value):  # arguments come before what they are arguments of
            moved = frozenset((own[node],)) if own.get(node) else frozenset()
            found[node] = moved.union(*(found[arg] for arg in node.args))
        return found


def find_epilogue(
    operands: StridedContraction,
    rows: Sequence[int],
    columns: Sequence[int],
    *,
    longest: int,
    may_read: Collection[str] = ("", ROW, COLUMN, FOLD),
) -> Epilogue | None:
    """The value of a tile's results, if it is short, and what it reads may be read so, packed along the columns.

    `rows` are the dimensions along which a tile, or work of several tiles, goes down.
    """
    leaves, lies = operands.leaves(operands.finish)
    moves = []
    for leaf, lie in zip(leaves, lies, strict=True):
        down, across = (any(lie.strides[k] for k in side) for side in (rows, columns))
        is_sum = leaf is operands.sum
        moves.append(FOLD if is_sum or (down and across) else COLUMN if across else ROW if down else "")
        if not is_sum and (across and not operands.is_packed(lie, columns)):
            return None
        if leaf.op == "load" and not is_sum and moves[-1] not in may_read:
            return None
    if len(list(walk(operands.finish))) > longest:
        return None
    return Epilogue(operands.finish, operands.sum, tuple(leaves), tuple(moves))


def is_cheap(value: Expr, but_of: Expr | None = None) -> bool:
    """Whether an epilogue takes little time; or what of it does not depend on its fold: that is the same for tiles."""
    depends = {but_of}
    for node in walk(value):  # arguments come before what they are arguments of
        if not depends.isdisjoint(node.args):
            depends.add(node)
        elif node.op not in CHEAP:
            return False
    return True


def fetches_beside(value: Expr, fold: Expr) -> bool:
    """Whether what is computed from a sum fetches elements, and so reads others than those where its results lie."""
    return any(node.op == "fetch" for node in walk(value, known=(fold,)))
