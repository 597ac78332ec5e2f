"""Split-K: a long sum of few results as sums of parts of its terms, which are added up after.

What an engine does where the results alone would leave most of a device idle; how many parts are worth it is its own
affair. Sums are added up in another order, which is the same at every run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.ir.expressions import Expr, coordinate, load
from anydml.ir.expressions import fold as fold_of
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = "parts of sums"
"""The memory between the two steps."""


def partial_sums(primitive: Reduce, fold: Expr, dimension: int, count: int) -> Reduce:
    """The sums of so many parts of a fold's terms, cut along a dimension of them; the parts are its first dimension.

    They lie in the order of the target's memory, one part after the other.
    """
    assert fold.type is not None  # noqa: S101 - for type checkers: truths are not folded
    sizes, target = primitive.sizes, primitive.target
    kept = len(sizes) - primitive.depth
    part, whole = sizes[dimension] // count, sizes[:kept]
    strides, reach = [0] * kept, 1
    for k in sorted((k for k in range(kept) if whole[k] > 1), key=lambda k: (abs(target.strides[k]), -k)):
        strides[k], reach = reach, reach * whole[k]
    fetched = {int(node.value) for node in walk(fold) if node.op == "fetch"}
    within = (count, *(part if k == dimension else size for k, size in enumerate(sizes)))

    def cut(slot: int) -> View:
        """A source with the part that a term is of as the first dimension; what is fetched is whole."""
        view = primitive.sources[slot]
        if slot in fetched:
            return view
        return replace(view, sizes=within, strides=(view.strides[dimension] * part, *view.strides))

    def moved(node: Expr) -> Expr:
        if node.op != "coordinate":
            return node
        own = coordinate(int(node.value) + 1)
        return own + coordinate(0) * part if node.value == dimension else own

    value, slots = renumbered(fold, {}, 0)
    ones = (1,) * primitive.depth
    between = View(PARTS, fold.type, (count, *whole, *ones), (reach, *strides, *(0 for _ in ones)))
    return Reduce(tuple(map(cut, slots)), between, rewrite(value, moved), primitive.depth, within[kept + 1 :])


def whole_of(primitive: Reduce, fold: Expr, partial: Reduce) -> Reduce:
    """What a reduce computes of its sums, which are those of the parts, in their order."""
    between, kept = partial.target, len(primitive.sizes) - primitive.depth
    count, *whole = between.sizes[: kept + 1]
    sizes = (*whole, count)
    total = fold_of("sum", load(0, between.data_type))
    value, slots = renumbered(primitive.value, {fold: total}, 1)
    fetched = {int(node.value) for node in walk(primitive.value, known=(fold,)) if node.op == "fetch"}

    def across(slot: int) -> View:
        view = primitive.sources[slot]
        return view if slot in fetched else replace(view, sizes=sizes, strides=(*view.strides[:kept], 0))

    parts = View(PARTS, between.data_type, sizes, (*between.strides[1 : kept + 1], between.strides[0]))
    target = replace(primitive.target, sizes=(*whole, 1), strides=(*primitive.target.strides[:kept], 0))
    return Reduce((parts, *map(across, slots)), target, value, 1, (count,))


def renumbered(value: Expr, known: Mapping[Expr, Expr], first: int) -> tuple[Expr, list[int]]:
    """A tree with the sources that it reads numbered anew from a first number on, and those sources' old numbers.

    Nodes that are known are replaced.
    """
    nodes = list(walk(value, known=known))
    slots = sorted({int(node.value) for node in nodes if node.op in ("load", "fetch")})
    made = dict(known)
    for node in nodes:
        number = first + slots.index(int(node.value)) if node.op in ("load", "fetch") else node.value
        made[node] = Expr(node.op, node.type, tuple(made[arg] for arg in node.args), number)
    return made[value], slots
