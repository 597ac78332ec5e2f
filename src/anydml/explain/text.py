"""The picture for a terminal: lines of pieces, each with a style, which is colour where there is colour."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.explain.layout import clean, has_arrow, in_rows, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.explain.layout import Outline
    from anydml.explain.picture import Cell, Grid, Picture, Plane


class Piece(NamedTuple):
    """Some text of one style: `title`, `dim`, `window`, `arrow`, `fault`, `hue1` … `hue6`, or none."""

    text: str
    style: str = ""


Line: TypeAlias = list[Piece]
_SMALL = str.maketrans("0123456789,", "⁰¹²³⁴⁵⁶⁷⁸⁹·")
_ASCII = str.maketrans({"│": "|", "─": "-", "┌": "+", "┐": "+", "└": "+", "┘": "+", "⋯": "..", "⋮": ":", "…": "...",
                        "→": ">", "←": "<", "↓": "v", "↑": "^", "·": ",",
                        "√": "sqrt ", "Σ": "sum ", "≥": ">=", "≤": "<=", "μ": "mu", "‖": "||", "⁻": "-", "ˣ": "^x",
                        "ᵀ": "^T", "ᵖ": "^p", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")",
                        **{small: digit for digit, small in zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True)}})  # fmt: skip
_BADGED = re.compile(" ([^\\[\\]]*[^\\[\\]\\s⁰¹²³⁴⁵⁶⁷⁸⁹·])([⁰¹²³⁴⁵⁶⁷⁸⁹·]+…?)")
_TIMES = re.compile("(?<=[\\w)])·(?=[-\\w(])(?<![⁰¹²³⁴⁵⁶⁷⁸⁹]·)")
"""A product's sign, and not what parts badges."""
_GAP = "⋯"
_BETWEEN = 4


def plain(picture: Picture, width: int) -> str:
    """The picture without styles."""
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines(picture, width))


def as_ascii(text: str) -> str:
    """A piece for an output that has no other characters; a line may grow by a few.

    A badge beside a bare value is set off from it: 14¹ is 14^1, and not 141.
    """
    if badged := _BADGED.fullmatch(text):
        text = f"{badged[1]}^{badged[2]}"
    return _TIMES.sub("*", text).translate(_ASCII)


def lines(picture: Picture, width: int) -> Iterator[Line]:
    """The picture, line by line."""
    yield from _heading(picture, width)
    yield []
    if picture.error is not None:
        for text in clean(str(picture.error)).splitlines():
            yield [Piece("    " + text, "fault")]
        return
    yield from _beside(picture.grids, width - 4)
    yield []
    if picture.legend:
        marks = {"marked": "[ ]", "window": "┌ ┐"}
        words = ";  ".join(f"{marks[kind]} {text}" for kind, text in picture.legend)
        yield [Piece("    " + words, "dim")]
        yield []
    for sentence in picture.sentences:
        yield [Piece("    " + sentence)]
    if picture.notes:
        yield []
    for note in picture.notes:
        yield [Piece("    " + note, "dim")]


def needed_width(picture: Picture) -> int:
    """The width that the widest grid takes; narrower terminals break its lines."""
    return 4 + max((_length(line) for grid in picture.grids for line in _block(grid)), default=0)


def _heading(picture: Picture, width: int) -> Iterator[Line]:
    title = clean(f"{picture.title}: ") if picture.title else ""
    line: Line = [Piece(title + picture.operator, "title")]
    used = len(title + picture.operator)
    for name, value in picture.fields:
        if used + len(name) + len(value) + 3 > width:
            yield line
            line, used = [Piece("   ")], 3
        line += [Piece(f"  {name} ", "dim"), Piece(value)]
        used += len(name) + len(value) + 3
    yield line
    if picture.summary:
        yield [Piece("    " + picture.summary)]


# Grids


def _beside(grids: Sequence[Grid], width: int) -> Iterator[Line]:
    """The grids beside one another where there is room, an arrow after the inputs."""
    blocks = [_block(grid) for grid in grids]
    widths = [max(_length(line) for line in block) for block in blocks]
    for number, row in enumerate(in_rows(grids, widths, _BETWEEN, width - _BETWEEN - 1)):
        if number:
            yield []
        yield from _row(grids, row, blocks, widths)


def _row(
    grids: Sequence[Grid], row: Sequence[int], blocks: Sequence[list[Line]], widths: Sequence[int]
) -> Iterator[Line]:
    middle = min(len(blocks[k]) for k in row) // 2 + 1
    for i in range(max(len(blocks[k]) for k in row)):
        line: Line = [Piece("    ")]
        for k in row:
            own = blocks[k][i] if i < len(blocks[k]) else []
            if k != row[0] and has_arrow(grids, k):
                line.append(Piece("→   " if i == middle else "    ", "arrow"))
            line += [*own, Piece(" " * (widths[k] - _length(own) + _BETWEEN))]
        yield line


