"""Convolution and pooling in NHWC as GEMM over pixels: a row of A is a pixel, a column of B an output channel, and
windows are read in place (implicit GEMM).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.locks import cached_property
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.conv.microkernel import EACH, SPREAD, make_unpacked_tile
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN, MicroTile, tile_for
from anydml.engines.cpu.gemm.epilogue import epilogue_of
from anydml.engines.cpu.gemm.operands import PANELS, PIECES, Operands
from anydml.engines.cpu.gemm.prepacked import lay_out_places
from anydml.engines.cpu.gemm.selection import RECORD, get_macrokernel, size_of
from anydml.engines.cpu.gemm.work_item import place_of_pieces, record_of
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.schedules import suits_nhwc
from anydml.ir.contraction import Contraction, match_contraction
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.engines.cpu.gemm.prepacked import Panels
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce


class NhwcOperands(Operands):
    """Rows are the places of a line, or of all lines if there are no gaps between them."""

    def __init__(self, primitive: Reduce, found: Contraction) -> None:
        super().__init__(primitive, found)
        results = [*self.all_strided(self.finish), self.target]
        rows = self.runs(found.rows, [self.strided(self.left), *results])
        # Those that lie nearest to each other, unless they are too few to fill a tile: 128 channels into 64 of
        # 900 x 161, 3 x 3, take 185 ms so, and 277 with a tile of places below each other (a Xeon).
        # Channels with numbers of their own gain nothing by more places, and lose by those far apart: 960 of eight
        # times 7 x 7, 5 x 5, take 1.1 ms by places of a line, and 2.2 by those of eight pictures.
        is_each = any(self.strided(self.left).strides[k] for k in found.columns)
        fills = figures().conv.least_places if is_each else tile_for("f32").rows
        self.rows = max(reversed(rows), key=lambda run: min(self.count(run), fills), default=())
        columns = self.runs(found.columns, [self.strided(self.right), *results])
        self.columns = columns[-1] if columns else ()
        self.batch = (*found.batch, *(k for k in (*found.rows, *found.columns) if k not in (*self.rows, *self.columns)))

    @property
    def pieces(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Of a window's numbers, runs that lie side by side: the sizes and strides of those, and the steps of each."""
        x, sizes = self.strided(self.left), self.found.sizes
        outer, length = list(self.folded), 1
        while outer and x.strides[outer[-1]] == 4 * length:
            length *= sizes[outer.pop()]
        return tuple(sizes[k] for k in outer), tuple(x.strides[k] for k in outer), length

    @cached_property
    def epilogue(self) -> Epilogue | None:
        """The value computed from sums where they are."""
        return epilogue_of(self, figures().conv.epilogue_nodes)


