"""Maps and reduces of a kind that engines and graphs know better ways for, made and recognised."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, const, coordinate, fetch, given, load
from anydml.ir.trees import walk
from anydml.ir.verbs import Map
from anydml.tapes import cached

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Computation, Primitive
    from anydml.ir.views import View

    _Lie: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
    """The sizes and strides of a source."""


class Scaled(NamedTuple):
    """target[i] = source[i]·scale + bias, computed in FLOAT64; with a scale of 1 and a bias of 0 a conversion alone."""

    source: View
    target: View
    scale: float
    bias: float

    @property
    def is_conversion(self) -> bool:
        """Whether numbers are converted alone."""
        return self.scale == 1.0 and self.bias == 0.0


class Filled(NamedTuple):
    """target[i] = start + n·delta, where n counts the elements in the coordinates' order, the last running fastest.

    FLOAT types compute in FLOAT64, a product and then a sum, each rounded for itself, and round once more when an
    element is written; integers wrap. A delta of 0 leaves `start` as it is, -0.0 and NaN included.
    """

    target: View
    start: int | float
    """A number of the target's type: an int for an integer type, a float otherwise."""
    delta: int | float


def copy_of(source: View, target: View) -> Map:
    """target[i] = source[i]: bits are moved."""
    return Map((source,), target, load(0, source.data_type))


def is_copy(primitive: Primitive) -> TypeGuard[Map]:
    """Whether bits are moved from one view to another."""
    return is_plain(primitive) and len(primitive.sources) == 1 and primitive.value.op == "load"


def is_plain(primitive: Primitive) -> TypeGuard[Map]:
    """Whether it is a map that checks nothing, of one target."""
    return isinstance(primitive, Map) and not primitive.checks and not primitive.also


def filled(target: View, start: float, delta: float = 0) -> Map:
    """target[i] = start + n·delta for the element of number n."""
    kind = target.data_type
    if not delta:
        return Map((), target, given(start, kind))
    number, count = const(0, DataType.INT64), 1
    for k in reversed(range(len(target.sizes))):
        number = coordinate(k) * count + number if target.sizes[k] > 1 else number
        count *= target.sizes[k]
    wide = DataType.FLOAT64 if kind.is_float else kind
    return Map((), target, (number.to(wide) * given(delta, wide) + given(start, wide)).to(kind))


def match_filled(primitive: Map) -> Filled | None:
    """The start and the delta of what `filled` makes; None for other maps."""
    if primitive.sources or not is_plain(primitive):
        return None
    numbers = [node.value for node in walk(primitive.value) if node.op == "given"]
    if not 1 <= len(numbers) <= 2:
        return None
    delta, start = numbers[0], numbers[-1]  # which are one node where they are equal
    for step in (delta, 0):
        if filled(primitive.target, start, step).value is primitive.value:
            return Filled(primitive.target, start, step)
    return None


def scaled(source: View, target: View, scale: float = 1.0, bias: float = 0.0) -> Map:
    """target[i] = source[i]·scale + bias, made a number of the target's type; without a scale it is converted alone."""
    number = load(0, source.data_type)
    if scale != 1.0 or bias != 0.0:
        wide = number.to(DataType.FLOAT64)
        number = wide * given(scale, DataType.FLOAT64) + given(bias, DataType.FLOAT64)
    return Map((source,), target, number.to(target.data_type))


def match_scaled(primitive: Map) -> Scaled | None:
    """The scale and the bias of what `scaled` makes; None for other maps."""
    if len(primitive.sources) != 1 or not is_plain(primitive):
        return None
    node, numbers = primitive.value, []
    if node.op == "cast":
        (node,) = node.args
    if node.op == "load":
        return Scaled(primitive.source, primitive.target, 1.0, 0.0)
    for op in ("add", "mul"):
        if node.op != op or node.type is not DataType.FLOAT64 or node.args[1].op != "given":
            return None
        numbers.append(float(node.args[1].value))
        node = node.args[0]
    if node.op == "cast":
        (node,) = node.args
    bias, scale = numbers
    return Scaled(primitive.source, primitive.target, scale, bias) if node.op == "load" else None


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


BYTE_VALUES = 256
"""Values of a byte: the elements of a table by it."""


class Lookup(NamedTuple):
    """A byte for each element, and the table that it is looked up in."""

    byte: View
    table: View


def looked_up(byte: View, table: View, target: View) -> Map:
    """The entry of a table for each byte, by its bits."""
    place = load(0, byte.data_type).bits(DataType.UINT8).to(DataType.INT64)
    return Map((byte, table), target, fetch(1, target.data_type, [place]))


def match_lookup(primitive: Map) -> Lookup | None:
    """The parts of a map that `looked_up` makes; None for another."""
    if primitive.value.op != "fetch" or len(primitive.sources) != 2 or primitive.also or primitive.checks:
        return None
    byte, table = primitive.sources
    is_table = table.sizes == (BYTE_VALUES,) and table.strides == (1,)
    return Lookup(byte, table) if is_table and looked_up(byte, table, primitive.target) == primitive else None
