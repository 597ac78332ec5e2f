"""GEMM planning and selection: operand modes, microkernel, cache blocking and work items for a contraction;
prepacked panels first, then small-M products, panels that are packed on the way last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.late_imports import import_alone
from anydml.core.symbolic_sizes import greatest, is_open
from anydml.engines.common.routes import Route, always, choose
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.codegen.expressions import find_rare
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_dots
from anydml.engines.cpu.gemm.blocking import (
    BYTES,
    CHAIN,
    FOUR,
    Packing,
    halves,
    letter_of,
    matrices_for,
    most_halved,
    pack_kernel,
    tile_for,
    tile_kernel,
)
from anydml.engines.cpu.gemm.epilogue import epilogue_of, fills_lines, may_place
from anydml.engines.cpu.gemm.operands import (
    ALONG_STEPS,
    AS_IT_LIES,
    DEQUANTISED,
    DOTS,
    HALVES,
    PANELS,
    SIDE_BY_SIDE,
    STRIP,
    UNPACKED,
    WIDE,
    WINDOWS,
    MergedOperands,
    Operands,
    element_of,
)
from anydml.engines.cpu.gemm.work_item import record_of
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.engines.cpu.threads.scratch import PANEL
from anydml.ir.contraction import match_contraction
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.prepacked import Panels
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.quant.int8 import Int8Plan
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map, Reduce

    Made: TypeAlias = tuple[Expr, Callable[[Operands, tuple[int, ...], int], Section]]
    """A factor that a kernel makes, and the section of what that reads along a side: panels of some columns, or rows
    where those are 0."""

# The units of work of a contraction: how many rows and columns each has, and how many steps are packed at once.


class Units(NamedTuple):
    """Of a contraction."""

    rows: int
    """Parts of the rows."""
    columns: int
    block: int
    """The steps that are packed at once."""


def size_of(operands: Operands) -> int:
    """The work in arithmetic or, where that takes longer, reads: a row by 127 keys of 64 in 12 heads takes 26 us."""
    batch = operands.count(operands.batch)
    flops = 2 * operands.m * operands.n * operands.k
    work: int = batch * greatest((flops // figures().gemm.flops_per_byte, 4 * operands.k * min(operands.m, operands.n)))
    return work


def threads_for(operands: Operands) -> int:
    """The threads that there is work for."""
    return 1 if size_of(operands) < SMALL else get_num_threads()


def units_of(operands: Operands, tile: MicroTile, mode: int, *, is_direct: bool, is_ahead: bool) -> Units:
    """Of units enough for the threads those that take the least time: each packs its rows and its columns."""
    batch, width = operands.count(operands.batch), tile.vectors * tile.lanes
    row_panels, column_panels = -(-operands.m // tile.rows), -(-operands.n // width)
    is_read = mode == PANELS and row_panels == 1
    is_small_m = mode >= STRIP or is_read
    threads = threads_for(operands)
    of = figures().gemm
    turns = of.small_m_items_per_thread if is_small_m else of.items_per_thread
    products = batch * operands.m * operands.n * operands.k
    few = of.small_m_items_per_thread * threads
    enough = max(products // of.item_products, few if is_small_m else min(few, -(-products // of.least_item_products)))
    wanted = 1 if threads == 1 else min(turns * threads, enough)
    most = of.small_m_columns if is_small_m else of.n_block_prepacked if mode == PANELS else of.n_block
    fewest = -(-column_panels // (most // width))
    wanted = min(max(wanted, batch * fewest), batch * row_panels * column_panels)
    found = []
    for columns in range(fewest, min(column_panels, max(2 * wanted, fewest)) + 1):
        n = -(-column_panels // columns) * width
        # A panel that is read once is read as it lies: all chains for which there is room.
        together = FOUR if tile.kind in BYTES else 1
        pitch = tile.pitch * (2 if tile.kind == "pairs" else 1)
        whole = of.k_block * PANEL // (pitch * CHAIN) * CHAIN * together if is_read else 0
        block = whole or _block(operands.k, n, together)
        lowest = -(-wanted // (batch * columns))
        if operands.k > block and not is_direct:  # results lie in the scratch until the last block
            lowest = max(lowest, -(-row_panels // (of.sum_bytes // (4 * n) // tile.rows)))
        for rows in range(min(lowest, row_panels), min(2 * lowest, row_panels) + 1):
            m = -(-row_panels // rows) * tile.rows
            packed = (0 if is_ahead else m) + (0 if mode == PANELS else n)
            time = -(-batch * rows * columns // threads) * (m * n + of.products_per_packed * packed)
            found.append((time, Units(rows, columns, block)))
    return min(found)[1]


def _block(steps: int, columns: int, together: int) -> int:
    """The steps that are packed at once for so many columns, whole chains: sums do not depend on it."""
    of = figures().gemm
    most = max(min(of.right_bytes // (4 * columns), of.k_block) // CHAIN, 1) * together
    chains = -(-steps // CHAIN)
    return -(-chains // -(-chains // most)) * CHAIN


# Contractions of a few rows, planned: which kernel reads the right factor as it lies.


CELL = 4
"""Bytes of a factor's element that tiles read where it lies."""


