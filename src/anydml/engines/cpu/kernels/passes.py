"""The work of a reduce on a row, in order: passes over the row's elements, and values computed once a row between them.

Folds that need no other fold share the first pass, those that need these the second, and so on; where there is a value
for each element a last pass computes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.expressions import FOLDS, LEAVES
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anydml.ir.expressions import Expr

DEAR = 12
"""Operations from which on a row's elements are kept for the next pass, and not computed again."""
CHEAP = 2
"""Those where vectors lie along the row, and the nearest cache has room: a layer norm of 128 x 1024 takes 105 us so,
and 114 computed again (one thread of an Arm Neoverse-N1)."""


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
    level: dict[Expr, int] = {}
    changes: dict[Expr, bool] = {}
    for node in nodes:
        is_fold = node.op in FOLDS
        level[node] = max((level[arg] for arg in node.args), default=0) + is_fold
        changes[node] = node in varying or (not is_fold and any(changes[arg] for arg in node.args))
    steps: list[tuple[list[Expr], list[Expr]]] = []
    for k in range(1, max(level.values()) + 1):
        folds = [node for node in nodes if node.op in FOLDS and level[node] == k]
        steps.append((folds, [fold.args[0] for fold in folds]))
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
