"""Register tiles, cut to the rows that there are from the shape that is best on the CPU's family (`families.py`)."""

from __future__ import annotations

from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.gemm.amx import HIGH, SIDE
from anydml.engines.cpu.gemm.microkernel import Tile
from anydml.engines.cpu.gemm.packing import GROUP


def tile_for(kind: str, rows: int) -> Tile:
    """The tile for so many rows: the CPU's own, or one that is lower and wider."""
    of = figures().gemm
    lanes, height, vectors = of.lanes, of.tile_rows, of.tile_vectors
    # An x86 without dot instructions multiplies bytes in two parts, and each column takes two registers.
    parts = 1 if kind != "i32" or has_dots(lanes) or not multiplies_bytes(lanes) else 2
    height = height if parts == 1 else of.pair_rows
    if rows < height or parts > 1:
        height = min(rows, height)
        vectors = min((of.registers - 1 - 2 * parts) // (height + parts), of.most_vectors)
        if halves(kind, rows):
            vectors = most_halved()
    elif 0 < rows % height < height // of.short_panel:  # a last panel of a few rows would wait for its sums
        height = -(-rows // -(-rows // height))
    return Tile(height, vectors, lanes, -(-height // GROUP) * GROUP, IS_ARM, kind)


def halves(kind: str, rows: int) -> bool:
    """Whether products have sums of their own for some steps: of one row, but for an Arm, whose strips take one."""
    return rows == 1 and kind != "i32" and not IS_ARM


def most_halved() -> int:
    """The vectors of a single row, each with three sums in registers."""
    return min((figures().gemm.registers - 2) // 3, figures().gemm.most_halved)


def matrices_for(rows: int) -> Tile | None:
    """The tile of matrix registers for so many rows of bytes; None where there are none, or the rows are few."""
    if rows < figures().gemm.amx_rows or not has_matrices():
        return None
    height = min(rows, HIGH)
    return Tile(height, HIGH // SIDE, SIDE, -(-height // SIDE) * SIDE, IS_ARM, "matrices")


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
