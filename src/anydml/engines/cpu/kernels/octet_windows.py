"""Windows packed for products of bytes, four steps at a time: rows may lie anywhere, a table has their distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.fourfold import FOUR
from anydml.engines.cpu.kernels.octet_vectors import Octets, flip, put, side_by_side, within
from anydml.engines.cpu.kernels.pack import GROUP

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps


def pack_windows(text: Steps, shape: Octets) -> None:
    """Eight rows at once where they lie side by side or every other one does, otherwise four; they may lie anywhere.

    7 x 7 by 2 of 224 x 224 pixels of 3 bytes, by 64 filters, take 2.55 ms so, and 2.94 where each byte is read for
    itself (one thread of an Arm Neoverse-N1).
    """

    def beside(first: int, count: int, step: int = 1, name: str = "far") -> str:
        found = (f"{name}{i} == {name}{first} + {(i - first) * step}" for i in range(first + 1, first + count))
        return " and ".join(found)

    if 2 * GROUP < shape.panel <= 4 * GROUP and shape.panel % GROUP == 0:
        for i in range(shape.panel):
            text.read(f"off{i}", f"row_step + min({i}, rows - 1) * 8")
        with text.when(f"rows == {shape.panel} and {beside(0, shape.panel, name='off')}"):
            _pack_rows(text, shape, "source + off0", range(shape.panel), "w", to="target")
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    with text.loop("r", 0, "rows", 2 * GROUP):
        for i in range(2 * GROUP):
            text.read(f"far{i}", f"row_step + min(r + {i}, rows - 1) * 8")
        text.let("eight", f"1 if {beside(0, 2 * GROUP)} else 2 if {beside(0, 2 * GROUP, 2)} else 0")
        for step in (1, 2):
            with text.when(f"eight == {step}"):
                _pack_rows(text, shape, "source + far0", range(2 * GROUP), f"e{step}", step)
        for first in (0, GROUP):
            text.let(f"four{first}", f"1 if {beside(first, GROUP)} else 0")
            with text.when(f"eight == 0 and four{first} != 0 and r + {first} < rows"):
                _pack_rows(text, shape, f"source + far{first}", range(first, first + GROUP), f"f{first}")
            with text.when(f"eight == 0 and four{first} == 0 and r + {first} < rows"):
                _pack_rows(text, shape, "source", range(first, first + GROUP), f"o{first}", 0)


def _pack_rows(
    text: Steps, shape: Octets, line: str, rows: range, name: str, step: int = 1, to: str = "target + r * 4"
) -> None:
    """All steps of some rows, so many bytes from each other, or 0 where a table has their distances."""
    text.let(f"whole_{name}", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.read(f"far_{k}{j}", f"step + ({k} + {j if mask is None else f'min({j}, count - 1 - {k})'}) * 8")
            text.let(f"line_{k}{j}", f"{line} + far_{k}{j}")
        lines = [f"line_{k}{j}" for j in range(FOUR)]
        made = [] if step else [_apart(text, lines, rows)]
        for first in range(0, len(rows) if step else 0, 2 * GROUP):
            places = [f"{one} + {first * step}" for one in lines]
            made += side_by_side(text, places, min(2 * GROUP, len(rows) - first), step)
        for i, value in enumerate(made):
            found = flip(text, shape, value)
            found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
            put(text, shape, found, f"{to} + {4 * (rows[0] + GROUP * i)} + {k} * {shape.group // FOUR}")

    with text.loop(f"k_{name}", 0, f"whole_{name}", FOUR):
        write(f"k_{name}", None)
    with text.when(f"whole_{name} < count"):
        text.let(f"last_{name}", f"whole_{name}")
        write(f"last_{name}", within(text, f"count - whole_{name}"))


def _apart(text: Steps, lines: list[str], rows: range) -> str:
    """Four steps of four rows, each where its distance says."""
    value = "poison"
    for i, row in enumerate(rows):
        for j, line in enumerate(lines):
            one = text.new(f"load i8, ptr {text.place(f'{line} + far{row}')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return text.new(f"bitcast <16 x i8> {value} to <4 x i32>")
