"""Copies, fills, conversions and scales, planned: tiles over two dimensions, of words as wide as the layout allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.common.dialect import bits_of
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ALIGNMENT, MOST_ALIGNED, in_words, tiles_of, widest_word
from anydml.engines.cuda.launch import Kernel, KernelProgram, bases_of, kind_of
from anydml.engines.cuda.move.copy_kernel import copy_tiles, fill_tiles
from anydml.engines.cuda.rows.map_kernel import map_tiles
from anydml.ir.expressions import const
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of, match_filled, match_scaled
from anydml.ir.substitution import FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.device import Figures
    from anydml.ir.patterns import Filled, Scaled
    from anydml.ir.verbs import Map

# Strided copies, planned: tiles over two dimensions, of words as wide as the layout allows.


@dataclass(frozen=True, slots=True)
class CopyProgram(Program):
    """A strided copy, planned."""

    primitive: Map
    loops: Loops
    width: int
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: Map, figures: Figures) -> CopyProgram:
        """Simplify, and compile the kernel for memory that is aligned."""
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        program = cls(primitive, loops, primitive.source.data_type.size_in_bytes, figures)
        program.kernel(program.widest()).prepare()
        return program

    @property
    def is_back(self) -> bool:
        """Whether the rows of the source are walked from their end."""
        return bool(self.loops.sizes) and self.loops.strides[0][-1] == -1

    def widest(self) -> int:
        """The widest word that rows are made of, in bytes: their length and every step are multiples of it."""
        return widest_word(self.loops, self.width, 0, 1)

    def kernel(self, word: int) -> Kernel:
        """The kernel that moves words of so many bytes."""
        if word not in self.kernels:
            tiles = tiles_of(in_words(self.loops, word // self.width, 0, 1), word, self.figures.tile)
            constants = {"TILE": tiles.tile, "REVERSE": self.width if self.is_back else word}
            pointers = (f"u{8 * word}",) * 2
            self.kernels[word] = Kernel(
                copy_tiles, pointers, tiles.numbers, constants, tiles.programs, tiles.warps, self.figures
            )
        return self.kernels[word]

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, and move words as wide as they allow."""
        source, target = (
            places[view.tensor] + offset * self.width
            for view, offset in zip((self.primitive.source, self.primitive.target), self.loops.offsets, strict=True)
        )
        word = self.widest()
        while word > self.width and ((source - (word - self.width) * self.is_back) % word or target % word):
            word //= 2
        return self.kernel(word).launch((source - (word - self.width) * self.is_back, target))


# Conversions and scales, planned: tiles of elements, or a copy where no bit changes.


class ScaleProgram(KernelProgram):
    """A conversion or a scale, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, verb: Map, figures: Figures) -> ScaleProgram | CopyProgram | None:
        """Simplify, and compile the kernel for memory that is aligned."""
        if (primitive := match_scaled(verb)) is None:
            return None
        if primitive.moves_bits:
            return CopyProgram.plan(copy_of(primitive.source, primitive.target), figures)
        source, target = primitive.source.data_type, primitive.target.data_type
        widths = (source.size_in_bytes, target.size_in_bytes)
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        # As many read at once as are written: more would go through shared memory to the threads that write them.
        together = ALIGNMENT // widths[1] if widths[0] < widths[1] else MOST_ALIGNED
        tiles = tiles_of(loops, max(widths), figures.tile, together=together)
        scale, bias = (bits_of(const(number, DataType.FLOAT64)) for number in (primitive.scale, primitive.bias))
        numbers = (*tiles.numbers, scale, bias)
        constants = {"TILE": tiles.tile, "SCALED": not primitive.is_conversion}
        kernel = Kernel(
            map_tiles, kinds_of(primitive), numbers, constants, tiles.programs, tiles.warps, figures, fuses=False
        )
        kernel.prepare()
        return cls(kernel, bases_of((primitive.source, primitive.target), loops.offsets))


def kinds_of(primitive: Scaled) -> tuple[str, str]:
    """The types of a map as its kernel has them. From integers to integers the sign is the source's alone."""
    source, target = primitive.source.data_type, primitive.target.data_type
    if primitive.is_conversion and not source.is_float and not target.is_float:
        is_signed = source.is_signed and source.size_in_bytes < target.size_in_bytes
        sign = "i" if is_signed else "u"
        return f"{sign}{8 * source.size_in_bytes}", f"{sign}{8 * target.size_in_bytes}"
    return kind_of(source), kind_of(target)


# Fills, planned: a walk from the numbers of elements to the memory that they fill.


@dataclass(frozen=True, slots=True)
class FillProgram(Program):
    """A fill, planned."""

    primitive: Filled
    loops: Loops
    """Over the elements: what a step counts, and where it leads in the target."""
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, verb: Map, figures: Figures) -> FillProgram | None:
        """Simplify, and compile the kernel for memory that is aligned."""
        if (primitive := match_filled(verb)) is None:
            return None
        target, is_constant = primitive.target, primitive.delta == 0
        counts = tuple(0 if is_constant else math.prod(target.sizes[k + 1 :]) for k in range(len(target.sizes)))
        loops = simplify(Loops(target.sizes, (counts, target.strides), (0, target.offset)), 1)
        program = cls(primitive, loops, figures)
        program.kernel(program.widest()).prepare()
        return program

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.primitive.target.data_type.size_in_bytes

    def widest(self) -> int:
        """The widest word that equal elements are written in together, in bytes."""
        return self.width if self.primitive.delta else widest_word(self.loops, self.width, 1)

    def kernel(self, word: int) -> Kernel:
        """The kernel that writes words of so many bytes."""
        if word not in self.kernels:
            tiles = tiles_of(in_words(self.loops, word // self.width, 1), word, self.figures.tile)
            kind, start, delta = self._sequence(word)
            numbers = (*tiles.numbers, self.loops.offsets[0], start, delta)
            constants = {"TILE": tiles.tile}
            self.kernels[word] = Kernel(
                fill_tiles, (kind,), numbers, constants, tiles.programs, tiles.warps, self.figures, fuses=False
            )
        return self.kernels[word]

    def _sequence(self, word: int) -> tuple[str, int, int]:
        """The type that is counted in, and its start and delta as the kernel takes them.

        A delta of 0 leaves bits as they are, so that they are those of an integer, and of several side by side.
        """
        data_type, start, delta = self.primitive.target.data_type, self.primitive.start, self.primitive.delta
        if delta == 0:
            element = np.array(start, data_type.dtype).tobytes()
            number = const(int.from_bytes(element * (word // self.width), "little"), DataType.INT64)
            return f"u{8 * word}", bits_of(number), 0
        counted = DataType.FLOAT64 if data_type.is_float else DataType.INT64
        kind = kind_of(data_type) if data_type.is_float else f"u{8 * word}"
        return kind, bits_of(const(start, counted)), bits_of(const(delta, counted))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the address in, and write words as wide as it allows."""
        target = places[self.primitive.target.tensor] + self.loops.offsets[1] * self.width
        word = self.widest()
        while word > self.width and target % word:
            word //= 2
        return self.kernel(word).launch((target,))
