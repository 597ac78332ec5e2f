"""A graph as SVG, drawn with plain shapes so that every viewer shows it, and as an HTML page with its tables below.

Nothing is loaded from anywhere, and there is no script. Every rule of style names the drawing's class, so that a
notebook may hold it as it is.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from anydml.core.errors import UnsupportedError
from anydml.core.memory import word_bytes
from anydml.explain.colours import DARK, LIGHT
from anydml.explain.graph_picture import Became, group_passes
from anydml.explain.graph_text import plain
from anydml.explain.graph_words import short, tidy, word_list
from anydml.explain.html import POLICY, document, escape
from anydml.explain.layered import lay_out
from anydml.explain.view_words import word_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.colours import Scheme
    from anydml.explain.graph_picture import GraphPicture, Tensor
    from anydml.explain.layered import Vertical


# Boxes, edges and frames, and where they stand


LETTER = 0.62
"""The width of a monospaced letter, in its size."""
BOX_HEIGHT, STEM, ROW_GAP, COLUMN_GAP, LANE = 62, 44, 90, 28, 14
"""In pixels; a stem is what goes straight down from a box, beside its label, before an edge turns anywhere."""
_LEAST_WIDTH, _MOST_IN_ROW = 120, 8
_NAME_SIZE, _SMALL = 14, 11
_LONGEST_TOLD, _MOST_TOLD = 200, 3
"""Of a name in the sentence that a box says of itself, and of the passes that it tells."""


@dataclass(slots=True, eq=False)
class Box:
    """A node, or an input, a constant or an output of the graph."""

    kind: str
    """`node`, `input`, `constant` or `output`."""
    name: str
    lines: tuple[str, ...]
    says: str
    hue: int = 0
    """That of the pass that it shares with others, from 1 to 6."""
    home: int | None = None
    """The first of the passes that do a node's work, by number."""
    label: tuple[str, ...] = ()
    """Its output: sizes, then type and bytes."""
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    def measure(self) -> None:
        """Take the width that its words need, and half of what its label does on either side."""
        letters = max([len(self.name) * _NAME_SIZE, *(len(line) * _SMALL for line in self.lines)])
        label = max((len(line) for line in self.label), default=0) * _SMALL * LETTER + 10
        self.width = max(_LEAST_WIDTH, letters * LETTER + 24, 2 * label)


class Edge(NamedTuple):
    """Data on its way."""

    source: Box
    target: Box
    slot: int
    """Which of the target's inputs it is."""
    slots: int
    path: tuple[Vertical, ...]
    """Where it passes the rows between its ends."""


@dataclass(slots=True)
class Plan:
    """A drawing's boxes, edges and frames, from a corner at 0, 0."""

    boxes: list[Box]
    edges: list[Edge]
    frames: list[tuple[int, float, float, float, float]]
    """Hue, x, y, width and height around nodes that became one pass and stand together."""
    width: float
    height: float


def arrange(picture: GraphPicture) -> Plan:
    """A box for each node, input, used constant and output, with edges from where data is made to where it is read."""
    hues = _hues(picture)
    groups = group_passes(picture.before)
    nodes = [_node_box(picture, numbers, hues) for numbers in groups]
    writers = {
        store: box
        for box, numbers in zip(nodes, groups, strict=True)
        for n in numbers
        for store in picture.before[n].writes
    }
    reads = {
        box: [store for store in _read(picture, numbers) if writers.get(store) is not box]
        for box, numbers in zip(nodes, groups, strict=True)
    }
    sources: dict[str, Box] = {}
    used = {store for one in picture.before for store in one.reads}
    for store, tensor in picture.tensors.items():
        if tensor.kind == "input" or (tensor.kind == "constant" and store in used and store not in writers):
            sources[store] = _plain_box(tensor.kind, tensor)
    outputs = {s: _plain_box("output", t) for s, t in picture.tensors.items() if t.kind == "output" and s in writers}
    givers = {**sources, **writers}
    given: dict[Box, list[Tensor]] = {}
    taken = {*outputs, *(store for stores in reads.values() for store in stores)}
    for store, box in givers.items():
        if store in taken or store in sources:  # others a node keeps between its own passes
            given.setdefault(box, []).append(picture.tensors[store])
    for box, tensors in given.items():
        box.label = _label(tensors)
    links: list[tuple[str, Box, int, int]] = [
        (store, box, slot, len(stores)) for box, stores in reads.items() for slot, store in enumerate(stores)
    ]
    links += [(store, box, 0, 1) for store, box in outputs.items()]
    boxes = [*sources.values(), *nodes, *outputs.values()]
    for box in boxes:
        box.measure()
    numbers = {box: number for number, box in enumerate(boxes)}
    ends = [(numbers[givers[store]], numbers[box]) for store, box, _, _ in links]
    found = lay_out([box.width for box in boxes], ends, gap=COLUMN_GAP, lane=LANE, most_in_row=_MOST_IN_ROW)
    for box, middle, row in zip(boxes, found.middles, found.rows, strict=True):
        box.x, box.y = middle - box.width / 2, row * (BOX_HEIGHT + ROW_GAP)
    edges = [
        Edge(givers[store], box, slot, slots, path)
        for (store, box, slot, slots), path in zip(links, found.paths, strict=True)
    ]
    height = found.row_count * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    return Plan(boxes, edges, _frames(nodes, boxes, hues), found.width, height)


