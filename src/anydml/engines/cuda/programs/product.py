"""Products of matrices, planned: the reduces that sum left·right, with whatever is computed of each sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cuda.emit import bits_of
from anydml.engines.cuda.emit_product import emit_product
from anydml.engines.cuda.kernels.products import Product
from anydml.engines.cuda.kernels.rows import Line
from anydml.engines.cuda.launch import ALIGNMENT, IS_INTERPRETED, Block, Kernel
from anydml.engines.cuda.programs.shapes import alignment_of, ceil_power, kind_of, over, step_of
from anydml.enums import DataType
from anydml.ir.numerics import expand
from anydml.ir.patterns import match_contraction
from anydml.ir.plan import Loops, simplify
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.ir.expressions import Expr
    from anydml.ir.patterns import Contraction
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

TERMS = {
    DataType.FLOAT16: DataType.FLOAT32,
    DataType.FLOAT32: DataType.FLOAT32,
    DataType.INT8: DataType.INT32,
}
"""By the matrices' type, the type of the sums that the hardware makes of them."""


class Shape(NamedTuple):
    """How a product is cut: a tile's rows, columns and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float = 1.0
    """A tile's share of the hardware's speed, measured on a H200 where tiles fill it."""
    precision: str = "ieee"


HALF = (
    Shape(128, 256, 64, 8, 3),
    Shape(128, 128, 64, 4, 4, 0.95),
    Shape(64, 128, 64, 4, 5, 0.8),
    Shape(64, 64, 128, 4, 4, 0.6),
)
SINGLE = (Shape(128, 64, 32, 4, 4, 1.0, "tf32x3"), Shape(64, 64, 64, 4, 3, 1.01, "tf32x3"))
WHOLE = (Shape(128, 128, 128, 8, 3), Shape(64, 64, 64, 4, 4, 0.7))
SKINNY = 16
"""Rows up to which the time is that of reading the other matrix."""
TINY = Shape(16, 16, 16, 1, 1)
"""What is interpreted."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """A contraction as matrices: by group of dimensions a walk of the factors, what else is read, and the target."""

    rows: Loops
    columns: Loops
    terms: Loops
    batch: Loops
    offsets: tuple[int, ...]
    views: tuple[View, ...]
    """Both factors' sources, what else is read, by load, and the target."""
    leaves: tuple[Expr, ...]
    """The loads and the coordinates outside of the sum."""

    def strides(self, view: int) -> tuple[int, int, int]:
        """From row to row, from column to column, from term to term."""
        rows, columns, terms = (of.strides[view] for of in (self.rows, self.columns, self.terms))
        return sum(rows), sum(columns), sum(terms)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, terms."""
        return self.rows.count, self.columns.count, self.terms.count


def matrices_of(primitive: Reduce, found: Contraction, factors: tuple[Expr, Expr]) -> Matrices | None:
    """Merge each group of dimensions into one; those of rows and columns that remain are of further matrices."""
    nodes = list(walk(primitive.value, known=(found.fold,)))
    loads, coordinates = ([node for node in nodes if node.op == op] for op in ("load", "coordinate"))
    read = [primitive.sources[int(node.value)] for node in (*factors, *loads)]
    counted = [tuple(int(k == node.value) for k in range(len(found.sizes))) for node in coordinates]
    strides = (*(view.strides for view in read), *counted, primitive.target.strides)
    offsets = (*(view.offset for view in read), *(0 for _ in counted), primitive.target.offset)
    groups = []
    for group, lead in ((found.rows, 0), (found.columns, 1), (found.folded, 1), (found.batch, len(strides) - 1)):
        sizes = tuple(found.sizes[k] for k in group)
        loops = simplify(Loops(sizes, tuple(tuple(row[k] for k in group) for row in strides), offsets), lead)
        offsets = loops.offsets
        groups.append(loops)
    rows, columns, terms, batch = groups
    if len(terms.sizes) > 1:
        return None
    outer = [of.pick(range(len(of.sizes) - 1)) for of in (rows, columns)]
    rows, columns = (of.pick(range(len(of.sizes))[-1:]) for of in (rows, columns))
    every = (batch, *outer)
    merged = tuple(tuple(step for of in every for step in of.strides[view]) for view in range(len(strides)))
    batch = simplify(Loops(tuple(size for of in every for size in of.sizes), merged, offsets), len(strides) - 1)
    return Matrices(rows, columns, terms, batch, batch.offsets, (*read, primitive.target), (*loads, *coordinates))


def turned(found: Contraction) -> Contraction:
    """The same with the factors' roles exchanged: the transposed result."""
    return found._replace(left=found.right, right=found.left, rows=found.columns, columns=found.rows)


