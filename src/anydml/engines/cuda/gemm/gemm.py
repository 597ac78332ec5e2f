"""GEMM on tensor cores: contractions as M, N, K and batch, tile shapes by size (the best of an H200), the Triton
function of a tile with its epilogue, and split-K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, always, choose, note
from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, divisor_of, over, step_of
from anydml.engines.cuda.codegen.expressions import TRITON, Emitted, TritonLines, bounded, load_text
from anydml.engines.cuda.gemm.gemm_kernel import GemmConstants
from anydml.engines.cuda.launch import HOPPER, IS_INTERPRETED, BlockDescriptor, Kernel, kind_of
from anydml.engines.cuda.rows.reduce_kernel import RowSteps
from anydml.ir.contraction import AROUND, ContractionLeaves, match_contraction, matrices_of
from anydml.ir.epilogue import fetches_beside
from anydml.ir.expressions import Expr, load
from anydml.ir.numerics import expand
from anydml.ir.padded_reads import match_reached
from anydml.ir.patterns import copy_of
from anydml.ir.split_k import PARTS, partial_sums, renumbered
from anydml.ir.substitution import FILLED
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.contraction import Contraction, Matrices
    from anydml.ir.verbs import Primitive

# How products of matrices are cut into tiles: what did best on a H200.


class GemmTile(NamedTuple):
    """How a product is cut: a tile's rows, columns and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float = 1.0
    """A tile's share of the hardware's speed, measured on a H200 where tiles fill it."""
    precision: str = "ieee"
    more: int = 0
    """Columns beside those, with sums of their own."""
    start: int = 0
    """Terms that take as long as a tile's first loads and its results' stores."""
    several: int = 1
    """Tiles that a multiprocessor has at once."""
    alone: float = 1.0
    """The part of their time that fewer of them take."""
    crowd: float = 1.0
    """The part of its speed that is left where tiles take more than two rounds; 0.8 of small ones in any case."""

    @property
    def cuts(self) -> tuple[int, int, int]:
        """Of rows, columns, terms."""
        return self.rows, self.columns + self.more, self.depth


HALF = (
    GemmTile(128, 256, 64, 8, 3, start=400),
    GemmTile(128, 128, 64, 4, 3, 0.95, start=320, several=2, alone=0.6),
    GemmTile(64, 128, 64, 4, 3, 0.91, more=64, start=350, several=2, alone=0.74, crowd=0.85),
    GemmTile(64, 128, 32, 4, 4, 0.82, more=64, start=200, several=3, alone=0.7, crowd=0.82),
    GemmTile(64, 128, 128, 4, 4, 0.8, start=530),
    GemmTile(64, 64, 128, 4, 4, 0.65, start=530),
    GemmTile(64, 32, 128, 4, 5, 0.4, start=530),
)
"""1.02, 0.98, 1.04 and 1.02 of cuBLAS at 1024^3, 2048^3, 4096^3 and 8192^3.

Of 768 terms, 4096 rows by 768 columns take 11.0 us in tiles of 192 columns, 12.2 in those of 128 and 12.8 in those of
256, and cuBLAS 10.6; 6304 rows take 15.1 us with three tiles of 192 columns to a multiprocessor, 18.9 with two and 18.1
in tiles of 128, and cuBLAS 16.9. 4096 rows by 3072 columns take 33.6 us in tiles of 128, 35.8 in those of 256 and 40.3
in those of 192, and cuBLAS 32.2.
"""
TALL_HALF = (
    GemmTile(256, 128, 64, 8, 4),
    GemmTile(128, 128, 64, 4, 3, 0.98),
    GemmTile(64, 128, 128, 4, 4, 0.85),
    GemmTile(64, 64, 128, 4, 4, 0.65),
    GemmTile(64, 32, 128, 4, 5, 0.4),
)
"""Where neighbours in the right matrix are of one column: 0.95 to 0.98 of cuBLAS from 2048^3 to 8192^3, and at 4096^3
0.76 with 256 columns."""
SINGLE = (
    GemmTile(128, 64, 32, 4, 4, 1.0, "tf32x3"),
    GemmTile(64, 64, 64, 4, 3, 1.01, "tf32x3"),
    GemmTile(64, 32, 64, 4, 3, 0.76, "tf32x3"),
    GemmTile(16, 64, 64, 4, 4, 0.47, "tf32x3"),
)
"""The small ones are for 128 rows, as of a sentence: 128 by 768 by 768 takes 11 us, and in tiles of 64 x 64 20 us."""
WHOLE = (GemmTile(128, 128, 128, 8, 3), GemmTile(64, 64, 64, 4, 4, 0.7))
COMPUTED = (
    GemmTile(128, 64, 32, 4, 3, 1.0, "tf32x3"),
    GemmTile(64, 64, 32, 4, 3, 0.8, "tf32x3"),
    GemmTile(32, 32, 32, 4, 3, 0.5, "tf32x3"),
)
"""Of factors that are computed."""
SHAPES: dict[DataType | None, tuple[GemmTile, ...]] = {
    DataType.FLOAT16: HALF,
    DataType.FLOAT32: SINGLE,
    DataType.INT8: WHOLE,
}
SKINNY = 16
"""Rows up to which the time is that of reading the right matrix."""
FEW = 4
"""Rows of FLOAT32 up to which threads multiply one by one; half as many of FLOAT16, where the right matrix is tall."""
TINY = GemmTile(16, 16, 16, 1, 1)
"""The shape for the interpreter."""


