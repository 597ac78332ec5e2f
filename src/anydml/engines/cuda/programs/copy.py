"""Strided copies, planned: tiles over two dimensions, of words as wide as the layout allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.kernels.copy import copy_tiles
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.programs.tiles import in_words, tiles_of, widest_word
from anydml.ir.plan import Loops, loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.ir.verbs import Map


@dataclass(frozen=True, slots=True)
class CopyProgram:
    """A strided copy, planned."""

    primitive: Map
    loops: Loops
    width: int
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False)
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
            tiles = tiles_of(in_words(self.loops, word // self.width, 0, 1), word, self.figures)
            constants = {"TILE": tiles.tile, "TURN": self.width if self.is_back else word}
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