def is_nearby(operands: Operands, tile: MicroTile) -> bool:
    """Whether tiles read the right factor where it lies, in the second cache."""
    of = figures().small_m
    is_far = operands.m > of.nearby_panels * tile.rows or operands.n * operands.k > of.nearby
    if is_far or operands.windows is not None or operands.right.op != "load":
        return False
    lie = operands.strided(operands.right)
    return lie.width == lie.along(operands.columns) == CELL


def reads_once(operands: Operands, tile: MicroTile) -> bool:
    """Whether a right factor is read once as it lies, for a few rows."""
    nodes = list(walk(operands.right))
    is_across = operands.is_across(operands.right, operands.columns)
    is_computed = any(node.op not in ("load", "cast") for node in nodes)
    of = figures().small_m
    most = of.rows if is_computed else of.most_rows
    is_early = is_computed or (not is_across and operands.m <= of.dot_rows)
    is_small = operands.n * operands.k < (of.least_dots if is_early else of.least) or is_nearby(operands, tile)
    if operands.m > most or is_small or find_rare(nodes):
        return False
    inner = operands.columns if is_across else operands.folded
    lies = [operands.strided(node) for node in nodes if node.op in ("load", "coordinate")]
    has_run = any(lie.along(inner) == lie.width for lie in lies)
    return has_run and (is_across or operands.m * (operands.k + 2 * WIDE) * 4 <= figures().gemm.right_bytes)


class Product(NamedTuple):
    """What the way of a product is chosen by."""

    operands: Operands
    tile: MicroTile
    is_prepacked: bool
    """Whether panels of the right factor are there, or made by a kernel."""
    is_int8: bool

    @property
    def is_small_m(self) -> bool:
        """Whether the right factor is read once; one row of bytes alone is multiplied as it is read."""
        # Two rows by 4096 x 4096 take 7.3 ms so, and 6.2 packed.
        is_plain = (
            not self.is_prepacked and self.operands.windows is None and (not self.is_int8 or self.operands.m == 1)
        )
        return is_plain and reads_once(self.operands, self.tile)


def is_prepacked(product: Product) -> bool:
    """Panels of the right factor are packed ahead, or dequantised as they are packed."""
    return product.is_prepacked


def is_small_m_strip(product: Product) -> bool:
    """M <= 8 (14 with AVX-512), and columns of B that lie side by side, 16,384 elements or more: B is read once."""
    return product.is_small_m and product.operands.is_across(product.operands.right, product.operands.columns)


def is_small_m_dots(product: Product) -> bool:
    """M <= 8 (14 with AVX-512), and columns of B that lie along K, 16,384 elements or more (512 if M <= 4)."""
    return product.is_small_m


