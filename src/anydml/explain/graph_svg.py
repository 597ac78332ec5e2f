"""A graph as SVG: one file, no script, drawn with plain shapes so that every viewer shows it.

Every rule of style names the drawing's class, so that a notebook may hold it as it is.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from anydml.explain.colours import DARK, LIGHT
from anydml.explain.graph_boxes import BOX_HEIGHT, LETTER, ROW_GAP, STEM, arrange
from anydml.explain.graph_words import tidy, word_list
from anydml.memory import word_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.explain.colours import Scheme
    from anydml.explain.graph_boxes import Box, Edge, Plan
    from anydml.explain.graph_picture import GraphPicture

_MARGIN, _LINE, _WRAP = 24, 20, 110
_MOST_PASSES = 24
"""Told in words below the drawing; each box has a sentence of its own as well."""
_HERE = ".anydml-graph"


def draw(picture: GraphPicture) -> str:
    """Draw it, and its parts below one another."""
    several = [_draw(one) for one in _all(picture)]
    if len(several) == 1:
        return several[0][0]
    width, height = max(w for _, w, _ in several), sum(h for _, _, h in several)
    placed, y = [], 0
    for text, _, own in several:
        placed.append(text.replace("<svg ", f'<svg y="{y}" ', 1))
        y += own
    title = quoteattr(tidy(picture.title or "Graph"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'{head} role="img" aria-label={title}>\n{"".join(placed)}</svg>\n'


def _all(picture: GraphPicture) -> Iterator[GraphPicture]:
    yield picture
    for part in picture.parts:
        yield from _all(part)


def _draw(picture: GraphPicture) -> tuple[str, int, int]:
    """One graph, with its width and height."""
    plan = arrange(picture)
    head, foot = list(_head(picture)), list(_foot(picture))
    longest = max(len(text) * LETTER * (17 if style == "t" else 13) for style, text in (*head, *foot))
    width = round(max(longest, plan.width) + 2 * _MARGIN)
    parts: list[str] = []
    y = float(_MARGIN)
    for style, text in head:
        y += _LINE
        parts.append(_text(_MARGIN, y - 6, style, text))
    y += 22
    left = _MARGIN + max((width - 2 * _MARGIN - plan.width) / 2, 0)
    parts.append(f'<g transform="translate({left:g} {y:g})">')
    parts += _drawing(plan)
    parts.append("</g>")
    y += plan.height + 24
    for style, text in foot:
        y += _LINE
        parts.append(_text(_MARGIN, y - 6, style, text))
    height = round(y + _MARGIN - 6)
    body = "\n".join(parts)
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{_HERE[1:]}" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label={quoteattr(tidy(head[0][1]))}>\n'
        f'<style>{_style()}</style>\n<rect class="g" width="{width}" height="{height}" rx="8"/>\n{body}\n</svg>\n'
    )
    return text, width, height


def _words(text: str) -> str:
    return escape(tidy(text))


def _text(x: float, y: float, style: str, text: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{_words(text)}</text>'


def _head(picture: GraphPicture) -> Iterator[tuple[str, str]]:
    for line in textwrap.wrap(picture.title or "Graph", _WRAP * 3 // 4) or ["Graph"]:
        yield "t", line
    for line in textwrap.wrap(picture.summary, _WRAP) if picture.before else ():
        yield "s", line


def _foot(picture: GraphPicture) -> Iterator[tuple[str, str]]:
    for word, passes in (("once", picture.once), ("pass", picture.after)):
        for number, one in enumerate(passes[:_MOST_PASSES], 1):
            said = f"{word} {number}: {one.does}; {word_bytes(one.bytes_moved)} ({word_list(one.nodes)})"
            yield from (("m", line) for line in textwrap.wrap(said, _WRAP, subsequent_indent="    "))
        if len(passes) > _MOST_PASSES:
            yield "m", f"… and {len(passes) - _MOST_PASSES} more passes"
    if picture.arena_bytes:
        yield "s", f"Between the passes: {word_bytes(picture.arena_bytes)} scratch memory."
    for note in filter(None, (picture.rewritten, *picture.notes)):
        yield from (("s", line) for line in textwrap.wrap(note, _WRAP))


def _drawing(plan: Plan) -> Iterator[str]:
    for hue, x, y, width, height in plan.frames:
        yield f'<rect class="w e{hue}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="12"/>'
    for edge in plan.edges:
        yield _edge(edge)
    for box in plan.boxes:
        yield _box(box)
    for box in plan.boxes:
        for k, line in enumerate(box.label):
            yield _text(box.x + box.width / 2 + 8, box.y + BOX_HEIGHT + 23 + 14 * k, "l", line)


def _edge(edge: Edge) -> str:
    """Down beside the box's label, and then from row to row, straight past those between."""
    x, y = edge.source.x + edge.source.width / 2, edge.source.y + BOX_HEIGHT + STEM
    path = f"M{x:g} {y - STEM:g}V{y:g}"
    step = BOX_HEIGHT + ROW_GAP
    ends = [(one.x, one.first * step, one.last * step + BOX_HEIGHT + STEM) for one in edge.path]
    end = edge.target.x + edge.target.width * (edge.slot + 1) / (edge.slots + 1)
    for below, top, bottom in [*ends, (end, edge.target.y, edge.target.y)]:
        middle = (y + top) / 2
        path += f"C{x:g} {middle:g} {below:g} {middle:g} {below:g} {top:g}V{bottom:g}"
        x, y = below, bottom
    return f'<path class="a" d="{path}m-4 -7l4 7l4 -7"/>'


