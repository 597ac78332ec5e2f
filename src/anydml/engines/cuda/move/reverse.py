"""Reversals, planned: a copy whose lines also have a length and a place on the axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import triton.language as tl

from anydml.core.symbolic_sizes import gcd
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import in_words, step_of, tiles_of, widest_word
from anydml.engines.cuda.launch import Kernel, kind_of
from anydml.engines.cuda.move.copy_kernel import reverse_tiles
from anydml.ir.fetches import match_reversed
from anydml.ir.loops import Loops, simplify
from anydml.ir.substitution import FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.device import Figures
    from anydml.ir.fetches import Reversed
    from anydml.ir.verbs import Map


SOURCE, LENGTHS, AXIS, TARGET = range(4)
"""The views of the walk; that of the axis is of places on it, as if those lay in memory."""


@dataclass(frozen=True, slots=True)
class ReverseProgram(Program):
    """A reversal, planned."""

    primitive: Reversed
    loops: Loops
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, verb: Map, figures: Figures) -> ReverseProgram | None:
        """Simplify, and compile the kernel for memory that is aligned."""
        if (primitive := match_reversed(verb)) is None:
            return None
        source, lengths, target, axis = primitive.source, primitive.lengths, primitive.target, primitive.axis
        along = [k == axis for k in range(len(source.sizes))]
        by_line = tuple(0 if is_axis else s for is_axis, s in zip(along, lengths.strides, strict=True))
        strides = (source.strides, by_line, tuple(map(int, along)), target.strides)
        loops = Loops(source.sizes, strides, (source.offset, lengths.offset, 0, target.offset))
        program = cls(primitive, simplify(loops, TARGET), figures)
        program.kernel(program.widest()).prepare()
        return program

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.primitive.source.data_type.size_in_bytes

    @property
    def is_scattered(self) -> bool:
        """Whether neighbours may come from anywhere: those along the axis, and those of lines side by side."""
        return bool(self.loops.sizes) and any(self.loops.strides[view][-1] for view in (LENGTHS, AXIS))

    def widest(self) -> int:
        """The widest word that what lies inside of the axis is made of, in bytes."""
        return self.width if self.is_scattered else widest_word(self.loops, self.width, SOURCE, TARGET)

    def kernel(self, word: int) -> Kernel:
        """The kernel that moves words of so many bytes."""
        if word not in self.kernels:
            self.kernels[word] = self._tiles(word)
        return self.kernels[word]

    def _tiles(self, word: int) -> Kernel:
        together = word // self.width
        loops = in_words(self.loops, together, SOURCE, TARGET)
        tiles = tiles_of(loops, word, self.figures.tile, is_scattered=self.is_scattered)
        view, cut = self.primitive.source, tiles.cut
        size, step = view.sizes[self.primitive.axis], view.strides[self.primitive.axis] // together
        align = gcd(step, tiles.tile.source_align)
        numbers = (
            *tiles.numbers,
            *(f(loops.strides[extra]) for extra in (LENGTHS, AXIS) for f in (cut.steps, cut.others)),
            self.loops.offsets[AXIS],
            size,
            step // align,
        )
        constants = {
            "TILE": tiles.tile,
            "AXIS_STEP": step_of(cut.steps(loops.strides[AXIS])[0]),
            "LENGTH_STEP": step_of(cut.steps(loops.strides[LENGTHS])[0]),
            "AXIS_ALIGN": align,
            # Whole lines within 31 bits are the rule, and a product of 32 bits takes a third of one of 64.
            "OFFSET": tl.int32 if 2 * size * max(abs(step), 1) < 2**31 else tl.int64,
        }
        pointers = (f"u{8 * word}", kind_of(self.primitive.lengths.data_type), f"u{8 * word}")
        return Kernel(reverse_tiles, pointers, numbers, constants, tiles.programs, tiles.warps, self.figures)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, and move words as wide as they allow."""
        source, lengths, target = (
            places[view.tensor] + self.loops.offsets[k] * view.data_type.size_in_bytes
            for view, k in (
                (self.primitive.source, SOURCE),
                (self.primitive.lengths, LENGTHS),
                (self.primitive.target, TARGET),
            )
        )
        word = self.widest()
        while word > self.width and (source % word or target % word):
            word //= 2
        return self.kernel(word).launch((source, lengths, target))