def _lines(rows: int, *, is_tall: bool) -> GemmTile:
    """1 row by 4096^2: 0.88 of copy speed in FLOAT16 and 1.00 in FLOAT32 where the right matrix is tall, else 0.99."""
    if IS_INTERPRETED:
        return GemmTile(rows, 4, 16, 1, 1)
    if is_tall:
        return GemmTile(rows, 8, 256, 2 if rows < FEW else 4, 4)
    return GemmTile(rows, 32, 256, 8, 3) if rows == 1 else GemmTile(rows, 16, 512, 8, 1)


def tile_of(
    sizes: tuple[int, int, int], matrices: int, kind: DataType | None, figures: Figures, *, is_tall: bool,
    has_parts: bool = True,
) -> GemmTile:  # fmt: skip
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `kind` is that of the matrices; None where factors are computed. `is_tall` where neighbours in the right one are of
    one column. Without `has_parts` tiles have no columns beside.
    """
    precision = "ieee" if kind in (DataType.FLOAT16, DataType.INT8) else "tf32x3"
    rows, columns, terms = sizes
    if (kind is DataType.FLOAT32 and rows <= FEW) or (kind is DataType.FLOAT16 and rows <= FEW // 2 and is_tall):
        return _lines(ceil_power(rows), is_tall=is_tall)
    if IS_INTERPRETED:
        has_more = kind is DataType.FLOAT16 and columns > TINY.columns
        return TINY._replace(precision=precision, more=TINY.columns if has_more else 0)
    if rows <= SKINNY:  # 1 to 16 by 4096^2 of FLOAT16: 0.84 to 0.89 of copy speed; 16 rows in 2 warps 0.76
        is_half = kind is DataType.FLOAT16
        return GemmTile(16, 32, 128, 2 if is_half and rows == 1 else 4, 7 if is_half else 4, 1.0, precision)
    shapes = TALL_HALF if is_tall and kind is DataType.FLOAT16 else SHAPES.get(kind, COMPUTED)

    def time(shape: GemmTile) -> float:
        high, wide, _ = shape.cuts
        tiles = -(-rows // high) * -(-columns // wide) * matrices
        whole, rest = divmod(-(-tiles // figures.multiprocessors), shape.several)
        rounds = whole + (shape.alone if rest else 0.0)
        crowd = 0.8 if high * wide <= 4096 else shape.crowd
        speed = shape.speed * (crowd if whole + (rest > 0) > 2 else 1.0)
        if high * wide <= 2048:  # of which several fit a multiprocessor
            rounds = max(tiles / figures.multiprocessors, 1.0)
        return rounds * shape.several * high * wide * (terms + min(shape.start, terms)) / speed

    best = min((shape for shape in shapes if has_parts or not shape.more), key=time)
    return best._replace(stages=min(best.stages, max(-(-terms // best.depth) + 1, 2)))


# From a sum of products, and the expression around it, to a Triton function: a tile of the result a program.


def emit_product(
    value: Expr, found: Contraction, way: str, is_small: bool, spans: Callable[[int], tuple[bool, bool]],
    *, has_more: bool = False,
) -> Emitted:  # fmt: skip
    """A kernel; `spans` says if a view varies down a tile, and across it, `has_more` if tiles have columns beside.

    `is_small` where factors are integers of -255 to 255: as FLOAT16 they have exact products, of which 256 have an
    exact sum in FLOAT32.
    """
    parts = ContractionLeaves.of(value, found)
    given = [node for node in walk(value) if node.op == "given"]
    writer = _Writer(parts, spans)
    last = len(parts.views)
    loads = [f"p{view}" for view, (_, leaf) in enumerate(parts.views) if leaf.op == "load"]
    numbers = ["shape", "sizes", "apart", *(f"{of}{view}" for view in range(last + 1) for of in ("strides", "matrix"))]
    starts = [f"start{view}" for view, (_, leaf) in enumerate(parts.views) if leaf.op == "coordinate"]
    chosen = [f"given{number}" for number in range(len(given))]
    constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"LINE{view}" for view in range(last + 1)))]
    further = ["further"] if way == "blocks" and has_more else []
    arguments = [*loads, "target", *further, *numbers, *starts, *chosen, *constants]
    kind = TRITON.types[found.fold.type]
    writer.define("product", arguments)
    writer.say("high, wide, matrix = products.corner(shape, TILE)", "row = products.within(high, TILE.rows)")
    writer.take_given(given, chosen)
    parts_of = {"columns": "total", "more": "beside"} if has_more else {"columns": "total"}
    ends = f"high, wide, matrix, shape, apart, {kind}, TILE"
    if way == "blocks" and has_more:
        writer.say(f"total, beside = products.multiply_pairs(p0, p1, further, {ends})")
    elif way == "blocks":
        writer.say(f"total = products.multiply_blocks(p0, p1, {ends})")
    elif way in ("pointers", "lines"):
        for view in (0, 1):
            writer.say(f"at{view} = products.to_matrix(p{view}, matrix, sizes, matrix{view}, LINE{view}.align)")
    outside = dict(writer.names)
    for part, total in parts_of.items():
        writer.names = dict(outside)
        writer.say(f"column = products.{'columns_of' if part == 'columns' else 'more_columns_of'}(wide, TILE)")
        writer.say("is_row, is_column = products.there(row, column, shape, TILE)")
        if way in ("pointers", "lines"):
            multiply = "multiply" if way == "pointers" else "multiply_lines"
            ends = f"shape, strides0, strides1, {kind}, TILE, LINE0, LINE1"
            writer.say(f"{total} = products.{multiply}(at0, at1, row, column, {ends})")
        elif way == "computed":
            writer.loop(found, kind, is_small)
        writer.names[found.fold] = total
        writer.compute("rest", value)
        full = f"tl.broadcast_to({writer.names[value]}, (TILE.rows, TILE.{part}))"
        writer.say(f"tl.store({writer.place('target', last, 'rest', True, True)}, {full}, mask=is_row & is_column)")
    return Emitted(writer.function(), tuple(given))


class _Writer(TritonLines):
    def __init__(self, parts: ContractionLeaves, spans: Callable[[int], tuple[bool, bool]]) -> None:
        self.views: Sequence[tuple[str, Expr]] = parts.views
        self.spans = spans
        super().__init__()

    def place(self, base: str, view: int, part: str, down: bool, across: bool) -> str:
        """Where a tile lies in a view."""
        text = f"products.to_matrix({base}, matrix, sizes, matrix{view}, LINE{view}.align)"
        names = AROUND[part]
        if down:
            text = f"products.down({text}, {names[0]}, strides{view}[0], LINE{view}.row_step, LINE{view}.align)"
        if across:
            text = f"products.across({text}, {names[1]}, strides{view}[1], LINE{view}.step, LINE{view}.align)"
        return text

    def masks(self, part: str) -> Mapping[str, str]:
        return {"row": "is_row", "column": "is_column", "term": "more[None, :]" if part == "left" else "more[:, None]"}

    def compute(self, part: str, value: Expr) -> None:
        """The nodes of one part."""
        own = {leaf: view for view, (of, leaf) in enumerate(self.views) if of == part}
        for node in walk(value, known=self.names):
            if node in own:
                view, spans = own[node], self.spans(own[node])
                base = f"p{view}" if node.op == "load" else f"start{view}.to(tl.int64)"
                place = self.place(base, view, part, *spans)
                inside = [self.masks(part)[name] for name, varies in zip(AROUND[part], spans, strict=True) if varies]
                self.put(node, load_text(place, inside) if node.op == "load" else place)
            else:
                self.operate(node)

    def loop(self, found: Contraction, kind: str, is_small: bool) -> None:
        """Compute the factors' blocks, 0 past their ends, and add up their products."""
        self.say(f"total = tl.full((TILE.rows, TILE.columns), 0, {kind})")
        self.say("for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):")
        outside, self.indent = dict(self.names), self.indent + "    "
        self.say("term = step * TILE.depth + tl.arange(0, TILE.depth)")
        self.say("more = term < products.known(shape[2], TILE.aligns[2])")
        sizes = {"left": "TILE.rows, TILE.depth", "right": "TILE.depth, TILE.columns"}
        for part, value in (("left", found.left), ("right", found.right)):
            self.compute(part, value)
            name = self.names[value]
            inside = " & ".join(self.masks(part)[of] for of in AROUND[part])
            whole = f"tl.where({inside}, {name}, tl.full((), 0, {kind}))"
            self.say(f"{part} = tl.broadcast_to({whole}, ({sizes[part]}))")
            self.names = dict(outside)
        if is_small:
            product = "tl.dot(left.to(tl.float16), right.to(tl.float16))"
            self.say(f"total += {product}.to({kind})")
        else:
            self.say("total = tl.dot(left, right, total, input_precision=TILE.precision)")
        self.indent = self.indent[:-4]


