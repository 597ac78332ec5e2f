"""Products of matrices, planned: the reduces that sum left·right, with whatever is computed of each sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import bits_of, bounded
from anydml.engines.cuda.emit_product import emit_product
from anydml.engines.cuda.kernels.products import Product
from anydml.engines.cuda.kernels.rows import Line
from anydml.engines.cuda.launch import ALIGNMENT, IS_INTERPRETED, Block, Kernel
from anydml.engines.cuda.programs.product_matrices import matrices_of, turned
from anydml.engines.cuda.programs.product_shapes import FEW, SKINNY, shape_of
from anydml.engines.cuda.programs.shapes import alignment_of, kind_of, over, step_of
from anydml.enums import DataType
from anydml.ir.numerics import expand
from anydml.ir.patterns import copy_of, match_contraction
from anydml.ir.trees import rewrite, walk
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.emit_product import Way
    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.engines.cuda.programs.product_matrices import Matrices
    from anydml.engines.cuda.programs.product_shapes import Shape
    from anydml.ir.expressions import Expr
    from anydml.ir.patterns import Contraction
    from anydml.ir.verbs import Map, Reduce

TERMS = {
    DataType.FLOAT16: DataType.FLOAT32,
    DataType.FLOAT32: DataType.FLOAT32,
    DataType.INT8: DataType.INT32,
}
"""By the matrices' type, the type of the sums that the hardware makes of them."""
LAID_OUT = "matrix by row"
"""The name of a layout that is made ahead."""


def kind_of_factor(factor: Expr) -> DataType | None:
    """The type of the load that a factor is, converted or not, where the hardware multiplies it."""
    source = factor.args[0] if factor.op == "cast" else factor
    if source.op != "load" or source.type not in TERMS or TERMS[source.type] is not factor.type:
        return None
    return source.type


def is_small(factor: Expr) -> bool:
    """Whether a factor is a byte, or the difference of two: at most 255 either way."""
    if factor.op == "sub":
        return all(map(is_small, factor.args))
    source = factor.args[0] if factor.op == "cast" else factor
    return source.op == "load" and source.type in (DataType.INT8, DataType.UINT8) and factor.type is DataType.INT32


