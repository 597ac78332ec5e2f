"""How products of matrices are cut into tiles: what did best on a H200."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cuda.launch import IS_INTERPRETED
from anydml.engines.cuda.programs.shapes import ceil_power
from anydml.enums import DataType

if TYPE_CHECKING:
    from anydml.engines.cuda.figures import Figures


class Shape(NamedTuple):
    """How a product is cut: a tile's rows, columns and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float = 1.0
    """A tile's share of the hardware's speed, measured on a H200 where tiles fill it."""
    precision: str = "ieee"
    more: int = 0
    """Columns beside those, with sums of their own."""
    start: int = 0
    """Terms that take as long as a tile's first loads and its results' stores."""
    several: int = 1
    """Tiles that a multiprocessor has at once."""
    alone: float = 1.0
    """The part of their time that fewer of them take."""
    crowd: float = 1.0
    """The part of its speed that is left where tiles take more than two rounds; 0.8 of small ones in any case."""

    @property
    def cuts(self) -> tuple[int, int, int]:
        """Of rows, columns, terms."""
        return self.rows, self.columns + self.more, self.depth


HALF = (
    Shape(128, 256, 64, 8, 3, start=400),
    Shape(128, 128, 64, 4, 3, 0.95, start=320, several=2, alone=0.6),
    Shape(64, 128, 64, 4, 3, 0.91, more=64, start=350, several=2, alone=0.74, crowd=0.85),
    Shape(64, 128, 32, 4, 4, 0.82, more=64, start=200, several=3, alone=0.7, crowd=0.82),
    Shape(64, 128, 128, 4, 4, 0.8, start=530),
    Shape(64, 64, 128, 4, 4, 0.65, start=530),
    Shape(64, 32, 128, 4, 5, 0.4, start=530),
)
"""1.02, 0.98, 1.04 and 1.02 of cuBLAS at 1024^3, 2048^3, 4096^3 and 8192^3.

Of 768 terms, 4096 rows by 768 columns take 11.0 us in tiles of 192 columns, 12.2 in those of 128 and 12.8 in those of
256, and cuBLAS 10.6; 6304 rows take 15.1 us with three tiles of 192 columns to a multiprocessor, 18.9 with two and 18.1
in tiles of 128, and cuBLAS 16.9. 4096 rows by 3072 columns take 33.6 us in tiles of 128, 35.8 in those of 256 and 40.3
in those of 192, and cuBLAS 32.2.
"""
TALL_HALF = (
    Shape(256, 128, 64, 8, 4),
    Shape(128, 128, 64, 4, 3, 0.98),
    Shape(64, 128, 128, 4, 4, 0.85),
    Shape(64, 64, 128, 4, 4, 0.65),
    Shape(64, 32, 128, 4, 5, 0.4),
)
"""Where neighbours in the right matrix are of one column: 0.95 to 0.98 of cuBLAS from 2048^3 to 8192^3, and at 4096^3
0.76 with 256 columns."""
SINGLE = (
    Shape(128, 64, 32, 4, 4, 1.0, "tf32x3"),
    Shape(64, 64, 64, 4, 3, 1.01, "tf32x3"),
    Shape(64, 32, 64, 4, 3, 0.76, "tf32x3"),
    Shape(16, 64, 64, 4, 4, 0.47, "tf32x3"),
)
"""The small ones are for 128 rows, as of a sentence: 128 by 768 by 768 takes 11 us, and in tiles of 64 x 64 20 us."""
WHOLE = (Shape(128, 128, 128, 8, 3), Shape(64, 64, 64, 4, 4, 0.7))
COMPUTED = (
    Shape(128, 64, 32, 4, 3, 1.0, "tf32x3"),
    Shape(64, 64, 32, 4, 3, 0.8, "tf32x3"),
    Shape(32, 32, 32, 4, 3, 0.5, "tf32x3"),
)
"""Of factors that are computed."""
SHAPES: dict[DataType | None, tuple[Shape, ...]] = {
    DataType.FLOAT16: HALF,
    DataType.FLOAT32: SINGLE,
    DataType.INT8: WHOLE,
}
SKINNY = 16
"""Rows up to which the time is that of reading the right matrix."""
FEW = 4
"""Rows of FLOAT32 up to which threads multiply one by one; half as many of FLOAT16, where the right matrix is tall."""
TINY = Shape(16, 16, 16, 1, 1)
"""The shape for the interpreter."""


def _lines(rows: int, *, is_tall: bool) -> Shape:
    """1 row by 4096^2: 0.88 of copy speed in FLOAT16 and 1.00 in FLOAT32 where the right matrix is tall, else 0.99."""
    if IS_INTERPRETED:
        return Shape(rows, 4, 16, 1, 1)
    if is_tall:
        return Shape(rows, 8, 256, 2 if rows < FEW else 4, 4)
    return Shape(rows, 32, 256, 8, 3) if rows == 1 else Shape(rows, 16, 512, 8, 1)


def shape_of(
    sizes: tuple[int, int, int], matrices: int, kind: DataType | None, figures: Figures, *, is_tall: bool,
    has_parts: bool = True,
) -> Shape:  # fmt: skip
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `kind` is that of the matrices; None where factors are computed. `is_tall` where neighbours in the right one are of
    one column. Without `has_parts` tiles have no columns beside.
    """
    precision = "ieee" if kind in (DataType.FLOAT16, DataType.INT8) else "tf32x3"
    rows, columns, terms = sizes
    if (kind is DataType.FLOAT32 and rows <= FEW) or (kind is DataType.FLOAT16 and rows <= FEW // 2 and is_tall):
        return _lines(ceil_power(rows), is_tall=is_tall)
    if IS_INTERPRETED:
        has_more = kind is DataType.FLOAT16 and columns > TINY.columns
        return TINY._replace(precision=precision, more=TINY.columns if has_more else 0)
    if rows <= SKINNY:  # 1 to 16 by 4096^2 of FLOAT16: 0.84 to 0.89 of copy speed; 16 rows in 2 warps 0.76
        is_half = kind is DataType.FLOAT16
        return Shape(16, 32, 128, 2 if is_half and rows == 1 else 4, 7 if is_half else 4, 1.0, precision)
    shapes = TALL_HALF if is_tall and kind is DataType.FLOAT16 else SHAPES.get(kind, COMPUTED)

    def time(shape: Shape) -> float:
        high, wide, _ = shape.cuts
        tiles = -(-rows // high) * -(-columns // wide) * matrices
        whole, rest = divmod(-(-tiles // figures.multiprocessors), shape.several)
        rounds = whole + (shape.alone if rest else 0.0)
        crowd = 0.8 if high * wide <= 4096 else shape.crowd
        speed = shape.speed * (crowd if whole + (rest > 0) > 2 else 1.0)
        if high * wide <= 2048:  # of which several fit a multiprocessor
            rounds = max(tiles / figures.multiprocessors, 1.0)
        return rounds * shape.several * high * wide * (terms + min(shape.start, terms)) / speed

    best = min((shape for shape in shapes if has_parts or not shape.more), key=time)
    return best._replace(stages=min(best.stages, max(-(-terms // best.depth) + 1, 2)))
