"""JSON as DxDispatch reads it: comments and trailing commas are taken, and whatever follows the model is not read.

Reading goes on after a syntax error, so that all of them are told at once: a missing comma is taken as written, and an
item that cannot be read is passed over, up to the next comma or bracket. A bracket of the wrong kind is taken for the
right one, for one too many, or for the next one's, whichever lets the rest come out even; where nothing does, and where
the text ends too early, reading ends.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NoReturn

from anydml.core.errors import Fault, ModelFileError, show
from anydml.dxdispatch.source import Items, Node, Raw, Source
from anydml.dxdispatch.syntax import SKIP, SyntaxFaultError, SyntaxReader, Unread

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 64
"""Levels of nesting; a model has about eight."""
LONGEST_NUMBER = 1000
_UINT64_MAX, _INT64_MIN = 2**64 - 1, -(2**63)
_INT_DIGITS = 20

_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\.)*+)"')
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+))")
_NUMBER_AND_COMMA = re.compile(_NUMBER.pattern + r"[ \t\r\n]*+,[ \t\r\n]*+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NEXT = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?|//[^\n]*+|/\*(?s:.*?)\*/|[][{},]')
_CLOSING = {"{": "}", "[": "]"}
_STARTS = {"}": ('"',), "]": tuple('"{[-0123456789')}
"""How an item of an object and of a list starts."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def parse(file: str, data: bytes, unread: Unread | None = None) -> Node:
    """Read the bytes of a model file; syntax errors, and names given twice, are raised together.

    With `unread` they are put there instead, and the rest is given, as far as brackets can be matched.
    """
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
    try:
        raw, at = reader.read()
    except SyntaxFaultError as error:
        raise ModelFileError(file, sorted([*reader.unread.faults, error.fault], key=_position)) from None
    if unread is not None:
        unread.faults, unread.paths = reader.unread.faults, reader.unread.paths
    elif reader.unread.faults:
        raise ModelFileError(file, reader.unread.faults)
    return Node(source, raw, at, "$")


def _position(fault: Fault) -> tuple[int, int]:
    assert fault.place is not None  # noqa: S101 - for type checkers: a syntax error has one
    return fault.place.line, fault.place.column


