"""A model's resources in memory: the host's, and for a GPU a copy of each there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import on_host, send, wait
from anydml.core.errors import Fault, ModelFileError
from anydml.core.memory import HOST, word_bytes

if TYPE_CHECKING:
    from anydml.dxdispatch.model import Resource
    from anydml.dxdispatch.values import Bytes

_ALIGNMENT = 256


class Memory:
    """The resources of a model that runs in a memory: what is bound, and what is read, which are one on the host."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.buffers: dict[str, Bytes] = {}
        """The bytes to read: up to date after fetch()."""
        self.bound: dict[str, Any] = {}

    def make(self, resource: Resource) -> None:
        """Make room for a resource, with its first values; a deferred one has room once it has values."""
        if resource.is_deferred:
            return
        assert resource.values is not None  # noqa: S101 - for type checkers: nothing is at fault
        assert resource.size_in_bytes is not None  # noqa: S101 - as above
        buffer = _allocate(resource.size_in_bytes)
        resource.values.fill(buffer[resource.values_offset : resource.values_offset + resource.values_size])
        self.buffers[resource.name] = buffer
        self.bound[resource.name] = self._move(buffer)

    def store(self, name: str, data: Bytes) -> None:
        """Write host bytes to the start of a resource, or make it of them, where it is deferred."""
        if name not in self.buffers:
            self.buffers[name] = _allocate(data.size)
        self.buffers[name][: data.size] = data
        self.bound[name] = self._move(self.buffers[name])

    def reserve(self, size: int) -> Any:
        """Zeroed memory that nobody reads, for a persistent resource."""
        return self._move(_allocate(size))

    def _move(self, buffer: Bytes) -> Any:
        if self._where == HOST:
            return buffer
        try:
            return send(buffer, self._where)
        except Exception as error:
            raise _no_room(buffer.size, f"{self._where} memory") from error

    def fetch(self, name: str) -> None:
        """Bring back what was written to a resource."""
        if self._where != HOST:
            self.buffers[name][...] = on_host(self.bound[name])

    def wait(self) -> None:
        """Wait for what runs there."""
        wait(self._where)


def _allocate(size: int) -> Bytes:
    """Zeroed memory that begins where DirectML asks a persistent resource to; a page for each would be megabytes."""
    try:
        memory = np.zeros(size + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise _no_room(size, "memory") from error
    skip = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return memory[skip : skip + size]


def _no_room(size: int, what: str) -> ModelFileError:
    rule = f"{word_bytes(size)} of {what} could not be allocated"
    return ModelFileError("memory", Fault(field="", rule=rule, value=size))