def plan_nhwc(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """Sums over windows with weights that are a constant; None where those are not laid out ahead."""
    found = match_nhwc(primitive)
    assert found is not None  # noqa: S101 - for type checkers: the condition of the route
    tile = _tile(*found)
    panels = lay_out_places(found[0], tile.vectors * tile.lanes, constants)
    return None if panels is None else _program(found[0], tile, panels)


def match_nhwc(primitive: Reduce) -> tuple[NhwcOperands, str] | None:
    """The operands of a convolution, and how its rows are read; None where `suits_nhwc` says no."""
    found = match_contraction(primitive)
    for one in (found, found.transposed) if found is not None else ():
        x, reads = one.left, SPREAD
        if not one.rows:
            continue
        one = one._replace(folded=_by_distance(primitive, x, one.folded))
        if not one.columns:
            own = _channel(primitive, x, one.batch)
            if own is None:
                continue
            reads, one = EACH, one._replace(columns=(own,), batch=tuple(k for k in one.batch if k != own))
        operands = NhwcOperands(primitive, one)
        if suits_nhwc(operands, is_each=reads == EACH):
            return operands, reads
    return None


def plan_nhwc_pooling(primitive: Reduce) -> KernelProgram:
    """The largest, the smallest or the sum of a window, for each channel by itself."""
    found = match_nhwc_pooling(primitive)
    assert found is not None  # noqa: S101 - for type checkers: the condition of the route
    return _program(found[0], _tile(*found))


def match_nhwc_pooling(primitive: Reduce) -> tuple[NhwcOperands, str] | None:
    """The operands of a pooling, and its fold; None where `suits_nhwc` says no."""
    folds = [node for node in walk(primitive.value) if node.op in FOLDS]
    (fold,), (x,) = folds, folds[0].args
    if any(node.op == "fetch" for node in walk(primitive.value)):
        return None
    kept = len(primitive.sizes) - primitive.depth
    wide = [k for k, size in enumerate(primitive.sizes) if size > 1]
    order, outer = _by_distance(primitive, x, tuple(k for k in wide if k >= kept)), tuple(k for k in wide if k < kept)
    own = _channel(primitive, x, outer)
    if own is None or not order:
        return None
    rows = tuple(k for k in outer if k != own)
    operands = NhwcOperands(primitive, Contraction(fold, x, x, primitive.sizes, (), rows, (own,), order))
    reads = fold.op.removeprefix("fold_")
    return (operands, reads) if suits_nhwc(operands, is_each=True) else None


def _by_distance(primitive: Reduce, x: Expr, folded: tuple[int, ...]) -> tuple[int, ...]:
    """Dimensions that are folded, those whose elements lie furthest apart first."""
    strides = primitive.sources[int(x.value)].strides
    return tuple(sorted(folded, key=lambda k: -strides[k]))


def _channel(primitive: Reduce, x: Expr, among: tuple[int, ...]) -> int | None:
    """The dimension along which elements lie side by side, in the input and in the target."""
    view, target = primitive.sources[int(x.value)], primitive.target
    return next((k for k in among if view.strides[k] == target.strides[k] == 1), None)


def _tile(operands: NhwcOperands, reads: str) -> MicroTile:
    """Rows that divide a line into equal parts."""
    own = tile_for("f32")
    lanes = own.lanes
    # A tile that computes results from sums writes as many channels as there are; others write whole vectors.
    while reads != SPREAD and (operands.n < lanes or (operands.n % lanes and operands.epilogue is None)):
        lanes //= 2
    rows = -(-operands.m // -(-operands.m // own.rows))
    vectors = max(tile_for("f32", rows).vectors if rows < own.rows else own.vectors, own.vectors)
    if 4 * operands.k * vectors * lanes > figures().conv.wide_panel_bytes:
        vectors = own.vectors
    if reads != SPREAD:
        vectors = min(own.vectors, -(-operands.n // lanes))
    length = operands.pieces[2] if reads == SPREAD else 0
    steps = length if length <= figures().conv.piece else 0
    return MicroTile(rows, vectors, lanes, 0, by_lane=False, reads=reads, steps=steps)


def _units(operands: NhwcOperands, tile: MicroTile) -> tuple[int, int]:
    """Parts of the rows and of the columns: panels stay in the second cache, and there is work for every thread."""
    width = tile.vectors * tile.lanes
    row_panels, column_panels = -(-operands.m // tile.rows), -(-operands.n // width)
    threads = 1 if size_of(operands) < SMALL else get_num_threads()
    wanted = 1 if threads == 1 else figures().gemm.items_per_thread * threads
    most = max(min(figures().conv.panel_bytes // (4 * operands.k * width), figures().gemm.small_m_columns // width), 1)
    batch, columns = operands.count(operands.batch), -(-column_panels // most)
    rows = min(row_panels, -(-wanted // (batch * columns)))
    return rows, min(column_panels, max(columns, -(-wanted // (batch * rows))))


def _program(operands: NhwcOperands, tile: MicroTile, panels: Panels | None = None) -> KernelProgram:
    width, batch = tile.vectors * tile.lanes, operands.count(operands.batch)
    row_units, column_units = _units(operands, tile)
    epilogue = operands.epilogue
    x = operands.strided(operands.left)
    left = operands.section((), [x], [0], [x.along(operands.rows)])
    right = panels.section if panels is not None else operands.section((), [], [], [])
    is_direct, written = operands.finish is operands.sum, tile.lanes if epilogue is None else 1
    is_mapped = not (is_direct or epilogue) or operands.n % written > 0  # not all is stored by tiles
    sections = {"left": left, "right": right, "result": operands.result(is_written=is_mapped)}
    names = ("tile", "tile_narrow", "tile_low", "tile_small")
    shapes = [
        tile._replace(rows=rows, vectors=vectors)
        for rows in (tile.rows, operands.m % tile.rows or tile.rows)
        for vectors in (tile.vectors, -(-(operands.n % width or width) // tile.lanes))
    ]
    plain = dict(zip(names, (_kernel(shape) for shape in shapes), strict=True))
    ended = {name.replace("tile", "last"): 0 for name in names}
    if epilogue is not None:
        tails = [0, operands.n % tile.lanes] * 2
        ends = [shape._replace(epilogue=epilogue, tail=tail) for shape, tail in zip(shapes, tails, strict=True)]
        ended = dict(zip(ended, map(_kernel, ends), strict=True))
    words = {
        "m": operands.m, "n": operands.n, "k": operands.k, "row_units": row_units, "column_units": column_units,
        "row_panels": -(-operands.m // tile.rows), "column_panels": -(-operands.n // width), "tile_rows": tile.rows,
        "tile_columns": width, "block": operands.k, "lanes": tile.lanes, "written": written,
        **plain, **ended, "left_mode": PIECES,
        "right_mode": PANELS, "is_direct": int(is_direct), "together": 1, "filled": 1, "beside": 1,
        "pieces": place_of_pieces(*operands.pieces if tile.reads == SPREAD else (*_taps(operands), 1), CHAIN),
        "left_on": 0 if tile.reads == SPREAD else 4, "of_columns": row_units * batch,
    }  # fmt: skip
    record = record_of(RECORD, words, [operands.found.sizes[k] for k in operands.batch], sections)
    kernel = get_macrokernel()
    layouts = panels.layouts if panels is not None else {}
    return KernelProgram(kernel, record, row_units * column_units * batch, size_of(operands), layouts)


def _taps(operands: NhwcOperands) -> tuple[tuple[int, ...], tuple[int, ...]]:
    x = operands.strided(operands.left)
    return tuple(operands.found.sizes[k] for k in operands.folded), tuple(x.strides[k] for k in operands.folded)


def _kernel(tile: MicroTile) -> int:
    return kernel_for("tile", make_unpacked_tile, tile).address
