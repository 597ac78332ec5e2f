"""Passes: how often a step goes along its rows, a time for each fold and one more, and what it does each time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.graph.rules.fuse import work_of
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Computation


def reads_in_passes(reader: Computation) -> list[set[int]]:
    """The reads in each fold, and outside of all of them."""
    read: dict[Expr | None, set[int]] = {None: set()}
    for node, around in _homes(reader.values).items():
        if node.op == "load":
            for one in around:
                read.setdefault(one, set()).add(int(node.value))
    return list(read.values())


@functools.lru_cache(maxsize=512)
def _homes(values: tuple[Expr, ...]) -> dict[Expr, set[Expr | None]]:
    """The folds that each node is computed in; None stands for outside of all."""
    homes: dict[Expr, set[Expr | None]] = {value: {None} for value in values}
    for node in reversed(list(walk(*values))):
        around = {node} if node.op in FOLDS else homes[node]
        for arg in node.args:
            homes.setdefault(arg, set()).update(around)
    return homes


def work_in_passes(primitive: Computation) -> int:
    """The operations for an element, over all passes along its row; what is the same along the row is none."""
    kept = len(primitive.sizes) - primitive.depth if primitive.depth else 0
    return _work_in_passes(primitive.values, kept, tuple(any(view.strides[kept:]) for view in primitive.sources))


@functools.lru_cache(maxsize=1024)
def _work_in_passes(values: tuple[Expr, ...], kept: int, moves: tuple[bool, ...]) -> int:
    """Where the rows' dimensions begin at `kept`, and sources vary along them or not."""
    homes, varying, total = _homes(values), set(), 0
    for node in walk(*values):
        if node.op == "load":
            varies = moves[int(node.value)]
        elif node.op == "coordinate":
            varies = int(node.value) >= kept
        else:
            varies = node.op not in FOLDS and any(arg in varying for arg in node.args)
        if varies:
            varying.add(node)
            total += work_of(node) * len(homes[node])
    return total
