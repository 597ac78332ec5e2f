"""Contractions: the two factors of a sum of products, and which dimensions of its walk are M, N, K and batch.

What a reduce is matched to before an engine plans it: GEMM, convolution and their kin. `ir/windows.py` has what windows
add to it, `ir/epilogue.py` what is computed from the sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk
from anydml.tapes import cached

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Computation
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
