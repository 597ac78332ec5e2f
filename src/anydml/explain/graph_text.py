"""A graph as two tables: the nodes one by one, and the passes that they became."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.memory import word_bytes
from anydml.explain.graph_picture import label_stores
from anydml.explain.graph_words import short, word_count, word_list
from anydml.explain.text import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.graph_picture import GraphPicture, Pass
    from anydml.explain.text import Line

_LONGEST = 100
"""Of a cell; names may be of any length, and sizes of eight dimensions are."""


def plain(picture: GraphPicture) -> str:
    """The tables without styles."""
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines(picture))


def lines(picture: GraphPicture) -> Iterator[Line]:
    """The tables, line by line."""
    if picture.title:
        yield [Piece(picture.title, "title")]
    if picture.before:
        yield from _tables(picture)
    for note in picture.notes:
        yield [Piece(note, "dim")]
    for part in picture.parts:
        yield []
        yield from lines(part)


def _tables(picture: GraphPicture) -> Iterator[Line]:
    yield [Piece(picture.summary, "" if picture.title else "title")]
    yield []
    labels = label_stores(picture.tensors)
    heads = ("before", "node", "work", "from → to", "moves", "becomes")
    rows = [
        (*_cells(labels, number, one), str(became))
        for number, (one, became) in enumerate(zip(picture.before, picture.became, strict=True), 1)
    ]
    yield from _table(heads, rows, _total(picture.before))
    if picture.once:
        yield []
        yield from _passes(labels, "once", picture.once)
    yield []
    yield from _passes(labels, "after", picture.after)
    yield []
    arena = word_bytes(picture.arena_bytes) if picture.arena_bytes else "no"
    yield [Piece(f"Between the passes: {arena} scratch memory.")]
    if picture.rewritten:
        yield [Piece(picture.rewritten)]


def _passes(labels: Mapping[str, str], head: str, passes: Sequence[Pass]) -> Iterator[Line]:
    heads = (head, "nodes", "work", "from → to", "moves")
    rows = [_cells(labels, number, one) for number, one in enumerate(passes, 1)]
    yield from _table(heads, rows, _total(passes))


def _cells(labels: Mapping[str, str], number: int, one: Pass) -> tuple[str, ...]:
    reads, writes = ([labels[store] for store in stores] for stores in (one.reads, one.writes))
    data = f"{word_list(reads)} → {word_list(writes)}".strip()
    return str(number), f"{one.operator} {word_list(one.nodes)}".strip(), one.does, data, word_bytes(one.bytes_moved)


def _total(passes: Sequence[Pass]) -> tuple[str, str]:
    return word_count(len(passes), "pass"), word_bytes(sum(one.bytes_moved for one in passes))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], total: tuple[str, str]) -> Iterator[Line]:
    """Columns as wide as they need; numbers, and bytes in the column `moves`, are set to the right."""
    cells = [[short(cell, _LONGEST) for cell in row] for row in rows]
    last = ["", total[0], "", "", total[1], *[""] * (len(heads) - 5)]
    widths = [max(len(row[k]) for row in (heads, *cells, last)) for k in range(len(heads))]

    def line(row: Sequence[str], style: str = "") -> Line:
        told = [
            f"{cell:>{w}}" if k in (0, 4) else f"{cell:<{w}}"
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return [Piece("  ".join(told).rstrip(), style)]

    yield line(heads, "dim")
    yield from map(line, cells)
    yield line(last, "title")
