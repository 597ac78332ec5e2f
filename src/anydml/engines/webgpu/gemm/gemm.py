"""GEMM by register tiles: tile shapes by size, and elements by fours where memory allows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, note
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.gemm.tile import TileShape, product_of, tile_kernel
from anydml.engines.webgpu.launch import KernelProgram
from anydml.engines.webgpu.rows.map import Aligned
from anydml.ir.contraction import match_contraction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.webgpu.gemm.tile import Product
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map, Reduce

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


def shape_for(rows: int, columns: int, terms: int, matrices: int, shapes: Sequence[TileShape] = SHAPES) -> TileShape:
    """The cut that takes the least time, as far as whole rounds of tiles tell."""

    def time(shape: TileShape) -> float:
        tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * matrices
        return -(-tiles // AT_ONCE) * shape.rows * shape.columns * (terms + 4 * shape.depth) / shape.speed

    return min(shapes, key=time)


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
    shape = shape_for(rows, columns, terms, product.count(product.batch))
    return TileProgram.of(product, shape, memory)