def is_amx(product: Product) -> bool:
    """Bytes, and rows enough for tiles of matrix registers."""
    return product.is_int8 and product.tile.kind == "matrices"


def is_int8(product: Product) -> bool:
    """Bytes, or differences of bytes, in sums of 32-bit integers."""
    return product.is_int8


def has_windows(product: Product) -> bool:
    """One factor is windows of an input, which are packed from where they lie: a convolution in NCHW."""
    return product.operands.windows is not None


def is_unpacked(product: Product) -> bool:
    """Two panels of rows at most, and a B of at most 163,840 elements, rows side by side: L2 has it as it lies."""
    return is_nearby(product.operands, product.tile)


STRIPS = Route("small-M", is_small_m_strip, measured="9 x 768 x 768 takes 150 us so, and 235 packed")
DOT_PRODUCTS = Route(
    "small-M dot products", is_small_m_dots, measured="12 of 1 x 129 x 64 take 0.029 ms so, and 0.036 packed (N1)"
)
IN_PLACE = Route("B in place", is_unpacked, measured="5 x 256 x 256 takes 5.3 us so, and 11 by strips")
WAYS = (
    Route("prepacked panels", is_prepacked),
    STRIPS,
    DOT_PRODUCTS,
    Route("AMX", is_amx),
    Route("int8 dot products", is_int8),
    Route("implicit im2col", has_windows),
    IN_PLACE,
    Route("packed panels", always),
)
"""How a product is carried out, by how its right factor is brought: the first that holds."""


# Contractions, planned: how factors are brought, by which tiles they are multiplied, and what a unit of work is.


CHOSEN = (
    "pack_left", "total_left", "tile", "tile_narrow", "tile_low", "tile_small", "tile_beside", "last", "last_narrow",
    "last_low", "last_small",
)  # fmt: skip
"""Kernels that there are others of, for bytes that are small."""
RECORD = Layout(
    "slots", "slot_count", "m", "n", "k", "row_units", "column_units", "row_panels", "column_panels", "tile_rows",
    "tile_columns", "block", "pitch", "lanes", "pack_right", "left_mode",
    "right_mode", "is_direct", "left_at", "right_at", "result_at", "rank", "together",
    "compensates", "total_right", "compensate", "left_zero_at", "right_zero_at", "line", "gap",
    "beside", "pieces", "left_on", "of_columns", "fetches", "filled", "bounded", "most", "written", "is_placed",
    *CHOSEN,
    *(f"small_{name}" for name in CHOSEN),
)  # fmt: skip
"""After the header, and before the batch's sizes; `_at` are the words at which sections stand, `together` the steps
that a packed one has, `line` the columns of a line of the target, where there are gaps between those, `gap` the
distance from one to the next, and `beside` the panels that `tile_beside` takes at once. The `last` tiles
compute results from the sums; where there are none, rows of maps do. Rows that are not packed have a table of `pieces`,
and lie `left_on` bytes on from column to column. The units of the same columns are `of_columns` one after the other,
where that is not 0; otherwise those of the same rows are. Where it `fetches`, so do the tiles. Packed steps are a
multiple of `filled`. Tiles read whole `lanes` of columns that are not packed, and write multiples of `written`. Where
it `is_placed`, sums lie in the target until results are computed from them. Of the factor that is `bounded`, if there
is one, the last view is a number: bytes are small where it is `most` at most."""
LEFT, RIGHT = 1, 2
"""The factor that is bounded."""


def plan_gemm(primitive: Reduce) -> KernelProgram | None:
    """Tiles over packed panels, or for a few rows the right factor as it lies: sums of FLOAT32 and 32-bit integers."""
    operands = operands_of(primitive)
    return None if operands is None else plan_tiles(operands, tile_of(operands))