# Products of matrices, planned: the reduces that sum left·right, with whatever is computed of each sum.


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


def is_computed(product: GemmProgram) -> bool:
    """Factors are computed from what is read."""
    return product.is_computed


def has_few_rows(product: GemmProgram) -> bool:
    """Rows so few, 4 at most, that threads multiply them one by one as the right matrix is read."""
    return product.shape.rows <= FEW


def has_blocks(product: GemmProgram) -> bool:
    """More than 16 rows, with lines of both factors of 16 bytes' multiples, from Hopper on: read by descriptor."""
    is_possible = not IS_INTERPRETED and product.shape.rows > SKINNY and product.figures.target.arch >= HOPPER
    return is_possible and all(product.lines(view) is not None for view in (0, 1))


WAYS = (
    Route("computed", is_computed),
    Route(
        "lines",
        has_few_rows,
        measured="1 row by 4096^2: 0.88 of copy speed in FLOAT16, in FLOAT32 1.00 of a tall matrix, else 0.99 (H200)",
    ),
    Route("blocks", has_blocks, measured="1.02, 0.98 and 1.04 of cuBLAS at 1024^3, 2048^3 and 4096^3 (FLOAT16, H200)"),
    Route("pointers", always, measured="16 rows by 4096^2: 0.84 to 0.89 of copy speed (FLOAT16, H200)"),
)
"""How factors are read: elements that they are then computed from, lines that are multiplied one by one, blocks by
descriptor, or elements by pointer."""


