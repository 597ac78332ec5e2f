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
    speed: float = 1.0
    """Its share of the hardware's speed where tiles fill it."""
    precision: str = "ieee"


HALF = (
    Shape(128, 128, 64, 4, 3),
    Shape(128, 64, 64, 8, 4, 0.86),
    Shape(64, 64, 64, 4, 5, 0.65),
    Shape(64, 32, 64, 4, 5, 0.4),
)
"""32 pictures of 64 channels, 56 x 56, by 3 x 3 taps: 24.1 us with 8 warps, 25.5 with 4; cuDNN 24.0."""
SINGLE = (
    Shape(128, 64, 32, 4, 3, 1.0, "tf32x3"),
    Shape(64, 64, 32, 4, 4, 0.9, "tf32x3"),
    Shape(64, 32, 32, 4, 4, 0.6, "tf32x3"),
)
"""The same in FLOAT32: 105 us, with 128 columns at once 142; cuDNN 239."""
TINY = Shape(16, 16, 16, 1, 1)
"""What is interpreted."""
LEAST = 16
"""Terms at once: what the hardware multiplies."""


def shape_of(rows: int, columns: int, terms: int, groups: int, kind: DataType, figures: Figures) -> Shape:
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `terms` are those of a tap, or all where they are walked together.
    """
    if IS_INTERPRETED:
        return TINY._replace(precision="ieee" if kind is DataType.FLOAT16 else "tf32x3")

    def time(shape: Shape) -> float:
        tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * groups
        rounds = max(tiles / figures.multiprocessors, 1.0)
        return rounds * shape.rows * shape.columns / shape.speed

    best = min(HALF if kind is DataType.FLOAT16 else SINGLE, key=time)
    depth = best.depth
    while depth > LEAST and terms <= depth // 2:
        depth //= 2
    return best._replace(depth=depth)
