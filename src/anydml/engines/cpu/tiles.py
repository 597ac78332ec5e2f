"""The tiles of contractions that suit a CPU: as many sums as its registers hold."""

from __future__ import annotations

from anydml.engines.cpu.build import IS_ARM, has_feature
from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.tile import Tile

MOST_VECTORS = 12
"""Vectors of a row at most."""


def tile_for(kind: str, rows: int) -> Tile:
    """The tile for so many rows: the CPU's own, or one that is lower and wider."""
    lanes, registers, height, vectors = _registers()
    if rows < height:
        height = rows
        vectors = min((registers - 3) // (height + 1), MOST_VECTORS)
    return Tile(height, vectors, lanes, -(-height // GROUP) * GROUP, IS_ARM, kind)


def _registers() -> tuple[int, int, int, int]:
    """Lanes of 32 bits, vector registers, and the rows and vectors of a tile."""
    if IS_ARM:
        return 4, 32, 8, 3
    if has_feature("avx512f"):
        return 16, 32, 14, 2
    if has_feature("avx2"):
        return 8, 16, 6, 2
    return 4, 16, 4, 2


def has_dots(lanes: int) -> bool:
    """Whether the CPU adds up products of bytes by fours, in vectors of so many sums."""
    return has_feature("dotprod" if IS_ARM else "avx512vnni" if lanes == 16 else "avxvnni")
