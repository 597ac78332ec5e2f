"""FlatBuffers by a schema: every offset is checked before it is followed, and what is read in all is bounded."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

_DEEPEST = 16
"""Tables within tables: the deepest that means anything is a fused activation's attribute, the sixth."""
_OFTEN = 4
"""How often the bytes of a file may be read: two offsets may lead to one place, and many could."""
_SCALARS = {"bool": "?", "uint8": "B", "int32": "i", "uint32": "I", "float": "f", "uint64": "Q", "int64": "q"}


@dataclass(frozen=True, slots=True)
class Union:
    """One of several tables and structs, by its number; in a table it takes two fields."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Struct:
    """Numbers in a row, as `struct` has them."""

    format: str


if TYPE_CHECKING:
    Schema: TypeAlias = Mapping[str, Struct | Mapping[str, str | Union]]
    """Tables by name, with their fields in order: `[uint32]` is a list, and what is no type here is a table."""


def read_flat(data: bytes, root: str, schema: Schema) -> dict[str, Any]:
    """The table at the root of a buffer: fields by name, None for those that are not there.

    A union is a pair of its member's name and value.
    """
    reader = _Reader(data, schema)
    found: dict[str, Any] = reader.table(reader.offset(0), root, 0)
    return found


def refuse(rule: str, found: str = "") -> ModelFileError:
    """The error of bytes that are no such buffer."""
    return ModelFileError(
        "flatbuffer", Fault(field="", rule=f"the file must be a serialized graph: {rule}", found=found)
    )


class _Reader:
    def __init__(self, data: bytes, schema: Schema) -> None:
        self._data, self._schema = data, schema
        self._left = _OFTEN * len(data)

    def _take(self, form: str, at: int) -> tuple[Any, ...]:
        """Numbers at a place that must lie inside."""
        size = struct.calcsize(f"<{form}")
        self._check(at, size)
        return struct.unpack_from(f"<{form}", self._data, at)

    def _check(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self._data):
            raise refuse(f"an offset must lie in its {len(self._data)} bytes", str(at))
        self._left -= size
        if self._left < 0:
            raise refuse("its offsets must lead to different places, and many lead to the same")

    def offset(self, at: int) -> int:
        """Where an offset leads."""
        return int(at + self._take("I", at)[0])

    def table(self, at: int, name: str, depth: int) -> Any:
        """A table, or a struct."""
        fields = self._schema[name]
        if isinstance(fields, Struct):
            return self._take(fields.format, at)
        if depth > _DEEPEST:
            raise refuse(f"tables must lie at most {_DEEPEST} deep")
        places = at - self._take("i", at)[0]
        size, _ = self._take("HH", places)
        slot, found = 4, {}
        for field, kind in fields.items():
            where = at + step if slot + 2 <= size and (step := self._take("H", places + slot)[0]) else None
            slot += 2
            if isinstance(kind, Union):
                value = at + step if slot + 2 <= size and (step := self._take("H", places + slot)[0]) else None
                slot += 2
                found[field] = self._union(where, value, kind, depth)
            else:
                found[field] = None if where is None else self._value(where, kind, depth)
        return found

    def _union(self, where: int | None, value: int | None, kind: Union, depth: int) -> tuple[str, Any] | None:
        number = 0 if where is None else self._take("B", where)[0]
        if not number or value is None:
            return None
        if number > len(kind.members):
            raise refuse(f"a union must be one of {', '.join(kind.members)}", f"the {number}th")
        name = kind.members[number - 1]
        return name, self.table(self.offset(value), name, depth + 1)

    def _value(self, at: int, kind: str, depth: int) -> Any:
        if kind in _SCALARS:
            return self._take(_SCALARS[kind], at)[0]
        there = self.offset(at)
        if kind == "string":
            (size,) = self._take("I", there)
            self._check(there + 4, size)
            return self._data[there + 4 : there + 4 + size].decode("utf-8", "replace")
        if not kind.startswith("["):
            return self.table(there, kind, depth + 1)
        (count,), inner = self._take("I", there), kind[1:-1]
        if inner == "uint8":
            self._check(there + 4, count)
            return self._data[there + 4 : there + 4 + count]
        if inner in _SCALARS:
            self._check(there + 4, count * struct.calcsize(_SCALARS[inner]))
            return list(struct.unpack_from(f"<{count}{_SCALARS[inner]}", self._data, there + 4))
        self._check(there + 4, count * 4)
        return [self._value(there + 4 + 4 * i, inner, depth) for i in range(count)]
