"""A graph as HTML: its drawing, and its tables below. Nothing is loaded from anywhere, and there is no script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.errors import UnsupportedError
from anydml.explain.colours import DARK, LIGHT
from anydml.explain.graph_svg import draw
from anydml.explain.graph_text import plain
from anydml.explain.html import POLICY, document, escape

if TYPE_CHECKING:
    from anydml.explain.graph_picture import GraphPicture


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
