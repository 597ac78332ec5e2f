"""Brackets of a model's text that do not match: the one at fault, told by those that follow and by indentation."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?|//[^\n]*+|/\*(?s:.*?)\*/|[][{}]|\n[ \t]*+')


class Brackets:
    """The brackets of a text, and those that are open where it is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.opened: list[int] = []
        """Where each stands, the innermost last."""
        self._counted: tuple[int, int] | None = None
        """A place, and how many brackets more are opened than closed from there to the end."""

    def count_missing(self, at: int) -> int:
        """How many closing brackets the text lacks, whatever their kinds; below 0 it has too many."""
        start, rest = self._counted or (at, self._count(at, len(self.text)))
        rest -= self._count(start, at)  # each part is counted once, however often it is asked for
        self._counted = at, rest
        return len(self.opened) + rest

    def _count(self, start: int, end: int) -> int:
        """How many brackets more are opened than closed between two places."""
        found = [match[0] for match in _TOKEN.finditer(self.text, start, end)]
        return sum((one in ("{", "[")) - (one in ("}", "]")) for one in found)

    def find_unclosed(self) -> int:
        """The bracket that was not closed, where the text ends too early.

        It took the end of the bracket around it for its own, and so on up to the first bracket, which is open then. So
        the innermost whose end is indented otherwise is at fault; where all are indented alike, the innermost open one.
        """
        opened: list[tuple[int, int, str]] = []
        line, indent = 0, ""
        for match in _TOKEN.finditer(self.text):
            found, at = match[0], match.start()
            if found.startswith("\n"):
                line, indent = at + 1, found[1:]
            elif found in ("{", "["):
                opened.append((at, line, indent))
            elif found in ("}", "]") and opened:
                start, first, before = opened.pop()
                if line != first and at == line + len(indent) and indent != before:
                    return start
        return self.opened[-1]