class _Parser(SyntaxReader):
    def read(self) -> tuple[Raw, int]:
        self.skip()
        at = self.at
        raw = self.value()
        self.source.end = SKIP.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches
        return raw, at

    def value(self) -> Raw:  # noqa: RET503 - fail() does not return
        at, text = self.at, self.text
        first = text[at : at + 1]
        if first == '"':
            return self.string()
        if first in ("{", "["):
            if len(self.path) >= DEEPEST:
                self.fail(f"values must be nested at most {DEEPEST} deep", at, ends=True)
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
        value = _number(text, fraction)
        if value is None:
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
        self.brackets.opened.append(self.at)
        self.at += 1
        while not self._closes("}"):
            self._take("}", self._member, items)
        return items

    def _member(self, items: Items) -> None:
        at, names = self.at, items.names
        assert names is not None  # noqa: S101 - for type checkers: an object's
        rule = 'there must be a name in quotes, or "}"'
        if self.text.startswith(",", at):  # one too many, after which nothing is lost
            return self.note(self.fault(rule, at, self.found(at)), at)
        if not self.text.startswith('"', at):
            self.fail(rule, at, self.found(at))
        name = self.string()
        self.path.append(name)
        if name in names:
            self.note(self.fault(f"{show(name, 60)} must not be given twice", at), at)
        self.skip()
        if not self.text.startswith(":", self.at):
            self.fail('there must be a ":" after the name', self.at, self.found(self.at))
        self.at += 1
        self.skip()
        names.setdefault(name, len(items.values))
        return self._element(items)

    def list(self) -> Items:
        items = Items(None)
        self.brackets.opened.append(self.at)
        self.at += 1
        while True:
            self.skip()
            self._take_numbers(items)
            if self._closes("]"):
                return items
            self.path.append(len(items.values))
            self._take("]", self._element, items)

    def _element(self, items: Items) -> None:
        items.places.append(self.at)
        items.values.append(None)  # where it cannot be read
        items.values[-1] = self.value()

    def _closes(self, closing: str) -> bool:
        """Whether an object or a list ends here; its bracket is passed over."""
        self.skip()
        found = self.text[self.at : self.at + 1]
        if found == closing:
            self.at += 1
        elif found in ("}", "]"):
            return self._mismatch(closing)
        elif found:
            return False
        else:
            self._unclosed(closing)
        self.brackets.opened.pop()
        return True

    def _mismatch(self, closing: str) -> bool:
        """Decide on a bracket of the wrong kind, by the number of those that follow; gives whether it closes."""
        at, opener = self.at, self.brackets.opened[-1]
        place, missing = self.source.place(opener), self.brackets.count_missing(at)
        way_out = f"the bracket of line {place.line}, column {place.column} is open"
        fault = self.fault(f'there must be a "," or "{closing}"', at, self.found(at), way_out)
        if missing == 0:  # it stands for the right one
            self.note(fault, at)
            self.at += 1
        elif missing == -1:  # it is one too many
            self.note(fault, at)
            self.at += 1
            self._end(closing)
            self.at += self.text.startswith(",", self.at)
            return self._closes(closing)
        elif missing == 1 and len(self.brackets.opened) > 1:  # it is that of the object or list around this one
            self.note(self._word_unclosed(closing, opener, self.found(at)), at)
        else:
            raise SyntaxFaultError(fault, at, ends=True)
        self.brackets.opened.pop()
        return True

    def _word_unclosed(self, closing: str, opener: int, found: str) -> Fault:
        return self.fault(f'this bracket must be closed by a "{closing}"', opener, found)

    def _unclosed(self, closing: str) -> NoReturn:
        """The text ends within an object or a list."""
        at = self.brackets.find_unclosed()
        if at != self.brackets.opened[-1]:
            self.path.clear()
            closing = _CLOSING[self.text[at]]
        raise SyntaxFaultError(self._word_unclosed(closing, at, "the end of the file"), at, ends=True)

    def _take_numbers(self, items: Items) -> None:
        """Read as many numbers in a row as there are: long lists are made of them, and this takes half the time."""
        text, match = self.text, _NUMBER_AND_COMMA.match
        while (found := match(text, self.at)) and (value := _number(found[1], found[2])) is not None:
            items.places.append(self.at)
            items.values.append(value)
            self.at = found.end()

    def _take(self, closing: str, read: Callable[[Items], None], items: Items) -> None:
        """Read an item, and the comma after it where there is one."""
        depth = len(self.path) - (closing == "]")
        try:
            read(items)
        except SyntaxFaultError as error:
            if error.ends:
                raise
            self._lose(error.fault, error.at)
        del self.path[depth:]
        self._end(closing)
        self.at += self.text.startswith(",", self.at)

    def _end(self, closing: str) -> None:
        """Find the comma or bracket after an item; a missing comma before another item is taken as written."""
        self.skip()
        at = self.at
        if self.text.startswith((",", "}", "]"), at) or at >= len(self.text):
            return
        fault = self.fault(f'there must be a "," or "{closing}"', at, self.found(at))
        if self.text.startswith(_STARTS[closing], at):
            self.note(fault, at)
        else:
            self._lose(fault, at)
            self._end(closing)

    def _lose(self, fault: Fault, at: int) -> None:
        """Pass over an item that cannot be read."""
        self.note(fault, at)
        self.unread.paths.append(self.where())
        self._pass_over(at)

    def _pass_over(self, at: int) -> None:
        """Go to the comma or bracket that ends an item; a string without a second quote ends with its line's comma."""
        closings: list[str] = []
        while match := _NEXT.match(self.text, at) if self.text.startswith('"', at) else _NEXT.search(self.text, at):
            found = match[0]
            self.at = match.start()
            at = match.end()
            if found in _CLOSING:
                closings.append(_CLOSING[found])
            elif found in ("}", "]") and closings:
                if closings.pop() != found:
                    self.fail("brackets must match", self.at, self.found(self.at), ends=True)
            elif found in (",", "}", "]") and not closings:
                return
            elif found.startswith('"') and not found.endswith('"', 1):
                if closings or not found.rstrip().endswith(","):
                    break
                self.at += len(found.rstrip()) - 1
                return
        raise SyntaxFaultError(self.unread.faults.pop(), at, ends=True)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES[code]


def _number(text: str, fraction: str) -> int | float | None:
    """The value of a number; None where it is too long or too large."""
    if not fraction and len(text) <= _INT_DIGITS:
        whole = int(text)
        if _INT64_MIN <= whole <= _UINT64_MAX:
            return whole
    value = float(text) if len(text) <= LONGEST_NUMBER else math.inf  # as RapidJSON has it, past 64 bits too
    return None if math.isinf(value) else value