def tile_of(operands: Operands) -> MicroTile:
    """The tile for a product, of matrix registers where those take it."""
    matrices = matrices_for(operands.m) if operands.kind == "i32" else None
    is_taken = matrices is not None and int8_of(operands, matrices) is not None
    return matrices if matrices is not None and is_taken else tile_for(operands.kind, operands.m)


def int8_of(operands: Operands, tile: MicroTile, constants: frozenset[str] = frozenset()) -> Int8Plan | None:
    """How bytes are multiplied; None for other elements, and where the CPU cannot."""
    if operands.kind != "i32":
        return None
    import_alone("anydml.engines.cpu.quant.int8")
    from anydml.engines.cpu.quant.int8 import plan_int8

    return plan_int8(operands, tile, constants)


def _small_m(operands: Operands, tile: MicroTile) -> tuple[Section, int]:
    """The section of a right factor that is read once, and how it is read."""
    import_alone("anydml.engines.cpu.gemm.small_m")
    from anydml.engines.cpu.gemm.small_m import plan_small_m

    return plan_small_m(operands, tile, is_cut=figures().small_m.streams == 1 and threads_for(operands) > 1)


def plan_operands(
    primitive: Reduce, made: Made, layouts: Mapping[str, Map], *, must_be_right: bool = False
) -> KernelProgram | None:
    """Tiles over panels of a factor that a kernel makes."""
    operands = operands_of(primitive)
    if operands is None or operands.windows is not None or made[0] not in (operands.left, operands.right):
        return None
    if must_be_right and made[0] is not operands.right:
        return None
    return replace(plan_tiles(operands, tile_for(operands.kind, operands.m), Supplied(made=made)), layouts=layouts)


def operands_of(primitive: Reduce) -> Operands | None:
    """The operands of a contraction that there are tiles for."""
    found = match_contraction(primitive)
    if found is None:
        return None
    operands = MergedOperands(primitive, found, has_lines=True)
    views = [len(operands.all_strided(value)) for value in (operands.left, operands.right, operands.finish)]
    # Windows that are multiplied with a single filter, as a depthwise convolution's, are not worth packing: in lines
    # that fill vectors they are read as they lie.
    line = found.sizes[operands.columns[-1]] if operands.columns else 1
    is_filled = line >= figures().gemm.window_columns
    is_alone = (operands.windows is not None and operands.m == 1 and is_filled) or _is_across(operands)
    is_ours = (
        operands.m * operands.n > 1 and not is_alone and not operands.unmerged and len(operands.batch) <= OUTER_RANK
    )
    return operands if is_ours and views[0] and views[1] and max(views) < VIEWS else None


def _is_across(operands: Operands) -> bool:
    """Whether elements of many products by one row or column lie side by side, and those of each far apart.

    4,096 products of 16 x 16 by 16, as samples of a grid by their parts are, take 5.1 ms one after the other, and 0.3
    across them (one thread of an Arm Neoverse-N1).
    """
    lies, within = (
        operands.all_strided(operands.left, operands.right),
        (*operands.rows, *operands.columns, *operands.folded),
    )
    is_beside = any(all(lie.strides[k] == lie.width for lie in lies) for k in operands.batch)
    is_apart = all(abs(lie.strides[k]) != lie.width for lie in lies for k in within)
    return min(operands.m, operands.n) == 1 and is_beside and is_apart


class Supplied(NamedTuple):
    """What there is of a factor before a product: at most one of these."""

    panels: Panels | None = None
    """Panels of columns, laid out ahead."""
    rows: Panels | None = None
    """Panels of rows, laid out ahead."""
    known: tuple[Int8Plan, Panels] | None = None
    """Rows of bytes that are known, as they lie, and how they are multiplied."""
    made: Made | None = None
    """A factor that a kernel makes."""


class Factor(NamedTuple):
    """How a factor comes to the tiles."""

    section: Section
    mode: int
    """Of those in `operands.py`."""
    pack: Kernel
    """What packs it, where the macro-kernel has it packed."""


