"""Memory of devices that no array library knows, at addresses of its own: what the layers above an engine do with it.

An engine with such memory adds it under its name, `webgpu:0`; arrays, staging and constants find it here. A device that
works in such memory takes the host's arrays as well: they are copied there, and back, at each dispatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from anydml.core.memory import Buffer

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class DeviceMemory(Protocol):
    """A device's memory. Addresses are numbers that tell bytes apart, and are none of the host's."""

    name: str
    """`webgpu:0`."""
    alignment: int
    """Bytes: what programs are bound to begins at multiples of so many."""

    def reserve(self, size: int) -> Buffer:
        """New memory, until its owner goes, from a multiple of `alignment` on; what it holds is not said."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy the host's bytes, in one dimension and packed, to any address, after all work that was dispatched."""

    def read(self, address: int, size: int) -> Bytes:
        """Bytes from any address on, once all work that was dispatched is done: a new array, of the caller's own."""

    def wait(self) -> None:
        """Wait until all work that was dispatched is done."""

    def timestamps(self) -> Timestamps | None:
        """The device's own clock; None where it has none that can be read between dispatches."""


class Timestamps(Protocol):
    """Marks between dispatches, from `begin` on."""

    def begin(self) -> None:
        """Wait for the device, and forget earlier marks."""

    def mark(self) -> int:
        """Set a mark after all that was dispatched; its number."""

    def end(self) -> None:
        """Wait for the device, and read when it came to each mark."""

    def since_first(self, mark: int) -> float:
        """Seconds from the first mark to another, once they were read."""


memories: dict[str, DeviceMemory] = {}
"""By name, those that an engine of this process has. One that is lost stays until the next of its name is made."""
on_loss: list[Callable[[], object]] = []
"""What lets go of a device that is lost: caches of devices, of engines and of calls empty themselves, all of them."""


def identity(memory: str) -> object:
    """What caches know a memory by: its name, or a device's own, of which another takes the name when it is lost."""
    return memories.get(memory, memory)