def load_of(factor: Expr) -> Expr | None:
    """The load that a factor is, converted or not."""
    if factor.op == "cast" and factor.args[0].type in TERMS and factor.type is not None:
        source = factor.args[0].type
        is_exact = TERMS[source] is factor.type or (source is DataType.FLOAT16 and factor.type is DataType.FLOAT32)
        factor = factor.args[0] if is_exact else factor
    return factor if factor.op == "load" and factor.type in TERMS else None


def shape_of(found: Matrices, kind: DataType, figures: Figures) -> Shape:
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell."""
    rows, columns, _ = found.shape
    if IS_INTERPRETED:
        return TINY._replace(precision="tf32x3" if kind is DataType.FLOAT32 else "ieee")
    if rows <= SKINNY and kind is not DataType.FLOAT32:
        return Shape(16, 32, 256, 4, 4)
    if kind is DataType.FLOAT32 and rows <= SKINNY:
        return Shape(16, 32, 128, 4, 4, 1.0, "tf32x3")
    shapes = {DataType.FLOAT16: HALF, DataType.FLOAT32: SINGLE, DataType.INT8: WHOLE}[kind]

    def time(shape: Shape) -> float:
        tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * found.batch.count
        rounds = -(-tiles // figures.multiprocessors)
        slower = 0.8 if shape.rows * shape.columns <= 4096 and rounds > 2 else 1.0
        return rounds * shape.rows * shape.columns / (shape.speed * slower)

    return min(shapes, key=time)


@dataclass(frozen=True, slots=True)
class ProductProgram:
    """A product, planned."""

    value: Expr
    fold: Expr
    matrices: Matrices
    shape: Shape
    figures: Figures
    kernels: dict[bool, Kernel] = field(default_factory=dict, repr=False)
    """By whether blocks are read by descriptor, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures) -> ProductProgram | None:
        """For sums of products of two matrices of one type, converted or not; None for others."""
        primitive = replace(primitive, value=expand(primitive.value))
        found = match_contraction(primitive)
        if found is None:
            return None
        left, right = load_of(found.left), load_of(found.right)
        if left is None or right is None or left.type is not right.type or found.fold.type is not TERMS[left.type]:  # type: ignore[index]
            return None
        rows, columns = (math.prod(found.sizes[k] for k in group) for group in (found.rows, found.columns))
        # Three products of TF32 want neighbours in the right matrix to be terms: 1.57 of cuBLAS's speed, not 1.30.
        by_term = [primitive.sources[int(factor.value)].strides[found.folded[-1]] for factor in (left, right)] if found.folded else []
        is_wrong = left.type is DataType.FLOAT32 and by_term and by_term[0] == 1 != by_term[1] and rows > SKINNY
        if min(rows, SKINNY + 1) > columns or (is_wrong and columns > SKINNY):
            found, left, right = turned(found), right, left
        matrices = matrices_of(primitive, found, (left, right))
        if matrices is None:
            return None
        program = cls(primitive.value, found.fold, matrices, shape_of(matrices, left.type, figures), figures)  # type: ignore[arg-type]
        program.kernel(program.has_blocks()).prepare()
        return program

    def has_blocks(self) -> bool:
        """Whether blocks can be read by descriptor, as far as the layout goes: rows of both are 16 bytes' multiples."""
        if IS_INTERPRETED or self.shape.rows <= SKINNY or self.figures.target.arch < 90:
            return False
        return all(self._lines(view) is not None for view in (0, 1))

    def _lines(self, view: int) -> tuple[bool, int, int] | None:
        """Of a factor: whether its lines go along the terms, their stride, and the lines from matrix to matrix."""
        found, width = self.matrices, self.matrices.views[view].data_type.size_in_bytes
        by_line, by_term = found.strides(view)[view], found.strides(view)[2]
        batch = found.batch.strides[view]
        is_along = by_term == 1
        stride = by_line if is_along else by_term
        if (by_line != 1 and not is_along) or stride <= 0 or stride * width % ALIGNMENT or len(batch) > 1:
            return None
        apart = sum(batch)
        if apart % stride or apart < 0 or (apart and not is_along and found.shape[2] % self.shape.depth):
            return None
        lines = found.shape[view] if is_along else found.shape[2]
        is_small = apart // stride * found.batch.count + lines < 2**31
        return (is_along, stride, apart // stride) if is_small and min(found.shape) > 0 else None

    def _reach(self, view: int) -> int:
        """The largest offset in one matrix of a factor, tiles that go past its ends included."""
        by_line, by_term = self.matrices.strides(view)[view], self.matrices.strides(view)[2]
        lines = self.matrices.shape[view] + self.shape[view]
        return abs(by_line) * lines + abs(by_term) * self.shape.depth

    def kernel(self, by_blocks: bool) -> Kernel:
        """The kernel that reads blocks by descriptor, or by pointers."""
        if by_blocks not in self.kernels:
            self.kernels[by_blocks] = self._kernel(by_blocks)
        return self.kernels[by_blocks]

    def _kernel(self, by_blocks: bool) -> Kernel:
        found, shape = self.matrices, self.shape
        count = len(found.leaves) + 3

        def spans(leaf: Expr) -> tuple[bool, bool]:
            by_row, by_column, _ = found.strides(2 + found.leaves.index(leaf))
            return by_row != 0, by_column != 0

        made = emit_product(self.value, self.fold, by_blocks, spans)
        assert made.leaves == found.leaves  # noqa: S101 - both walk the same tree
        loads = sum(leaf.op == "load" for leaf in found.leaves)
        pairs, lines = [], []
        for view in range(count):
            by_row, by_column, by_term = found.strides(view)
            pair = {0: (by_row, by_term), 1: (by_term, by_column)}.get(view, (by_row, by_column))
            batch = found.batch.strides[view] or (0,)
            is_memory = view < 2 + loads or view == count - 1
            align = alignment_of((*batch, *(step for step in pair if step_of(step) == 2))) if is_memory else 1
            pairs += [over(pair, align), over(batch[::-1], align)]
            lines.append(Line(step_of(pair[0]), step_of(pair[1]), align))
        pointers: list[str | Block] = [kind_of(view.data_type) for view in found.views]
        blocks = [self._lines(view) for view in (0, 1)] if by_blocks else []
        for view, way in enumerate(blocks):
            assert way is not None  # noqa: S101 - for type checkers: it has blocks
            is_along, stride, apart = way
            size, block = found.shape[view], (shape.rows, shape.columns)[view]
            lead, inner = (size, found.shape[2]) if is_along else (found.shape[2], size)
            cut = (block, shape.depth) if is_along else (shape.depth, block)
            sizes = (apart * (found.batch.count - 1) + lead, inner)
            pointers[view] = Block(kind_of(found.views[view].data_type), sizes, stride, cut)
        evenly = tuple(n % m == 0 for n, m in zip(found.shape, shape[:3], strict=True))
        cuts = zip(found.shape, shape[:3], strict=True)
        tile = Product(
            rows=shape.rows,
            columns=shape.columns,
            depth=shape.depth,
            precision=shape.precision,
            aligns=tuple(min(alignment_of((n,)), m) for n, m in cuts),
            is_even=evenly,
            is_long=max(self._reach(view) for view in (0, 1)) >= 2**31,
            is_left_turned=bool(blocks and not blocks[0][0]),  # type: ignore[index]
            is_right_turned=bool(blocks and blocks[1][0]),  # type: ignore[index]
        )
        apart = tuple(way[2] for way in blocks if way) or (0, 0)
        starts = found.offsets[2 + loads : -1]
        numbers = (found.shape, found.batch.sizes[::-1] or (1,), apart, *pairs, *starts, *map(bits_of, made.given))
        constants = {"TILE": tile, "LEFT": lines[0], "RIGHT": lines[1]}
        constants |= {f"LINE{view}": line for view, line in enumerate(lines[2:])}
        tiles = -(-found.shape[0] // shape.rows) * -(-found.shape[1] // shape.columns)
        return Kernel(
            made.function, tuple(pointers), numbers, constants, tiles * found.batch.count, shape.warps, self.figures,
            fuses=False, stages=shape.stages,
        )  # fmt: skip

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; blocks are read by descriptor where both matrices begin at 16 bytes' multiples."""
        found = self.matrices
        loads = len(found.views) - 1
        offsets = (*found.offsets[:loads], found.offsets[-1])
        addresses = [
            places[view.tensor] + offset * view.data_type.size_in_bytes
            for view, offset in zip(found.views, offsets, strict=True)
        ]
        by_blocks = self.has_blocks() and not any(address % ALIGNMENT for address in addresses[:2])
        return self.kernel(by_blocks).launch(addresses)
