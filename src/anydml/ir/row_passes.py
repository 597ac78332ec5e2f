"""The work of a reduce on a row: folds by level, their neutral elements, and the passes over the row's elements, with
what each keeps for later ones and what those compute again.

Folds that need no other fold share the first pass, those that need these the second, and so on; where there is a value
for each element a last pass computes it. Engines write the passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.ir.expressions import FOLDS, LEAVES, const
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anydml.ir.expressions import Expr


def neutral(fold: Expr) -> Expr:
    """The neutral element of a fold: -0.0 and not 0.0, which would make a sum of -0.0 alone 0.0."""
    kind = fold.type
    assert kind is not None  # noqa: S101 - for type checkers: truths are not folded
    if fold.op in ("fold_sum", "fold_product"):
        return const({"fold_sum": -0.0, "fold_product": 1.0}[fold.op], kind)
    if kind.is_float:
        return const(-np.inf if fold.op == "fold_max" else np.inf, kind)
    limits = np.iinfo(kind.dtype)
    return const(int(limits.min if fold.op == "fold_max" else limits.max), kind)


def levels_of(*values: Expr) -> dict[Expr, int]:
    """How deep in one another the folds up to each node are."""
    found: dict[Expr, int] = {}
    for node in walk(*values):
        found[node] = max((found[arg] for arg in node.args), default=0) + (node.op in FOLDS)
    return found


def varies_along_row(values: Sequence[Expr], varying: Collection[Expr]) -> dict[Expr, bool]:
    """Whether each node of trees has a number for each element of a row, given the leaves that do."""
    found: dict[Expr, bool] = {}
    for node in walk(*values):
        found[node] = node in varying or (node.op not in FOLDS and any(found[arg] for arg in node.args))
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
    nodes = list(walk(*values))
    level, changes = levels_of(*values), varies_along_row(values, varying)
    steps: list[tuple[list[Expr], list[Expr]]] = []
    for k in range(1, max(level.values()) + 1):
        folds = [node for node in nodes if node.op in FOLDS and level[node] == k]
        steps.append((folds, [arg for fold in folds for arg in fold.args]))
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
