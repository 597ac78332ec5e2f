"""Symbolic sizes of a graph that is being built: what its builder computes with them is done again for other sizes.

Functions that add to the graph are called again for other sizes too, so that what they find of sizes binds nobody. What
code in between finds, such as `if x.sizes[0] > 8`, holds for all sizes that the graph is compiled for.
"""

from __future__ import annotations

import math
import operator
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.errors import DescriptionError, DmlError, Fault
from anydml.core.guards import Tape, entered
from anydml.core.symbolic_sizes import OpenSize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.core.symbolic_sizes import Number, Size

SUBJECT = "Graph"
_EXAMPLES = tuple(16 * prime for prime in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31))
"""Of sizes without an example: no two alike, and all even enough to be halved four times."""
_LONGEST = 60
"""Characters of a size that is written as it was computed."""


class _Line(NamedTuple):
    """An operation, whose result has a number, or a finding."""

    code: str
    number: int | None
    is_so: bool = True


class GraphTape(Tape):
    """The sizes of a graph's inputs by their names, and the operations of the code that builds it."""

    is_lasting = True

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, OpenSize] = {}
        self._depth = 0
        self._texts: list[str] = []
        """By number, how a size is written."""
        self._operations: list[_Line] = []
        self._fixed: dict[int, None] = {}
        """The numbers that somebody asked for: the graph holds for these alone."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "caches": {}}

    @property
    def keeps(self) -> bool:  # type: ignore[override]  # it changes
        """Whether what is found is noted."""
        return not self._depth

    @property
    def mark(self) -> int:
        """The operations so far."""
        return len(self._operations)

    @property
    def examples(self) -> dict[str, int]:
        """The examples, by name."""
        return {name: int(self.values[size.number]) for name, size in self.names.items()}

    def named(self, name: str, size: Size | None = None) -> OpenSize:
        """The size of a name."""
        example = None if size is None else size.example
        if (known := self.names.get(name)) is None:
            value = _EXAMPLES[len(self.names) % len(_EXAMPLES)] if example is None else example
            self._texts.append(name)
            known = self.names[name] = self.open(value)
        elif example not in (None, self.values[known.number]):
            rule = f"example of {name!r} must be the one given before, {self.values[known.number]}"
            raise DescriptionError(SUBJECT, Fault(field="example", rule=rule, value=example, found=str(example)))
        return known

    def fresh(self, size: OpenSize) -> OpenSize:
        """A size of what a function gave: its number is found by calling the function again."""
        self._texts.append(self._texts[size.number])
        self.values.append(self.values[size.number])
        return OpenSize(self, len(self.values) - 1)

    @contextmanager
    def describing(self) -> Iterator[None]:
        """Meanwhile nothing that is found holds afterwards: it will be found anew."""
        self._depth += 1
        try:
            with entered(self):
                yield
        finally:
            self._depth -= 1

    # What is done with sizes

    def show(self, number: int) -> str:
        """A size in the names of others, where that is short."""
        text = self._texts[number]
        return text if len(text) <= _LONGEST else f"size{number}"

    def make(self, text: str, value: Number) -> OpenSize:
        """A size computed of others."""
        number = len(self.values)
        self.values.append(value)
        self._texts.append(self._simplest(text))
        if not self._depth:
            self._operations.append(_Line(text, number))
        return OpenSize(self, number)

    def find(self, text: str, *, is_so: bool) -> bool:
        """Note what was found, unless it will be found again."""
        if not self._depth:
            self._operations.append(_Line(text, None, is_so))
        return is_so

    def hash(self, number: int) -> int:
        """Whoever looks for a size among others asks for its number."""
        return hash(self.pin(number))

    def pin(self, number: int) -> Number:
        """Somebody needs the number itself."""
        if not self._depth:
            self._fixed.setdefault(number)
        return super().pin(number)

    def check_free(self) -> None:
        """Refuse a graph that was built for the examples alone."""
        if self._fixed:
            shown = ", ".join(dict.fromkeys(self.show(number) for number in self._fixed))
            rule = f"sizes must stay symbolic: the number of {shown} was asked for, as int(), range() and NumPy do"
            names = ", ".join(map(repr, self.names))
            way_out = f"compute with the sizes themselves, or give {names} a number"
            raise DescriptionError(SUBJECT, Fault(field="sizes", rule=rule, value=shown, found=shown, way_out=way_out))

    def _simplest(self, text: str) -> str:
        """An operation as it is written: one that is undone is not."""
        found = re.fullmatch(r"\((\d+)\) \+ v(\d+)|v(\d+) \+ \((\d+)\)", text)
        if found is not None:  # as 1 + (n - 1)
            added, other = found[1] or found[4], self._texts[int(found[2] or found[3])]
            rest = other.removesuffix(f" - {added}")
            if rest != other and (rest.isidentifier() or (rest[0] + rest[-1] == "()" and rest.count("(") == 1)):
                return rest.strip("()")
        return self._shown(text)

    def _shown(self, text: str) -> str:
        """An operation in names: of numbers in parentheses, and of sizes that are computed themselves."""

        def name(match: re.Match[str]) -> str:
            found = self.show(int(match[1]))
            return found if found.isidentifier() else f"({found})"

        return re.sub(r"\bv(\d+)\b", name, re.sub(r"\((-?[\d.]+)\)", r"\1", text))

    # For other sizes

    def again(self, sizes: Mapping[str, Any]) -> Repetition:
        """The same operations on other sizes, which may be symbols of another tape."""
        return Repetition(self, {self.names[name].number: size for name, size in sizes.items()})

    def operations(self, first: int, end: int) -> list[_Line]:
        """Some of them, in order."""
        return self._operations[first:end]

    def refused(self, line: _Line, sizes: Mapping[str, Any]) -> DescriptionError:
        """The error for sizes of which something else is found than when the graph was built."""
        told = ", ".join(f"{name}={_plain(size)}" for name, size in sizes.items())
        found = self._shown(line.code)
        rule = f"the code that built the graph found that {found} is {line.is_so}; it is {not line.is_so} for {told}"
        way_out = "build another graph for such sizes"
        return DescriptionError(SUBJECT, Fault(field=", ".join(sizes), rule=rule, way_out=way_out))


class Repetition:
    """The operations on the sizes of a graph for other sizes, up to a mark at a time."""

    def __init__(self, tape: GraphTape, given: Mapping[int, Any]) -> None:
        self._tape, self._done = tape, 0
        self._space: dict[str, Any] = {"math": math, **{f"v{number}": size for number, size in given.items()}}

    def __getitem__(self, size: OpenSize) -> Any:
        return self._space[f"v{size.number}"]

    def put(self, size: OpenSize, found: Any) -> None:
        """A size of what a function gave."""
        self._space[f"v{size.number}"] = found

    def advance(self, mark: int) -> None:
        """Do what was done up to a mark; a finding that differs is an error."""
        for line in self._tape.operations(self._done, mark):
            try:
                made = eval(line.code, self._space)  # noqa: S307 - of operations that were written by a tape
            except ArithmeticError:
                raise self._tape.refused(line, self._sizes()) from None
            if line.number is not None:
                self._space[f"v{line.number}"] = made
            elif bool(made) is not line.is_so:
                raise self._tape.refused(line, self._sizes())
        self._done = max(mark, self._done)

    def _sizes(self) -> dict[str, Any]:
        return {name: self[size] for name, size in self._tape.names.items()}


def _plain(size: Any) -> Any:
    return size.tape.values[size.number] if type(size) is OpenSize else operator.index(size)


def told_sizes(error: DmlError, what: str, sizes: Mapping[str, Any]) -> DmlError:
    """An error with the sizes for which it is one."""
    told = what.format(", ".join(f"{name}={size}" for name, size in sizes.items()))
    first, *others = error.faults
    way_out = f"{first.way_out}; {told}" if first.way_out else told
    return type(error)(error.subject, [replace(first, way_out=way_out), *others])
