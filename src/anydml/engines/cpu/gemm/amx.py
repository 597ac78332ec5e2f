"""The int8 microkernel on AMX: a tile of 32 rows by 32 columns in matrix registers, 64 steps of K at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import MATRIX_LINE, MATRIX_SIDE

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import MicroTile


LEFT, RIGHT = 4, 6
"""The first registers of the factors: before them are those of the sums."""


def make_matrices(tile: MicroTile) -> str:
    """The text of the kernel."""
    f = Function("kernel", "a b b_step c c_step count first b_next far far_step")
    downs, acrosses = range(-(-tile.rows // MATRIX_SIDE)), range(tile.vectors)
    a, b, b_step, c, c_step, count, first = f.args[:7]
    heights = [min(MATRIX_SIDE, tile.rows - MATRIX_SIDE * i) for i in downs]

    def do(name: str, *registers: int, at: Value | None = None, step: Value | int | None = None) -> None:
        given = [f.value(number, "i8") for number in registers]
        given += [] if at is None else [f.pointer(at)]
        f.invoke(f"@llvm.x86.{name}", *given, *([] if step is None else [step]))

    def sums_at(i: int, j: int) -> Value:
        """The place of a register's sums in the tile at c."""
        return c + c_step * (MATRIX_SIDE * i) + MATRIX_LINE * j

    sums = {(i, j): 2 * i + j for i in downs for j in acrosses}
    rows = {number: heights[i] for (i, _), number in sums.items()}
    rows |= {LEFT + i: heights[i] for i in downs} | {RIGHT + j: MATRIX_SIDE for j in acrosses}
    shape = f.address(f.stack("i64", 8))
    for word, number in enumerate(_shape(rows)):
        f.store(number, shape + 8 * word)
    do("ldtilecfg", at=shape)
    with f.either(first.ne(0)) as (new, old):
        with new:
            for number in sums.values():
                do("tilezero", number)
        with old:
            for (i, j), number in sums.items():
                do("tileloadd64", number, at=sums_at(i, j), step=c_step)
    lines = tile.rows * tile.vectors
    with f.loop(0, count, MATRIX_SIDE) as k:
        fetched, ahead = figures().gemm.amx_result_lines, figures().gemm.amx_steps_ahead
        soon = f.min(k // MATRIX_SIDE * fetched, max(lines - fetched, 0))
        for i in range(min(fetched, lines)):
            line = soon + i
            f.prefetch(c + c_step * (line // tile.vectors) + line % tile.vectors * MATRIX_LINE, is_written=True)
        for i in downs:
            do("tileloadd64", LEFT + i, at=a + k * (4 * tile.pitch) + i * MATRIX_SIDE * MATRIX_LINE, step=MATRIX_LINE)
        down = k * b_step
        for j in acrosses:
            do("tileloadd64", RIGHT + j, at=b + down + j * MATRIX_LINE, step=b_step)
        for i in range(MATRIX_SIDE if ahead else 0):
            far = b_step * (ahead * MATRIX_SIDE + i)
            for j in acrosses:
                f.prefetch(b + down + far + j * MATRIX_LINE)
        for (i, j), number in sums.items():
            do("tdpbsud" if tile.is_swapped else "tdpbusd", number, LEFT + i, RIGHT + j)
    for (i, j), number in sums.items():
        do("tilestored64", number, at=sums_at(i, j), step=c_step)
    do("tilerelease")
    return f.end()


def _shape(rows: dict[int, int]) -> list[int]:
    """The words by which registers are set up: palette 1, then each one's bytes of a row, and its rows."""
    octets = bytearray(64)
    octets[0] = 1
    for number, count in rows.items():
        octets[16 + 2 * number] = MATRIX_LINE
        octets[48 + number] = count
    return [int.from_bytes(octets[at : at + 8], "little", signed=True) for at in range(0, 64, 8)]
