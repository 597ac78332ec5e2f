"""Maps, planned: tiles of elements, or a copy where no bit changes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.kernels.map import map_tiles
from anydml.engines.cuda.launch import ALIGNMENT, Kernel
from anydml.engines.cuda.programs.copy import CopyProgram
from anydml.engines.cuda.programs.shapes import MOST_ALIGNED, kind_of
from anydml.engines.cuda.programs.tiles import tiles_of
from anydml.ir.patterns import copy_of
from anydml.ir.plan import loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.ir.patterns import Scaled


@dataclass(frozen=True, slots=True)
class ScaleProgram:
    """A map, planned."""

    primitive: Scaled
    kernel: Kernel
    offsets: tuple[int, int]
    """Of both views' first elements, in bytes."""

    @classmethod
    def plan(cls, primitive: Scaled, figures: Figures) -> ScaleProgram | CopyProgram:
        """Simplify, and compile the kernel for memory that is aligned."""
        if moves_bits(primitive):
            return CopyProgram.plan(copy_of(primitive.source, primitive.target), figures)
        source, target = primitive.source.data_type, primitive.target.data_type
        widths = (source.size_in_bytes, target.size_in_bytes)
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        # As many read at once as are written: more would go through shared memory to the threads that write them.
        together = ALIGNMENT // widths[1] if widths[0] < widths[1] else MOST_ALIGNED
        tiles = tiles_of(loops, max(widths), figures, together=together)
        numbers = (*tiles.numbers, bits_of(primitive.scale), bits_of(primitive.bias))
        constants = {"TILE": tiles.tile, "SCALED": not primitive.is_conversion}
        kernel = Kernel(
            map_tiles, kinds_of(primitive), numbers, constants, tiles.programs, tiles.warps, figures, fuses=False
        )
        kernel.prepare()
        return cls(primitive, kernel, (loops.offsets[0] * widths[0], loops.offsets[1] * widths[1]))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        views = (self.primitive.source, self.primitive.target)
        return self.kernel.launch(
            [places[view.tensor] + offset for view, offset in zip(views, self.offsets, strict=True)]
        )


def moves_bits(primitive: Scaled) -> bool:
    """Whether a map leaves every bit as it is: to the same type, and between integers of one width."""
    source, target = primitive.source.data_type, primitive.target.data_type
    is_between_integers = not source.is_float and not target.is_float
    is_same = source is target or (is_between_integers and source.size_in_bytes == target.size_in_bytes)
    return primitive.is_conversion and is_same


def kinds_of(primitive: Scaled) -> tuple[str, str]:
    """The types of a map as its kernel has them. From integers to integers the sign is the source's alone."""
    source, target = primitive.source.data_type, primitive.target.data_type
    if primitive.is_conversion and not source.is_float and not target.is_float:
        is_signed = source.is_signed and source.size_in_bytes < target.size_in_bytes
        sign = "i" if is_signed else "u"
        return f"{sign}{8 * source.size_in_bytes}", f"{sign}{8 * target.size_in_bytes}"
    return kind_of(source), kind_of(target)


def bits_of(number: float) -> int:
    """The bits of a float64 as an integer, which is what kernels take."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits)