def _box(box: Box) -> str:
    middle = box.x + box.width / 2
    style = f"c h{box.hue}" if box.hue else "c" if box.kind == "node" else "c i"
    top = box.y + 8 * (2 - len(box.lines))
    lines = "".join(_text(middle, top + 37 + 16 * k, "n", line) for k, line in enumerate(box.lines))
    radius = 6 if box.kind == "node" else BOX_HEIGHT / 2
    return (
        f'<g><title>{_words(box.says)}</title><rect class="{style}" x="{box.x:g}" y="{box.y:g}"'
        f' width="{box.width:g}" height="{BOX_HEIGHT}" rx="{radius:g}"/>'
        f"{_text(middle, top + 21, 'v', box.name)}{lines}</g>"
    )


def _style() -> str:
    mono = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
    return (
        f"{_HERE} text{{font:13px {mono}}}{_HERE} .t{{font-size:17px;font-weight:700}}"
        f"{_HERE} .v{{font-size:14px;font-weight:700}}{_HERE} .n{{font-size:11px}}"
        f"{_HERE} .v,{_HERE} .n{{text-anchor:middle}}"
        f"{_HERE} .l{{font-size:11px;paint-order:stroke;stroke-width:4px;stroke-linejoin:round}}"
        f"{_HERE} .w{{fill:none;stroke-width:2;stroke-dasharray:6 4}}{_HERE} .a{{fill:none;stroke-width:1.5}}"
        f"{_colours(_HERE, LIGHT)}@media (prefers-color-scheme:dark){{{_colours(_HERE, DARK)}}}"
        f"{_colours(_themed('light', 'true'), LIGHT)}{_colours(_themed('dark', 'false'), DARK)}"
    )


def _themed(name: str, is_light: str) -> str:
    """Inside a notebook whose own theme says what it is."""
    return f':is([data-jp-theme-light="{is_light}"],.vscode-{name}) {_HERE}'


def _colours(here: str, scheme: Scheme) -> str:
    hues = "".join(
        f"{here} .h{i}{{fill:{fill};stroke:{edge}}}{here} .e{i}{{stroke:{edge}}}"
        for i, (fill, edge) in enumerate(scheme.hues, 1)
    )
    return (
        f"{here} .g{{fill:{scheme.ground}}}{here} text{{fill:{scheme.ink}}}"
        f"{here} .s,{here} .l{{fill:{scheme.soft}}}{here} .l{{stroke:{scheme.ground}}}"
        f"{here} .a{{stroke:{scheme.soft}}}{here} .c{{fill:{scheme.cell};stroke:{scheme.line}}}"
        f"{here} .i{{fill:{scheme.ground};stroke:{scheme.soft}}}{hues}"
    )