def plan_tiles(operands: Operands, tile: MicroTile, supplied: Supplied = Supplied()) -> KernelProgram:  # noqa: B008 - it is frozen
    """The program of a product: its way, the tile with its epilogue, units of work, both factors, and the record."""
    panels, _, known, made = supplied
    int8 = int8_of(operands, tile) if known is None else known[0]
    chosen = choose(WAYS, Product(operands, tile, bool(panels or made), int8 is not None))
    small_m = _small_m(operands, tile) if chosen in (STRIPS, DOT_PRODUCTS) else None
    int8 = None if small_m else int8
    are_halves = panels is not None and panels.width == 2
    is_read = are_halves and operands.m <= figures().gemm.float16_rows
    if int8 or is_read:
        dots = "matrices" if tile.kind == "matrices" else "i8" if has_dots(tile.lanes) else "pairs"
        tile = tile._replace(kind=dots if int8 else "f16", is_swapped=int8 is not None and int8.is_swapped)
    columns = tile.vectors * tile.lanes
    row_panels, column_panels = -(-operands.m // tile.rows), -(-operands.n // columns)
    is_direct = operands.finish is operands.sum and operands.target.along(operands.columns) == 4 and not operands.line
    is_direct = is_direct and not small_m
    mode = (HALVES if are_halves and not is_read else PANELS) if panels else small_m[1] if small_m else AS_IT_LIES
    is_raw = chosen is IN_PLACE
    tile = tile._replace(ahead=figures().gemm.steps_ahead if is_raw else 0, is_halved=halves(operands.kind, operands.m))
    beside = -(-figures().gemm.sums_at_once // (tile.rows * tile.vectors)) if mode == PANELS else 1
    if tile.is_halved:
        beside = min(beside, max(most_halved() // tile.vectors, 1))
    is_ended = not (int8 and int8.zeros) and not small_m and beside == 1 and fills_lines(tile)
    epilogue = epilogue_of(operands) if is_ended and tile.kind != "matrices" else None
    is_placed = epilogue is not None and may_place(operands, epilogue)
    # Most tiles write the columns that there are; others by whole vectors, and leave the last few to rows of maps. Of
    # an open number of columns there are whole tiles alone: narrower ones would ask for a plan at each number.
    is_any = _is_any(operands)
    tail = 0 if is_any or tile.kind == "matrices" or (int8 and int8.zeros) else operands.n % tile.lanes
    is_there = not is_any and (is_direct or is_placed) and operands.n % tile.lanes == tail
    units = units_of(operands, tile, mode, is_direct=is_there, is_ahead=bool(supplied.rows))
    left, tile = _left(operands, tile, supplied, int8, mode, is_small_m=bool(small_m))
    right = _right(operands, tile, supplied, int8, small_m, mode, is_raw=is_raw)
    is_far = right.mode == PANELS or (right.mode == SIDE_BY_SIDE and operands.k * operands.n >= figures().gemm.far)
    is_more = operands.k > units.block or units.columns > 1
    has_fetches = is_far and is_more and row_panels > 1 and figures().gemm.fetches_panels
    tile = tile._replace(fetches=has_fetches and tile.kind != "matrices")
    read_lanes = columns if is_any else 1 if tile._replace(tail=tail).reads_some else tile.lanes
    is_all = epilogue is not None and operands.k <= units.block and not is_any  # no other tile is called
    bound = panels or (known[1] if known else None)
    zeros = int8.zeros if int8 else ()
    written = columns if is_any else 1 if tail else tile.lanes
    is_mapped = bool(small_m or is_any) or not (is_direct or epilogue) or operands.n % written > 0
    """Whether not all is stored by tiles."""
    sections = {"left": left.section, "right": right.section, "result": operands.result(is_written=is_mapped)}
    sections |= dict(zip(("left_zero", "right_zero"), zeros, strict=False))
    words = {
        "m": operands.m, "n": operands.n, "k": operands.k, "row_units": units.rows, "column_units": units.columns,
        "row_panels": row_panels, "column_panels": column_panels, "tile_rows": tile.rows, "tile_columns": columns,
        "block": units.block, "pitch": 4 * tile.pitch, "lanes": read_lanes, "pack_left": left.pack.address,
        "pack_right": right.pack.address, "left_mode": left.mode, "right_mode": right.mode, "is_direct": int(is_direct),
        "together": FOUR if int8 else 1, "line": operands.line, "gap": operands.gap, "beside": beside,
        "fetches": int(tile.fetches), "filled": int8.filled if int8 else 1,
        "written": written, "is_placed": int(is_placed),
        **_tiles(operands, tile, tail, beside, epilogue, is_all=is_all),
    }  # fmt: skip
    if int8:
        totals = dict(zip(("total_left", "total_right", "compensate"), int8.kernels, strict=True))
        words |= {"compensates": int8.compensates, **totals}
    if int8 and bound and bound.most:
        small = _tiles(operands, tile._replace(kind="small"), tail, beside, epilogue, is_all=is_all)
        small["pack_left"], small["total_left"] = int8.small_kernels()
        words |= {f"small_{name}": word for name, word in small.items()}
        words["most"], words["bounded"] = bound.most, LEFT if known else RIGHT
    record = record_of(RECORD, words, [operands.found.sizes[k] for k in operands.batch], sections)
    number = units.rows * units.columns * operands.count(operands.batch)
    layouts = {name: one for some in (panels, supplied.rows, bound) if some for name, one in some.layouts.items()}
    return KernelProgram(get_macrokernel(), record, number, size_of(operands), layouts)


def _left(
    operands: Operands, tile: MicroTile, supplied: Supplied, int8: Int8Plan | None, right_mode: int, *, is_small_m: bool
) -> tuple[Factor, MicroTile]:
    """The left factor, and the tile, which may read its rows in lines, or where they lie."""
    if int8:
        section, pack = int8.factors[0]
        found = Factor(section, AS_IT_LIES, pack)
    else:
        section, mode, packing = _factor(operands, operands.left, operands.rows, tile.rows, tile.pitch, supplied.made)
        if packing.layout == "t" and not (
            tile.by_lane or is_small_m or supplied.rows
        ):  # whose tiles read rows side by side
            if _is_apart(operands, tile, packing, mode):
                mode, tile = UNPACKED, tile._replace(is_apart=True)
            packing, tile = packing._replace(layout="l"), tile._replace(is_lined=not tile.is_apart)
        found = Factor(section, mode, pack_kernel(packing))
    if supplied.known:
        found = found._replace(section=supplied.known[1].section)
    if supplied.rows:
        found = found._replace(section=supplied.rows.section, mode=PANELS)
    if right_mode == DOTS:
        _, section, mode = operands.computed(operands.left, operands.rows, is_along=True)
        found = found._replace(section=section, mode=mode)
    return found, tile


def _right(
    operands: Operands,
    tile: MicroTile,
    supplied: Supplied,
    int8: Int8Plan | None,
    small_m: tuple[Section, int] | None,
    mode: int,
    *,
    is_raw: bool,
) -> Factor:
    """The right factor: panels that are there, in a mode that is known, or as it lies, packed or not."""
    columns = tile.vectors * tile.lanes
    if int8:
        section, pack = int8.factors[1]
        way = AS_IT_LIES if operands.windows is None else WINDOWS
    else:
        lying = "p" if supplied.panels else ""
        section, way, packing = _factor(
            operands, operands.right, operands.columns, columns, columns, supplied.made, lying
        )
        pack = pack_kernel(packing)
    if supplied.panels:
        return Factor(supplied.panels.section, mode, pack)
    if small_m:
        return Factor(*small_m, pack)
    if way == AS_IT_LIES:
        way = _side_by_side(operands, -(-operands.m // tile.rows))
    return Factor(section, UNPACKED if is_raw else way, pack)


def _is_apart(operands: Operands, tile: MicroTile, packing: Packing, mode: int) -> bool:
    """Whether tiles read rows as they lie: FLOAT32, not as few as panels are taken beside each other for."""
    of = figures().gemm
    is_whole = mode == AS_IT_LIES and packing.kind == tile.kind == "f32" and tile.rows * tile.vectors >= of.sums_at_once
    beyond = operands.strided(operands.left).along(operands.rows) % of.alike
    return is_whole and min(beyond, of.alike - beyond) >= of.alike_within


def _tiles(
    operands: Operands, tile: MicroTile, tail: int, beside: int, epilogue: Epilogue | None, *, is_all: bool
) -> dict[str, int]:
    """The tiles' kernels by their words: whole ones, narrow, low and small ones; as many that end, and those beside."""
    columns = tile.vectors * tile.lanes
    found: dict[str, int] = {}
    last = tile.vectors if _is_any(operands) else -(-(operands.n % columns or columns) // tile.lanes)
    shapes = [
        tile._replace(rows=rows, vectors=vectors, tail=lanes)
        for rows in (tile.rows, operands.m % tile.rows or tile.rows)
        for vectors, lanes in ((tile.vectors, 0), (last, tail))
    ]
    for shape, name in zip(shapes, ("", "_narrow", "_low", "_small"), strict=True):
        ended = 0 if epilogue is None else tile_kernel(shape._replace(epilogue=epilogue))
        found |= {f"tile{name}": ended if is_all else tile_kernel(shape), f"last{name}": ended}
    return {**found, "tile_beside": 0 if beside == 1 else tile_kernel(tile._replace(panels=beside))}


def _is_any(operands: Operands) -> bool:
    """Whether tiles do for any number of columns: of keys, say. Of images there are few sizes, and many columns."""
    return is_open(operands.n) and operands.windows is None


def get_macrokernel() -> Kernel:
    """The one kernel of all products."""
    return kernel_for("macrokernel", "gemm.macrokernel:MacroKernel")


def _side_by_side(operands: Operands, row_panels: int) -> int:
    """How columns are brought that are packed as they lie: not at all, or all at once, where they lie side by side."""
    lie = operands.all_strided(operands.right)[0]
    if lie.along(operands.columns) != lie.width:
        return AS_IT_LIES
    of = figures().gemm
    most = of.first_cache * 3 // 4 if row_panels > of.crowded_panels else of.first_cache
    is_near = lie.along(operands.folded) == operands.n * lie.width and operands.k * operands.n <= most
    return UNPACKED if is_near and lie.width == 4 else SIDE_BY_SIDE


def _factor(
    operands: Operands, value: Expr, across: tuple[int, ...], panel: int, pitch: int, made: Made | None, lying: str = ""
) -> tuple[Section, int, Packing]:
    """The section of a factor, how it is brought, and how it is packed: as elements lie, which may be supplied."""
    leaf, kind = element_of(value), operands.kind
    if made is not None and value is made[0]:
        is_right = value is operands.right
        lies, section = "t", made[1](operands, across, panel if is_right else 0)
        mode = DEQUANTISED if is_right else ALONG_STEPS
    elif value is operands.windows:
        lies, kind, mode = "w", kind if leaf is value else "f16", WINDOWS
        on, step = operands.tables()
        section = operands.section((), [operands.strided(leaf)], [step], [on])
    elif leaf.op == "load":
        lie, kind = operands.strided(leaf), kind if leaf is value else "f16"
        step, on = lie.along(operands.folded), lie.along(across)
        lies = letter_of(step, on, lie.width)
        section, mode = operands.section((), [lie], [step], [on]), AS_IT_LIES
    else:
        lies, section, mode = operands.computed(value, across)
    return section, mode, Packing(lying or lies, kind, panel, pitch, figures().gemm.lanes)
