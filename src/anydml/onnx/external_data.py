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

from anydml.core.errors import Fault, ModelFileError, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
_WINDOW, _LONGEST = 16_384, 10
"""Bytes of a file that are looked at, and of a number."""


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


@dataclass(frozen=True, slots=True)
class ExternalData:
    """Where a model says that elements lie, in a file beside it."""

    entries: Mapping[str, str]
    """A location, an offset and a length."""


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
    """A walk over a file: what stays as it is, is copied in one piece from one change to the next."""

    def __init__(self, file: BufferedReader, least: int) -> None:
        self._file, self._least = file, least
        self._window, self._start = b"", 0
        """Some bytes of the file, and where they lie."""
        self._found: dict[int, tuple[int, int]] = {}
        self._count = 0
        """Of the initializers so far."""
        self._fields = 0

    def model(self, size: int) -> tuple[bytes, dict[int, tuple[int, int]]]:
        return self._message(0, size, {_GRAPH: self._graph}), self._found

    def _graph(self, at: int, size: int) -> bytes:
        return self._message(at, size, {_INITIALIZER: self._tensor})

    def _tensor(self, at: int, size: int) -> bytes | None:
        self._count += 1
        return self._message(at, size, {_RAW_DATA: self._raw}) if size >= self._least else None

    def _raw(self, at: int, size: int) -> bytes | None:
        if self._count in self._found:
            raise _OddError  # the last of several counts
        if size < self._least:
            return None
        self._found[self._count] = (at, size)
        return b""

    def _message(self, at: int, size: int, inner: dict[int, Callable[[int, int], bytes | None]]) -> bytes:
        """A message of so many bytes, some fields of which are changed: nothing is left of those that become empty."""
        parts, end, copied = [], at + size, at
        while at < end:
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise _OddError
            first = at
            tag, at = self._number(at)
            form = tag & 7
            if form == _BYTES:
                length, at = self._number(at)
                if at + length > end:
                    raise _OddError
                change = inner.get(tag >> 3)
                made = None if change is None else change(at, length)
                at += length
                if made is not None:
                    parts.append(self._read(copied, first))
                    parts += [_written(tag), _written(len(made)), made] if made else []
                    copied = at
            elif form == 0:
                _, at = self._number(at)
            elif form in (1, 5):
                at += 8 if form == 1 else 4
            else:
                raise _OddError
        if at != end:
            raise _OddError
        return b"".join([*parts, self._read(copied, end)])

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        data = self._file.read(end - start)
        if len(data) != end - start:
            raise _OddError
        return data

    def _number(self, at: int) -> tuple[int, int]:
        """A number of seven bits a byte, and where it ends."""
        i = at - self._start
        if not 0 <= i < len(self._window) - _LONGEST:
            self._file.seek(at)
            self._window, self._start, i = self._file.read(_WINDOW), at, 0
        byte = self._window[i]
        if byte < 128:
            return byte, at + 1
        found, shift, first = byte & 127, 7, i
        while shift < 64:
            i += 1
            byte = self._window[i]
            found |= (byte & 127) << shift
            if byte < 128:
                return found, at + i - first + 1
            shift += 7
        raise _OddError


def _written(number: int) -> bytes:
    """A number as a message has it, seven bits a byte."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