def _hues(picture: GraphPicture) -> dict[int, int]:
    """A colour for each pass that does the work of several nodes."""
    shared = [number for number, one in enumerate(picture.after) if len(one.nodes) > 1]
    return {number: k % 6 + 1 for k, number in enumerate(shared)}


def _node_box(picture: GraphPicture, numbers: Sequence[int], hues: Mapping[int, int]) -> Box:
    passes, became = [picture.before[n] for n in numbers], _merged([picture.became[n] for n in numbers])
    one, said = passes[0], str(became)
    if len(became.passes) == 1 and not became.is_once:
        home = picture.after[became.passes[0]]
        is_last = home.nodes[-1] in one.nodes  # the first may be part of several passes
        said = f"{said}: {word_bytes(home.bytes_moved)}" if is_last else f"in {said}"
    hue = next((hues[k] for k in became.passes if k in hues), 0)
    does = "; ".join(each.does for each in passes[:_MOST_TOLD])
    more = f"; and {len(passes) - _MOST_TOLD} more" if len(passes) > _MOST_TOLD else ""
    size = word_bytes(sum(each.bytes_moved for each in passes))
    says = f"{short(', '.join(one.nodes), _LONGEST_TOLD)}: {does}{more}; {size} by itself; {became}"
    first = became.passes[0] if became.passes else None
    return Box("node", short(", ".join(one.nodes)), (one.operator, said), says, hue, first)


def _merged(several: Sequence[Became]) -> Became:
    """The fate of all of a node's passes together."""
    numbers = sorted({number for one in several for number in one.passes})
    return Became(tuple(numbers), any(one.is_once for one in several))


def _read(picture: GraphPicture, numbers: Sequence[int]) -> list[str]:
    """The stores that passes read, each once."""
    return list(dict.fromkeys(store for n in numbers for store in picture.before[n].reads))


def _plain_box(kind: str, tensor: Tensor) -> Box:
    what = f"{word_sizes(tensor.sizes)} {tensor.data_type.name}"
    lines = (kind, what) if kind == "output" else (kind,)
    return Box(kind, tensor.name, lines, f"{kind} {tensor.name}: {what}, {word_bytes(tensor.size_in_bytes)}")


def _label(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Sizes, type and bytes of what leaves a box, which may be several tensors of one type."""
    sizes = word_list([word_sizes(tensor.sizes) for tensor in tensors], 2)
    size = word_bytes(sum(tensor.size_in_bytes for tensor in tensors))
    return sizes, f"{tensors[0].data_type.name} {size}"


def _frames(
    nodes: Sequence[Box], boxes: Sequence[Box], hues: Mapping[int, int]
) -> list[tuple[int, float, float, float, float]]:
    """A frame around the boxes of a pass, where nothing else would be inside."""
    members: dict[int, list[Box]] = {}
    for box in nodes:
        if box.home is not None and box.home in hues:
            members.setdefault(box.home, []).append(box)
    frames = []
    for number, inside in members.items():
        left, right = min(box.x for box in inside), max(box.x + box.width for box in inside)
        top, bottom = min(box.y for box in inside), max(box.y for box in inside) + BOX_HEIGHT
        own = set(inside)
        is_clear = not any(
            box.x < right and left < box.x + box.width and top <= box.y < bottom and box not in own for box in boxes
        )
        if len(inside) > 1 and is_clear:
            frames.append((hues[number], left - 8, top - 8, right - left + 16, bottom - top + 16))
    return frames


# SVG


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
    return escape_xml(tidy(text))


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


# HTML


def page(picture: GraphPicture) -> str:
    """A page that holds everything it needs, and may load nothing."""
    style = f"""body{{margin:0;padding:12px;background:{LIGHT.ground};color:{LIGHT.ink}}}
@media (prefers-color-scheme:dark){{body{{background:{DARK.ground};color:{DARK.ink}}}}}"""
    return document(picture.title or "Graph", style, fragment(picture), POLICY)


def fragment(picture: GraphPicture) -> str:
    """The drawing and the tables alone; the tables where the drawing needs a library that is not installed."""
    tables = f"<pre>{escape(plain(picture))}</pre>"
    try:
        drawing = draw(picture)
    except UnsupportedError as error:
        return f'<p>{escape(str(error))}</p>\n<div style="overflow:auto">{tables}</div>'
    details = f'<details style="overflow:auto"><summary>The passes</summary>\n{tables}</details>'
    return f'<div style="overflow:auto">{drawing}</div>\n{details}'
