"""Split-K: long sums of few results are cut along K, several programs sum a part each, and a map adds the parts up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.cuda.gemm.gemm import SKINNY
from anydml.enums import DataType
from anydml.ir.contraction import match_contraction
from anydml.ir.epilogue import fetches_beside
from anydml.ir.expressions import Expr, coordinate, load
from anydml.ir.padded_reads import match_reached
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.ir.verbs import Primitive


PARTS = "parts of sums"
"""The memory between the two steps."""
TILE = 64
"""Results down and across of a tile, as most are cut that are few."""
MOST = 8
LEAST = 128
"""Terms of a part."""
TERM = {DataType.FLOAT16: 0.0058, DataType.FLOAT32: 0.030}
"""Microseconds that a tile takes for a term, on a H200."""
ANOTHER = 6.0
"""Microseconds that one more launch takes, with what it reads and writes."""


def divide(primitive: Primitive, multiprocessors: int) -> tuple[Reduce, Map] | None:
    """The two steps in place of a sum of products that leaves most multiprocessors idle; None where it stays whole."""
    if not isinstance(primitive, Reduce) or primitive.checks or primitive.also:
        return None
    found = match_contraction(primitive)
    if found is None or not found.folded or found.batch or found.fold.type is not DataType.FLOAT32:
        return None
    kind = _kind(found.left)
    kept, sizes = len(primitive.sizes) - primitive.depth, found.sizes
    if kind is None or kind is not _kind(found.right) or fetches_beside(primitive.value, found.fold):
        return None
    rows, columns, terms = found.shape
    tiles = -(-rows // TILE) * -(-columns // TILE)
    count = MOST
    while count > 1 and (sizes[kept] % count or terms // count < LEAST or count * tiles > 2 * multiprocessors):
        count //= 2
    if min(rows, columns) <= SKINNY or TERM[kind] * terms * (1 - 1 / count) < ANOTHER:
        return None
    return _divided(primitive, found.fold, kept, count)


def _kind(factor: Expr) -> DataType | None:
    """The type in memory of a factor that is read and no more."""
    node = factor.args[0] if factor.op == "cast" else factor
    is_read = node.op == "load" or match_reached(node) is not None
    return node.type if is_read and node.type in TERM and factor.type is DataType.FLOAT32 else None


def _divided(primitive: Reduce, fold: Expr, kept: int, count: int) -> tuple[Reduce, Map]:
    sizes, target = primitive.sizes, primitive.target
    part, whole = sizes[kept] // count, sizes[:kept]
    strides, reach = [0] * kept, 1
    for k in sorted((k for k in range(kept) if whole[k] > 1), key=lambda k: (abs(target.strides[k]), -k)):
        strides[k], reach = reach, reach * whole[k]  # in the target's order
    fetched = {int(node.value) for node in walk(fold) if node.op == "fetch"}

    def cut(slot: int) -> View:
        """A source with the part that a term is of as the first dimension; what is fetched is whole."""
        view = primitive.sources[slot]
        if slot in fetched:
            return view
        within = (count, *view.sizes[:kept], part, *view.sizes[kept + 1 :])
        return replace(view, sizes=within, strides=(view.strides[kept] * part, *view.strides))

    def moved(node: Expr) -> Expr:
        if node.op != "coordinate":
            return node
        own = coordinate(int(node.value) + 1)
        return own + coordinate(0) * part if node.value == kept else own

    def across(view: View) -> View:
        return replace(view, sizes=whole, strides=view.strides[:kept])

    value, slots = _renumbered(fold, {}, 0)
    ones = (1,) * primitive.depth
    between = View(PARTS, DataType.FLOAT32, (count, *whole, *ones), (reach, *strides, *(0 for _ in ones)))
    rows = (part, *primitive.rows[1:])
    first = Reduce(tuple(map(cut, slots)), between, rewrite(value, moved), primitive.depth, rows)
    parts = [View(PARTS, DataType.FLOAT32, whole, tuple(strides), number * reach) for number in range(count)]
    total = [load(number, DataType.FLOAT32) for number in range(count)]
    while len(total) > 1:
        total = [a + b for a, b in zip(total[::2], total[1::2], strict=True)]
    value, slots = _renumbered(primitive.value, {fold: total[0]}, count)
    return first, Map((*parts, *(across(primitive.sources[slot]) for slot in slots)), across(target), value)


def _renumbered(value: Expr, known: dict[Expr, Expr], first: int) -> tuple[Expr, list[int]]:
    """A tree with the sources that it reads numbered anew from a first number on, and those sources' old numbers."""
    nodes = list(walk(value, known=known))
    slots = sorted({int(node.value) for node in nodes if node.op in ("load", "fetch")})
    made = dict(known)
    for node in nodes:
        number = first + slots.index(int(node.value)) if node.op in ("load", "fetch") else node.value
        made[node] = Expr(node.op, node.type, tuple(made[arg] for arg in node.args), number)
    return made[value], slots
