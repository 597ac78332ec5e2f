"""JSON as DxDispatch reads it, with the place of every value: comments and trailing commas are taken.

A value remembers where it stands in the text; lines, columns and paths are worked out for those that are asked for,
so that a list of a million numbers costs little more than the numbers.
"""

from __future__ import annotations

import bisect
import functools
import math
import re
from array import array
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from anydml.errors import Fault, ModelFileError, Place, show

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 64
"""Levels of nesting; a model has about eight."""
LONGEST_NUMBER = 1000
_UINT64_MAX, _INT64_MIN = 2**64 - 1, -(2**63)
_INT_DIGITS = 20

_SKIP = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\.)*+)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:(\.[0-9]++)?+([eE][+-]?[0-9]++)?+)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Items:
    """The values of an object or a list, and where each stands."""

    __slots__ = ("names", "places", "values")

    def __init__(self, names: dict[str, int] | None) -> None:
        self.names = names
        self.values: list[Raw] = []
        self.places = array("q")


Raw: TypeAlias = "Items | str | int | float | bool | None"


class Source:
    """The text of a model file."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.end = 0
        """Where the model and the comments after it end; DxDispatch reads nothing that follows."""

    @functools.cached_property
    def _lines(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", self.text))]

    def place(self, at: int, path: str = "") -> Place:
        """The line and column of a position in the text."""
        line = bisect.bisect_right(self._lines, at)
        return Place(self.file, line, at - self._lines[line - 1] + 1, path)


class Node:
    """A value of a model and its place."""

    __slots__ = ("at", "path", "raw", "source")

    def __init__(self, source: Source, raw: Raw, at: int, path: str) -> None:
        self.source, self.raw, self.at, self.path = source, raw, at, path

    @property
    def place(self) -> Place:
        """Where the value stands."""
        return self.source.place(self.at, self.path)

    @property
    def is_object(self) -> bool:
        """Whether it has members by name."""
        return isinstance(self.raw, Items) and self.raw.names is not None

    @property
    def is_list(self) -> bool:
        """Whether it has elements by number."""
        return isinstance(self.raw, Items) and self.raw.names is None

    def get(self, *names: str) -> Node | None:
        """The member of the first of these names that there is."""
        if isinstance(self.raw, Items) and self.raw.names is not None:
            for name in names:
                if (i := self.raw.names.get(name)) is not None:
                    return Node(self.source, self.raw.values[i], self.raw.places[i], self.path + step(name))
        return None

    def members(self) -> Iterator[tuple[str, Node]]:
        """Every member, in the order of the text."""
        if isinstance(self.raw, Items) and self.raw.names is not None:
            for name, i in self.raw.names.items():
                yield name, Node(self.source, self.raw.values[i], self.raw.places[i], self.path + step(name))

    def element(self, i: int) -> Node:
        """An element of a list."""
        assert isinstance(self.raw, Items)  # noqa: S101 - for type checkers: callers ask is_list first
        return Node(self.source, self.raw.values[i], self.raw.places[i], f"{self.path}[{i}]")

    def elements(self) -> Iterator[Node]:
        """Every element of a list."""
        return (self.element(i) for i in range(len(self)))

    def __len__(self) -> int:
        return len(self.raw.values) if isinstance(self.raw, Items) else 0

    def __bool__(self) -> bool:
        return True  # an empty list is there

    def plain(self) -> Any:
        """The value as Python has it; what lies deeper than a list of numbers is left as it is."""
        if self.is_list:
            assert isinstance(self.raw, Items)  # noqa: S101 - as above
            return self.raw.values
        return self.raw

    def word(self) -> str:
        """The value as a message has it."""
        if isinstance(self.raw, Items):
            count = len(self.raw.values)
            kind, one = ("an object", "member") if self.raw.names is not None else ("a list", "element")
            return f"{kind} of {count} {one}{'' if count == 1 else 's'}"
        if self.raw is None or isinstance(self.raw, bool):
            return {None: "null", True: "true", False: "false"}[self.raw]
        return show(self.raw, 60)


def step(name: str) -> str:
    """A member's name as a part of a path."""
    return f".{name}" if _NAME.fullmatch(name) and len(name) <= 60 else f"[{show(name, 60)}]"


