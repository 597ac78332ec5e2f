"""JSON as DxDispatch reads it: comments and trailing commas are taken, and whatever follows the model is not read."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from anydml.errors import Fault, ModelFileError, show
from anydml.models.findings import MOST_FAULTS, word_stop
from anydml.models.source import Items, Node, Raw, Source, step

DEEPEST = 64
"""Levels of nesting; a model has about eight."""
LONGEST_NUMBER = 1000
_UINT64_MAX, _INT64_MIN = 2**64 - 1, -(2**63)
_INT_DIGITS = 20

_SKIP = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\.)*+)"')
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+))")
_NUMBER_AND_COMMA = re.compile(_NUMBER.pattern + r"[ \t\r\n]*+,[ \t\r\n]*+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


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
            return self.number(number[1], number[2], at)
        if (word := _WORD.match(text, at)) and word[0] in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0]]
        way_out = 'write "nan", "inf" or "-inf" in quotes' if re.match(r"-?(nan|inf)", text[at : at + 4], re.I) else ""
        self.fail("there must be a JSON value", at, self.found(at), way_out)

    def number(self, text: str, fraction: str, at: int) -> int | float:
        if len(text) > LONGEST_NUMBER:
            self.fail(f"a number must have at most {LONGEST_NUMBER} characters", at, str(len(text)))
        if not fraction and len(text) <= _INT_DIGITS:
            whole = int(text)
            if _INT64_MIN <= whole <= _UINT64_MAX:
                return whole
        value = float(text)  # as RapidJSON has it, a whole number past 64 bits too
        if math.isinf(value):
            self.fail("a number must fit 64 bits of floating point", at, show(text, 60))
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
                self.given_twice(name, at)
            self.skip()
            if not self.text.startswith(":", self.at):
                self.fail('there must be a ":" after the name', self.at, self.found(self.at))
            self.at += 1
            self.skip()
            names.setdefault(name, len(items.values))
            self._take(items, "}")

    def given_twice(self, name: str, at: int) -> None:
        self.faults.append(self.fault(f"{show(name, 60)} must not be given twice", at))
        if len(self.faults) > MOST_FAULTS:
            self.faults[-1] = self.fault(word_stop(), at)
            raise ModelFileError(self.source.file, self.faults)

    def list(self) -> Items:
        items = Items(None)
        self.at += 1
        while True:
            self.skip()
            self._take_numbers(items)
            if self.text.startswith("]", self.at):
                self.at += 1
                return items
            self.path.append(len(items.values))
            self._take(items, "]")

    def _take_numbers(self, items: Items) -> None:
        """Read as many numbers in a row as there are: long lists are made of them, and this takes half the time."""
        at, text, match = self.at, self.text, _NUMBER_AND_COMMA.match
        while found := match(text, at):
            self.path.append(len(items.values))
            items.places.append(at)
            items.values.append(self.number(found[1], found[2], at))
            self.path.pop()
            at = found.end()
        if at > self.at:
            self.at = at
            self.skip()

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
