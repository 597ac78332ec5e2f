"""The bytes of a writeFile command: an array with its header, an image, or a resource's bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.memory import NUMPY_DIMENSIONS
from anydml.dxdispatch.images import IMAGES, write_image
from anydml.dxdispatch.model import WriteFile
from anydml.dxdispatch.npy import write_header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anydml.dxdispatch.model import Model, Resource
    from anydml.dxdispatch.values import Bytes

_CHUNK = 1 << 22
_BLOCK = 4096
"""Bytes of a disk that the smallest file takes, and a folder."""


def is_image(command: WriteFile) -> bool:
    """Whether an image is written."""
    return command.path.lower().endswith(IMAGES)


def is_array(command: WriteFile) -> bool:
    """Whether an .npy is written."""
    return command.path.lower().endswith(".npy")


def files_of(model: Model) -> dict[Path, tuple[int, WriteFile]]:
    """By file, the bytes of a disk that it and its folders take at most, and the command that leaves it."""
    found = {}
    for command in model.commands:
        if isinstance(command, WriteFile) and command.target is not None:
            resource = model.resources.get(command.resource)
            if resource is not None and resource.size_in_bytes is not None:
                folders = command.path.count("/") + command.path.count("\\")
                room = max(_header_size(command, resource) + _data_size(command, resource), _BLOCK) + folders * _BLOCK
                found[command.target] = room, command
    return found


def file_chunks(command: WriteFile, resource: Resource, data: Bytes) -> Iterator[bytes | memoryview]:
    """The file, of a resource with these bytes."""
    if is_image(command):
        assert resource.data_type  # noqa: S101 - for type checkers: nothing is at fault
        yield write_image(data.view(resource.data_type.dtype), command.dimensions, command.path[-4:].lower())
        return
    if is_array(command):
        assert resource.data_type  # noqa: S101 - for type checkers: nothing is at fault
        yield write_header(resource.data_type, _array_sizes(command, resource))
    size = _data_size(command, resource)
    for at in range(0, size, _CHUNK):
        yield data[at : min(at + _CHUNK, size)].data


def _array_sizes(command: WriteFile, resource: Resource) -> tuple[int, ...]:
    assert resource.data_type  # noqa: S101 - as above
    whole = resource.size_in_bytes if resource.has_given_size else resource.values_offset + resource.values_size
    return command.dimensions or ((whole or 0) // resource.data_type.size_in_bytes,)


def _header_size(command: WriteFile, resource: Resource) -> int:
    if not is_array(command) or resource.data_type is None or len(command.dimensions) > NUMPY_DIMENSIONS:
        return 0
    return len(write_header(resource.data_type, _array_sizes(command, resource)))


def _data_size(command: WriteFile, resource: Resource) -> int:
    whole = resource.size_in_bytes or 0
    if not is_array(command) or resource.data_type is None:
        return whole
    sizes = _array_sizes(command, resource)[:NUMPY_DIMENSIONS]
    return min(math.prod(sizes) * resource.data_type.size_in_bytes, whole)
