"""How many entries a protobuf has, counted in its bytes: two bytes of an empty one take hundreds once they are read."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.onnx.library import ModelProto

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""How a field's value is written."""


def count_entries(data: bytes, most: int) -> int:
    """The fields of a model and of the messages within it; no more than one past `most` are counted.

    What is broken is told by whoever parses it.
    """
    pending: list[tuple[int, int, Any]] = [(0, len(data), ModelProto.DESCRIPTOR)]
    count = 0
    try:
        while pending and count <= most:
            at, end, kind = pending.pop()
            inner = _messages(kind)
            while at < end and count <= most:
                tag, at = _number(data, at)
                count += 1
                form = tag & 7
                if form == _VARINT:
                    _, at = _number(data, at)
                elif form == _BYTES:
                    size, at = _number(data, at)
                    if size and (found := inner.get(tag >> 3)) is not None:
                        pending.append((at, min(at + size, end), found))
                    at += size
                elif form in (_FIXED64, _FIXED32):
                    at += 8 if form == _FIXED64 else 4
                else:
                    return count
    except IndexError:
        return count
    return count


@functools.cache
def _messages(kind: Any) -> Mapping[int, Any]:
    """The fields of a message that are messages, by number."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    found, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at + 1
        shift += 7
        if shift > 63:
            raise IndexError
