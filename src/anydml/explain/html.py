"""The picture as HTML: a page of its own, or a fragment for a notebook. Nothing is loaded from anywhere.

Without scripts the picture is the same and each element says its sentence as a tooltip. There are no ids, and every
rule of style names the picture's class: any number of pictures may stand on one page.
"""

from __future__ import annotations

import functools
import html
from importlib import resources
from typing import TYPE_CHECKING

from anydml.explain.colours import DARK, LIGHT
from anydml.explain.layout import clean, has_arrow, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.explain.layout import Outline
    from anydml.explain.picture import Cell, Element, Grid, Picture, Plane

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The sources that a page may load: nothing but its own style."""


def page(*pictures: Picture) -> str:
    """A page that holds everything it needs, and may load nothing: one picture, or several below each other."""
    style = f"""body{{margin:0;background:{LIGHT.ground}}}
@media (prefers-color-scheme:dark){{body{{background:{DARK.ground}}}}}
.anydml-picture{{max-width:1200px;margin:0 auto}}"""
    body = "\n".join(map(fragment, pictures))
    return document(", ".join(map(_title, pictures)), style, body, f"{POLICY}; script-src 'unsafe-inline'")


def document(title: str, style: str, body: str, policy: str) -> str:
    """A page of its own, with a policy of what it may load."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def fragment(picture: Picture) -> str:
    """The picture alone, with its style and script."""
    return f"<style>{picture_style()}</style>\n{bare_fragment(picture)}\n<script>{picture_script()}</script>"


def bare_fragment(picture: Picture) -> str:
    """The picture for a page that has its style and script already."""
    return "\n".join(('<div class="anydml-picture">', *_body(picture), "</div>"))


def picture_script() -> str:
    """The script of every picture."""
    return _file("picture.js")


def escape(text: str) -> str:
    """Text as text, whatever is in it."""
    return html.escape(clean(text))


def _title(picture: Picture) -> str:
    return f"{picture.title}: {picture.operator}" if picture.title else picture.operator


@functools.cache
def _file(name: str) -> str:
    return resources.files("anydml.explain").joinpath(name).read_text("utf-8").strip()


def picture_style() -> str:
    """The style, dark where the reader's system is, unless the theme of a notebook or of a page says otherwise."""
    here = ".anydml-picture"
    firm = here * 3  # a notebook's rules for tables and lists name two classes, and would win over one
    light, dark = LIGHT.variables(), DARK.variables()
    hues = "".join(
        f"{here} td.h{i}{{background:var(--h{i});border-color:var(--e{i})}}{here} td.h{i} sup{{color:var(--e{i})}}"
        f"{here} td.h{i}.lit{{background:var(--lit)}}{here} td.h{i}.lit sup{{color:var(--lit-ink)}}"
        for i in range(1, len(LIGHT.hues) + 1)
    )
    rules = (
        f"{here}{{{light}}}@media (prefers-color-scheme:dark){{{here}{{{dark}}}}}"
        f'[data-jp-theme-light="true"] {here},.vscode-light {here},[data-theme="light"] {here}{{{light}}}'
        f'[data-jp-theme-light="false"] {here},.vscode-dark {here},[data-theme="dark"] {here}{{{dark}}}'
        f"\n{_file('picture.css')}\n{hues}"
    )
    return rules.replace(here, firm)


def _body(picture: Picture) -> Iterator[str]:
    fields = "".join(
        f"<span><i>{escape(name)}</i> <code>{escape(value)}</code></span>" for name, value in picture.fields
    )
    yield f'<div class="head"><b>{escape(_title(picture))}</b>{fields}</div>'
    if picture.error is not None:
        yield f'<div class="faults" role="alert">{escape(str(picture.error))}</div>'
        return
    yield f"<p>{escape(picture.summary)}</p>"
    keys = {cell.element: f"{k}.{i}" for k, grid in enumerate(picture.grids) for i, cell in enumerate(grid.cells())}
    yield '<div class="grids">'
    for k, grid in enumerate(picture.grids):
        if has_arrow(picture.grids, k):
            yield '<div class="arrow" aria-hidden="true">→</div>'
        yield from _grid(grid, keys)
    yield "</div>"
    yield '<div class="says" aria-live="polite"></div>'
    if picture.legend:
        words = "".join(f'<span class="{kind}">{escape(text)}</span>' for kind, text in picture.legend)
        yield f'<div class="legend">{words}</div>'
    yield "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in picture.sentences) + "</ul>"
    if picture.notes:
        yield '<div class="notes">' + "".join(f'<p class="note">{escape(n)}</p>' for n in picture.notes) + "</div>"


