"""Register tile shapes of each CPU family: as many accumulators as its registers hold."""

from __future__ import annotations

from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.gemm.amx import HIGH, SIDE
from anydml.engines.cpu.gemm.microkernel import Tile
from anydml.engines.cpu.gemm.packing import GROUP

MOST_VECTORS = 12
"""Vectors of a row at most."""

MOST_HALVED = 8
"""Those of a single row, each with three sums: columns are cut alike by most widths."""
FEW = 4
"""A last panel of less than this part of a tile's rows leaves some to it, so that all are about alike, where there are
few panels: 128 x 128 x 128 takes 34.2 us by 13 rows and a last 11, and 34.7 by 14 and a last 2 (one thread)."""


LEAST = 8
"""Rows from which on bytes are multiplied by matrix registers: fewer are as quick as their columns are read."""


def tile_for(kind: str, rows: int) -> Tile:
    """The tile for so many rows: the CPU's own, or one that is lower and wider."""
    lanes, registers, height, vectors = _registers()
    # An x86 without dot instructions multiplies bytes in two parts, and each column takes two registers.
    parts = 1 if kind != "i32" or has_dots(lanes) or not multiplies_bytes(lanes) else 2
    height = height if parts == 1 else 10 if lanes == 16 else 3
    if rows < height or parts > 1:
        height = min(rows, height)
        vectors = min((registers - 1 - 2 * parts) // (height + parts), MOST_VECTORS)
        if halves(kind, rows):
            vectors = most_halved()
    elif 0 < rows % height < height // FEW:  # a last panel of a few rows would wait for its sums
        height = -(-rows // -(-rows // height))
    return Tile(height, vectors, lanes, -(-height // GROUP) * GROUP, IS_ARM, kind)


def halves(kind: str, rows: int) -> bool:
    """Whether products have sums of their own for some steps: of one row, but for an Arm, whose strips take one."""
    return rows == 1 and kind != "i32" and not IS_ARM


def most_halved() -> int:
    """The vectors of a single row, each with three sums in registers."""
    return min((_registers()[1] - 2) // 3, MOST_HALVED)


def matrices_for(rows: int) -> Tile | None:
    """The tile of matrix registers for so many rows of bytes; None where there are none, or the rows are few."""
    if rows < LEAST or not has_matrices():
        return None
    height = min(rows, HIGH)
    return Tile(height, HIGH // SIDE, SIDE, -(-height // SIDE) * SIDE, IS_ARM, "matrices")


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
    if IS_ARM:
        return has_feature("dotprod")
    if lanes == 16:
        return has_feature("avx512vnni")
    return has_feature("avxvnni") or (has_feature("avx512vnni") and has_feature("avx512vl"))


def has_matrices() -> bool:
    """Whether the CPU has registers of matrices of bytes."""
    return not IS_ARM and has_feature("amx-int8") and has_feature("avx512vnni")


def multiplies_bytes(lanes: int) -> bool:
    """Whether bytes are multiplied by fours, in vectors of so many sums: by dot instructions, or by an x86's pairs."""
    return has_dots(lanes) or (not IS_ARM and (lanes < 16 or has_feature("avx512bw")))
