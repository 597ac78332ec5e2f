"""Syntax errors of a model's text: they are kept, and reading goes on after them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from anydml.errors import Fault, show
from anydml.models.brackets import Brackets
from anydml.models.findings import MOST_FAULTS, word_stop
from anydml.models.source import Source, step

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
