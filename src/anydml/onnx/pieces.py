"""Large tensors of a model's files: read when a program asks for them, and again when a later one does.

Programs have weights laid out for their products, and few read them as they lie in the file: nobody has to hold both.

They are read, not mapped: whoever cuts a mapped file short ends the process that reads it next (SIGBUS), and to read
320 MiB through one small piece of memory takes 0.06 s, mapped 0.05 s.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import Fault, ModelFileError, show

if TYPE_CHECKING:
    from io import BufferedReader

CAN_HOLD = hasattr(os, "preadv")
"""Whether a file can be kept open with nobody noticing: on Windows it could not be deleted."""
_MOST_READ = 2**30
"""Bytes that are read at once, of which systems have a most."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""The numbers of fields: of a model, of a graph and of a tensor."""
_BYTES = 2
"""How a field is written that says how long it is."""
_MOST_FIELDS = 2**20
"""Of the messages that are looked into."""


class HeldFile:
    """A file that stays open, so that it may be renamed or deleted; what is written to it is noticed."""

    def __init__(self, file: BufferedReader, name: str) -> None:
        self._name = name
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._stamp = self._look()
        weakref.finalize(self, file.close)

    def _look(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def read(self, offset: int, into: np.ndarray[Any, Any]) -> None:
        """As many bytes as there is memory for, as they were when the model was loaded."""
        at, size = 0, into.size
        try:
            while at < size and (count := os.preadv(self._descriptor, [into[at : at + _MOST_READ].data], offset + at)):
                at += count
        except (OSError, MemoryError) as error:
            raise self._refuse(f"the file cannot be read ({show(error)})") from error
        if at < size or self._look() != self._stamp:
            raise self._refuse("the file must stay as it was when the model was loaded", "load the model again")

    def _refuse(self, rule: str, way_out: str = "") -> ModelFileError:
        return ModelFileError(self._name, Fault(field="", rule=rule, way_out=way_out))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file."""

    file: HeldFile
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> np.ndarray[Any, Any]:
        """The bytes."""
        found = np.empty(self.size, np.uint8)
        self.fill(found)
        return found

    def fill(self, memory: np.ndarray[Any, Any]) -> None:
        """Read the bytes into memory."""
        self.file.read(self.offset, memory)


def cut_out(file: BufferedReader, size: int, least: int) -> tuple[bytes, dict[int, tuple[int, int]]] | None:
    """A model without the bytes of its initializers, from so many on, and where those lie, by initializer.

    None for what is no model, or an odd one: whoever reads it whole says why.
    """
    try:
        return _Cut(file, least).model(size)
    except (_OddError, IndexError, OSError):
        return None


class _OddError(Exception):
    pass


class _Cut:
    def __init__(self, file: BufferedReader, least: int) -> None:
        self._file, self._least = file, least
        self._found: dict[int, tuple[int, int]] = {}
        self._count = 0
        """Of the initializers so far."""
        self._fields = 0

    def model(self, size: int) -> tuple[bytes, dict[int, tuple[int, int]]]:
        self._file.seek(0)
        return self._message(size, {_GRAPH: self._graph}), self._found

    def _graph(self, size: int) -> bytes:
        return self._message(size, {_INITIALIZER: self._tensor})

    def _tensor(self, size: int) -> bytes:
        self._count += 1
        return self._message(size, {_RAW_DATA: self._raw}) if size >= self._least else self._read(size)

    def _raw(self, size: int) -> bytes | None:
        if self._count in self._found:
            raise _OddError  # the last of several counts
        if size < self._least:
            return self._read(size)
        self._found[self._count] = (self._file.tell(), size)
        self._file.seek(size, os.SEEK_CUR)
        return None

    def _message(self, size: int, inner: dict[int, object]) -> bytes:
        """A message of so many bytes, some fields of which are changed."""
        parts, end = [], self._file.tell() + size
        while self._file.tell() < end:
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise _OddError
            tag = self._number()
            parts.append(_written(tag))
            if tag & 7 == _BYTES:
                length = self._number()
                if self._file.tell() + length > end:
                    raise _OddError
                change = inner.get(tag >> 3)
                made = change(length) if callable(change) else self._read(length)
                if made is None:
                    parts.pop()
                else:
                    parts += [_written(len(made)), made]
            elif tag & 7 in (1, 5):
                parts.append(self._read(8 if tag & 7 == 1 else 4))
            elif tag & 7 == 0:
                parts.append(_written(self._number()))
            else:
                raise _OddError
        if self._file.tell() != end:
            raise _OddError
        return b"".join(parts)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise _OddError
        return data

    def _number(self) -> int:
        found, shift = 0, 0
        while shift < 64:
            byte = self._read(1)[0]
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
        raise _OddError


def _written(number: int) -> bytes:
    """A number as a message has it, seven bits a byte."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
