"""What a tree needs rarely: computed where a lane of the vector asks for it.

`where` computes both of its choices, but nobody sees it where all lanes take the second: sin reduces arguments from
2^16 on by 60 operations in integers, and takes a third of the time without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.expressions import Expr, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY = 24
"""Nodes from which on a branch is less."""


class Rare(NamedTuple):
    """The nodes that nothing but the first choices of one test needs."""

    choices: list[Expr]
    """Every `where` of the test."""
    nodes: list[Expr]
    """Each after its arguments."""
    before: list[Expr]
    """What the branch takes from elsewhere, and what is chosen without it; each after its arguments."""


def find_rare(nodes: Sequence[Expr]) -> Rare | None:
    """The most that a test saves, if it is much."""
    if len(nodes) <= 2 * MANY:
        return None
    tests = {node.args[0]: None for node in nodes if node.op == "where"}
    return max(filter(None, (_of_test(nodes, test) for test in tests)), key=lambda rare: len(rare.nodes), default=None)


def _of_test(nodes: Sequence[Expr], test: Expr) -> Rare | None:
    kept = {nodes[-1]}
    for node in reversed(nodes):
        if node in kept:
            kept.update((node.args[0], node.args[2]) if _is_choice(node, test) else node.args)
    rare = [node for node in nodes if node not in kept]
    choices = [node for node in nodes if node in kept and _is_choice(node, test)]
    before = [node for node in walk(test, *(arg for choice in choices for arg in choice.args)) if node in kept]
    is_rare = len(rare) >= MANY and not any(choice in before for choice in choices)
    # A constant takes the place of a result where there is none: what is computed then is the usual.
    is_rare = is_rare and not any(choice.args[2].op == "const" for choice in choices)
    return Rare(choices, rare, before) if is_rare else None


def _is_choice(node: Expr, test: Expr) -> bool:
    return node.op == "where" and node.args[0] is test