def parse(file: str, data: bytes) -> Node:
    """Read the bytes of a model file; the first thing that is no JSON, or every name given twice, is an error."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = Source(file, data[: error.start].decode("utf-8", "replace"))
        fault = Fault(
            field="",
            rule="the file must be UTF-8 text",
            value=data[error.start],
            found=f"the byte {data[error.start]:#04x}",
            place=before.place(len(before.text)),
        )
        raise ModelFileError(file, fault) from None
    source = Source(file, text)
    reader = _Parser(source)
    raw, at = reader.read()
    if reader.faults:
        raise ModelFileError(file, reader.faults)
    return Node(source, raw, at, "$")


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source, self.text = source, source.text
        self.at = 0
        self.path: list[str | int] = []
        self.faults: list[Fault] = []

    def read(self) -> tuple[Raw, int]:
        self.skip()
        at = self.at
        raw = self.value()
        self.source.end = _SKIP.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches
        return raw, at

    def fault(self, rule: str, at: int, found: str = "", way_out: str = "") -> Fault:
        path = "$" + "".join(step(key) if isinstance(key, str) else f"[{key}]" for key in self.path)
        return Fault(field="", rule=rule, found=found, way_out=way_out, place=self.source.place(at, path))

    def fail(self, rule: str, at: int, found: str = "", way_out: str = "") -> NoReturn:
        raise ModelFileError(self.source.file, self.fault(rule, at, found, way_out))

    def found(self, at: int) -> str:
        return show(self.text[at : at + 20]) if at < len(self.text) else "the end of the file"

    def skip(self) -> None:
        at = _SKIP.match(self.text, self.at).end()  # type: ignore[union-attr]  # as above
        if self.text.startswith("/*", at):
            self.fail("a comment must end with */", at)
        self.at = at

    def value(self) -> Raw:  # noqa: RET503 - fail() does not return
        at, text = self.at, self.text
        first = text[at : at + 1]
        if first == '"':
            return self.string()
        if first in ("{", "["):
            if len(self.path) >= DEEPEST:
                self.fail(f"values must be nested at most {DEEPEST} deep", at)
            return self.object() if first == "{" else self.list()
        if number := _NUMBER.match(text, at):
            self.at = number.end()
            return self.number(number)
        if (word := _WORD.match(text, at)) and word[0] in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0]]
        way_out = 'write "nan", "inf" or "-inf" in quotes' if re.match(r"-?(nan|inf)", text[at : at + 4], re.I) else ""
        self.fail("there must be a JSON value", at, self.found(at), way_out)

    def number(self, match: re.Match[str]) -> int | float:
        text = match[0]
        if len(text) > LONGEST_NUMBER:
            self.fail(f"a number must have at most {LONGEST_NUMBER} characters", match.start(), str(len(text)))
        if match[1] is None and match[2] is None and len(text) <= _INT_DIGITS:
            whole = int(text)
            if _INT64_MIN <= whole <= _UINT64_MAX:
                return whole
        value = float(text)  # as RapidJSON has it, a whole number past 64 bits too
        if math.isinf(value):
            self.fail("a number must fit 64 bits of floating point", match.start(), show(text, 60))
        return value

    def string(self) -> str:
        at = self.at
        if (match := _STRING.match(self.text, at)) is None:
            rule = "a string must end with a quote, in its line, and have control characters escaped"
            self.fail(rule, at, self.found(at))
        self.at = match.end()
        body = match[1]
        if "\\" not in body:
            return body
        try:
            text = _ESCAPE.sub(_unescape, body)
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except KeyError as error:
            self.fail(
                'an escape must be one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX', at, show("\\" + error.args[0])
            )
        except UnicodeDecodeError:
            self.fail("\\uD800 .. \\uDFFF must come in pairs", at, self.found(at))

    def object(self) -> Items:
        names: dict[str, int] = {}
        items = Items(names)
        self.at += 1
        while True:
            self.skip()
            at = self.at
            if self.text.startswith("}", at):
                self.at += 1
                return items
            if not self.text.startswith('"', at):
                self.fail('there must be a name in quotes, or "}"', at, self.found(at))
            name = self.string()
            self.path.append(name)
            if name in names:
                self.faults.append(self.fault(f"{show(name, 60)} must not be given twice", at))
            self.skip()
            if not self.text.startswith(":", self.at):
                self.fail('there must be a ":" after the name', self.at, self.found(self.at))
            self.at += 1
            self.skip()
            names.setdefault(name, len(items.values))
            self._take(items, "}")

    def list(self) -> Items:
        items = Items(None)
        self.at += 1
        while True:
            self.skip()
            if self.text.startswith("]", self.at):
                self.at += 1
                return items
            self.path.append(len(items.values))
            self._take(items, "]")

    def _take(self, items: Items, closing: str) -> None:
        """Read a value, and the comma after it where there is one."""
        items.places.append(self.at)
        items.values.append(self.value())
        self.path.pop()
        self.skip()
        if self.text.startswith(",", self.at):
            self.at += 1
        elif not self.text.startswith(closing, self.at):
            self.fail(f'there must be a "," or "{closing}"', self.at, self.found(self.at))


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES[code]
