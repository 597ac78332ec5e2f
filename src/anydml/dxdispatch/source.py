"""The values of a model file, and where each stands.

A value remembers where it stands in the text; lines, columns and paths are worked out for those that are asked for,
so that a list of a million numbers costs little more than the numbers.
"""

from __future__ import annotations

import bisect
import re
from array import array
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.core.errors import Place, show
from anydml.core.locks import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


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

    @cached_property
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


def locate(node: Node, field: str) -> Node:
    """The value of a field such as `InputTensor.Sizes[2]`, or the nearest thing around it that is there."""
    for part in re.findall(r"[^.\[\]]+", field):
        if part.isdecimal():
            child = node.element(int(part)) if node.is_list and int(part) < len(node) else None
        else:
            child = node.get(part)
            if child is None and (inner := node.get("Desc")):
                child = inner.get(part)
        if child is None:
            return node
        node = child
    return node
