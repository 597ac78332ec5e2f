"""Nodes that a tree needs rarely: computed where a lane of the vector asks for it.

`where` computes both of its choices, but nobody sees it where all lanes take the second: sin reduces arguments from
2^16 on by 60 operations in integers, and takes a third of the time without them. The tree is written twice, with and
without: as one block each, gelu takes 2.75 ns an element where blocks that are joined again take 2.95.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr

MANY = 24
"""Nodes from which on a branch is less."""
FEW = 12
"""Nodes that make a second choice: fewer take the place of a result where there is none, as NaN does, and are the rare
ones."""


class Rare(NamedTuple):
    """The nodes that only the first choices of one test need."""

    test: Expr
    choices: frozenset[Expr]
    """Every `where` of the test."""
    nodes: frozenset[Expr]
    """The nodes that nothing else needs."""


def find_rare(nodes: Sequence[Expr]) -> Rare | None:
    """The most that a test saves, if it is much."""
    if len(nodes) <= 2 * MANY:
        return None
    tests = {node.args[0]: None for node in nodes if node.op == "where"}
    return max(filter(None, (_of_test(nodes, test) for test in tests)), key=lambda rare: len(rare.nodes), default=None)


def _of_test(nodes: Sequence[Expr], test: Expr) -> Rare | None:
    rare, usual = _only_by(nodes, test, 1), _only_by(nodes, test, 2)
    if len(rare) < MANY or len(usual) < FEW:
        return None
    return Rare(test, frozenset(node for node in nodes if _is_choice(node, test)), frozenset(rare))


def _only_by(nodes: Sequence[Expr], test: Expr, place: int) -> list[Expr]:
    """The nodes that nothing needs but the first, or the second, choices of a test."""
    kept = {nodes[-1]}
    for node in reversed(nodes):
        if node in kept:
            kept.update(arg for k, arg in enumerate(node.args) if k != place or not _is_choice(node, test))
    return [node for node in nodes if node not in kept]


def _is_choice(node: Expr, test: Expr) -> bool:
    return node.op == "where" and node.args[0] is test