@dataclass(frozen=True, slots=True)
class GemmProgram(Program):
    """A product, planned."""

    value: Expr
    found: Contraction
    matrices: Matrices
    shape: GemmTile
    is_computed: bool
    is_tall: bool
    """Whether neighbours in the right matrix are of one column."""
    figures: Figures
    kernels: dict[str, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By how factors are read, made when they are first asked for."""
    layouts: Mapping[str, Map] = field(default_factory=dict)
    """Layouts that are made ahead."""

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str] = frozenset()) -> GemmProgram | None:
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
        rows, columns, _ = found.shape
        is_large = min(rows, columns) > SKINNY
        if min(rows, SKINNY + 1) > columns or (is_large and _is_better_turned(primitive, found)):
            found = found.transposed
        matrices = matrices_of(primitive, found)
        if matrices is None:
            return None
        is_tall = abs(matrices.strides(len(matrices.parts.left))["term"]) == 1
        sizes, count = matrices.shape, matrices.batch.count
        shape = tile_of(sizes, count, kind, figures, is_tall=is_tall)
        program = cls(primitive.value, found, matrices, shape, kind is None, is_tall, figures)
        if shape.more and program.way() == "pointers" and not IS_INTERPRETED:  # which would read the left one twice
            program = replace(program, shape=tile_of(sizes, count, kind, figures, is_tall=is_tall, has_parts=False))
        laid_out = _laid_out(primitive, found, constants) if is_large and program.way() == "pointers" else None
        if laid_out is not None:
            made, copy = laid_out
            dense = cls.plan(made, figures)
            return None if dense is None else replace(dense, layouts={copy.target.tensor: copy})
        choose(WAYS, program)
        note(Route(f"tiles of {' x '.join(map(str, program.shape.cuts))}", tile_of))
        program.kernel(program.way()).prepare()
        return program

    def way(self) -> str:
        """How factors are read."""
        return next(way.name for way in WAYS if way.when(self))

    def lines(self, view: int) -> tuple[bool, int, int] | None:
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

    def kernel(self, way: str) -> Kernel:
        """The kernel that reads factors in a way."""
        if way not in self.kernels:
            self.kernels[way] = self._kernel(way)
        return self.kernels[way]

    def _kernel(self, way: str) -> Kernel:
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
            lines.append(RowSteps(step_of(pair[0]), step_of(pair[1]), align))
        pointers: list[str | BlockDescriptor] = [kind_of(view.data_type) for view in found.sources]
        if way == "blocks":
            pointers[:2] = self._block(0, shape.rows), self._block(1, shape.columns)
            pointers += [self._block(1, shape.more)] if shape.more else []
        cuts = list(zip(found.shape, shape.cuts, strict=True))
        tile = GemmConstants(
            rows=shape.rows,
            columns=shape.columns,
            depth=shape.depth,
            precision=shape.precision,
            aligns=tuple(min(divisor_of(size), cut) for size, cut in cuts),  # type: ignore[arg-type]  # `cuts` has three pairs
            is_even=tuple(size % cut == 0 for size, cut in cuts),  # type: ignore[arg-type]  # `cuts` has three pairs
            is_long=way in ("pointers", "lines") and max(map(self._reach, (0, 1))) >= 2**31,
            is_left_turned=way == "blocks" and not self.lines(0)[0],  # type: ignore[index]  # there are lines where there are blocks
            is_right_transposed=self.is_tall if way == "lines" else way == "blocks" and self.lines(1)[0],  # type: ignore[index]  # there are lines where there are blocks
            is_one_line=found.batch.count == 1 and found.shape[0] <= shape.rows,
            stages=shape.stages if way == "lines" else 1,
            more=shape.more,
        )
        apart = tuple(self.lines(view)[2] for view in (0, 1)) if way == "blocks" else (0, 0)  # type: ignore[index]  # there are lines where there are blocks
        starts = [start for start, is_memory in zip(found.batch.offsets, found.is_memory, strict=True) if not is_memory]
        fixed: Numbers = (
            found.shape, found.batch.sizes[::-1] or (1,), apart, *numbers, *starts, *made.numbers,
        )  # fmt: skip
        constants = {"TILE": tile} | {f"LINE{view}": line for view, line in enumerate(lines)}
        tiles = math.prod(-(-size // cut) for size, cut in cuts[:2])
        return Kernel(
            made.function, tuple(pointers), fixed, constants, tiles * found.batch.count, shape.warps, self.figures,
            fuses=False, stages=1 if way == "lines" else shape.stages,
        )  # fmt: skip

    def _block(self, view: int, cut: int) -> BlockDescriptor:
        way = self.lines(view)
        assert way is not None  # noqa: S101 - for type checkers: it has blocks
        is_along, stride, apart = way
        lines, terms = self.matrices.shape[view], self.matrices.shape[2]
        first = (self.matrices.batch.count - 1) * apart
        sizes = (first + lines, terms) if is_along else (first + terms, lines)
        block = (cut, self.shape.depth) if is_along else (self.shape.depth, cut)
        return BlockDescriptor(kind_of(self.matrices.sources[view].data_type), sizes, stride, block)

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


# Split-K: long sums of few results are cut along K, several programs sum a part each, and a map adds the parts up.


SPLIT_TILE = 64
"""Results down and across of a tile, as most are cut that are few."""
MOST_PARTS = 8
LEAST_TERMS = 128
"""Terms of a part."""
TERM_TIME = {DataType.FLOAT16: 0.0058, DataType.FLOAT32: 0.030}
"""Microseconds that a tile takes for a term, on a H200."""
LAUNCH_TIME = 6.0
"""Microseconds that one more launch takes, with what it reads and writes."""


def split_k(primitive: Primitive, multiprocessors: int) -> tuple[Reduce, Map] | None:
    """The two steps in place of a sum of products that leaves most multiprocessors idle; None where it stays whole."""
    if not isinstance(primitive, Reduce) or primitive.checks or primitive.also:
        return None
    found = match_contraction(primitive)
    if found is None or not found.folded or found.batch or found.fold.type is not DataType.FLOAT32:
        return None
    kind = _read_kind(found.left)
    kept, sizes = len(primitive.sizes) - primitive.depth, found.sizes
    if kind is None or kind is not _read_kind(found.right) or fetches_beside(primitive.value, found.fold):
        return None
    rows, columns, terms = found.shape
    tiles = -(-rows // SPLIT_TILE) * -(-columns // SPLIT_TILE)
    count = MOST_PARTS
    while count > 1 and (sizes[kept] % count or terms // count < LEAST_TERMS or count * tiles > 2 * multiprocessors):
        count //= 2
    if min(rows, columns) <= SKINNY or TERM_TIME[kind] * terms * (1 - 1 / count) < LAUNCH_TIME:
        return None
    return _divided(primitive, found.fold, kept, count)


def _read_kind(factor: Expr) -> DataType | None:
    """The type in memory of a factor that is read and no more."""
    node = factor.args[0] if factor.op == "cast" else factor
    is_read = node.op == "load" or match_reached(node) is not None
    return node.type if is_read and node.type in TERM_TIME and factor.type is DataType.FLOAT32 else None


def _divided(primitive: Reduce, fold: Expr, kept: int, count: int) -> tuple[Reduce, Map]:
    first, whole = partial_sums(primitive, fold, kept, count), primitive.sizes[:kept]
    reach, *strides = first.target.strides[: kept + 1]

    def across(view: View) -> View:
        return replace(view, sizes=whole, strides=view.strides[:kept])

    parts = [View(PARTS, DataType.FLOAT32, whole, tuple(strides), number * reach) for number in range(count)]
    total = [load(number, DataType.FLOAT32) for number in range(count)]
    while len(total) > 1:
        total = [a + b for a, b in zip(total[::2], total[1::2], strict=True)]
    value, slots = renumbered(primitive.value, {fold: total[0]}, count)
    return first, Map((*parts, *(across(primitive.sources[slot]) for slot in slots)), across(primitive.target), value)
