"""Objects that show themselves in words: in a terminal, in an error, and in a notebook."""

from __future__ import annotations

from html import escape

_STYLE = (
    "margin:0;padding:0;border:0;background:none;color:inherit;text-align:left;white-space:pre-wrap;"
    "font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
)
"""A notebook's own style has nothing to say in it."""


class Shown:
    """What `str` says of it is its `repr` too, and its picture in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The words as a notebook shows them."""
        return f'<pre style="{_STYLE}">{escape(str(self))}</pre>'


def counted(count: int, what: str) -> str:
    """`1 fault`, `2 faults`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
