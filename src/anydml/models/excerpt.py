"""The line of a text that a finding is about, with a caret under what is meant."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.errors import Place

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+\w.]+')
_WIDEST = 100
"""Columns of a line that are shown: a list of numbers may be a megabyte."""
_BEFORE = 40


def excerpt(text: str, place: Place) -> list[str]:
    """The line with its number, and below it the caret; nothing where the text has no such line."""
    lines = re.split(r"\r\n|\r|\n", text)
    if not text or place.line > len(lines):
        return []
    line = lines[place.line - 1]
    at = min(place.column - 1, len(line))
    token = _TOKEN.match(line, at)
    length = len(token[0]) if token else 1
    start = max(at - _BEFORE, 0) if len(line) > _WIDEST else len(line) - len(line.lstrip())
    start = min(start, at)
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + _WIDEST])
    head, tail = "…" if start and line[:start].strip() else "", "…" if len(line) > start + _WIDEST else ""
    margin = " " * (len(head) + sum(map(_width, shown[: at - start])))
    number = f"{place.line:5}"
    carets = "^" * max(1, min(length, _WIDEST - (at - start)))
    return [f"{number} | {head}{shown}{tail}", f"{' ' * len(number)} | {margin}{carets}"]


def _width(character: str) -> int:
    """The columns that a terminal gives a character."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