def _length(line: Line) -> int:
    return sum(len(piece.text) for piece in line)


def _block(grid: Grid) -> list[Line]:
    found: list[Line] = [[Piece(grid.caption, "dim")]]
    widths = _Widths.of(grid)
    for plane in grid.planes:
        if len(found) > 1:
            found.append([])
        found += _plane(grid, plane, widths)
    return found


class _Widths(NamedTuple):
    row: int
    value: int
    badge: int

    @classmethod
    def of(cls, grid: Grid) -> _Widths:
        cells = list(grid.cells())
        columns = [len(str(c)) for c in grid.columns if c is not None]
        row = max(len(str(r)) for r in grid.rows if r is not None) if grid.has_row_numbers else 0
        return cls(row, max(*(len(c.value) for c in cells), *columns), max(len(c.badge) for c in cells))

    @property
    def cell(self) -> int:
        return self.value + self.badge + 2


def _plane(grid: Grid, plane: Plane, widths: _Widths) -> list[Line]:
    found: list[Line] = [[Piece(plane.name, "dim")]] if plane.name else []
    margin = widths.row + 2
    heads = [f" {_GAP} " if c is None else f" {c:>{widths.value}} " + " " * widths.badge + " " for c in grid.columns]
    found.append([Piece(" " * margin + "".join(heads).rstrip(), "dim")])
    rows = columns = None
    if plane.window is not None:
        rows, columns = outline(grid.rows, plane.window[0]), outline(grid.columns, plane.window[1])
    sizes = [3 if c is None else widths.cell + 1 for c in grid.columns]
    lit = [cell for cell in grid.cells() if cell.hue]
    has_brackets = grid.role == "input" or (len(lit) == 1 and not lit[0].badge)  # of many the badges say it
    for i, row in enumerate(grid.rows):
        if rows and columns and rows.is_first_closed and i == rows.first:
            found.append(_rule(margin, sizes, columns, "┌┐"))
        number = "" if not grid.has_row_numbers else "⋮" if row is None else str(row)
        line = [Piece(f"{number:>{widths.row}} ", "dim"), Piece(_vertical(grid, i), "arrow")]
        cells = plane.cells[i]
        for k, cell in enumerate(cells):
            edge = rows and columns and i in rows and k == columns.first and columns.is_first_closed
            if edge and line:
                line[-1] = _edged(line[-1])
            line += _cell(cell, widths, has_brackets, is_gap_row=row is None, is_gap=grid.columns[k] is None)
            closes = rows and columns and i in rows and k == columns.last and columns.is_last_closed
            line.append(Piece("│", "window") if closes else Piece(" "))
        found.append(line)
        if rows and columns and rows.is_last_closed and i == rows.last:
            found.append(_rule(margin, sizes, columns, "└┘"))
    if grid.arrow in ("→", "←"):
        shaft = "─" * (sum(sizes) - 3)
        found.append([Piece(" " * margin + (f" {shaft}→" if grid.arrow == "→" else f" ←{shaft}"), "arrow")])
    return found


def _edged(piece: Piece) -> Piece:
    """The blank before a cell, turned into the window's left side."""
    return Piece("│", "window") if len(piece.text) == 1 else piece


def _rule(margin: int, sizes: Sequence[int], columns: Outline, corners: str) -> Line:
    """A side of the window, above or below a row."""
    before = margin + sum(sizes[: columns.first]) - 1
    length = sum(sizes[columns.first : columns.last + 1]) - 1
    left = corners[0] if columns.is_first_closed else "─"
    right = corners[1] if columns.is_last_closed else "─"
    text = left + "─" * length + right
    return [Piece(" " * before), Piece(text, "window")]


def _vertical(grid: Grid, position: int) -> str:
    """A walk down or up the rows, as an arrow beside them."""
    if grid.arrow == "↓":
        return "↓" if position == len(grid.rows) - 1 else "│"
    if grid.arrow == "↑":
        return "↑" if position == 0 else "│"
    return " "


def _cell(cell: Cell | None, widths: _Widths, has_brackets: bool, *, is_gap_row: bool, is_gap: bool) -> Line:
    if cell is None:
        width = 2 if is_gap else widths.cell
        mark = _GAP if is_gap and not is_gap_row else "⋮" if is_gap_row and not is_gap else ""
        at = 1 if is_gap else widths.value
        return [Piece((" " * at + mark).ljust(width)[:width], "dim")]
    badge = cell.badge.translate(_SMALL)
    style = "fault" if cell.is_fault else f"hue{cell.hue}" if cell.hue else ""
    text = (
        f"[{cell.value:>{widths.value}}]{badge}"
        if cell.hue and has_brackets
        else f" {cell.value:>{widths.value}}{badge}"
    )
    return [Piece(text, style), Piece(" " * (widths.cell - len(text)))]