def _grid(grid: Grid, keys: Mapping[Element, str]) -> Iterator[str]:
    yield f'<figure class="{grid.role}"><figcaption>{escape(grid.caption)}</figcaption>'
    badge = max((len(cell.badge) for cell in grid.cells()), default=0)
    for plane in grid.planes:
        if plane.name:
            yield f'<div class="plane">{escape(plane.name)}</div>'
        label = escape(f"{grid.tensor} {plane.name}".strip())
        yield f'<table aria-label="{label}" style="--badge:{badge}">'
        yield from _rows(grid, plane, keys)
        yield "</table>"
    yield "</figure>"


def _rows(grid: Grid, plane: Plane, keys: Mapping[Element, str]) -> Iterator[str]:
    before = (1 if grid.has_row_numbers else 0) + (1 if grid.arrow in ("↓", "↑") else 0)
    heads = "".join("<th></th>" if c is None else f'<th scope="col">{c}</th>' for c in grid.columns)
    yield f"<tr>{'<th></th>' * before}{heads}</tr>"
    rows = columns = None
    if plane.window is not None:
        rows, columns = outline(grid.rows, plane.window[0]), outline(grid.columns, plane.window[1])
    for i, row in enumerate(grid.rows):
        parts = []
        if i == 0 and grid.arrow in ("↓", "↑"):
            parts.append(f'<td class="walk" rowspan="{len(grid.rows)}">{_shaft(grid.arrow)}</td>')
        if grid.has_row_numbers:
            parts.append("<th>⋮</th>" if row is None else f'<th scope="row">{row}</th>')
        for k, cell in enumerate(plane.cells[i]):
            edges = _edges(rows, columns, i, k)
            if cell is None:
                mark = "⋯" if row is not None else "⋮" if grid.columns[k] is not None else ""
                parts.append(f'<td class="gap{edges}" aria-hidden="true">{mark}</td>')
            else:
                parts.append(_cell(cell, edges, keys))
        yield f"<tr>{''.join(parts)}</tr>"
    if grid.arrow in ("→", "←"):
        yield f'<tr>{"<td></td>" * before}<td class="walk" colspan="{len(grid.columns)}">{_shaft(grid.arrow)}</td></tr>'


def _shaft(arrow: str) -> str:
    kind = {"→": "", "←": " back", "↓": " down", "↑": " up"}[arrow]
    return f'<div class="shaft{kind}" aria-hidden="true">{arrow}</div>'


def _edges(rows: Outline | None, columns: Outline | None, row: int, column: int) -> str:
    """The classes that draw the window's sides around a cell."""
    if rows is None or columns is None or row not in rows or column not in columns:
        return ""
    sides = (
        (" wt", row == rows.first and rows.is_first_closed),
        (" wb", row == rows.last and rows.is_last_closed),
        (" wl", column == columns.first and columns.is_first_closed),
        (" wr", column == columns.last and columns.is_last_closed),
    )
    found = "".join(name for name, is_there in sides if is_there)
    return f" w{found}" if found else ""


def _cell(cell: Cell, edges: str, keys: Mapping[Element, str]) -> str:
    hue = " fault" if cell.is_fault else f" h{cell.hue}" if cell.hue else ""
    sources = " ".join(keys[e] for e in (*cell.sources, *cell.chosen_by) if e in keys)
    origin = f' data-from="{sources}"' if sources else ""
    near = " ".join(keys[e] for e in cell.compared if e in keys)
    origin += f' data-near="{near}"' if near else ""
    value = f"<b>{escape(cell.value)}</b>" if cell.hue else escape(cell.value)
    badge = f"<sup>{escape(cell.badge)}</sup>" if cell.badge else ""
    wide = " wide" if len(cell.badge) > 1 else ""
    return (
        f'<td class="c{hue}{edges}{wide}" data-k="{keys[cell.element]}"{origin} title="{escape(cell.says)}">'
        f"{value}{badge}</td>"
    )
