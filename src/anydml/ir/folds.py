"""Folds: their neutral elements, how deep in one another they are, and the passes over a row that they take.

A reduce folds a row in passes. Folds that need no other fold share the first, those that need these the second, and so
on; where there is a value for each element a last pass computes it. What a pass computes of an element later ones may
need again: it is kept where that takes long and an engine has room for it, and otherwise computed again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.expressions import FOLDS, LEAVES, const
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anydml.ir.expressions import Expr


def neutral(fold: Expr) -> Expr:
    """The number that changes nothing: of sums -0.0 and not 0.0, which would make a sum of -0.0 alone 0.0."""
    kind = fold.type
    assert kind is not None  # noqa: S101 - for type checkers: truths are not folded
    least, most = (-math.inf, math.inf) if kind.is_float else kind.limits
    return const({"fold_sum": -0.0, "fold_product": 1.0, "fold_max": least, "fold_min": most}[fold.op], kind)


def levels_of(*values: Expr) -> dict[Expr, int]:
    """How deep in one another the folds up to each node are."""
    found: dict[Expr, int] = {}
    for node in walk(*values):
        found[node] = max((found[arg] for arg in node.args), default=0) + (node.op in FOLDS)
    return found


def folds_by_level(*values: Expr) -> list[list[Expr]]:
    """The folds that need no other, those that need these, and so on."""
    levels = levels_of(*values)
    folds = [node for node in levels if node.op in FOLDS]
    return [[node for node in folds if levels[node] == k] for k in range(1, max(levels.values()) + 1)]


def varying_nodes(values: Sequence[Expr], leaves: Collection[Expr]) -> dict[Expr, bool]:
    """Whether each node has a number for each element of a row, given the leaves that do: a fold has one for all."""
    found: dict[Expr, bool] = {}
    for node in walk(*values):
        found[node] = node in leaves or (node.op not in FOLDS and any(found[arg] for arg in node.args))
    return found


class Pass(NamedTuple):
    """One pass over the elements of a row."""

    folds: list[Expr]
    """Its folds; nothing in the pass that writes."""
    roots: list[Expr]
    """The values it computes of each element: the folds' arguments, or the values of targets that have one for each."""
    once: list[Expr]
    """The values it takes that are the same for a row, without leaves: each folded before, or computed of those."""
    leaves: list[Expr]
    """The loads, coordinates and numbers that it takes."""
    kept: list[Expr]
    """The values it takes of those that an earlier pass kept."""
    keeps: list[Expr]
    """The values that later passes would compute again."""

    @property
    def stops(self) -> list[Expr]:
        """Everything that it takes."""
        return [*self.once, *self.leaves, *self.kept]


def find_passes(
    values: Sequence[Expr],
    by_element: Sequence[Expr],
    varying: Collection[Expr],
    *,
    dear: int,
    early: Collection[Expr] = (),
) -> list[Pass]:
    """The passes of trees of which some leaves vary along the row; some of them have a value for each element.

    What takes `dear` operations or more is kept for later passes; 0 for nothing. Of the values by element some are
    written `early`: by the first pass that computes them, and later ones read them there.
    """
    changes = varying_nodes(values, varying)
    steps = [(folds, [fold.args[0] for fold in folds]) for folds in folds_by_level(*values)]
    if rest := [value for value in by_element if value not in early]:
        steps.append(([], rest))
    passes: list[Pass] = []
    known: set[Expr] = set()
    for k, (folds, roots) in enumerate(steps):
        later = [root for _, others in steps[k + 1 :] for root in others]
        taken = _reached(roots, changes, known)
        keeps = [node for node in taken if node in early and node not in known]
        if dear:
            keeps += [node for node in _shared(roots, later, changes, {*known, *keeps}, dear) if node not in keeps]
        known.update(keeps)
        passes.append(
            Pass(
                folds,
                roots,
                [node for node in taken if not changes[node] and node.op not in LEAVES],
                [node for node in taken if node.op in LEAVES],
                [node for node in taken if node in known and node not in keeps],
                keeps,
            )
        )
    return passes


def _reached(roots: Sequence[Expr], changes: dict[Expr, bool], known: Collection[Expr]) -> list[Expr]:
    """The nodes computed of each element, down to those that are the same for a row or known, and these."""
    found: dict[Expr, None] = {}
    pending = list(reversed(roots))
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = None
            if changes[node] and node not in known:
                pending += reversed(node.args)
    return list(found)


def _shared(
    roots: Sequence[Expr], later: Sequence[Expr], changes: dict[Expr, bool], known: Collection[Expr], dear: int
) -> list[Expr]:
    """The largest parts of what is computed now and later, where they are dear."""
    now = {node for node in _reached(roots, changes, known) if changes[node] and node not in known}
    after = [node for node in _reached(later, changes, known) if changes[node]]
    tops = {arg for node in after if node not in now for arg in node.args if arg in now} | {*later} & now
    weight = {top: sum(node.op not in LEAVES for node in _reached([top], changes, known)) for top in tops}
    return [node for node in after if weight.get(node, 0) >= dear and node.type is not None]
