"""The argument record: 64-bit words that planners write by name and kernels read by name.

A kernel is `kernel(words, begin, end)`: it does the work items begin .. end of what the record at an address describes,
and returns a status. It validates nothing and allocates nothing. A `Layout` names the first words of a kernel's record,
and stands with its planner; tables and sections follow. The `HEADER` belongs to whoever calls: the number of work
items, what is returned for the status 0 and for any other, the kernel's address, and the bytes that all of it moves.
A kernel uses less than 64 KiB of stack.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.ir.views import View


HEADER = 5
WORD = 8
"""Bytes of a word."""
LINE = 64
"""Bytes of a line of the cache."""
BYTES_HEAD = bytes.__basicsize__ - 1
"""Bytes before those of a bytes object, in which built-in functions have a record."""


class Pointer(NamedTuple):
    """An address that is known when a program is bound."""

    tensor: str
    """Empty for a number, which is the offset itself."""
    offset: int
    """In bytes, from the tensor's first element."""


class Relocation(NamedTuple):
    """A word that holds an address."""

    word: int
    """Its number, after the header."""
    tensor: str
    offset: int


class Record(NamedTuple):
    """The words of a kernel after the header, of which some are addresses of tensors, not known yet and 0 here."""

    words: tuple[int, ...]
    relocations: tuple[Relocation, ...] = ()

    @classmethod
    def of(cls, *parts: Record | Iterable[int | Pointer]) -> Record:
        """Records, words and addresses, one after the other."""
        words: list[int] = []
        relocations: list[Relocation] = []
        for part in parts:
            if isinstance(part, Record):
                relocations += [moved._replace(word=moved.word + len(words)) for moved in part.relocations]
                words += part.words
                continue
            for word in part:
                if isinstance(word, Pointer) and word.tensor:
                    relocations.append(Relocation(len(words), *word))
                    words.append(0)
                else:
                    words.append(word.offset if isinstance(word, Pointer) else word)
        return cls(tuple(words), tuple(relocations))


Words: TypeAlias = "int | Pointer | Sequence[int]"
"""Of a field: a word, or those of a table."""


class Table(NamedTuple):
    """A field of a record that has rows of words."""

    name: str
    rows: int
    """Those that there is room for; 0 of a record's last field, which has as many as are written."""
    columns: str
    """Their names."""
    rank: str = "rank"
    """The field before it that says how many there are; empty where all of them are."""


class Layout:
    """The names of a record's first words, in their order.

    Kernels in Python read a record as if it were an object: `WALK(words).count`, `WALK(words).outer[k].size`.
    """

    def __init__(self, *fields: str | Table, header: int = HEADER) -> None:
        """`header` is of words before them: 0 for a section of a record."""
        self.fields = tuple(Table(one, 1, "", "") if isinstance(one, str) else one for one in fields)
        self.header = header
        self._words: dict[str, int] = {}
        self.rows: dict[str, Layout] = {}
        """The words of a row, of each table."""
        number = 0
        for name, rows, columns, _ in self.fields:
            self._words[name] = number
            if columns:
                self.rows[name] = Layout(*columns.split(), header=0)
            number += rows * max(len(columns.split()), 1)
        self.end = header + number
        """The number of the word after them, counted from the header's first."""

    def __call__(self, address: int | Fields) -> Any:
        """The record at an address, or where another is, of which `translate` writes what a kernel reads."""
        return Fields(self, address.address, address.on) if isinstance(address, Fields) else Fields(self, address, 0)

    def word(self, field: str) -> int:
        """The number of a field's first word, after the header."""
        return self._words[field]

    def at(self, field: str) -> int:
        """How many bytes after the record's first a field stands."""
        return WORD * (self.header + self._words[field])

    def loaded(self, f: Function, address: Value, *fields: str) -> Any:
        """Words of a record as a kernel has them, loaded once, by their names; without any, all of them."""
        return SimpleNamespace(**{name: f.load("i64", address + self.at(name)) for name in fields or self._words})

    def write(self, values: Mapping[str, Words]) -> Record:
        """The words, by name; those that are not given are 0."""
        if unknown := values.keys() - self._words.keys():
            raise KeyError(f"no fields of this record: {', '.join(sorted(unknown))}")
        words: list[int | Pointer] = []
        for name, rows, columns, _ in self.fields:
            room = rows * max(len(columns.split()), 1)
            value = values.get(name, 0 if room else ())
            own = [value] if isinstance(value, (int, Pointer)) else value
            if room and len(own) > room:
                raise ValueError(f"{name} has room for {room} words, and not for {len(own)}")
            words += [*own, *[0] * (room - len(own))]
        return Record.of(words)

    def read(self, words: Sequence[int]) -> Any:
        """The fields of a whole record, header and all, by their names; a table as the rows that there are."""
        found = SimpleNamespace()
        for name, rows, _, rank in self.fields:
            at, row = self.header + self._words[name], self.rows.get(name)
            if row is None:
                setattr(found, name, words[at])
                continue
            count = getattr(found, rank) if rank else rows
            setattr(found, name, [row.read(words[at + k * row.end : at + (k + 1) * row.end]) for k in range(count)])
        return found


@dataclass(frozen=True, slots=True)
class Fields:
    """A record in a kernel, or a row of a table in it; a table is its first row, from which others are counted."""

    layout: Layout
    address: Any
    on: Any
    """Bytes from the address to the record."""


CALL = Layout("units", "none", "false", "kernel", "size", header=0)
"""The header: work items, what is returned for the status 0 and for any other, the kernel, and bytes that it moves."""
OUTER = Table("outer", 0, "size source target")
"""The dimensions outside of a kernel's innermost loops, outermost first: the size, and both strides in bytes."""
WALK = Layout("source", "target", "count", "source_step", "target_step", "segments", "length", "rank", OUTER)
"""A walk over a source and a target: elements of a row, the bytes from one to the next, the segments that a row is cut
into, the elements of one, and the outer dimensions. A work item is one segment of one row."""


def count_reference(f: Function, held: Value, by: int) -> None:
    """Have a kernel count a reference to None or False, or one less: before Python 3.12 they are like any object."""
    if sys.version_info < (3, 12):
        f.store(f.load("i64", held) + by, held)


def dimension_words(sizes: Sequence[int], strides: Sequence[Sequence[int]], widths: Sequence[int]) -> list[int]:
    """The words of dimensions: of each its size, and each view's stride in bytes, given the bytes of their elements."""
    views = list(zip(strides, widths, strict=True))
    return [word for k, size in enumerate(sizes) for word in (size, *(row[k] * width for row, width in views))]


def keeps_lines(target: View) -> bool:
    """Whether every row lies alike in the cache's lines: what is aligned in one is in all."""
    width = target.data_type.size_in_bytes
    return all(s == 1 or s * width % LINE == 0 for n, s in zip(target.sizes, target.strides, strict=True) if n > 1)
