"""Fills, planned: a walk from the numbers of elements to the memory that they fill."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cuda.kernels.fill import fill_tiles
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.programs.scale import bits_of
from anydml.engines.cuda.programs.shapes import kind_of
from anydml.engines.cuda.programs.tiles import in_words, tiles_of, widest_word
from anydml.ir.plan import Loops, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.ir.patterns import Filled


@dataclass(frozen=True, slots=True)
class FillProgram:
    """A fill, planned."""

    primitive: Filled
    loops: Loops
    """Over the elements: what a step counts, and where it leads in the target."""
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: Filled, figures: Figures) -> FillProgram:
        """Simplify, and compile the kernel for memory that is aligned."""
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
            tiles = tiles_of(in_words(self.loops, word // self.width, 1), word, self.figures)
            kind, start, delta = self._sequence(word)
            numbers = (*tiles.numbers, self.loops.offsets[0], start, delta)
            self.kernels[word] = Kernel(
                fill_tiles,
                (kind,),
                numbers,
                {"TILE": tiles.tile},
                tiles.programs,
                tiles.warps,
                self.figures,
                fuses=False,
            )
        return self.kernels[word]

    def _sequence(self, word: int) -> tuple[str, int, int]:
        """The type that is counted in, and its start and delta as the kernel takes them.

        A delta of 0 leaves bits as they are, so that they are those of an integer, and of several side by side.
        """
        data_type, start, delta = self.primitive.target.data_type, self.primitive.start, self.primitive.delta
        if delta == 0:
            element = np.array(start, data_type.dtype).tobytes()
            return f"u{8 * word}", _wrapped(int.from_bytes(element * (word // self.width), "little")), 0
        if data_type.is_float:
            return kind_of(data_type), bits_of(start), bits_of(delta)
        return f"u{8 * word}", _wrapped(int(start)), _wrapped(int(delta))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the address in, and write words as wide as it allows."""
        target = places[self.primitive.target.tensor] + self.loops.offsets[1] * self.width
        word = self.widest()
        while word > self.width and target % word:
            word //= 2
        return self.kernel(word).launch((target,))


def _wrapped(number: int) -> int:
    """The signed number of 64 bits that has a number's lowest 64."""
    return (number + 2**63) % 2**64 - 2**63
