"""Objects that show themselves in words: in a terminal, in an error, and in a notebook, where they have tables too."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.arrays.tensor import TensorDesc

_MOST_ROWS = 60
"""Of a table: a notebook is for reading."""
_BARE = "margin:0;padding:0;border:0;background:none;color:inherit;text-align:left;"
_WORDS = f"{_BARE}white-space:pre-wrap;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_TEXT = "font:13px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif"
_BOX = f"{_BARE}{_TEXT};max-width:100%;overflow-x:auto"
_LINE = f"{_BARE}{_TEXT}"
_TABLE = f"{_BARE}{_TEXT};margin:4px 0 8px;border-collapse:collapse;border-spacing:0;table-layout:auto;width:auto"
_CAPTION = f"{_BARE}{_TEXT};caption-side:top;padding:4px 0 2px;opacity:.75;white-space:nowrap"
_CELL = f"{_BARE}{_TEXT};padding:3px 16px 3px 0;border-top:1px solid rgba(127,127,127,.4);vertical-align:top"
_HEAD = f"{_CELL};font-weight:600;border-top:0;white-space:nowrap"
_NUMBER = ";text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap"
"""Every element has all of its style itself: no style of a notebook, striped rows among them, has a say in it."""

_NUMERIC = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]\d+)?%?|")


class Table(NamedTuple):
    """Rows under heads, for a notebook. Numbers stand on the right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


class Shown:
    """Its words, `str`, are its `repr` too. A notebook shows them, or the lines and tables that it gives."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _shown(self) -> Iterable[str | Table]:
        """The lines and tables of a notebook, the first line in bold; none where the words say it all."""
        return ()

    def _repr_html_(self) -> str:
        """The object as a notebook shows it."""
        parts = list(self._shown())
        if not parts:
            return f'<pre style="{_WORDS}">{escape(str(self))}</pre>'
        written = (_table(part) if isinstance(part, Table) else _line(part, k) for k, part in enumerate(parts))
        return f'<div style="{_BOX}">{"".join(written)}</div>'


def _line(text: str, number: int) -> str:
    weight = ";font-weight:600" if not number else ""
    return f'<div style="{_LINE}{weight}">{_escape(text)}</div>'


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    styles = [_NUMBER if all(map(_is_number, column)) else "" for column in zip(*table.rows, strict=True)]
    rows = [_row(map(_cell, row), "td", _CELL, styles) for row in table.rows[:_MOST_ROWS]]
    if len(table.rows) > _MOST_ROWS:
        rows.append(_row([f"and {len(table.rows) - _MOST_ROWS} more"], "td", _CELL, [""]))
    title = f'<caption style="{_CAPTION}">{_escape(table.title)}</caption>' if table.title else ""
    head = f"<thead>{_row(map(_escape, table.heads), 'th', _HEAD, styles)}</thead>"
    return f'<table style="{_TABLE}">{title}{head}<tbody>{"".join(rows)}</tbody></table>'


def _row(cells: Iterable[str], tag: str, style: str, styles: Sequence[str]) -> str:
    whole = (f'<{tag} style="{style}{own}">{cell}</{tag}>' for cell, own in zip(cells, styles, strict=True))
    return f'<tr style="{_BARE}">{"".join(whole)}</tr>'


def _is_number(cell: object) -> bool:
    """Whether it is a number, the text of one (`12.3%` too), or nothing."""
    return isinstance(cell, (int, float)) or (isinstance(cell, str) and bool(_NUMERIC.fullmatch(cell)))


def _cell(cell: str | float) -> str:
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.4g}" if isinstance(cell, float) else _escape(cell)


def _escape(text: str) -> str:
    return escape(printable(text))


def describe(desc: TensorDesc) -> str:
    """A tensor as a table has it: `FLOAT32 {1,1,3,4}`, as pictures write it."""
    return f"{desc.data_type.name} {{{','.join(map(str, desc.sizes))}}}"


def listed(names: Iterable[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else end


def counted(count: int, what: str) -> str:
    """`1 fault`, `2 faults`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
