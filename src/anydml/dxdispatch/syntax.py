"""Syntax errors of a model's text: they are kept, and reading goes on after them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from anydml.core.errors import Fault, show
from anydml.dxdispatch.findings import MOST_FAULTS, word_stop
from anydml.dxdispatch.source import Source, step

# Brackets that do not match: the one at fault, told by those that follow and by indentation


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


# Errors


SKIP = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
"""Blanks and comments."""


@dataclass(slots=True)
class Unread:
    """Syntax errors of a model, and the values that are not known for them."""

    faults: list[Fault] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """Where a value could not be read."""

    def touches(self, path: str) -> bool:
        """Whether a value that could not be read is the one of a path, inside it or around it."""
        return any(_is_within(path, other) or _is_within(other, path) for other in self.paths)


def _is_within(path: str, other: str) -> bool:
    return path.startswith(other) and path[len(other) :][:1] in ("", ".", "[")


class SyntaxFaultError(Exception):
    """A syntax error; `ends` where what follows it cannot be read."""

    def __init__(self, fault: Fault, at: int, *, ends: bool) -> None:
        super().__init__()
        self.fault, self.at, self.ends = fault, at, ends


class SyntaxReader:
    """A text, the place that is read, and the path of the value there."""

    def __init__(self, source: Source) -> None:
        self.source, self.text = source, source.text
        self.at = 0
        self.path: list[str | int] = []
        self.unread = Unread()
        self.brackets = Brackets(source.text)

    def where(self) -> str:
        """The path of the value that is read."""
        return "$" + "".join(step(key) if isinstance(key, str) else f"[{key}]" for key in self.path)

    def fault(self, rule: str, at: int, found: str = "", way_out: str = "") -> Fault:
        """A fault of the text at a place."""
        return Fault(field="", rule=rule, found=found, way_out=way_out, place=self.source.place(at, self.where()))

    def fail(self, rule: str, at: int, found: str = "", way_out: str = "", *, ends: bool = False) -> NoReturn:
        """Raise a fault of the text; the rest cannot be read where it `ends`, and at the end of the text."""
        ends = ends or at >= len(self.text)
        raise SyntaxFaultError(self.fault(rule, at, found, way_out), at, ends=ends)

    def note(self, fault: Fault, at: int) -> None:
        """Keep a fault and read on, unless there are too many."""
        if len(self.unread.faults) >= MOST_FAULTS:
            raise SyntaxFaultError(self.fault(word_stop(), at), at, ends=True)
        self.unread.faults.append(fault)

    def found(self, at: int) -> str:
        """The text at a place, as messages show it."""
        return show(self.text[at : at + 20]) if at < len(self.text) else "the end of the file"

    def skip(self) -> None:
        """Pass over blanks and comments."""
        at = SKIP.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches
        if self.text.startswith("/*", at):
            self.fail("a comment must end with */", at, ends=True)
        self.at = at
