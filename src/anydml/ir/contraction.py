"""Contractions: the two factors of a sum of products, and which dimensions of its walk are M, N, K and batch.

What a reduce is matched to before an engine plans it: GEMM, convolution and their kin. `ir/windows.py` has what windows
add to it, `ir/epilogue.py` what is computed from the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.guards import cached
from anydml.ir.expressions import FOLDS, const, load
from anydml.ir.loops import Loops, runs, simplify
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Computation, Reduce
    from anydml.ir.views import View

    _Lie: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
    """The sizes and strides of a source."""


class Contraction(NamedTuple):
    """A reduce of one value a row, an expression of the sum of left·right: GEMM and its kin.

    Dimensions of the walk are given by their numbers, without those of size 1: the two factors vary along those of
    `batch` and `folded` both, the left one alone along `rows`, the right one alone along `columns`.
    """

    fold: Expr
    """The sum, a node of the reduce's value: what is around it is computed once for each sum."""
    left: Expr
    right: Expr
    sizes: tuple[int, ...]
    """Of the walk."""
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    folded: tuple[int, ...]

    @property
    def transposed(self) -> Contraction:
        """The same with the factors' roles exchanged."""
        return self._replace(left=self.right, right=self.left, rows=self.columns, columns=self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.count(self.rows), self.count(self.columns), self.count(self.folded)

    def count(self, dimensions: Sequence[int]) -> int:
        """The elements of some dimensions."""
        return math.prod(self.sizes[k] for k in dimensions)


class ConvolutionAxes(NamedTuple):
    """The dimensions of a convolution's walk, as its operator writes it: what is kept, then what is summed."""

    outer: tuple[int, ...]
    """The batch, and the groups."""
    channel: int
    """The channels of the output, of a group."""
    places: tuple[int, ...]
    inputs: int
    """The channels of the input, of a group."""
    taps: tuple[int, ...]
    """Those of the window, each along the place of its number."""

    @classmethod
    def of(cls, rank: int, depth: int) -> ConvolutionAxes:
        """Those of a walk of so many dimensions, of which the last are summed; other walks may lack some."""
        kept = rank - depth
        first = kept - depth
        places = tuple(range(first + 1, kept))
        return cls(tuple(range(first)), first, places, kept, tuple(range(kept + 1, rank)))


def varies_along(value: Expr, sources: Sequence[View]) -> frozenset[int]:
    """The dimensions along which an expression of some sources is not the same everywhere."""
    return _varies_along(value, [(view.sizes, view.strides) for view in sources])


def _varies_along(value: Expr, lies: Sequence[_Lie]) -> frozenset[int]:
    found: set[int] = set()
    for node in walk(value):
        if node.op == "coordinate":
            found.add(int(node.value))
        elif node.op == "load":
            sizes, strides = lies[int(node.value)]
            found |= {k for k, stride in enumerate(strides) if stride and sizes[k] > 1}
    return frozenset(found)


def match_contraction(primitive: Computation) -> Contraction | None:
    """The two factors of a reduce that sums products of what varies along different dimensions; None for others."""
    if primitive.also or not primitive.depth:
        return None
    lies = tuple((view.sizes, view.strides) for view in primitive.sources)
    return _match_contraction(primitive.value, primitive.sizes, primitive.depth, primitive.is_by_row, lies)


@cached(1024)  # every rule asks, of layers that are alike
def _match_contraction(
    value: Expr, sizes: tuple[int, ...], depth: int, is_by_row: bool, lies: tuple[_Lie, ...]
) -> Contraction | None:
    folds = [node for node in walk(value) if node.op in FOLDS]
    if len(folds) != 1 or folds[0].op != "fold_sum" or folds[0].args[0].op != "mul":
        return None
    (fold,) = folds
    left, right = fold.args[0].args
    kept = len(sizes) - depth
    if not is_by_row and math.prod(sizes[kept:]) > 1:
        return None
    in_left, in_right = (_varies_along(factor, lies) for factor in (left, right))
    wide = [k for k, size in enumerate(sizes) if size > 1]
    folded = tuple(k for k in wide if k >= kept)
    if not all(k in in_left and k in in_right for k in folded):
        return None
    batch = tuple(k for k in wide if k < kept and k in in_left and k in in_right)
    columns = tuple(k for k in wide if k < kept and k in in_right and k not in in_left)
    rows = tuple(k for k in wide if k < kept and k not in (*batch, *columns))
    return Contraction(fold, left, right, sizes, batch, rows, columns, folded)


def is_product(primitive: Computation) -> bool:
    """Whether a reduce is a product of matrices, or of a matrix and a vector."""
    product = match_contraction(primitive)
    return product is not None and bool(product.rows or product.columns)


def adds_to_product(primitive: Computation, source: View) -> bool:
    """Whether a reduce is a product of matrices to which it adds a source, element by element of its target.

    Products over windows are none: engines may compute some of their results twice.
    """
    kept, target = len(primitive.sizes) - primitive.depth, primitive.target
    if any(source.strides[kept:]) or source.strides[:kept] != target.strides[:kept] or source.offset != target.offset:
        return False
    product = match_contraction(primitive)
    if product is None or not (product.rows and product.columns) or len(product.folded) > 1:
        return False
    read = (primitive.sources[int(node.value)] for node in walk(product.fold) if node.op in ("load", "fetch"))
    is_alike = source.sizes[:kept] == target.sizes[:kept] and source.data_type is target.data_type
    return is_alike and source not in read and all(node.op != "fetch" for node in walk(primitive.value))


# How the operands of a contraction are strided along its dimensions.


class StridedOperand(NamedTuple):
    """A view as it lies along the dimensions of a contraction: in elements, or in bytes."""

    tensor: str
    """Empty for a coordinate, and for what lies in an engine's own memory."""
    offset: int
    strides: tuple[int, ...]
    """By dimension of the walk."""
    width: int
    """Bytes of an element; 1 for a coordinate."""

    @classmethod
    def of(cls, view: View) -> StridedOperand:
        """A view, in elements."""
        return cls(view.tensor, view.offset, view.strides, view.data_type.size_in_bytes)

    def along(self, dimensions: Sequence[int]) -> int:
        """The stride of dimensions that are one."""
        return self.strides[dimensions[-1]] if dimensions else 0

    @property
    def in_bytes(self) -> StridedOperand:
        """The same, counted in bytes and not in elements."""
        return self._replace(offset=self.offset * self.width, strides=tuple(s * self.width for s in self.strides))


def operand_of(leaf: Expr, sources: Sequence[View], rank: int) -> StridedOperand:
    """How a load or a coordinate lies along so many dimensions: a coordinate is a view of its own numbers."""
    if leaf.op == "coordinate":
        return StridedOperand("", 0, tuple(int(k == leaf.value) for k in range(rank)), 1)
    return StridedOperand.of(sources[int(leaf.value)])


def byte_less_zero(value: Expr) -> tuple[Expr, Expr] | None:
    """The load of a byte, and what is taken off it, in a factor of 32 bits; None for other factors."""
    number, zero = value.args if value.op == "sub" else (value, const(0, value.type))
    leaf = number.args[0] if number.op == "cast" else number
    is_byte = leaf.op == "load" and leaf.type in (DataType.INT8, DataType.UINT8)
    return (leaf, zero) if is_byte else None


class StridedContraction:
    """A contraction, with how all that it reads and writes lies along its dimensions: strides in bytes.

    Rows, columns and what is folded are as they were found; an engine that needs one dimension of each merges them.
    """

    def __init__(self, primitive: Reduce, found: Contraction) -> None:
        assert found.fold.type is not None  # noqa: S101 - for type checkers: truths are not folded
        self.primitive, self.found = primitive, found
        self.left, self.right = found.left, found.right
        self.batch, self.rows, self.columns, self.folded = found.batch, found.rows, found.columns, found.folded
        self._strided: dict[Expr, StridedOperand] = {}
        self.sum = load(len(primitive.sources), found.fold.type)
        self.finish = rewrite(primitive.value, lambda node: self.sum if node is found.fold else node)
        """The value of a result, of the sum as if it were read."""
        target = StridedOperand.of(primitive.target).in_bytes
        self.target = target._replace(strides=(*target.strides, *[0] * (len(found.sizes) - len(target.strides))))

    @property
    def m(self) -> int:
        """Rows."""
        return self.count(self.rows)

    @property
    def n(self) -> int:
        """Columns."""
        return self.count(self.columns)

    @property
    def k(self) -> int:
        """Terms of a sum."""
        return self.count(self.folded)

    def count(self, dimensions: Sequence[int]) -> int:
        """The elements of some dimensions."""
        return self.found.count(dimensions)

    def strided(self, node: Expr) -> StridedOperand:
        """How a load, a coordinate or the sum lies; the sum nowhere."""
        if (found := self._strided.get(node)) is None:
            rank = len(self.found.sizes)
            nowhere = StridedOperand("", 0, (0,) * rank, SUM_BYTES)
            found = nowhere if node is self.sum else operand_of(node, self.primitive.sources, rank).in_bytes
            self._strided[node] = found
        return found

    def all_strided(self, *values: Expr) -> list[StridedOperand]:
        """How all that expressions read lies."""
        return [self.strided(node) for node in walk(*values) if node.op in ("load", "coordinate")]

    def leaves(self, value: Expr) -> tuple[list[Expr], list[StridedOperand]]:
        """The reads of a tree, and their layouts. The sum comes first: it is for the engine to say where it lies."""
        leaves = [node for node in walk(value) if node.op in ("load", "coordinate")]
        leaves.sort(key=lambda node: node is not self.sum)
        return leaves, [self.strided(node) for node in leaves]

    def is_packed(self, lie: StridedOperand, dimensions: Sequence[int]) -> bool:
        """Whether elements lie side by side along some dimensions, the last one innermost."""
        step = lie.width
        for k in reversed(dimensions):
            if self.found.sizes[k] > 1 and lie.strides[k] != step:
                return False
            step *= self.found.sizes[k]
        return True

    def runs(self, dimensions: tuple[int, ...], lies: Sequence[StridedOperand]) -> list[tuple[int, ...]]:
        """Some dimensions in runs, each of which lies as one does."""
        return runs(dimensions, self.found.sizes, [lie.strides for lie in lies])

    def merge(
        self, dimensions: tuple[int, ...], lies: Sequence[StridedOperand]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The run of some dimensions that has the most elements, and the dimensions that are not of it."""
        found = self.runs(dimensions, lies)
        best = max(found, key=self.count, default=())
        return best, tuple(k for run in found if run is not best for k in run)


SUM_BYTES = 4
"""Of a sum, whatever its type."""


# Contractions as products of matrices: rows, columns, terms, and the matrices that there are.


AROUND = {"left": ("row", "term"), "right": ("term", "column"), "rest": ("row", "column")}
"""By part of the expression, what goes down a tile of it, and what goes across."""


@dataclass(frozen=True, slots=True)
class ContractionLeaves:
    """The leaves of a contraction: loads first, then coordinates."""

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    """Outside of the sum."""

    @classmethod
    def of(cls, value: Expr, found: Contraction) -> ContractionLeaves:
        """Those of the factors, and of what is around the sum."""
        parts = [list(walk(found.left)), list(walk(found.right)), list(walk(value, known=(found.fold,)))]
        return cls(*(tuple(n for op in ("load", "coordinate") for n in nodes if n.op == op) for nodes in parts))

    @property
    def views(self) -> list[tuple[str, Expr]]:
        """Every leaf with its part, in the order of a kernel's views."""
        return [(part, leaf) for part in AROUND for leaf in getattr(self, part)]


@dataclass(frozen=True, slots=True)
class Matrices:
    """A contraction as matrices: by group of dimensions a walk of all that is read, and of the target."""

    rows: Loops
    columns: Loops
    terms: Loops
    batch: Loops
    parts: ContractionLeaves
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
    parts = ContractionLeaves.of(primitive.value, found)
    leaves = [leaf for _, leaf in parts.views]
    read = [primitive.sources[int(leaf.value)] for leaf in leaves if leaf.op == "load"]
    operands = [operand_of(leaf, primitive.sources, len(found.sizes)) for leaf in leaves]
    rows_of = (*(one.strides for one in operands), primitive.target.strides)
    starts = (*(one.offset for one in operands), primitive.target.offset)
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
