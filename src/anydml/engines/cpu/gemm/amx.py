"""The int8 microkernel on AMX: a tile of 32 rows by 32 columns in matrix registers, 64 steps of K at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.families import figures

if TYPE_CHECKING:
    from anydml.engines.cpu.gemm.microkernel import Tile


SIDE = 16
"""Rows of a register, and its sums in each."""
LINE = 64
"""Bytes of a register's row."""
HIGH = 2 * SIDE
"""The most rows of a tile."""
LEFT, RIGHT = 4, 6
"""The first registers of the factors: before them are those of the sums."""


def make_matrices(tile: Tile) -> str:
    """The text of the kernel."""
    text, downs, acrosses = Steps(), range(-(-tile.rows // SIDE)), range(tile.vectors)
    heights = [min(SIDE, tile.rows - SIDE * i) for i in downs]
    for name in ("ldtilecfg(ptr", "tilerelease(", "tilezero(i8", "tdpbusd(i8, i8, i8", "tdpbsud(i8, i8, i8"):
        text.declared[f"declare void @llvm.x86.{name})"] = None
    for name in ("tileloadd64", "tilestored64"):
        text.declared[f"declare void @llvm.x86.{name}(i8, ptr, i64)"] = None

    def do(name: str, *args: str) -> None:
        text.add(f"call void @llvm.x86.{name}({', '.join(args)})")

    sums = {(i, j): 2 * i + j for i in downs for j in acrosses}
    rows = {number: heights[i] for (i, _), number in sums.items()}
    rows |= {LEFT + i: heights[i] for i in downs} | {RIGHT + j: SIDE for j in acrosses}
    text.room("shape", 8)
    for word, number in enumerate(_shape(rows)):
        text.put(f"shape + {8 * word}", number)
    do("ldtilecfg", f"ptr {text.place('shape')}")
    with text.when("first != 0"):
        for number in sums.values():
            do("tilezero", f"i8 {number}")
    with text.when("first == 0"):
        for (i, j), number in sums.items():
            do("tileloadd64", f"i8 {number}", f"ptr {_sum_at(text, i, j)}", "i64 %c.step")
    lines = tile.rows * tile.vectors
    with text.loop("k", 0, "count", SIDE):
        fetched = figures().gemm.amx_result_lines
        if fetched:
            text.let("line", f"min(k // {SIDE} * {fetched}, {max(lines - fetched, 0)})")
        for i in range(min(fetched, lines)):
            text.let(f"line{i}", f"line + {i}")
            row = text.new(f"mul i64 %c.step, {text.value(f'line{i} // {tile.vectors}')}")
            text.add(f"%row{i} = add i64 %c, {row}")
            text.fetch(text.place(f"row{i} + line{i} % {tile.vectors} * {LINE}"), is_written=True)
        for i in downs:
            place = text.place(f"a + k * {4 * tile.pitch} + {i * SIDE * LINE}")
            do("tileloadd64", f"i8 {LEFT + i}", f"ptr {place}", f"i64 {LINE}")
        text.add("%down = mul i64 %k, %b.step")
        for j in acrosses:
            do("tileloadd64", f"i8 {RIGHT + j}", f"ptr {text.place(f'b + down + {j * LINE}')}", "i64 %b.step")
        ahead = figures().gemm.amx_steps_ahead
        for i in range(SIDE if ahead else 0):
            text.add(f"%far{i} = mul i64 %b.step, {ahead * SIDE + i}")
            for j in acrosses:
                text.fetch(text.place(f"b + down + far{i} + {j * LINE}"))
        for (i, j), number in sums.items():
            name = "tdpbsud" if tile.is_turned else "tdpbusd"
            do(name, f"i8 {number}", f"i8 {LEFT + i}", f"i8 {RIGHT + j}")
    for (i, j), number in sums.items():
        do("tilestored64", f"i8 {number}", f"ptr {_sum_at(text, i, j)}", "i64 %c.step")
    do("tilerelease")
    text.add("ret void")
    names = ("a", "b", "b.step", "c", "c.step", "count", "first", "b.next", "far", "far.step")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _sum_at(text: Steps, i: int, j: int) -> str:
    """The place of a register's sums in the tile at c."""
    down = text.new(f"mul i64 %c.step, {SIDE * i}")
    at = text.new(f"add i64 {text.new(f'add i64 %c, {down}')}, {LINE * j}")
    return text.new(f"inttoptr i64 {at} to ptr")


def _shape(rows: dict[int, int]) -> list[int]:
    """The words by which registers are set up: palette 1, then each one's bytes of a row, and its rows."""
    octets = bytearray(64)
    octets[0] = 1
    for number, count in rows.items():
        octets[16 + 2 * number] = LINE
        octets[48 + number] = count
    return [int.from_bytes(octets[at : at + 8], "little", signed=True) for at in range(0, 64, 8)]
