"""Contractions as products of matrices: rows, columns, terms, and the matrices that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.engines.cuda.emit_product import AROUND, Parts
from anydml.ir.plan import Loops, simplify

if TYPE_CHECKING:
    from anydml.ir.patterns import Contraction
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class Matrices:
    """A contraction as matrices: by group of dimensions a walk of all that is read, and of the target."""

    rows: Loops
    columns: Loops
    terms: Loops
    batch: Loops
    parts: Parts
    sources: tuple[View, ...]
    """The views that are read, by load, and the target."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, terms."""
        return self.rows.count, self.columns.count, self.terms.count

    def strides(self, view: int) -> dict[str, int]:
        """From row to row, from column to column, from term to term."""
        ways = {"row": self.rows, "column": self.columns, "term": self.terms}
        return {name: sum(loops.strides[view]) for name, loops in ways.items()}

    def pair(self, view: int) -> tuple[int, int]:
        """Down a tile of the part of the expression that a view is of, and across it."""
        parts = [part for part, _ in self.parts.views] + ["rest"]
        down, across = AROUND[parts[view]]
        return self.strides(view)[down], self.strides(view)[across]

    @property
    def is_memory(self) -> list[bool]:
        """By view, whether it is no coordinate."""
        return [leaf.op == "load" for _, leaf in self.parts.views] + [True]


def matrices_of(primitive: Reduce, found: Contraction) -> Matrices | None:
    """Merge each group of dimensions into one; those of rows and columns that remain are of further matrices."""
    parts = Parts.of(primitive.value, found)
    leaves = [leaf for _, leaf in parts.views]
    strides, offsets, read = [], [], []
    for leaf in leaves:  # a coordinate is a view of its own numbers
        if leaf.op == "load":
            read.append(view := primitive.sources[int(leaf.value)])
            strides.append(view.strides)
            offsets.append(view.offset)
        else:
            strides.append(tuple(int(k == leaf.value) for k in range(len(found.sizes))))
            offsets.append(0)
    rows_of = (*strides, primitive.target.strides)
    starts = (*offsets, primitive.target.offset)
    left, right = 0, len(parts.left)
    groups = []
    for group, lead in ((found.rows, left), (found.columns, right), (found.folded, right), (found.batch, -1)):
        sizes = tuple(found.sizes[k] for k in group)
        own = tuple(tuple(row[k] for k in group) for row in rows_of)
        loops = simplify(Loops(sizes, own, starts), lead % len(rows_of))
        starts = loops.offsets
        groups.append(loops)
    rows, columns, terms, batch = groups
    if len(terms.sizes) > 1:
        return None
    every = (batch, *(of.pick(range(len(of.sizes) - 1)) for of in (rows, columns)))
    rows, columns = (of.pick(range(len(of.sizes))[-1:]) for of in (rows, columns))
    merged = tuple(tuple(step for of in every for step in of.strides[view]) for view in range(len(rows_of)))
    sizes = tuple(size for of in every for size in of.sizes)
    batch = simplify(Loops(sizes, merged, starts), len(rows_of) - 1)
    return Matrices(rows, columns, terms, batch, parts, (*read, primitive.target))


def turned(found: Contraction) -> Contraction:
    """The same with the factors' roles exchanged: the transposed result."""
    return found._replace(left=found.right, right=found.left, rows=found.columns, columns=found.rows)
