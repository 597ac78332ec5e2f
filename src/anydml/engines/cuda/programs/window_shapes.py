"""How convolutions are cut into tiles: what did best on a H200."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cuda.launch import IS_INTERPRETED
from anydml.enums import DataType

if TYPE_CHECKING:
    from anydml.engines.cuda.figures import Figures


class Shape(NamedTuple):
    """A tile's places, channels and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    time: float = 1.0
    """Of one tile by itself: in us, of 256 channels by 3 x 3 taps."""
    more: float = 1.0
    """The part of that which a second tile on the same multiprocessor takes."""
    precision: str = "ieee"
    has_blocks: bool = False
    """Whether it is quicker where the hardware reads blocks of weights by itself."""
    beside: int = 0
    """Places beside those, with sums of their own."""

    @property
    def high(self) -> int:
        """All places."""
        return self.rows + self.beside


HALF = (
    Shape(64, 128, 128, 8, 3, 15.5, 1.35, has_blocks=True, beside=32),
    Shape(128, 128, 128, 8, 3, 19.1, 1.0, has_blocks=True),
    Shape(128, 128, 64, 8, 3, 21.0, 0.7, has_blocks=True),
    Shape(128, 64, 64, 4, 3, 13.0, 0.92),
    Shape(64, 64, 64, 4, 4, 8.8, 0.73),
    Shape(64, 64, 128, 4, 4, 8.4, 1.17),
    Shape(64, 32, 128, 4, 4, 7.6, 0.8),
    Shape(16, 64, 128, 4, 4, 7.3, 0.8, has_blocks=True),
)
"""32 pictures of 64 channels, 56 x 56, by 3 x 3 taps: 25.2 us with 4 warps, 27.0 with 8; cuDNN 25.6. Of 256 channels,
14 x 14: 18.8 us in tiles of 96 places, of which there are 132, and 20.6 in those of 128; cuDNN 17.0. The latter by 64
terms at once take 1.4 us more, and without blocks 0.8; 128 channels of 28 x 28 first take 27.0 in two rounds of the
former, and 25.0 otherwise."""
SINGLE = (
    Shape(128, 64, 32, 4, 3, 113.0, 0.78, "tf32x3"),
    Shape(64, 64, 32, 4, 4, 70.0, 0.56, "tf32x3"),
    Shape(64, 32, 32, 4, 4, 47.8, 0.6, "tf32x3"),
    Shape(16, 64, 32, 4, 4, 33.6, 0.65, "tf32x3"),
)
"""The same in FLOAT32: 105 us, with 128 columns at once 142; cuDNN 239."""
TINY = Shape(16, 16, 16, 1, 1)
"""The shape for the interpreter."""
LEAST = 16
"""Terms at once: what the hardware multiplies."""


def shape_of(
    rows: int, columns: int, terms: int, groups: int, kind: DataType, figures: Figures, *, has_parts: bool
) -> Shape:
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `terms` are those of a tap, or all where they are walked together. With `has_parts` tiles may have places beside,
    where they fill the terms.
    """
    if IS_INTERPRETED:
        is_half = kind is DataType.FLOAT16
        beside = TINY.rows if is_half and has_parts and terms % TINY.depth == 0 else 0
        return TINY._replace(precision="ieee" if is_half else "tf32x3", beside=beside)

    def time(shape: Shape) -> float:
        tiles = -(-rows // shape.high) * -(-columns // shape.columns) * groups
        rounds = -(-tiles // figures.multiprocessors)
        depth = _depth(shape, terms)
        return shape.time * (1 + shape.more * (rounds - 1)) * (-(-terms // depth) * depth)

    shapes = HALF if kind is DataType.FLOAT16 else SINGLE
    fit = (shape for shape in shapes if not shape.beside or (has_parts and terms % _depth(shape, terms) == 0))
    best = min(fit, key=time)
    return best._replace(depth=_depth(best, terms))


def _depth(shape: Shape, terms: int) -> int:
    """The terms at once, where there are few."""
    depth = shape.depth
    while depth > LEAST and terms <= depth // 2:
        depth //= 2
    return depth