@dataclass(frozen=True, slots=True)
class ProductProgram:
    """A product, planned."""

    value: Expr
    found: Contraction
    matrices: Matrices
    shape: Shape
    is_computed: bool
    is_tall: bool
    """Whether neighbours in the right matrix are of one column."""
    figures: Figures
    kernels: dict[Way, Kernel] = field(default_factory=dict, repr=False)
    """By how factors are read, made when they are first asked for."""
    layouts: Mapping[str, Map] = field(default_factory=dict)
    """Layouts that are made ahead."""

    @classmethod
    def plan(
        cls, primitive: Reduce, figures: Figures, constants: frozenset[str] = frozenset()
    ) -> ProductProgram | None:
        """For sums of products in FLOAT32, and in INT32 of bytes and their differences; None for others."""
        primitive = replace(primitive, value=rewrite(expand(primitive.value), bounded))
        found = match_contraction(primitive)
        if found is None or not found.folded or any(node.op == "fetch" for node in walk(primitive.value)):
            return None
        kinds = [kind_of_factor(factor) for factor in (found.left, found.right)]
        kind = kinds[0] if kinds[0] is kinds[1] else None
        factors_are_small = is_small(found.left) and is_small(found.right)
        if kind is None and found.fold.type is not DataType.FLOAT32 and not factors_are_small:
            return None
        rows, columns = (math.prod(found.sizes[k] for k in group) for group in (found.rows, found.columns))
        is_large = min(rows, columns) > SKINNY
        if min(rows, SKINNY + 1) > columns or (is_large and _is_better_turned(primitive, found)):
            found = turned(found)
        matrices = matrices_of(primitive, found)
        if matrices is None:
            return None
        is_tall = abs(matrices.strides(len(matrices.parts.left))["term"]) == 1
        sizes, count = matrices.shape, matrices.batch.count
        shape = shape_of(sizes, count, kind, figures, is_tall=is_tall)
        program = cls(primitive.value, found, matrices, shape, kind is None, is_tall, figures)
        if shape.more and program.way() == "pointers" and not IS_INTERPRETED:  # which would read the left one twice
            program = replace(program, shape=shape_of(sizes, count, kind, figures, is_tall=is_tall, has_parts=False))
        laid_out = _laid_out(primitive, found, constants) if is_large and program.way() == "pointers" else None
        if laid_out is not None:
            made, copy = laid_out
            dense = cls.plan(made, figures)
            return None if dense is None else replace(dense, layouts={copy.target.tensor: copy})
        program.kernel(program.way()).prepare()
        return program

    def way(self) -> Way:
        """How factors are read: blocks by descriptor where rows of both are 16 bytes' multiples."""
        if self.is_computed:
            return "computed"
        if self.shape.rows <= FEW:
            return "lines"
        if IS_INTERPRETED or self.shape.rows <= SKINNY or self.figures.target.arch < 90:
            return "pointers"
        return "blocks" if all(self._lines(view) is not None for view in (0, 1)) else "pointers"

    def _lines(self, view: int) -> tuple[bool, int, int] | None:
        """Of a factor: whether its lines go along the terms, their stride, and the lines from matrix to matrix."""
        found, width = self.matrices, self.matrices.sources[view].data_type.size_in_bytes
        steps, batch = found.strides(view), found.batch.strides[view]
        by_line = steps[("row", "column")[view]]
        is_along = steps["term"] == 1
        stride = by_line if is_along else steps["term"]
        if (by_line != 1 and not is_along) or stride <= 0 or stride * width % ALIGNMENT or len(batch) > 1:
            return None
        apart = sum(batch)
        if apart % stride or apart < 0 or (apart and not is_along and found.shape[2] % self.shape.depth):
            return None
        lines = found.shape[view] if is_along else found.shape[2]
        return (is_along, stride, apart // stride) if apart // stride * found.batch.count + lines < 2**31 else None

    def _reach(self, view: int) -> int:
        """The largest offset in one matrix of a factor, tiles that go past its ends included."""
        steps = self.matrices.strides(view)
        lines = self.matrices.shape[view] + self.shape.cuts[view]
        return abs(steps[("row", "column")[view]]) * lines + abs(steps["term"]) * self.shape.depth

    def kernel(self, way: Way) -> Kernel:
        """The kernel that reads factors in a way."""
        if way not in self.kernels:
            self.kernels[way] = self._kernel(way)
        return self.kernels[way]

    def _kernel(self, way: Way) -> Kernel:
        found, shape = self.matrices, self.shape

        def spans(view: int) -> tuple[bool, bool]:
            down, across = found.pair(view)
            return down != 0, across != 0

        is_small = self.found.fold.type is DataType.INT32
        made = emit_product(self.value, self.found, way, is_small, spans, has_more=shape.more > 0)
        numbers: list[tuple[int, ...]] = []
        lines = []
        for view, is_memory in enumerate(found.is_memory):
            pair, batch = found.pair(view), found.batch.strides[view] or (0,)
            align = alignment_of((*batch, *(step for step in pair if step_of(step) == 2))) if is_memory else 1
            numbers += [over(pair, align), over(batch[::-1], align)]
            lines.append(Line(step_of(pair[0]), step_of(pair[1]), align))
        pointers: list[str | Block] = [kind_of(view.data_type) for view in found.sources]
        if way == "blocks":
            pointers[:2] = self._block(0, shape.rows), self._block(1, shape.columns)
            pointers += [self._block(1, shape.more)] if shape.more else []
        cuts = list(zip(found.shape, shape.cuts, strict=True))
        tile = Product(
            rows=shape.rows,
            columns=shape.columns,
            depth=shape.depth,
            precision=shape.precision,
            aligns=tuple(min(alignment_of((size,)), cut) for size, cut in cuts),  # type: ignore[arg-type]  # of three
            is_even=tuple(size % cut == 0 for size, cut in cuts),  # type: ignore[arg-type]  # of three
            is_long=way in ("pointers", "lines") and max(map(self._reach, (0, 1))) >= 2**31,
            is_left_turned=way == "blocks" and not self._lines(0)[0],  # type: ignore[index]  # there are lines where there are blocks
            is_right_turned=self.is_tall if way == "lines" else way == "blocks" and self._lines(1)[0],  # type: ignore[index]  # there are lines where there are blocks
            is_one_line=found.batch.count == 1 and found.shape[0] <= shape.rows,
            stages=shape.stages if way == "lines" else 1,
            more=shape.more,
        )
        apart = tuple(self._lines(view)[2] for view in (0, 1)) if way == "blocks" else (0, 0)  # type: ignore[index]  # there are lines where there are blocks
        starts = [start for start, is_memory in zip(found.batch.offsets, found.is_memory, strict=True) if not is_memory]
        fixed: Numbers = (
            found.shape,
            found.batch.sizes[::-1] or (1,),
            apart,
            *numbers,
            *starts,
            *map(bits_of, made.given),
        )
        constants = {"TILE": tile} | {f"LINE{view}": line for view, line in enumerate(lines)}
        tiles = math.prod(-(-size // cut) for size, cut in cuts[:2])
        return Kernel(
            made.function, tuple(pointers), fixed, constants, tiles * found.batch.count, shape.warps, self.figures,
            fuses=False, stages=1 if way == "lines" else shape.stages,
        )  # fmt: skip

    def _block(self, view: int, cut: int) -> Block:
        way = self._lines(view)
        assert way is not None  # noqa: S101 - for type checkers: it has blocks
        is_along, stride, apart = way
        lines, terms = self.matrices.shape[view], self.matrices.shape[2]
        first = (self.matrices.batch.count - 1) * apart
        sizes = (first + lines, terms) if is_along else (first + terms, lines)
        block = (cut, self.shape.depth) if is_along else (self.shape.depth, cut)
        return Block(kind_of(self.matrices.sources[view].data_type), sizes, stride, block)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; blocks are read by descriptor where both matrices begin at 16 bytes' multiples."""
        found = self.matrices
        offsets = [start for start, is_memory in zip(found.batch.offsets, found.is_memory, strict=True) if is_memory]
        addresses = [
            places[view.tensor] + offset * view.data_type.size_in_bytes
            for view, offset in zip(found.sources, offsets, strict=True)
        ]
        way = self.way()
        if way == "blocks" and any(address % ALIGNMENT for address in addresses[:2]):
            way = "pointers"
        if way == "blocks" and self.shape.more:
            addresses.append(addresses[1])
        return self.kernel(way).launch(addresses)


def _laid_out(primitive: Reduce, found: Contraction, constants: frozenset[str]) -> tuple[Reduce, Map] | None:
    """A right matrix that never changes, whose neighbours in memory are none in it: the product with its rows dense."""
    load = found.right.args[0] if found.right.op == "cast" else found.right
    if load.op != "load" or kind_of_factor(found.right) is None:
        return None
    view = primitive.sources[slot := int(load.value)]
    is_read_once = sum(other.tensor == view.tensor for other in primitive.sources) == 1
    if view.tensor not in constants or not is_read_once or 1 in view.strides:
        return None
    order = [k for k in (*found.batch, *found.folded, *found.columns) if view.strides[k] and view.sizes[k] > 1]
    sizes = [view.sizes[k] for k in order]
    dense = {k: math.prod(sizes[i + 1 :]) for i, k in enumerate(order)}
    seen = replace(view, sizes=tuple(sizes), strides=tuple(view.strides[k] for k in order))
    copy = copy_of(seen, View(LAID_OUT, view.data_type, tuple(sizes), tuple(dense.values())))
    strides = tuple(dense.get(k, 0) for k in range(len(view.sizes)))
    sources = list(primitive.sources)
    sources[slot] = View(LAID_OUT, view.data_type, view.sizes, strides)
    return replace(primitive, sources=tuple(sources)), copy


def _is_better_turned(primitive: Reduce, found: Contraction) -> bool:
    """Whether neighbours are terms in the left matrix alone, of FLOAT32.

    Three products of TF32 want that of the right one: 1.57 of cuBLAS's speed on a H200, and not 1.30.
    """
    factors = (found.left, found.right)
    if not all(factor.op == "load" and factor.type is DataType.FLOAT32 for factor in factors):
        return False
    left, right = (primitive.sources[int(factor.value)].strides[found.folded[-1]] for factor in factors)
    return left == 1 != right
