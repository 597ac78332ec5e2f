"""The picture as SVG: one file, no script, drawn with plain shapes so that every viewer shows it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from anydml.explain.colours import DARK, LIGHT
from anydml.explain.layout import clean, has_arrow, in_rows, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.explain.colours import Scheme
    from anydml.explain.picture import Cell, Grid, Picture, Plane

# Pixels. A monospaced letter is 0.6 of its size wide in every common font; what is measured by it gets 0.62.
_LETTER = 0.62
_MARGIN, _SPACE, _CELL_HEIGHT, _STEP = 20, 44, 30, 3
_GAP_WIDTH, _LINE, _SMALL = 18, 20, 11
_MOST_LETTERS, _HEAD_LETTERS = 120, 96


class _Text(NamedTuple):
    """A line of text below or above the grids."""

    style: str
    text: str


def draw(picture: Picture, most: int) -> str:
    """Draw it, at most so wide where its grids allow: text is wrapped, and grids without room stand below others."""
    room = most - 2 * _MARGIN
    letters = max(int(room / (13 * _LETTER)), 24)
    head, foot = list(_head(picture, letters)), list(_foot(picture, letters))
    blocks = [_Block(grid) for grid in picture.grids]
    rows = in_rows(picture.grids, [block.width for block in blocks], _SPACE, room)
    widest = max((sum(blocks[k].width for k in row) + _SPACE * (len(row) - 1) for row in rows), default=0)
    longest = max(_text_width(line) for line in (*head, *foot))
    legend = _legend_lines(picture, room, letters)
    longest = max(longest, *(sum(map(_legend_width, line)) - 24 for line in legend), 0)
    inner = max(longest, widest)
    parts: list[str] = []
    y = float(_MARGIN)
    for line in head:
        y += _LINE + (4 if line.style == "t" else 0)
        parts.append(_text(_MARGIN, y - 6, line))
    if blocks:
        y += 12
        y = _place(picture.grids, blocks, rows, y, parts)
    if picture.legend or (blocks and foot):
        y += 14
    for entries in legend:
        y -= 0 if entries[0][0] else 10
        parts += _legend(entries, y)
        y += _LINE + 8
    for line in foot:
        y += _LINE if line.text else 8
        parts.append(_text(_MARGIN, y - 5, line) if line.text else "")
    width, height = round(inner + 2 * _MARGIN), round(y + _MARGIN - 4)
    title = quoteattr(clean(head[0].text))
    body = "\n".join(part for part in parts if part)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label={title}>\n<style>{_style()}</style>\n'
        f'<rect class="g" width="{width}" height="{height}" rx="8"/>\n{body}\n</svg>\n'
    )


def _words(text: str) -> str:
    return escape(clean(text))


def _text_width(line: _Text) -> float:
    return len(line.text) * _LETTER * (17 if line.style == "t" else 13)


def _text(x: float, y: float, line: _Text) -> str:
    return f'<text class="{line.style}" x="{x:g}" y="{y:g}" xml:space="preserve">{_words(line.text)}</text>'


def _head(picture: Picture, letters: int) -> Iterator[_Text]:
    yield _Text("t", f"{picture.title}: {picture.operator}" if picture.title else picture.operator)
    line = ""
    for name, value in picture.fields:
        if line and len(line) + len(name) + len(value) > min(letters, _HEAD_LETTERS):
            yield from _fields(line, letters)
            line = ""
        line += f"{'   ' if line else ''}{name} {value}"
    if line:
        yield from _fields(line, letters)
    if picture.summary:
        yield from (_Text("m", part) for part in _wrapped(picture.summary, letters))


def _fields(line: str, letters: int) -> Iterator[_Text]:
    """A line of fields, or a single one that is longer, in parts."""
    if len(line) <= _HEAD_LETTERS and len(line) <= letters:
        yield _Text("s", line)
    else:
        yield from (_Text("s", part) for part in _wrapped(line.replace(",", ", "), letters))


def _foot(picture: Picture, letters: int) -> Iterator[_Text]:
    if picture.error is not None:
        yield _Text("m", "")
        for line in str(picture.error).splitlines():
            yield from (_Text("f", part) for part in _wrapped(line, letters))
    for sentence in picture.sentences:
        yield from (_Text("m", part) for part in _wrapped(sentence, letters))
    if picture.notes:
        yield _Text("s", "")
    for note in picture.notes:
        yield from (_Text("s", part) for part in _wrapped(note, letters))


def _wrapped(text: str, letters: int) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, min(letters, _MOST_LETTERS), subsequent_indent=indent + "  ") or [""]


def _legend_width(entry: tuple[str, str]) -> float:
    return 46 + _text_width(_Text("s", entry[1]))


def _legend_lines(picture: Picture, room: float, letters: int) -> list[list[tuple[str, str]]]:
    """The legend, as many entries in a line as there is room for; words that go on in the next line have no mark."""
    lines: list[list[tuple[str, str]]] = []
    for kind, words in picture.legend:
        first, *others = textwrap.wrap(words, letters - 3)
        is_full = not lines or sum(map(_legend_width, (*lines[-1], (kind, first)))) - 24 > room
        if is_full or not lines[-1][0][0]:
            lines.append([])
        lines[-1].append((kind, first))
        lines += [[("", words)] for words in others]
    return lines


def _legend(entries: Sequence[tuple[str, str]], y: float) -> Iterator[str]:
    x = float(_MARGIN)
    for kind, words in entries:
        shape = 'class="c h1" rx="3"' if kind == "marked" else 'class="w"'
        if kind:
            yield f'<rect {shape} x="{x + 1:g}" y="{y + 1:g}" width="14" height="14"/>'
        yield _text(x + 22, y + 12, _Text("s", words))
        x += 22 + _text_width(_Text("s", words)) + 24


def _place(
    grids: Sequence[Grid], blocks: Sequence[_Block], rows: Sequence[Sequence[int]], y: float, parts: list[str]
) -> float:
    """Lay the grids out, an arrow after the inputs; returns where they end."""
    for row in rows:
        if has_arrow(grids, row[0]):  # from the inputs above
            parts.append(f'<path class="a" d="M{_MARGIN + 24} {y - 8:g}v20m-6 -7l6 7l6 -7"/>')
            y += 24
        x, middle = float(_MARGIN), y + min(blocks[k].height for k in row) / 2 + 10
        for k in row:
            if k != row[0] and has_arrow(grids, k):
                parts.append(f'<path class="a" d="M{x - 33:g} {middle:g}h20m-7 -6l7 6l-7 6"/>')
            parts += blocks[k].draw(x, y)
            x += blocks[k].width + _SPACE
        y += max(blocks[k].height for k in row) + 16
    return y - 16


class _Block:
    """A grid with its planes one below another."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        cells = list(grid.cells())
        badge = max((len(cell.badge) for cell in cells), default=0)
        letters = max(
            max((len(cell.value) for cell in cells), default=1),
            max((len(str(c)) - 2 for c in grid.columns if c is not None), default=1),
        )
        self.cell_width = max(40.0, letters * 14 * _LETTER + 16 + max(0, badge * 2 - 1) * 5.8)
        rows = max((len(str(r)) for r in grid.rows if r is not None), default=0)
        walk = 16 if grid.arrow in ("↓", "↑") else 0
        self.left = (rows * _SMALL * _LETTER + 8 if grid.has_row_numbers else 0) + walk
        self.walk = walk
        self.xs = [*self._positions(grid.columns, self.cell_width)]
        self.ys = [*self._positions(grid.rows, _CELL_HEIGHT)]
        named = 18 if any(plane.name for plane in grid.planes) else 0
        under = 16 if grid.arrow in ("→", "←") else 0
        self.above = named + 16
        self.plane_height = self.above + self.ys[-1] + under
        self.width = max(self.left + self.xs[-1], len(grid.caption) * 13 * _LETTER)
        self.height = 20 + len(grid.planes) * (self.plane_height + 10) - 10

    @staticmethod
    def _positions(drawn: Sequence[int | None], size: float) -> Iterator[float]:
        """Where each row or column begins, and where the last one ends."""
        at = 0.0
        for index in drawn:
            yield at
            at += (_GAP_WIDTH if index is None else size) + _STEP
        yield at - _STEP

    def draw(self, x: float, y: float) -> Iterator[str]:
        """The caption and the planes, from this corner."""
        yield _text(x, y + 11, _Text("s", self.grid.caption))
        y += 20
        for plane in self.grid.planes:
            if plane.name:
                yield _text(x, y + 12, _Text("s", plane.name))
            yield from self._plane(plane, x + self.left, y + self.above)
            y += self.plane_height + 10

    def _plane(self, plane: Plane, x: float, y: float) -> Iterator[str]:
        grid = self.grid
        for k, column in enumerate(grid.columns):
            if column is not None:
                yield f'<text class="n" x="{x + self._middle(self.xs, k):g}" y="{y - 5:g}">{column}</text>'
        for i, row in enumerate(grid.rows):
            at = y + self._middle(self.ys, i) + 4
            if grid.has_row_numbers:
                label = "⋮" if row is None else row
                yield f'<text class="n r" x="{x - self.walk - 6:g}" y="{at:g}">{label}</text>'
            for k, cell in enumerate(plane.cells[i]):
                if cell is not None:
                    yield self._cell(cell, x + self.xs[k], y + self.ys[i])
                elif (row is None) != (grid.columns[k] is None):
                    mark = "⋮" if row is None else "⋯"
                    yield f'<text class="n" x="{x + self._middle(self.xs, k):g}" y="{at:g}">{mark}</text>'
        yield from self._window(plane, x, y)
        yield from self._walk(x, y)

    @staticmethod
    def _middle(positions: Sequence[float], k: int) -> float:
        return (positions[k] + positions[k + 1] - (_STEP if k < len(positions) - 2 else 0)) / 2

    def _cell(self, cell: Cell, x: float, y: float) -> str:
        style = "fc" if cell.is_fault else f"h{cell.hue}" if cell.hue else ""
        bold = " b" if cell.hue else ""
        badge = ""
        if cell.badge:
            right = x + self.cell_width - 4
            colour = "ff" if cell.is_fault else f"b{cell.hue}"
            badge = f'<text class="o {colour}" x="{right:g}" y="{y + 10:g}">{_words(cell.badge)}</text>'
        middle = x + self.cell_width / 2
        return (
            f'<g><title>{_words(cell.says)}</title><rect class="c {style}" x="{x:g}" y="{y:g}"'
            f' width="{self.cell_width:g}" height="{_CELL_HEIGHT}" rx="5"/>'
            f'<text class="v{bold}" x="{middle:g}" y="{y + 20:g}">{_words(cell.value)}</text>{badge}</g>'
        )

    def _window(self, plane: Plane, x: float, y: float) -> Iterator[str]:
        """The outline, side by side: a side that lies in a part left out is not drawn."""
        if plane.window is None:
            return
        rows, columns = outline(self.grid.rows, plane.window[0]), outline(self.grid.columns, plane.window[1])
        if rows is None or columns is None:
            return
        left, right = x + self.xs[columns.first] - 2.5, x + self._end(self.xs, columns.last) + 2.5
        top, bottom = y + self.ys[rows.first] - 2.5, y + self._end(self.ys, rows.last) + 2.5
        sides = (
            (rows.is_first_closed, f"M{left:g} {top:g}H{right:g}"),
            (columns.is_last_closed, f"M{right:g} {top:g}V{bottom:g}"),
            (rows.is_last_closed, f"M{right:g} {bottom:g}H{left:g}"),
            (columns.is_first_closed, f"M{left:g} {bottom:g}V{top:g}"),
        )
        yield f'<path class="w" d="{"".join(path for is_there, path in sides if is_there)}"/>'

    @staticmethod
    def _end(positions: Sequence[float], k: int) -> float:
        return positions[k + 1] - (_STEP if k < len(positions) - 2 else 0)

    def _walk(self, x: float, y: float) -> Iterator[str]:
        """The direction of a walk: beside the rows, or below the columns."""
        across, down = self.xs[-1], self.ys[-1]
        below, beside = y + down + 9, x - 10
        paths = {
            "→": f"M{x:g} {below:g}h{across:g}m-7 -5l7 5l-7 5",
            "←": f"M{x + across:g} {below:g}h-{across:g}m7 -5l-7 5l7 5",
            "↓": f"M{beside:g} {y:g}v{down:g}m-5 -7l5 7l5 -7",
            "↑": f"M{beside:g} {y + down:g}v-{down:g}m-5 7l5 -7l5 7",
        }
        if self.grid.arrow:
            yield f'<path class="a" d="{paths[self.grid.arrow]}"/>'


def _style() -> str:
    mono = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
    return (
        f"text{{font:13px {mono}}}.t{{font-size:17px;font-weight:700}}.v{{font-size:14px;text-anchor:middle}}"
        f".b{{font-weight:700}}.n{{font-size:{_SMALL}px;text-anchor:middle}}.r{{text-anchor:end}}"
        ".o{font-size:9px;font-weight:600;text-anchor:end}.w{fill:none;stroke-width:2}.a{fill:none;stroke-width:1.5}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(scheme: Scheme) -> str:
    hues = "".join(
        f".h{i}{{fill:{fill};stroke:{edge}}}.b{i}{{fill:{edge}}}" for i, (fill, edge) in enumerate(scheme.hues, 1)
    )
    return (
        f".g{{fill:{scheme.ground}}}text{{fill:{scheme.ink}}}.s,.n{{fill:{scheme.soft}}}.a{{stroke:{scheme.soft}}}"
        f".c{{fill:{scheme.cell};stroke:{scheme.line}}}.w{{stroke:{scheme.window}}}.f,.ff{{fill:{scheme.fault_edge}}}"
        f".fc{{fill:{scheme.fault};stroke:{scheme.fault_edge};stroke-dasharray:3 2}}{hues}"
    )
