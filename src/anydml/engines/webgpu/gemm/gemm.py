"""GEMM by register tiles: tile shapes by size, elements by fours where memory allows it, and split-K for few tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, note
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.gemm.tile import TileShape, product_of, tile_kernel
from anydml.engines.webgpu.launch import KernelProgram
from anydml.engines.webgpu.rows.map import Aligned
from anydml.engines.webgpu.schedules import TABLES
from anydml.ir.contraction import match_contraction
from anydml.ir.split_k import PARTS, partial_sums, whole_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.webgpu.gemm.tile import Product
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map, Reduce

SHAPES = (
    TileShape(256, 128, 8, 16, 8, 0.184, 0.184),
    TileShape(128, 128, 16, 8, 8, 0.094, 0.094),
    TileShape(64, 128, 16, 8, 4, 0.062, 0.050),
    TileShape(128, 128, 8, 8, 8, 0.134, 0.107),
    TileShape(64, 128, 8, 8, 4, 0.0865, 0.065),
    TileShape(64, 64, 16, 4, 4, 0.0465, 0.0372),
    TileShape(32, 32, 16, 1, 4, 0.038, 0.027),
    TileShape(16, 64, 16, 1, 4, 0.034, 0.026),
)
"""Times are an H200's. The first three take more workgroup memory than the 16 KiB that every device has."""
LEAST = 4
"""Rows and columns: of fewer a tile has little but room."""
AT_ONCE = 128
"""Workgroups that a device runs each on a processor of its own: WebGPU does not tell how many there are."""
FILLING = 4
"""Steps that pass before a tile's first, and after its last."""
LEAST_PART = 64
"""Terms of a part of a sum."""
MOST_PARTS = 64
"""Of a sum, whose results are added up as the taps of a stencil are."""
SECOND = 3.0
"""Microseconds of one kernel more."""
PART_SPEED = 4e6
"""Bytes that are written and read again in a microsecond."""
WORTH = 0.9
"""The part of its time that a sum in parts takes at most."""


def shape_for(rows: int, columns: int, terms: int, matrices: int, room: int) -> TileShape:
    """The cut that takes the least time, as far as the tiles of the busiest processor tell.

    `room` has the bytes of workgroup memory.
    """
    shapes = (shape for shape in SHAPES if shape.memory <= room)
    return min(shapes, key=lambda shape: _time(shape, rows, columns, terms, matrices))


def _time(shape: TileShape, rows: int, columns: int, terms: int, matrices: int) -> float:
    """Microseconds. Of 140 ways of 20 networks' products, the best took 4 % less time on average than those chosen."""
    tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * matrices
    busiest = -(-tiles // AT_ONCE)
    return busiest * (terms + FILLING * shape.depth) * (shape.among if busiest > 1 else shape.alone)


def parts_for(rows: int, columns: int, terms: int, matrices: int, room: int, size: int) -> int:
    """Into how many parts sums are split along a dimension of a size, each a workgroup's; 1 where that is no gain."""

    def time(parts: int) -> float:
        sizes = (rows, columns, terms // parts, matrices * parts)
        own = _time(shape_for(*sizes, room), *sizes)
        return own + (SECOND + 8 * parts * rows * columns * matrices / PART_SPEED if parts > 1 else 0)

    most = min(MOST_PARTS, terms // LEAST_PART)
    best = min((n for n in range(1, most + 1) if size % n == 0), key=time, default=1)
    return best if time(best) < WORTH * time(1) else 1


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
    if min(product.shape[:2]) < LEAST:
        return None

    def tiles(product: Product) -> TileProgram:
        return TileProgram.of(product, shape_for(*sizes_of(product, memory)), memory)

    return split_product(product, memory, tiles) or tiles(product)


def split_product(product: Product, memory: Memory, plan: Callable[[Product], TileProgram]) -> TileProgram | None:
    """A product as sums of parts of its terms, planned by another, which are added up; None where it stays whole."""
    sizes = product.found.sizes
    dimension = max(product.found.folded, key=lambda k: sizes[k])
    count = parts_for(*sizes_of(product, memory), sizes[dimension])
    if count == 1:
        return None
    verb = product.primitive
    partial = partial_sums(verb, product.found.fold, dimension, count)
    found = match_contraction(partial)
    made = None if found is None else product_of(partial, found)
    if made is None:
        return None
    first = plan(made)
    note(Route(f"split-K by {count}", parts_for))
    second = TABLES.plan(whole_of(verb, product.found.fold, partial), memory)
    assert isinstance(second, KernelProgram)  # noqa: S101 - for type checkers: folds are rows of kernels
    scratch = {**first.whole.scratch, PARTS: math.prod(partial.target.sizes) * partial.target.data_type.size_in_bytes}
    return replace(first, whole=KernelProgram.of(memory.name, *first.whole.kernels, *second.kernels, scratch=scratch))


def sizes_of(product: Product, memory: Memory) -> tuple[int, int, int, int, int]:
    """What its cut is chosen by."""
    return (*product.shape, product.count(product.batch), memory.gpu.workgroup_memory)
