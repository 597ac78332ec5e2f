"""GEMM by register tiles: tile shapes by size, elements by fours where memory allows it, and split-K for few tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anydml.core.memory import packed_strides
from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, note
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.gemm.tile import TileShape, product_of, tile_kernel
from anydml.engines.webgpu.launch import KernelProgram
from anydml.engines.webgpu.rows.map import Aligned
from anydml.engines.webgpu.schedules import TABLES
from anydml.ir import expressions
from anydml.ir.contraction import match_contraction
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.webgpu.gemm.tile import Product
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map

SHAPES = (
    TileShape(128, 128, 8, 8, 8, 1.0),
    TileShape(64, 128, 8, 8, 4, 0.9),
    TileShape(64, 64, 16, 4, 4, 0.7),
    TileShape(32, 32, 16, 1, 4, 0.3),
    TileShape(16, 64, 16, 1, 4, 0.3),
)
"""Workgroup memory takes 16 KiB at most, as every device has it. Speeds are by the reads of it for each product."""
LEAST = 4
"""Rows and columns: of fewer a tile has little but room."""
AT_ONCE = 128
"""Tiles that a device is busy with."""


LEAST_PART = 512
"""Terms of a part of a sum: shorter ones are not worth their results' way through memory."""
MOST_PARTS = 64
"""Of a sum, whose results are added up as the taps of a stencil are."""
SECOND = 600_000
"""Products of a tile in the time of one kernel more, 3 us."""


def shape_for(rows: int, columns: int, terms: int, matrices: int, shapes: Sequence[TileShape] = SHAPES) -> TileShape:
    """The cut that takes the least time, as far as whole rounds of tiles tell."""
    return min(shapes, key=lambda shape: _time(shape, rows, columns, terms, matrices))


def _time(shape: TileShape, rows: int, columns: int, terms: int, matrices: int) -> float:
    tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * matrices
    return -(-tiles // AT_ONCE) * shape.rows * shape.columns * (terms + 4 * shape.depth) / shape.speed


def parts_for(rows: int, columns: int, terms: int, matrices: int) -> int:
    """Into how many parts sums are split, each a workgroup's: 1 where that does not take half of the time."""

    def time(parts: int) -> float:
        sizes = (rows, columns, terms // parts, matrices * parts)
        return _time(shape_for(*sizes), *sizes) + (SECOND if parts > 1 else 0)

    most = min(MOST_PARTS, terms // LEAST_PART)
    best = min((n for n in range(1, most + 1) if terms % n == 0), key=time, default=1)
    return best if 2 * time(best) < time(1) else 1


@dataclass(frozen=True, slots=True)
class TileProgram(Program):
    """A product in tiles, with what lays its operands out."""

    whole: KernelProgram
    layouts: Mapping[str, Map | Reduce] = field(default_factory=dict)
    """Layouts that are made ahead."""

    @classmethod
    def of(
        cls,
        product: Product,
        shape: TileShape,
        memory: Memory,
        *before: Bindable,
        scratch: Mapping[str, int] = MappingProxyType({}),
    ) -> TileProgram:
        """Of a product, after other kernels, which write memory of the program's own."""
        note(Route(f"tiles of {shape.rows} x {shape.columns} x {shape.depth}", shape_for))
        wide, aligned = tile_kernel(product, shape, Body.on(memory.gpu))

        def plain() -> Kernel:
            return tile_kernel(product, shape, Body.on(memory.gpu), has_quads=False)[0]

        # A tensor that is moved both ways has two bindings, of which devices have 8 at least.
        has_room = len(wide.bindings) <= memory.gpu.most_bindings
        kernel = Aligned(wide, plain, tuple((tensor, 0) for tensor in sorted(aligned))) if has_room else plain()
        return cls(KernelProgram.of(memory.name, *before, kernel, scratch=scratch))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return self.whole.bind(places)


def plan_product(verb: Reduce, memory: Memory) -> Program | None:
    """For sums of products of rows and columns; None for those of few rows, and of what is not computed in 32 bits."""
    found = match_contraction(verb)
    product = None if found is None else product_of(verb, found)
    if product is None or not all(verb.sizes):
        return None
    rows, columns, terms = product.shape
    if min(rows, columns) < LEAST:
        return None
    matrices = product.count(product.batch)
    parts = parts_for(rows, columns, terms, matrices)
    split = _split(verb, product, parts) if parts > 1 else None
    if split is None:
        return TileProgram.of(product, shape_for(rows, columns, terms, matrices), memory)
    partial, whole = split
    note(Route(f"split-K by {parts}", parts_for))
    first = TileProgram.of(partial, shape_for(*partial.shape, partial.count(partial.batch)), memory)
    second = TABLES.plan(whole, memory)
    assert isinstance(second, KernelProgram)  # noqa: S101 - for type checkers: folds are rows of kernels
    size = math.prod(partial.primitive.target.sizes) * partial.primitive.target.data_type.size_in_bytes
    return KernelProgram.of(memory.name, *first.whole.kernels, *second.kernels, scratch={PARTS: size})


PARTS = "sums of parts"


def _split(verb: Reduce, product: Product, parts: int) -> tuple[Product, Reduce] | None:
    """The sums of parts of the terms, and what is computed of their sums; None where terms are several dimensions."""
    fold = product.found.fold
    folded = list(walk(*fold.args))
    loads = {int(node.value) for node in walk(verb.value, known=(fold,)) if node.op == "load"}
    if fold.type is None or any(node.op in ("coordinate", "fetch") for node in folded):
        return None
    if verb.depth != 1 or verb.also or any(verb.sources[k].strides[-1] for k in loads):
        return None
    *kept, terms = verb.sizes
    each, count = terms // parts, math.prod(kept)
    sizes = (parts, *kept, each)

    def cut(view: View) -> View:
        *steps, step = view.strides
        return replace(view, sizes=sizes, strides=(each * step, *steps, step))

    lies = packed_strides(tuple(kept))
    partial = View(PARTS, fold.type, (*sizes[:-1], 1), (count, *lies, 0))
    sources = [replace(view, sizes=(*kept, parts), strides=(*view.strides[:-1], 0)) for view in verb.sources]
    sources.append(View(PARTS, fold.type, (*kept, parts), (*lies, count)))
    total = expressions.fold("sum", expressions.load(len(verb.sources), fold.type))
    value = rewrite(verb.value, lambda node: total if node is fold else node)
    first = Reduce(tuple(map(cut, verb.sources)), partial, fold, 1, (each,))
    found = match_contraction(first)
    made = None if found is None else product_of(first, found)
    return None if made is None else (made, replace(verb, sources=tuple(sources), value=value, rows=(parts,)))
